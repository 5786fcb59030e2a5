"""Find the place in the user's own code that an exception comes from.

There are three answers. `OriginFinder` gives the one that fingerprints are made of: it
is the same on every machine, and where the user has no frame it names a library. In the
same walk it finds the frame that raised, and whose code that is. `own_place_of` and
`place_of` give a file and line to be shown.
"""

from __future__ import annotations

import itertools
import linecache
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_failure_taxonomy.hooks.inspection import (
    entries_of,
    field_of,
    is_raise_statement,
    name_of,
    traceback_of,
)
from pytest_failure_taxonomy.hooks.tracebacks import (
    FOREIGN,
    MAX_FRAMES,
    OWN,
    PLUGGY,
    RUNNER,
    FileFound,
    file_of_code,
    function_of,
    is_hidden,
    is_relay,
    module_name_in,
    module_of_frame,
)
from pytest_failure_taxonomy.survive.own_files import (
    STANDARD_LIBRARY,
    depth_of_libraries,
    is_of_the_user,
    is_own,
    location,
)
from pytest_failure_taxonomy.system.tasks import awaiting_traceback
from pytest_failure_taxonomy.taxonomy.code_owners import (
    LIBRARIES,
    NOT_SOURCES,
    RUNNERS,
    SELF,
)
from pytest_failure_taxonomy.taxonomy.evidence import (
    Location,
    OriginPlace,
    RaisingFrame,
)
from pytest_failure_taxonomy.text import join_statement

if TYPE_CHECKING:
    from pytest_failure_taxonomy.hooks.ledger import Ledger
    from pytest_failure_taxonomy.hooks.owners import RaisingFrames

MAX_LEAVES: Final = 32
"""Exceptions that are read of an exception group."""
_MAX_DIGITS: Final = 9
"""Digits of a line number in a printed traceback."""

_Entry = tuple[TracebackType, str]
"""An entry of a traceback, and the path of its file."""
Found = tuple[OriginPlace | None, RaisingFrame | None]
"""The place that a fingerprint is made of, and the frame that raised."""


class OriginFinder:
    """Find where exceptions come from; cache the owners of files, and statements."""

    def __init__(self, rootdir: Path, test_files: Sequence[str] = ()) -> None:
        """Begin with empty caches.

        Args:
            rootdir: of the run.
            test_files: the patterns of pytest's `python_files`; its default where there
                are none.
        """
        self.collected: Path | None = None
        """The file of the test, or the collector, whose exceptions are described."""
        self.rootdir = rootdir
        root = os.path.join(str(rootdir), "")
        real = os.path.join(os.path.realpath(root), "")
        self.roots = (root,) if real == root else (root, real)
        self.ledger: Ledger | None = None
        """What tests have done to this process."""
        self._test_files = tuple(test_files)
        self._files: dict[str, FileFound] = {}
        self._runner_files: set[str] = set()
        self._texts: dict[tuple[str, int], str] = {}

    @cached_property
    def raising_frames(self) -> RaisingFrames:
        """What describes frames; to be asked for before any test runs."""
        from pytest_failure_taxonomy.hooks.owners import RaisingFrames

        return RaisingFrames(self, self._test_files)

    def find(self, error: BaseException) -> Found:
        """Return where an exception comes from, and the frame that raised it.

        The first is the innermost frame in the user's own code, or else the innermost
        one in a library. The other is the innermost frame that is neither the standard
        library's nor pytest's; see `docs/explanation/charges.md`. Both are `None`
        without a traceback.
        """
        if issubclass(type(error), BaseExceptionGroup):
            return self._find_in_group(error)
        name, line = named_place(error)
        if name:
            named = self.raising_frames.describe("<module>", name, {}, line)
            owner, path, _ = self.file(name, {})
            if owner == OWN:
                return OriginPlace(path=path, function=""), named
            if named is not None:
                return self._find_in_traceback(error)[0], named
        return self._find_in_traceback(error)

    def raiser_of(self, error: BaseException) -> str | None:
        """Return the module of the raising statement, as `RaisedException.raiser`."""
        entries = entries_of(error)
        if not entries:
            return None
        frame = entries[-1].tb_frame
        if not is_raise_statement(entries[-1]):
            return ""
        module = module_of_frame(frame)
        file = self._file_of(frame)
        is_pythons = file.owner == FOREIGN and not file.is_asked
        if is_pythons and not module.startswith("unittest.mock"):
            return ""
        return module

    def raising_function_of(self, error: BaseException) -> str:
        """Return the innermost function, as `RaisedException.raising_function`."""
        entries = entries_of(error)
        if not entries:
            return ""
        frame = entries[-1].tb_frame
        if self._file_of(frame).owner == OWN:
            return ""
        # The bare name, as it stands in a log, too.
        return f"{module_of_frame(frame)}.{frame.f_code.co_name}"

    def skip_answering_frames(
        self, error: BaseException, entries: Sequence[TracebackType]
    ) -> Sequence[TracebackType]:
        """Leave out the frames of a library that answers that it has no such name.

        A `__getattr__` of a module or a class runs for the line that asks for the name.
        """
        if not issubclass(type(error), AttributeError | ImportError):
            return entries
        for index, entry in enumerate(entries):
            frame = entry.tb_frame
            if not index or frame.f_code.co_name != "__getattr__":
                continue
            if self._file_of(frame).owner != FOREIGN:
                continue
            modules = [module_of_frame(answer.tb_frame) for answer in entries[index:]]
            packages = {module.partition(".")[0] for module in modules}
            if len(packages) == 1:
                return entries[:index]
        return entries

    def _find_in_group(self, group: BaseException) -> Found:
        """Return the place of one exception of a group, whatever the group's order."""
        group_place, group_frame = self._find_in_traceback(group)
        places = []
        frames = []
        for leaf in leaves_of(group):
            place, frame = self.find(leaf)
            place = place or group_place
            if place is not None:
                kind = name_of(type(leaf))
                places.append(
                    (kind, place.path, place.function, place.text, place.entry)
                )
                frames.append(frame or group_frame)
        if not places:
            return group_place, group_frame
        least = min(places)
        kind, path, function, text, entry = least
        place = OriginPlace(
            path=path,
            function=function,
            text=text,
            entry=entry,
            leaf=kind,
        )
        return place, frames[places.index(least)]

    def _find_in_traceback(self, error: BaseException) -> Found:
        best: _Entry | None = None
        first: _Entry | None = None
        asked: list[TracebackType] = []
        best_owner = FOREIGN
        runner_files = self._runner_files
        left = MAX_FRAMES
        traceback = traceback_of(error)
        if "asyncio" in sys.modules and name_of(type(error)) == "Failed":
            is_of_root = partial(is_own, rootdir=self.rootdir)
            traceback = awaiting_traceback(traceback, is_of_root) or traceback
        while traceback is not None:
            code = traceback.tb_frame.f_code
            # Most frames are the runner's, and this loop takes a third of a
            # description's time.
            if code.co_filename not in runner_files:
                frame = traceback.tb_frame
                owner, path, is_asked = self.file(code.co_filename, frame.f_globals)
                if is_asked:
                    asked.append(traceback)
                if owner >= best_owner and not is_hidden(frame, code):
                    best = (traceback, path)
                    best_owner = owner
                    if owner == OWN and first is None:
                        first = best
                left -= 1
                if not left:
                    break
            traceback = traceback.tb_next
        raising = self.raising_frames.find(error, asked, best_owner == OWN)
        if best is None:
            best_owner = RUNNER
            best = self._innermost_of_runner(error)
            if best is None:
                return None, raising
        is_endless = not left or issubclass(type(error), RecursionError)
        place = self._origin_of_recursion(error, best_owner) if is_endless else None
        return place or self._place(best, first, best_owner), raising

    def _innermost_of_runner(self, error: BaseException) -> _Entry | None:
        """Return the innermost place in the test runner, unless that is this plugin.

        No code of the user raises the failure of a bench case, for one.
        """
        for entry in reversed(entries_of(error)[:MAX_FRAMES]):
            frame = entry.tb_frame
            if is_hidden(frame, frame.f_code):
                continue
            path = self._file_of(frame).path
            if path.startswith(f"{SELF}/"):
                return None
            return (entry, path)
        return None

    def _origin_of_recursion(
        self, error: BaseException, owner: int
    ) -> OriginPlace | None:
        """Return the function that calls itself; of a cycle, always the same one.

        Chance decides in which of them the stack overflows, and which one was called
        first.
        """
        calls: Counter[tuple[str, str]] = Counter()
        for entry in entries_of(error)[:MAX_FRAMES]:
            frame = entry.tb_frame
            file = self._file_of(frame)
            if file.owner == owner:
                calls[file.path, function_of(frame.f_code)] += 1
        most_calls = max(calls.values(), default=0)
        # A function that is there twice does not recurse without end.
        fewest = max(2, most_calls / 4)
        cycle = [place for place, count in calls.items() if count > fewest]
        if not cycle:
            return None
        path, function = min(cycle)
        return OriginPlace(path=path, function=function)

    def _place(self, best: _Entry, first: _Entry | None, owner: int) -> OriginPlace:
        traceback, path = best
        frame = traceback.tb_frame
        function = function_of(frame.f_code)
        if owner != OWN:
            return OriginPlace(path=path, function=function)
        entry = ""
        if first is not None and first is not best:
            outermost, file = first
            entry = f"{file}: {function_of(outermost.tb_frame.f_code)}"
            if entry == f"{path}: {function}":
                entry = ""
        name = frame.f_code.co_filename
        text = self.statement(name, traceback.tb_lineno, frame.f_globals)
        return OriginPlace(
            path=path,
            function=function,
            text=text,
            entry=entry,
        )

    def _file_of(self, frame: FrameType) -> FileFound:
        return self.file(frame.f_code.co_filename, frame.f_globals)

    def file(self, name: str, module: dict[str, object]) -> FileFound:
        """Describe a file, once: later frames of it get the first description."""
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = self._look_at(name, module)
            if file.owner == RUNNER:
                self._runner_files.add(name)
        return file

    def _look_at(self, name: str, module: dict[str, object]) -> FileFound:
        if name.startswith("<"):
            shown = name.partition(" ")[0].rstrip(">") + ">"
            is_asked = not name.startswith("<frozen ")
            return FileFound(FOREIGN, shown, is_asked)
        absolute = os.path.abspath(file_of_code(name, module) or name)
        # The path below the folder that its package is imported from.
        packages = module_name_in(module).split(".")
        is_of_runner = packages[0] in RUNNERS
        base = os.path.basename(absolute)
        if base != "__init__.py":
            packages.pop()
        below_package = "/".join((*packages, base))
        if is_of_runner:
            return FileFound(RUNNER, below_package, is_asked=False)
        root = next(filter(absolute.startswith, self.roots), "")
        path = absolute[len(root) :].replace(os.sep, "/")
        parts = path.split("/")
        if not LIBRARIES.isdisjoint(parts):
            return self._describe_installed(path_below_libraries(path))
        if not root and absolute.startswith(STANDARD_LIBRARY):
            return FileFound(FOREIGN, below_package, is_asked=False)
        if root and parts[0] in NOT_SOURCES and len(parts) > 1:
            return self._describe_installed(below_package)
        return FileFound(OWN, path if root else below_package, is_asked=True)

    def _describe_installed(self, path: str) -> FileFound:
        """Return owner and path of an installed file.

        The project's own package may be installed, with its sources below the root
        directory.
        """
        for folder in ("src/", ""):
            if os.path.isfile(self.roots[0] + folder + path):
                return FileFound(OWN, folder + path, is_asked=True)
        return FileFound(FOREIGN, path, is_asked=True)

    def statement(self, name: str, line: int | None, module: dict[str, object]) -> str:
        """Return a whole statement from its first line on, without comments."""
        if line is None:
            return ""
        cached = self._texts.get((name, line))
        if cached is not None:
            return cached
        is_read = name in linecache.cache
        lines = (
            linecache.getline(name, number, module) for number in itertools.count(line)
        )
        text = join_statement(lines)
        if not is_read:  # pytest would show what it has not read itself
            linecache.cache.pop(name, None)
        self._texts[name, line] = text
        return text


def exceptions_in(group: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions of an exception group."""
    members: tuple[BaseException, ...] = field_of(
        group, BaseExceptionGroup, "exceptions"
    )
    return members


def leaves_of(group: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group and in the groups in it."""
    left = MAX_LEAVES
    waiting = [group]
    while waiting and left:
        error = waiting.pop()
        if issubclass(type(error), BaseExceptionGroup):
            waiting += reversed(exceptions_in(error)[:MAX_LEAVES])
        else:
            left -= 1
            yield error


def named_place(error: BaseException) -> tuple[str, int | None]:
    """Return file and line that a `SyntaxError` names; an empty string for no file."""
    if not issubclass(type(error), SyntaxError):
        return "", None
    name = field_of(error, SyntaxError, "filename")
    line = field_of(error, SyntaxError, "lineno")
    if type(name) is not str:
        name = ""
    return name, line if type(line) is int else None


def place_of(error: BaseException, rootdir: Path) -> Location | None:
    """Return the place that an exception points to.

    That is the place that a `SyntaxError` names, or else the innermost line of the
    user's own code, or else the innermost one outside of pytest and the import system.
    """
    name, line = named_place(error)
    if name:
        return location(name, line, rootdir)
    own = own_place_of(error, rootdir)
    if own is not None:
        return own
    for entry in reversed(entries_of(error)):
        path = entry.tb_frame.f_code.co_filename
        if is_of_the_user(path):
            return location(path, entry.tb_lineno, rootdir)
    return None


def own_place_of(error: BaseException, rootdir: Path) -> Location | None:
    """Return the innermost line of the user's own code, or `None` if no such code ran.

    A hook wrapper that another hook's exception only passes through does not count.
    """
    name, line = named_place(error)
    if name and is_own(name, rootdir):
        return location(name, line, rootdir)
    return own_place_in(frames_of(error), rootdir)


class Frame(NamedTuple):
    """One entry of a traceback, raised in this process or printed by another."""

    path: str
    line: int
    function: str


def frames_of(error: BaseException) -> list[Frame]:
    """Return the frames of an exception's traceback, the outermost first."""
    frames = []
    for entry in entries_of(error):
        code = entry.tb_frame.f_code
        frames.append(Frame(code.co_filename, entry.tb_lineno, code.co_name))
    return frames


def printed_frames(text: str) -> Iterator[Frame]:
    """Yield the frames of a traceback in the form in which Python prints it."""
    for printed in text.splitlines():
        head, _, rest = printed.strip().partition('File "')
        path, _, rest = rest.partition('", line ')
        line, _, function = rest.partition(", in ")
        if not head and line.isdecimal() and len(line) <= _MAX_DIGITS:
            yield Frame(path, int(line), function)


def own_place_in(frames: Sequence[Frame], rootdir: Path) -> Location | None:
    """Return the innermost line of the user's own code."""
    passed_on = False
    for path, line, function in reversed(frames):
        if not passed_on and is_of_the_user(path) and is_own(path, rootdir):
            return location(path, line, rootdir)
        passed_on = is_relay(function, path)
    return None


def hook_in(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost hook implementation that isn't pytest's or ours."""
    hook = None
    for caller, frame in pairwise(frames):
        if PLUGGY in caller.path and frame.function.startswith("pytest_"):
            hook = frame
    if hook is not None and is_of_the_user(hook.path):
        return hook
    return None


def path_below_libraries(path: str) -> str:
    """Return the path of an installed file relative to its `site-packages`."""
    parts = path.replace(os.sep, "/").split("/")
    return "/".join(parts[depth_of_libraries(parts) :])

"""Find the place in the user's own code that an exception comes from.

There are three answers. `OriginFinder` gives the one that fingerprints are made of: it is the same
on every machine, and where the user has no frame it names a library. In the same walk it finds the
frame that raised, and whose code that is. `own_place_of` and `place_of` give a file and line to be
shown.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
    RUNNERS,
    SELF,
    FileFound,
    file_of_code,
    function_of,
    is_hidden,
    is_relay,
    module_name_in,
)
from pytest_failure_taxonomy.survive.own_files import (
    LIBRARIES,
    NOT_SOURCES,
    STANDARD_LIBRARY,
    is_of_the_user,
    is_own,
    location,
)
from pytest_failure_taxonomy.system.tasks import awaiting_traceback
from pytest_failure_taxonomy.taxonomy.evidence import (
    Location,
    OriginPlace,
    RaisingFrame,
)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.hooks.ledger import Ledger
    from pytest_failure_taxonomy.hooks.owners import RaisingFrames

MAX_TEXT: Final = 200
"""Characters kept of a statement."""
MAX_LINES: Final = 6
"""Lines that one statement is read from."""
MAX_LEAVES: Final = 32
"""Exceptions that are read of an exception group."""
_MAX_DIGITS: Final = 9
"""Digits of a line number in a printed traceback."""

Found = tuple[OriginPlace | None, RaisingFrame | None]
"""The place that a fingerprint is made of, and the frame that raised."""


class OriginFinder:
    """Find where exceptions come from, and cache the owners of files and the statements."""

    def __init__(self, rootdir: Path, test_files: Sequence[str] = ()) -> None:
        """Begin with empty caches.

        Args:
            rootdir: of the run.
            test_files: the patterns of pytest's `python_files`; its default where there are none.
        """
        root = os.path.join(str(rootdir), "")
        self.collected: Path | None = None
        """The file of the test, or the collector, whose exceptions are described."""
        self.rootdir = rootdir
        self.roots = tuple(
            dict.fromkeys((root, os.path.join(os.path.realpath(root), "")))
        )
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

        The first is the innermost frame in the user's own code, or else the innermost one in a
        library. The other is the innermost frame that is neither the standard library's nor
        pytest's; see `docs/explanation/owners.md`. Both are `None` without a traceback.
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
        """Return the module whose statement raised an exception, as `RaisedException.raiser`."""
        entries = entries_of(error)
        if not entries:
            return None
        frame = entries[-1].tb_frame
        if not is_raise_statement(entries[-1]):
            return ""
        module = module_name_in(frame.f_globals)
        file = self.file(frame.f_code.co_filename, frame.f_globals)
        is_pythons = file.owner == FOREIGN and not file.is_asked
        return "" if is_pythons and not module.startswith("unittest.mock") else module

    def raising_function_of(self, error: BaseException) -> str:
        """Return the innermost function, as `RaisedException.raising_function`."""
        entries = entries_of(error)
        if not entries:
            return ""
        frame = entries[-1].tb_frame
        code = frame.f_code
        if self.file(code.co_filename, frame.f_globals).owner == OWN:
            return ""
        return f"{module_name_in(frame.f_globals)}.{code.co_qualname}"

    def without_answer(
        self, error: BaseException, entries: Sequence[TracebackType]
    ) -> Sequence[TracebackType]:
        """Leave out the frames of a library that answers that it has no such name.

        A `__getattr__` of a module or a class runs for the line that asks for the name.
        """
        if not issubclass(type(error), AttributeError | ImportError):
            return entries
        for index, entry in enumerate(entries):
            frame = entry.tb_frame
            if index and frame.f_code.co_name == "__getattr__":
                found = self.file(frame.f_code.co_filename, frame.f_globals)
                packages = {
                    module_name_in(part.tb_frame.f_globals).partition(".")[0]
                    for part in entries[index:]
                }
                if found.owner == FOREIGN and len(packages) == 1:
                    return entries[:index]
        return entries

    def _find_in_group(self, group: BaseException) -> Found:
        """Return the place of one exception of a group, whatever order the group is in."""
        around = self._find_in_traceback(group)
        places = []
        frames = []
        for leaf in leaves_of(group):
            place, frame = self.find(leaf)
            place = place or around[0]
            if place is not None:
                kind = name_of(type(leaf))
                places.append(
                    (kind, place.path, place.function, place.text, place.entry)
                )
                frames.append(frame or around[1])
        if not places:
            return around
        least = min(places)
        leaf_type, path, function, text, entry = least
        place = OriginPlace(
            path=path, function=function, text=text, entry=entry, leaf=leaf_type
        )
        return place, frames[places.index(least)]

    def _find_in_traceback(self, error: BaseException) -> Found:
        best: tuple[TracebackType, str] | None = None
        first: tuple[TracebackType, str] | None = None
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
            # Most frames are the runner's, and this loop takes a third of a description's time.
            if code.co_filename not in runner_files:
                frame = traceback.tb_frame
                owner, path, is_asked = self.file(code.co_filename, frame.f_globals)
                if is_asked:
                    asked.append(traceback)
                if owner >= best_owner and not is_hidden(frame, code):
                    best, best_owner = (traceback, path), owner
                    if owner == OWN and first is None:
                        first = best
                left -= 1
                if not left:
                    break
            traceback = traceback.tb_next
        raising = self.raising_frames.find(error, asked, best_owner == OWN)
        if best is None:
            best, best_owner = self._innermost_of_runner(error), RUNNER
            if best is None:
                return None, raising
        is_endless = not left or issubclass(type(error), RecursionError)
        place = self._origin_of_recursion(error, best_owner) if is_endless else None
        return place or self._place(best, first, best_owner), raising

    def _innermost_of_runner(
        self, error: BaseException
    ) -> tuple[TracebackType, str] | None:
        """Return the innermost place in the test runner, unless that is this plugin.

        No code of the user raises the failure of a bench case, for one.
        """
        found = None
        for each in entries_of(error)[:MAX_FRAMES]:
            frame = each.tb_frame
            if not is_hidden(frame, frame.f_code):
                found = each, self.file(frame.f_code.co_filename, frame.f_globals)[1]
        return None if found is None or found[1].startswith(f"{SELF}/") else found

    def _origin_of_recursion(
        self, error: BaseException, owner: int
    ) -> OriginPlace | None:
        """Return the function that calls itself; of a cycle of functions, always the same one.

        Chance decides in which of them the stack overflows, and which one was called first.
        """
        calls: dict[tuple[str, str], int] = {}
        for each in entries_of(error)[:MAX_FRAMES]:
            frame = each.tb_frame
            file_owner, path, _ = self.file(frame.f_code.co_filename, frame.f_globals)
            if file_owner == owner:
                place = path, function_of(frame.f_code)
                calls[place] = calls.get(place, 0) + 1
        most_calls = max(calls.values(), default=0)
        # A function that is there twice does not recurse without end.
        cycle = [
            place
            for place, count in calls.items()
            if count > 2 and count * 4 > most_calls
        ]
        if not cycle:
            return None
        path, function = min(cycle)
        return OriginPlace(path=path, function=function)

    def _place(
        self,
        best: tuple[TracebackType, str],
        first: tuple[TracebackType, str] | None,
        owner: int,
    ) -> OriginPlace:
        traceback, path = best
        frame = traceback.tb_frame
        function = function_of(frame.f_code)
        if owner != OWN:
            return OriginPlace(path=path, function=function)
        entry = ""
        if first is not None and first is not best:
            entry = f"{first[1]}: {function_of(first[0].tb_frame.f_code)}"
            entry = "" if entry == f"{path}: {function}" else entry
        text = self.statement(
            frame.f_code.co_filename, traceback.tb_lineno, frame.f_globals
        )
        return OriginPlace(path=path, function=function, text=text, entry=entry)

    def file(self, name: str, module: dict[str, Any]) -> FileFound:
        """Return what is known of a file: of the frame that it is asked for first, if several."""
        known = self._files.get(name)
        if known is None:
            known = self._files[name] = self._look_at(name, module)
            if known.owner == RUNNER:
                self._runner_files.add(name)
        return known

    def _look_at(self, name: str, module: dict[str, Any]) -> FileFound:
        if name.startswith("<"):
            shown = name.partition(" ")[0].rstrip(">") + ">"
            return FileFound(FOREIGN, shown, not name.startswith("<frozen "))
        dotted = module_name_in(module)
        absolute = os.path.abspath(file_of_code(name, module) or name)
        # The path below the folder that its package is imported from.
        *packages, last = dotted.split(".")
        base = os.path.basename(absolute)
        packages += [last] if base == "__init__.py" else []
        below_package = "/".join((*packages, base))
        if dotted.partition(".")[0] in RUNNERS:
            return FileFound(RUNNER, below_package, is_asked=False)
        root = next(filter(absolute.startswith, self.roots), "")
        parts = absolute[len(root) :].replace(os.sep, "/").split("/")
        if not LIBRARIES.isdisjoint(parts):
            return self._installed(path_below_libraries("/".join(parts)))
        if root and parts[0] in NOT_SOURCES and len(parts) > 1:
            return self._installed(below_package)
        is_library = not root and absolute.startswith(STANDARD_LIBRARY)
        owner = FOREIGN if is_library else OWN
        return FileFound(
            owner, "/".join(parts) if root else below_package, not is_library
        )

    def _installed(self, path: str) -> FileFound:
        """Return owner and path of an installed file.

        The project's own package may be installed, with its sources below the root directory.
        """
        for folder in ("src/", ""):
            if os.path.isfile(self.roots[0] + folder + path):
                return FileFound(OWN, folder + path, is_asked=True)
        return FileFound(FOREIGN, path, is_asked=True)

    def statement(self, name: str, line: int | None, module: dict[str, Any]) -> str:
        """Return a line without its comment, joined with the following lines of its statement."""
        if line is None:
            return ""
        known = self._texts.get((name, line))
        if known is None:
            parts: list[str] = []
            is_open = 0
            is_read = name in linecache.cache
            for number in range(line, line + MAX_LINES):
                part = (
                    linecache.getline(name, number, module).partition(" #")[0].strip()
                )
                is_open += _opened(part)
                parts.append(part)
                if is_open <= 0:
                    break
            if not is_read:  # pytest would show what it has not read itself
                linecache.cache.pop(name, None)
            known = self._texts[name, line] = " ".join(" ".join(parts).split())[
                :MAX_TEXT
            ]
        return known


def _opened(line: str) -> int:
    """Return how many more brackets a line opens than it closes, outside of quotes."""
    if "'" not in line and '"' not in line:
        line = line[:MAX_TEXT]
        return sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
    count = 0
    quote = ""
    for character in line[:MAX_TEXT]:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            count += (character in "([{") - (character in ")]}")
    return count


def exceptions_in(group: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions of an exception group."""
    found: tuple[BaseException, ...] = field_of(group, BaseExceptionGroup, "exceptions")
    return found


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
    name, line = (field_of(error, SyntaxError, each) for each in ("filename", "lineno"))
    return name if type(name) is str else "", line if type(line) is int else None


def place_of(error: BaseException, rootdir: Path) -> Location | None:
    """Return the place that an exception points to.

    That is the place that a `SyntaxError` names, or else the innermost line of the user's own code,
    or else the innermost one outside of pytest and the import system.
    """
    name, line = named_place(error)
    if name:
        return location(name, line, rootdir)
    own = own_place_of(error, rootdir)
    if own is not None:
        return own
    for each in reversed(entries_of(error)):
        path = each.tb_frame.f_code.co_filename
        if is_of_the_user(path):
            return location(path, each.tb_lineno, rootdir)
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
    """One entry of a traceback, of this process or of another process that printed it."""

    path: str
    line: int
    function: str


def frames_of(error: BaseException) -> list[Frame]:
    """Return the frames of an exception's traceback, the outermost first."""
    frames = []
    for each in entries_of(error):
        code = each.tb_frame.f_code
        frames.append(Frame(code.co_filename, each.tb_lineno, code.co_name))
    return frames


def printed_frames(text: str) -> Iterator[Frame]:
    """Yield the frames of a traceback in the form in which Python prints it."""
    for each in text.splitlines():
        head, _, rest = each.strip().partition('File "')
        path, _, rest = rest.partition('", line ')
        line, _, function = rest.partition(", in ")
        if not head and line.isdecimal() and len(line) <= _MAX_DIGITS:
            yield Frame(path, int(line), function)


def own_place_in(frames: Sequence[Frame], rootdir: Path) -> Location | None:
    """Return the innermost line of the user's own code."""
    passed_on = False
    for each in reversed(frames):
        if not passed_on and is_of_the_user(each.path) and is_own(each.path, rootdir):
            return location(each.path, each.line, rootdir)
        passed_on = is_relay(each.function, each.path)
    return None


def hook_in(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost hook implementation, unless it is pytest's or this plugin's."""
    found = None
    for caller, each in pairwise(frames):
        if PLUGGY in caller.path and each.function.startswith("pytest_"):
            found = each
    return found if found is not None and is_of_the_user(found.path) else None


def path_below_libraries(path: str) -> str:
    """Return the path of an installed file relative to its `site-packages`."""
    parts = path.replace(os.sep, "/").split("/")
    at = max((i for i, part in enumerate(parts) if part in LIBRARIES), default=-1)
    return "/".join(parts[at + 1 :]) if at >= 0 else "/".join(parts)

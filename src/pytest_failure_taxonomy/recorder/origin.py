"""Find the place in the user's own code that an exception comes from."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

from pytest_failure_taxonomy.taxonomy.evidence import OriginPlace

MAX_FRAMES: Final = 2_000
"""Frames looked at; a traceback that is longer is a recursion."""
MAX_TEXT: Final = 200
"""Characters of a statement that count."""
MAX_LINES: Final = 6
"""Lines that one statement is read from."""
MAX_LEAVES: Final = 32
"""Exceptions of a group that are looked at."""

_OWN: Final = 2
_FOREIGN: Final = 1
_RUNNER: Final = 0
"""Whose a file is: the user's, a library's, the test runner's."""

_SELF: Final = "pytest_failure_taxonomy"
_RUNNERS: Final = frozenset(
    {"_pytest", "pytest", "pluggy", "xdist", "execnet", "__channelexec__", _SELF}
)
LIBRARIES: Final = frozenset({"site-packages", "dist-packages"})
NOT_SOURCES: Final = frozenset(
    {".venv", "venv", ".tox", ".nox", ".eggs", "build", "__pypackages__"}
)
"""First folders below the root directory that hold copies and installations."""
STANDARD_LIBRARY: Final = os.path.join(os.path.dirname(os.__file__), "")
# Python 3.12 runs comprehensions in the function around them.
_INLINED: Final = (".<locals>.<listcomp>", ".<locals>.<dictcomp>", ".<locals>.<setcomp>")
_INLINED_AT_TOP: Final = ("<listcomp>", "<dictcomp>", "<setcomp>")


class OriginFinder:
    """Remember which files are the user's, and the statements that failed before."""

    def __init__(self, rootdir: Path) -> None:
        root = os.path.join(str(rootdir), "")
        self._roots = tuple(dict.fromkeys((root, os.path.join(os.path.realpath(root), ""))))
        self._files: dict[str, tuple[int, str]] = {}
        self._texts: dict[tuple[str, int], str] = {}

    def origin_of(self, error: BaseException) -> OriginPlace | None:
        """Return where an exception comes from, or `None` where it has no traceback.

        That is the innermost frame in the user's own code; where there is none, the innermost one
        of a library.
        """
        if isinstance(error, BaseExceptionGroup):
            return self._origin_of_group(error)
        if isinstance(error, SyntaxError) and error.filename:
            owner, path = self._file(str(error.filename), {})
            if owner == _OWN:
                return OriginPlace(path=path, function="")
        return self._origin_of_traceback(error.__traceback__, isinstance(error, RecursionError))

    def _origin_of_group(self, group: BaseExceptionGroup[Any]) -> OriginPlace | None:
        """Return the place of one exception in a group: always the same, in whatever order."""
        around = self._origin_of_traceback(group.__traceback__, is_recursion=False)
        places = []
        for leaf in _leaves(group):
            place = self.origin_of(leaf) or around
            if place is not None:
                kind = type(leaf)
                places.append(
                    (kind.__qualname__, place.path, place.function, place.text, place.entry)
                )
        if not places:
            return around
        leaf_type, path, function, text, entry = min(places)
        return OriginPlace(path=path, function=function, text=text, entry=entry, leaf=leaf_type)

    def _origin_of_traceback(
        self,
        traceback: TracebackType | None,
        is_recursion: bool,  # noqa: FBT001 - private
    ) -> OriginPlace | None:
        best: tuple[TracebackType, str] | None = None
        first: tuple[TracebackType, str] | None = None
        best_owner = _FOREIGN
        files = self._files
        left = MAX_FRAMES
        start = traceback
        while traceback is not None and left:
            frame = traceback.tb_frame
            code = frame.f_code
            name = code.co_filename
            owner, path = files.get(name) or self._file(name, frame.f_globals)
            if owner >= best_owner and not _is_hidden(frame, code):
                best, best_owner = (traceback, path), owner
                if owner == _OWN and first is None:
                    first = best
            traceback = traceback.tb_next
            left -= 1
        if best is None:
            best, best_owner = self._innermost_of_runner(start), _RUNNER
            if best is None:
                return None
        if is_recursion or not left:
            return self._origin_of_recursion(start, best_owner) or self._place(
                best, first, best_owner
            )
        return self._place(best, first, best_owner)

    def _innermost_of_runner(
        self, traceback: TracebackType | None
    ) -> tuple[TracebackType, str] | None:
        """Return the place in the test runner that an exception comes from.

        A case of a bench that did not pass was raised by nobody's code.
        """
        found = None
        for each in islice(frames_of(traceback), MAX_FRAMES):
            frame = each.tb_frame
            if not _is_hidden(frame, frame.f_code):
                found = each, self._file(frame.f_code.co_filename, frame.f_globals)[1]
        return None if found is None or found[1].startswith(f"{_SELF}/") else found

    def _origin_of_recursion(
        self, traceback: TracebackType | None, owner: int
    ) -> OriginPlace | None:
        """Return the function that calls itself; of several that call each other, always one.

        In which of them the stack ran out is chance, and so is which was called first.
        """
        calls: dict[tuple[str, str], int] = {}
        for each in islice(frames_of(traceback), MAX_FRAMES):
            frame = each.tb_frame
            whose, path = self._file(frame.f_code.co_filename, frame.f_globals)
            if whose == owner:
                place = path, _function(frame.f_code)
                calls[place] = calls.get(place, 0) + 1
        again = max(calls.values(), default=0)
        # A function that is there twice is none that calls itself without end.
        cycle = [place for place, count in calls.items() if count > 2 and count * 4 > again]
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
        function = _function(frame.f_code)
        if owner != _OWN:
            return OriginPlace(path=path, function=function)
        entry = ""
        if first is not None:
            entry = f"{first[1]}: {_function(first[0].tb_frame.f_code)}"
            entry = "" if entry == f"{path}: {function}" else entry
        text = self._text(frame.f_code.co_filename, traceback.tb_lineno, frame.f_globals)
        return OriginPlace(path=path, function=function, text=text, entry=entry)

    def _file(self, name: str, module: dict[str, Any]) -> tuple[int, str]:
        known = self._files.get(name)
        if known is None:
            known = self._files[name] = self._look_at(name, module)
        return known

    def _look_at(self, name: str, module: dict[str, Any]) -> tuple[int, str]:
        """Return whose a file is, and the path it has on every machine."""
        if name.startswith("<"):
            return _FOREIGN, name.partition(" ")[0].rstrip(">") + ">"
        dotted = str(module.get("__name__", ""))
        absolute = os.path.abspath(name)
        below_package = _path_of_module(dotted, absolute)
        if dotted.partition(".")[0] in _RUNNERS:
            return _RUNNER, below_package
        root = next((each for each in self._roots if absolute.startswith(each)), "")
        parts = absolute[len(root) :].replace(os.sep, "/").split("/")
        if not LIBRARIES.isdisjoint(parts):
            at = max(i for i, part in enumerate(parts) if part in LIBRARIES)
            return self._installed("/".join(parts[at + 1 :]))
        if root and parts[0] in NOT_SOURCES and len(parts) > 1:
            return self._installed(below_package)
        is_library = not root and absolute.startswith(STANDARD_LIBRARY)
        return _FOREIGN if is_library else _OWN, "/".join(parts) if root else below_package

    def _installed(self, path: str) -> tuple[int, str]:
        """Tell the project's own package, installed beside its sources, from a library."""
        for folder in ("src/", ""):
            if os.path.isfile(self._roots[0] + folder + path):
                return _OWN, folder + path
        return _FOREIGN, path

    def _text(self, name: str, line: int | None, module: dict[str, Any]) -> str:
        if line is None:
            return ""
        known = self._texts.get((name, line))
        if known is None:
            known = self._texts[name, line] = _statement(name, line, module)
        return known


def frames_of(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the entries of a traceback, the outermost first."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _statement(name: str, line: int, module: dict[str, Any]) -> str:
    """Return a line without its comment, with the next ones up to where its brackets close."""
    parts: list[str] = []
    is_open = 0
    for number in range(line, line + MAX_LINES):
        part = linecache.getline(name, number, module).partition(" #")[0].strip()
        is_open += _opened(part)
        parts.append(part)
        if is_open <= 0:
            break
    return " ".join(" ".join(parts).split())[:MAX_TEXT]


def _opened(line: str) -> int:
    """Return how many more brackets a line opens than it closes, outside of quotes."""
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


def _function(code: CodeType) -> str:
    name = code.co_qualname
    for ending in _INLINED:
        name = name.removesuffix(ending)
    return "<module>" if name in _INLINED_AT_TOP else name


def _is_hidden(frame: FrameType, code: CodeType) -> bool:
    """Tell whether a function asks pytest to leave it out of tracebacks."""
    name = "__tracebackhide__"
    if name in code.co_varnames or name in code.co_cellvars:
        hidden = frame.f_locals.get(name)
    else:
        hidden = frame.f_globals.get(name)
    return bool(hidden) and not callable(hidden)  # a function would hide some exceptions only


def _path_of_module(dotted: str, path: str) -> str:
    """Return a file's path below the folder that its package is imported from."""
    name = os.path.basename(path)
    *packages, last = dotted.split(".")
    if name == "__init__.py":
        packages.append(last)
    return "/".join((*packages, name))


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    left = MAX_LEAVES
    waiting: list[BaseException] = [group]
    while waiting and left:
        error = waiting.pop()
        if isinstance(error, BaseExceptionGroup):
            waiting += reversed(error.exceptions[:MAX_LEAVES])
        else:
            left -= 1
            yield error

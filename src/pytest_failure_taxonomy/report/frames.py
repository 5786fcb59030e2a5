"""Tracebacks without the frames of libraries, for all faces of a report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Final, NamedTuple

from pytest_failure_taxonomy.taxonomy.evidence import Location
from pytest_failure_taxonomy.taxonomy.words import counted

_MARKED: Final = (
    # How pytest says what a name stands for.
    (re.compile(r"E {2,}\+ +(?:where|and) "), "error"),
    (re.compile(r"E {2,}-(?: |$)"), "minus"),
    (re.compile(r"E {2,}\+(?: |$)"), "plus"),
    (re.compile(r"E {2,}\? "), "hint"),
    (re.compile(r"E(?: |$)"), "error"),
    (re.compile(r">(?! +(?:available fixtures|use 'pytest --fix))"), "here"),
    (re.compile(r"[^\s:][^:]*:\d+: |  File \""), "place"),
    (re.compile(r"(?:_ ){4}|_{8}"), "rule"),
)
"""How the lines of a traceback begin, and the class that those have in the page."""

_FRAME: Final = re.compile(r"(?!E |>)((?:[A-Za-z]:)?[^\s:][^:]*):(\d+): ?(in .+)?")
"""Of pytest: below the code of a long entry, above that of a short one, which names a function."""
_NATIVE_FRAME: Final = re.compile(r'  File "([^"]+)", line (\d+)')
_CHAINED: Final = re.compile("The above exception was|During handling of")
_OF_LIBRARY: Final = re.compile(
    r"^<frozen |[/\\]Lib[/\\]|"
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib(?:64)?[/\\]python3[^/\\]*)[/\\]"
)


class Code(NamedTuple):
    """Where something was raised."""

    own: str
    """The user's own frames; all frames, if there are none of the user's."""
    whole: str
    """With library frames; empty if `own` has them all."""
    is_of_library: bool = False
    """No frame is the user's."""

    @property
    def with_count(self) -> str:
        """The own frames, and how many are omitted, for a text that can't be unfolded."""
        if not self.whole:
            return self.own
        omitted = _count_frames(self.whole) - _count_frames(self.own)
        return f"{self.own}\n({counted(omitted, 'library frame')} omitted)"


def line_class(line: str) -> str:
    """Return the CSS class of a line of a traceback; empty for an ordinary line."""
    for pattern, name in _MARKED:
        if pattern.match(line):
            return name
    return ""


def classed_lines(text: str | None) -> list[tuple[str, str]]:
    """Return the lines of a traceback, each with its class."""
    return [(line_class(line), line) for line in (text or "").splitlines()]


def code_of(traceback: str | None, location: Location | None = None) -> Code:
    """Tell the user's own frames of a traceback from those of libraries.

    Args:
        traceback: as pytest or Python shows it.
        location: the user's place that the failure has, whose file is the user's wherever it is.
    """
    own_path = None if location is None else location.path
    shown: list[str] = []
    is_all = True
    has_own = False
    for path, lines in _entries(traceback or ""):
        is_link = path is None and any(map(_CHAINED.match, lines))
        is_own = path is not None and (
            path == own_path or _OF_LIBRARY.search(path) is None
        )
        has_own |= is_own
        is_all &= is_own or path is None
        if is_own or (is_link and has_own):
            shown += lines
        elif is_link:
            # It was raised from an exception in code that is none of the user's.
            shown = []
        else:
            shown += _raised(lines)
    if is_all or not has_own:
        return Code(own=traceback or "", whole="", is_of_library=not is_all)
    return Code(own="\n".join(shown).strip("\n"), whole=traceback or "")


class Frame(NamedTuple):
    """A frame of a traceback in short, or what stands between frames."""

    place: str
    """`path:line`; empty for what is no frame."""
    source: str
    """The line that failed, if it is known."""
    raised: list[str]
    """What pytest says below it, without its indent."""
    others: list[str]
    """The text of no frame."""


def frames_of(traceback: str) -> Iterator[Frame]:
    """Yield the frames of a traceback."""
    for path, lines in _entries(traceback):
        place = source = ""
        for line in lines:
            frame = _FRAME.match(line) or _NATIVE_FRAME.match(line)
            if frame:
                place = f"{frame[1]}:{frame[2]}"
            elif line_class(line) == "here":
                source = line[1:].strip()
            elif place and not source and line[:1] == " ":
                source = line.strip()  # of a short entry
        raised = [line.removeprefix("E").removeprefix("   ") for line in _raised(lines)]
        others = [] if path or raised else [*filter(str.strip, lines)]
        yield Frame(place, source, raised, others)


def _count_frames(traceback: str) -> int:
    return sum(path is not None for path, _ in _entries(traceback))


def _raised(lines: list[str]) -> Iterator[str]:
    """Yield what was raised in a frame, without the indent of its code."""
    raised = [line[1:] for line in lines if line[:2] in ("E", "E ")]
    for line in dedent("\n".join(raised)).splitlines():
        yield f"E   {line}"


def _entries(traceback: str) -> Iterator[tuple[str | None, list[str]]]:
    """Yield the path and the lines of each frame of a traceback, and of what stands between."""
    path: str | None = None
    lines: list[str] = []
    for line in traceback.splitlines():
        frame = _FRAME.match(line)
        is_link = _CHAINED.match(line)
        is_rule = line_class(line) == "rule"
        above = _NATIVE_FRAME.match(line)
        if frame and frame[3]:
            above = frame
        if above or is_link or is_rule:
            # A new frame begins here, or none.
            yield path, lines
            path = above and above[1]
            lines = []
        if not is_rule:
            lines.append(line)
        if is_link or (frame and not above):
            # A frame ends here.
            yield frame and frame[1], lines
            path = None
            lines = []
    yield path, lines

"""Read the tracebacks that pytest and Python print.

pytest has three styles, which stand beside each other in one traceback:

    long    the function's source, `>` before the failed line, then `path:line: Type`
    short   `path:line: in function`, then the statement
    native  as Python prints it: `File "path", line N, in function`, then the statement

Here the text alone is read; `printed_exceptions` decides whose code it is.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_failure_taxonomy.taxonomy.evidence import OutputLine
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.text import join_statement

MAX_MESSAGE_LINES: Final = 40
MAX_MESSAGE_CHARACTERS: Final = 16_384
"""How much is stored of one message: the first line, and others if there is room."""
MAX_OUTER_FRAMES: Final = 20
"""Frames that are stored of the outer end of a traceback."""
MAX_INNER_FRAMES: Final = 40
"""Frames that are stored of its inner end, which says more."""
MAX_EXCEPTIONS: Final = 20
"""Exceptions of one chain that are stored, the last ones."""
_MAX_ARGUMENT_LINES: Final = 20
_MAX_ARGUMENT: Final = 500
"""Characters of such a line that are stored."""
_MAX_SOURCE_LINES: Final = 10
"""Lines that a statement is looked for in."""

_MESSAGE: Final = re.compile(r"E(?:   (?P<words>.*))?$")
_CAUSE: Final = "The above exception was the direct cause of the following exception:"
_CONTEXT: Final = "During handling of the above exception, another exception occurred:"
_NATIVE: Final = "Traceback (most recent call last):"
_GROUP: Final = "+ Exception Group Traceback (most recent call last):"
_MEMBER: Final = re.compile(r"\s*(?:\| )*\+(?:-\+)?-+ \d+ -+$")
"""What stands before a member of an exception group."""
_MARGIN: Final = re.compile(r"\s*(?:[|+] )*[|+] ?(?:-+$)?")
"""What stands before the lines of an exception group."""
_LOCATION: Final = re.compile(
    r"(?P<path>\S.{0,999}?):(?P<line>\d{1,9}):"
    r"(?: in (?P<function>(?:init )?[\w.<>]+)| (?P<type>[A-Za-z_][\w.]*)| ?)$"
)
_DEFINED: Final = re.compile(r"file (?P<path>.{1,1000}), line (?P<line>\d{1,9})$")
"""Where a function is defined that asks for a fixture which does not exist."""
_NATIVE_FRAME: Final = re.compile(
    r' *File "(?P<path>[^"]{1,1000})", line (?P<line>\d{1,9})'
    r"(?:, in (?P<function>.+))?$"
)
_SEPARATOR: Final = re.compile(r"_(?: _)+ ?_?$")
_DEFINITION: Final = re.compile(r"[> ]   \s*(?:async )?def (?P<name>\w+)\(")
_FIXTURE: Final = re.compile(r"[> ]   \s*@[\w.]*fixture\b")
_ARGUMENT: Final = re.compile(r"[A-Za-z_]\w* = ")
_SIDES: Final = ("Expected:", "Expected nothing", "Got:", "Got nothing")
"""What a doctest prints of an example that failed; what follows is the side itself."""
_CARETS: Final = re.compile(r"\s*[~^]+\s*$")


@value
class PrintedFrame:
    """One entry of a traceback."""

    path: str
    line: int
    function: str = ""
    """Its bare name; empty where the text doesn't say it."""
    statement: str = ""
    """On one line; empty where the text doesn't have it."""
    first_line: int | None = None
    """Where the definition of the function begins, its decorators included."""
    is_fixture: bool = False
    """The function is decorated as a fixture."""
    arguments: str = ""
    """What the function was called with: `name = value` on lines of their own."""


@value
class PrintedException:
    """One exception of a chain."""

    message: str
    """As it was printed: mostly `Type: words`; empty where nothing was."""
    line: OutputLine | None
    """The first line of the message."""
    located_type: str
    """The name that stands behind the place where it was raised; empty for none."""
    frames: tuple[PrintedFrame, ...]
    """The outermost first; the middle of a long traceback is left out."""
    is_cause: bool = False
    """The next exception was raised `from` it."""
    is_native: bool = False
    """It was printed in Python's own style."""
    is_member: bool = False
    """It is one of an exception group."""


class TracebackReader:
    """Read the lines of one failure, without its title, one by one."""

    def __init__(self) -> None:
        self.marked: OutputLine | None = None
        """The last line that pytest has marked as the one that failed."""
        self._earlier: list[PrintedException] = []
        """What was raised before, the first one first."""
        self._group: PrintedException | None = None
        self._members: list[PrintedException] = []
        self._begin()

    def _begin(self, *, is_native: bool = False) -> None:
        """Begin with the next exception."""
        self._outer: list[PrintedFrame] = []
        self._inner: list[PrintedFrame] = []
        self._messages: list[str] = []
        self._message_line: OutputLine | None = None
        self._was_message = False
        self._located_type = ""
        self._is_native = is_native
        self._in_groups_words = False
        """Up to its first member, whatever a group says is of its message."""
        self._open: PrintedFrame | None = None
        """A frame whose statement is still to come."""
        self._begin_function()

    def _begin_function(self) -> None:
        """Begin with the next entry in the long style."""
        self._function = ""
        self._is_fixture = False
        self._arguments: list[str] = []
        self._sources = 0
        """Lines of the function's source so far."""
        self._before = 0
        """The same before the line that failed."""
        self._statement: list[str] = []
        self._side: list[str] | None = None
        self._sides: dict[str, list[str]] = {}
        """What the example of a doctest expected and got."""

    def feed(self, line: OutputLine) -> bool:
        """Read a line; return whether it can be part of a traceback."""
        text = line.text.rstrip()
        if text in (_CAUSE, _CONTEXT):
            self._earlier.append(self._finish(is_cause=text == _CAUSE))
            del self._earlier[:-MAX_EXCEPTIONS]
            self._begin()
        elif text.lstrip() == _GROUP:
            self._group = None
            self._members = []
            self._begin(is_native=True)
            self._in_groups_words = True
        elif self._is_native and _MEMBER.match(text):
            self._begin_member()
        elif self._is_native:
            self._feed_native(line, text)
        elif text.startswith(_NATIVE):
            # Of several tracebacks that nothing links the last one counts.
            self._begin(is_native=True)
        elif message := _MESSAGE.match(text):
            self._feed_message(line, message["words"] or "")
        else:
            self._was_message = False
            if text.startswith(">"):
                self.marked = line
            return self._feed_entry(text)
        return True

    @property
    def chain(self) -> tuple[PrintedException, ...]:
        """The exception itself first, a group's members, then those raised before."""
        last = self._finish()
        if self._group is None:
            return (last, *reversed(self._earlier))
        members = [
            replace(member, is_member=True)
            for member in (*self._members, last)
            if member.message  # what follows the last member may be none
        ]
        return (self._group, *members, *reversed(self._earlier))

    def _finish(self, *, is_cause: bool = False) -> PrintedException:
        self._close_frame()
        lines = self._messages
        if lines and not self._is_native:
            # `E` stands before each line, and blanks up to where the message begins.
            indent = len(lines[0]) - len(lines[0].lstrip(" "))
            lines = [line.removeprefix(" " * indent) for line in lines]
        return PrintedException(
            message="\n".join(lines).rstrip(),
            line=self._message_line,
            located_type=self._located_type,
            frames=(*self._outer, *self._inner),
            is_cause=is_cause,
            is_native=self._is_native,
        )

    def _begin_member(self) -> None:
        ended = self._finish()
        if self._group is None:
            self._group = ended
        elif len(self._members) < MAX_EXCEPTIONS:
            self._members.append(ended)
        self._begin(is_native=True)

    # The styles of pytest.

    def _feed_message(self, line: OutputLine, words: str) -> None:
        self._close_frame()
        # Of a syntax error, what follows its source counts.
        first = self._messages[0].lstrip() if self._messages else ""
        is_after_source = first.startswith('File "') and not words.startswith("  ")
        if is_after_source and (match := _NATIVE_FRAME.match(first)):
            self._open_frame(match)
            self._close_frame()
        if is_after_source or not self._was_message:
            self._messages = []
            self._message_line = line
            self._located_type = ""
        self._add_to_message(words)
        self._was_message = True

    def _add_to_message(self, text: str) -> None:
        size = sum(map(len, self._messages)) + len(text)
        has_room = size <= MAX_MESSAGE_CHARACTERS
        if len(self._messages) < MAX_MESSAGE_LINES and has_room:
            self._messages.append(text)

    def _feed_entry(self, text: str) -> bool:
        if _SEPARATOR.match(text):
            self._close_frame()
            self._begin_function()
        elif match := _LOCATION.match(text):
            self._feed_location(match)
        elif text.startswith((">", "    ")):
            self._feed_source(text)
        elif text and not self._sources and _ARGUMENT.match(text):
            if len(self._arguments) < _MAX_ARGUMENT_LINES:
                self._arguments.append(text[:_MAX_ARGUMENT])
        elif text.startswith(_SIDES):
            name = text.split(maxsplit=1)[0].rstrip(":")
            self._side = self._sides.setdefault(name, [])
        elif match := _DEFINED.match(text):
            frame = PrintedFrame(path=match["path"], line=int(match["line"]))
            self._add_frame(frame)
        elif text:
            return False
        elif self._sources:
            self._sources += 1
        return True

    def _feed_location(self, match: re.Match[str]) -> None:
        self._close_frame()
        if match["function"]:
            self._open_frame(match)
            return
        if match["type"]:
            self._located_type = match["type"]
        if self._sides:
            expected, got = map(self._describe_side, ("Expected", "Got"))
            self._messages = [f"DocTestFailure: expected {expected}, got {got}"]
        line = int(match["line"])
        frame = PrintedFrame(
            path=match["path"],
            line=line,
            function=self._function,
            statement=join_statement(self._statement),
            first_line=line - self._before if self._function else None,
            is_fixture=self._is_fixture,
            arguments="\n".join(self._arguments),
        )
        self._add_frame(frame)
        self._begin_function()

    def _describe_side(self, name: str) -> str:
        first, *others = self._sides.get(name) or ["nothing"]
        return f"{first} …" if others else first

    def _feed_source(self, text: str) -> None:
        """Read a line of a function's source, or of the statement below a place."""
        is_marked = text.startswith(">")
        if self._side is not None:
            self._side.append(text.strip())
        if self._open is None and not self._statement:
            if not self._function and (definition := _DEFINITION.match(text)):
                self._function = definition["name"]
            elif not self._function and _FIXTURE.match(text):
                self._is_fixture = True
        if is_marked and not self._statement:
            # The place below tells the number of the marked line: from that and this
            # count follows where the function begins.
            self._before = self._sources
        is_of_statement = is_marked or self._statement or self._open is not None
        if is_of_statement and not _CARETS.match(text):
            self._add_to_statement(text.removeprefix(">"))
        self._sources += 1

    def _add_to_statement(self, text: str) -> None:
        if len(self._statement) < _MAX_SOURCE_LINES:
            self._statement.append(text)

    # Python's own style.

    def _feed_native(self, line: OutputLine, text: str) -> None:
        if self._group is not None or text.lstrip().startswith(("| ", "+ ")):
            text = _MARGIN.sub("", text, count=1)
        if text.startswith(_NATIVE) and not self._in_groups_words:
            self._begin(is_native=True)
        elif self._in_groups_words and self._message_line is not None:
            self._add_to_message(text)
        elif match := _NATIVE_FRAME.match(text):
            self._close_frame()
            self._messages = []
            self._message_line = None
            self._open_frame(match)
        elif text.startswith("  ") and self._message_line is None:
            if not _CARETS.match(text):
                self._add_to_statement(text)
        elif text or self._messages:
            self._close_frame()
            self._message_line = self._message_line or line
            self._add_to_message(text)

    # Frames.

    def _open_frame(self, match: re.Match[str]) -> None:
        """Begin with a frame whose statement follows."""
        self._begin_function()
        self._open = PrintedFrame(
            path=match["path"],
            line=int(match["line"]),
            function=match["function"] or "<module>",
        )

    def _close_frame(self) -> None:
        if self._open is None:
            return
        statement = join_statement(self._statement)
        self._add_frame(replace(self._open, statement=statement))
        self._open = None
        self._begin_function()

    def _add_frame(self, frame: PrintedFrame) -> None:
        self._inner.append(frame)
        if len(self._inner) > MAX_INNER_FRAMES:
            first = self._inner.pop(0)
            if len(self._outer) < MAX_OUTER_FRAMES:
                self._outer.append(first)

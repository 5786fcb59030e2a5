"""Read the blocks of the sections FAILURES and ERRORS in pytest's output, one for each failure."""

from __future__ import annotations

import builtins
from typing import Final

from pytest_failure_taxonomy.logs.log_lines import Line
from pytest_failure_taxonomy.logs.output_patterns import (
    CRASHED,
    LOCATION,
    PHASE_TITLE,
    PLUGIN_TIMEOUT,
    RAISED,
)
from pytest_failure_taxonomy.taxonomy.evidence import Location, RaisedException

MAX_MESSAGE_LINES: Final = 40
_PHASES: Final = {"at setup of": "setup", "at teardown of": "teardown", "collecting": "collect"}
_MESSAGE_INDENT: Final = "E   "
_NATIVE_START: Final = "Traceback (most recent call last):"
_PLUGIN_FRAME: Final = 'pytest_timeout.py", line '


class Native:
    """A traceback in Python's own style (`--tb=native`), read line by line."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.message_line: Line | None = None
        self.is_of_plugin = False
        """The traceback goes through pytest-timeout."""

    def add(self, line: Line) -> None:
        """Read the next line; of a chain of exceptions the last one counts."""
        text = line.text
        if text.startswith(_NATIVE_START):
            self.messages, self.message_line, self.is_of_plugin = [], None, False
        elif self.message_line is None and text.startswith("  "):
            self.is_of_plugin = self.is_of_plugin or _PLUGIN_FRAME in text
        elif len(self.messages) < MAX_MESSAGE_LINES:
            self.message_line = self.message_line or line
            self.messages.append(text)


class Block:
    """The lines of one failure, read one by one."""

    def __init__(self, title: str, line: Line) -> None:
        self.line = line
        named = PHASE_TITLE.match(title)
        self.phase = _PHASES[named[1]] if named else "call"
        self.name = named[2] if named else title
        self.location: Location | None = None
        self.marked_source = ""
        self.plain: list[str] = []
        """Lines between the title and a traceback, such as `[XPASS(strict)] why`."""
        self._located_type = ""
        self._messages: list[str] = []
        self._message_line: Line | None = None
        self._was_message = False
        self._is_captured = False
        self._native: Native | None = None

    @property
    def decisive(self) -> Line:
        """The line to quote: the first of the message, else the title."""
        native = self._native.message_line if self._native is not None else None
        return native or self._message_line or self.line

    @property
    def message(self) -> str:
        """The exception as pytest printed it."""
        messages = self._native.messages if self._native is not None else self._messages
        return "\n".join(messages) or next(iter(self.plain), "")

    def add(self, line: Line) -> None:
        """Read the next line of the block."""
        text = line.text
        if text.startswith("-") and text.endswith("-") and " Captured " in text:
            self._is_captured = True
        if self._is_captured:  # the test's own output may look like anything
            return
        if text.startswith(_NATIVE_START) and not (self._messages or self.plain):
            self._native = Native()
        if self._native is not None:
            self._native.add(line)
            return
        is_message = text.startswith(_MESSAGE_INDENT) or text == "E"
        if is_message:
            self._add_message(line, text[len(_MESSAGE_INDENT) :])
        elif text.startswith(">"):
            self.marked_source = text
        elif (found := LOCATION.match(text)) is not None:
            self.location = Location(path=found[1], line=int(found[2]))
            self._located_type = found[3]
        elif len(self.plain) < MAX_MESSAGE_LINES and text.strip() and not text.startswith("[gw"):
            self.plain.append(text)
            self.marked_source = self.marked_source or (text if "fail(" in text else "")
        self._was_message = is_message

    def _add_message(self, line: Line, text: str) -> None:
        # Of a chain of exceptions the last one counts; of a syntax error, what follows its source.
        is_source = bool(self._messages) and self._messages[0].lstrip().startswith('File "')
        begins_anew = not self._was_message or (text[:1] != " " and is_source)
        if begins_anew:
            self._messages, self._message_line = [], line
            self._located_type = ""
        if len(self._messages) < MAX_MESSAGE_LINES:
            self._messages.append(text)

    def exception(self) -> RaisedException | None:
        """Return what was raised, if the block says so."""
        if self._native is not None:
            return exception_of(self.message, is_own_words=not self._native.is_of_plugin)
        if not self._messages:
            return None
        return exception_of(
            self.message, located=self._located_type, is_own_words="fail(" in self.marked_source
        )

    @property
    def crash(self) -> tuple[str, str] | None:
        """Worker and node id, if a worker crashed."""
        found = next((each for text in self.plain if (each := CRASHED.match(text))), None)
        return None if found is None else (found[1], found[2])


def exception_of(
    message: str, *, located: str = "", is_own_words: bool = False
) -> RaisedException | None:
    """Return the exception of a message that pytest printed.

    Args:
        message: `Type: words`, or only the words of a rewritten assertion.
        located: The type that pytest printed after the failing location.
        is_own_words: The test itself called `pytest.fail`.
    """
    found = RAISED.match(message.partition("\n")[0])
    if found is not None and not _is_exception(found[1], located):
        found = None
    if found is None:
        is_assertion = located == "AssertionError" or message.startswith("assert ")
        if not is_assertion and not located:
            return None
        return _raised("AssertionError" if is_assertion else located, message, is_own_words)
    return _raised(found[1], message[len(found[1]) :].removeprefix(": "), is_own_words)


def _is_exception(name: str, located: str) -> bool:
    """Tell whether a word before a colon is an exception type."""
    last = name.rpartition(".")[2]
    return name == located or (
        last[:1].isupper()
        and (last.endswith(("Error", "Exception", "Warning", "Exit", "Interrupt", "Failed")))
    )


def _raised(name: str, message: str, is_own_words: bool) -> RaisedException:  # noqa: FBT001 - private
    module, _, last = name.rpartition(".")
    is_timeout = last == "Failed" and PLUGIN_TIMEOUT.match(message) is not None
    if not module:
        module = "builtins" if hasattr(builtins, last) else ""
    return RaisedException(
        type=last,
        module="_pytest.outcomes" if last == "Failed" else module,
        message=message,
        raised_in="pytest_timeout" if is_timeout and not is_own_words else "",
    )

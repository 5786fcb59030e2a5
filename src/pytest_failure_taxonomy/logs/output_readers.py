"""Read and note what pytest prints; nothing is decided here."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from copy import copy
from functools import cache
from typing import Final

from pytest_failure_taxonomy.logs.line_patterns import literal_of
from pytest_failure_taxonomy.logs.printed_exceptions import is_telling
from pytest_failure_taxonomy.logs.printed_tracebacks import (
    MAX_MESSAGE_CHARACTERS,
    MAX_MESSAGE_LINES,
    PrintedException,
    TracebackReader,
)
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import (
    OutputLine,
)
from pytest_failure_taxonomy.taxonomy.values import replace, value


@cache
def pattern(name: str) -> re.Pattern[str]:
    """Return a pattern of `taxonomy/data/output.toml`."""
    table = packaged_table("output")
    patterns = dict(table["patterns"])
    for wordings in table["wordings"].values():
        patterns |= wordings
    return re.compile(patterns[name])


class _Wordings:
    """What a line outside the sections can say."""

    def __init__(self) -> None:
        table = packaged_table("output")["wordings"]
        self._sorts = {name: sort for sort, names in table.items() for name in names}
        self._before = _join_patterns(table["figures"] | table["errors"])
        # Most lines have none of these: to look for a literal is quicker.
        self._within = {
            name: literal_of(wording) for name, wording in table["within"].items()
        }
        self._after = _join_patterns(table["ends"])

    def find(self, text: str) -> tuple[str, str, re.Match[str]] | None:
        """Return sort, name and match of the first wording that fits a line."""
        joined = self._before.match(text)
        if joined is None:
            for name, literal in self._within.items():
                if literal in text and (match := pattern(name).search(text)):
                    return "within", name, match
            joined = self._after.match(text)
        if joined is None:
            return None
        # The groups of the pattern itself are numbered otherwise in the joined one.
        name = str(joined.lastgroup)
        match = pattern(name).match(text)
        assert match is not None  # noqa: S101 - it is a part of what fits
        return self._sorts[name], name, match


def _join_patterns(wordings: Mapping[str, str]) -> re.Pattern[str]:
    """Return one pattern for several, with a group for each."""
    groups = [f"(?P<{name}>{wording})" for name, wording in wordings.items()]
    return re.compile("|".join(groups))


@cache
def _wordings() -> _Wordings:
    return _Wordings()


class Block:
    """The lines of one failure, read one by one."""

    def __init__(self, title: str, line: OutputLine) -> None:
        self.line = line
        self.phase = "call"
        self.name = title
        if match := pattern("phase_title").match(title):
            self.phase = packaged_table("output")["phases"][match[1]]
            self.name = match[2]
        self.plain: list[str] = []
        """Lines that are of no traceback, such as `[XPASS(strict)] why`."""
        self._traceback = TracebackReader()
        self._plain_line: OutputLine | None = None
        self._captured = ""
        """What the section of captured output is called that is being read."""
        self.stderr: deque[str] = deque(maxlen=MAX_CAPTURED_LINES)
        """The last lines that pytest has captured of stderr."""
        self._room = MAX_MESSAGE_CHARACTERS

    def add(self, line: OutputLine) -> None:
        """Read the next line of the block."""
        text = line.text
        is_title = text.startswith("-") and text.endswith("-")
        if is_title and " Captured " in text:
            self._captured = text
            return
        if self._captured:  # the test's own output may look like anything
            if " stderr " in self._captured:
                self.stderr.append(text[:MAX_CAPTURED])
            return
        if self._traceback.feed(line) or text.startswith("[gw"):
            return
        self._room -= len(text)
        if len(self.plain) < MAX_MESSAGE_LINES and self._room >= 0:
            self.plain.append(text)
            self._plain_line = self._plain_line or line

    @property
    def chain(self) -> tuple[PrintedException, ...]:
        """What was raised, the exception itself first, or else pytest's words."""
        first, *others = self._traceback.chain
        if not first.message and self.plain:
            first = replace(first, message="\n".join(self.plain).strip())
        return (first, *others)

    @property
    def decisive(self) -> OutputLine:
        """The line to quote: the message's first, pytest's words, or else the title."""
        return self.chain[0].line or self._plain_line or self.marked or self.line

    @property
    def marked(self) -> OutputLine | None:
        """The line of source that failed, as far as pytest has marked one."""
        return self._traceback.marked

    @property
    def message(self) -> str:
        """The exception as pytest printed it, or else the words in its place."""
        return self.chain[0].message

    @property
    def is_telling(self) -> bool:
        """Whether it has an exception, a failed line or words that only pytest has."""
        first = self.chain[0]
        has_place = self.marked is not None or bool(first.located_type)
        return has_place or is_telling(first.message)

    @property
    def crash(self) -> tuple[str, str] | None:
        """Worker and node id, if a worker crashed."""
        for text in self.plain:
            if match := pattern("crashed").match(text):
                return match[1], match[2]
        return None


MAX_CAPTURED_LINES: Final = 10
MAX_CAPTURED: Final = 500
"""Characters of such a line that are stored."""
MAX_WORDS_AFTER: Final = 3
"""Lines of the message of an error outside of the sections, besides its first one."""
MAX_NOTED: Final = 1_000
"""The most that is noted of each sort; pytest's last line has the true counts."""

_STARTING: Final = "_pytest/config/__init__.py"
"""A file of pytest in the traceback of an error that keeps it from starting."""
_WITH_BLOCKS: Final = ("failures", "errors")


@value
class Noted:
    """One thing that a line said."""

    line: OutputLine
    text: str = ""
    subject: str = ""
    """What it is about: a node id, a worker or a file."""
    status: str = ""


def note(
    notes: list[Noted],
    line: OutputLine,
    text: str = "",
    *,
    subject: str = "",
    status: str = "",
) -> None:
    """Note what a line said, unless there are `MAX_NOTED` of its sort."""
    if len(notes) < MAX_NOTED:
        notes.append(Noted(line=line, text=text, subject=subject, status=status))


class LostWorkers:
    """The xdist workers that went down, and the tests that they were running.

    The sections name worker and test. Without sections, xdist prints the result of a
    worker's last test right after the line that says that the worker is down.
    """

    def __init__(self) -> None:
        self.nodes_down: list[Noted] = []
        """The subject is the worker, the text why it is down."""
        self.crashes: list[Noted] = []
        """The subject is the worker, the text the test that it was running."""
        self.unnamed: list[Noted] = []
        """The subject is a worker; of its last test only a letter is known."""
        self._last: str | None = None

    def feed_block(self, line: OutputLine) -> None:
        """Read a line of a failure's block."""
        if crash := pattern("crashed").match(line.text.rstrip()):
            note(self.crashes, line, crash[2], subject=crash[1])

    def feed_down(self, line: OutputLine, worker: str, why: str) -> None:
        """Note that a worker is down."""
        note(self.nodes_down, line, why, subject=worker)
        self._last = worker

    def feed_failure(
        self, line: OutputLine, *, worker: str | None = None, nodeid: str = ""
    ) -> None:
        """Note a failed test: after a worker went down, it may be that worker's last.

        Args:
            line: Where the result is.
            worker: The worker that ran the test, if the line says so.
            nodeid: The test, if the line says so.
        """
        last, self._last = self._last, None
        if last is None:
            return
        if nodeid and worker == last:
            note(self.crashes, line, nodeid, subject=last)
        elif not nodeid:
            note(self.unnamed, line, subject=last)

    def find_unnamed(self) -> list[str]:
        """Return the workers that went down with a test that is named nowhere."""
        named = {crash.subject for crash in self.crashes}
        return [noted.subject for noted in self.unnamed if noted.subject not in named]


def _is_red(tally: OutputLine) -> bool:
    return pattern("red_tally").search(tally.text) is not None


class PytestOutput:
    """What pytest printed in its last session."""

    def __init__(self) -> None:
        self.wants_all = False
        self.last_line: OutputLine | None = None
        """`1 failed, 2 passed in 0.1s`: the session came to its end."""
        self.time_limit_seconds: float | None = None
        self.job_exit_code: Noted | None = None
        self.earlier_red: PytestOutput | None = None
        """What an earlier session printed that ended in red."""
        self._begin()
        self.is_seen = False
        """Something was read that only pytest prints."""

    def _begin(self) -> None:
        """Forget an earlier session of the same log."""
        self.is_seen = True
        self.header: OutputLine | None = None
        self.last_line = None
        self.rootdir = ""
        self.plugins = ""
        """Names and versions of the plugins, as the header lists them."""
        self.collected: int | None = None
        self.collection_error_count = 0
        self.blocks: list[Block] = []
        self.results: list[Noted] = []
        self.has_summary = False
        self.verbose: list[Noted] = []
        self.letters: list[Noted] = []
        self.is_complete = False
        self.bangs: list[Noted] = []
        """What was printed between exclamation marks."""
        self.internal: list[list[OutputLine]] = []
        """The lines of each internal error."""
        self._internal_count = 0
        self.errors: list[Noted] = []
        self._has_plugin_error = False
        self.usage_details: list[Noted] = []
        self.conftest: Noted | None = None
        """The text is the path of the file."""
        self.conftest_traceback = TracebackReader()
        self._in_conftest = False
        self.lost = LostWorkers()
        self.too_many_warnings: Noted | None = None
        self.killed_by_plugin: Noted | None = None
        self.faulthandler: Noted | None = None
        self.fatal: Noted | None = None
        self.coverage = ""
        """What pytest-cov says of too little coverage, in the live run's words."""
        self.traceback: list[OutputLine] = []
        """The last traceback outside the sections."""
        self.raw_error: Noted | None = None
        """What that traceback says was raised, if it goes through pytest."""
        self.running: Noted | None = None
        self.mismatch_lines: list[OutputLine] = []
        """What xdist says of workers that collected different tests."""
        self._in_mismatch = False
        self.has_pieces = False
        """Lines were read that may be of a copied piece of pytest's output."""
        self._in_piece = False
        self._section = ""
        self._block: Block | None = None
        self._in_traceback = False
        self._words_left = 0
        """Lines that may go on with the message of that traceback."""
        self._is_of_pytest = False

    @property
    def ends_in_own_traceback(self) -> bool:
        """Whether the text ends within an uncaught traceback of pytest."""
        return self._in_traceback and self._is_of_pytest

    def feed(self, line: OutputLine) -> None:
        """Read the next line."""
        text = line.text
        if not text:
            return
        if text[0] in "=!" and self._feed_title(line):
            return
        if self._feed_mismatch(line):
            self.wants_all = True
            return
        if self._section in _WITH_BLOCKS:
            self._feed_block(line)
        elif text.startswith("INTERNALERROR>"):
            self._note_internal_error(line)
        elif self._begin_piece(line):
            return
        elif self._section == "summary" and (result := pattern("result").match(text)):
            self._note_result(line, *result.groups())
        elif self._in_traceback:
            self._feed_traceback(line)
        elif self._in_conftest and self.conftest_traceback.feed(line):
            pass
        else:
            self._in_conftest = False
            self._feed_words_of_error(line)
            self._feed_wording(line)
        self.wants_all = (
            self._section in _WITH_BLOCKS
            or self._in_traceback
            or self._in_conftest
            or self._words_left > 0
        )

    # Titles and sections.

    def _feed_title(self, line: OutputLine) -> bool:
        text = line.text
        if pattern("last_line").match(text):
            self._end(line)
            return True
        mark = text[0]
        title = text.strip("=!" if mark == "=" else "!").strip()
        if not title or not text.endswith(mark):
            return False
        if mark == "!":
            self.is_seen = self.is_seen or bool(pattern("banner").match(title))
            if self.is_seen:
                note(self.bangs, line, title)
                self._leave_section()
            return self.is_seen
        if title == "test session starts":
            if self._section not in _WITH_BLOCKS:
                self._begin_session(line)
            return True
        self._leave_section()
        self._section = packaged_table("output")["sections"].get(title, "other")
        if self._section != "other":
            self.is_seen = True
            self.bangs = []  # pytest prints its own after all sections
        if self._section == "summary":
            self.has_summary = True
            self.results = []  # an earlier summary was in the output of a test
        if self._section in _WITH_BLOCKS:
            self.wants_all = True
        return True

    def _feed_mismatch(self, line: OutputLine) -> bool:
        """Read how xdist's workers disagree about the tests, down to the next title."""
        if self._in_mismatch:
            if len(self.mismatch_lines) < MAX_NOTED:
                self.mismatch_lines.append(line)
        elif "Different tests" in line.text and pattern("mismatch").match(line.text):
            self.is_seen = True
            self.mismatch_lines = [line]
            self._in_mismatch = True
        return self._in_mismatch

    def _begin_piece(self, line: OutputLine) -> bool:
        """Read a line of a copied piece: only pytest prints it, but within a section.

        Return whether it was one.
        """
        if self.header or self.last_line or self.conftest or self._has_plugin_error:
            return False
        text = line.text.rstrip()
        if match := pattern("block_title").match(text):
            self._begin_block(match["title"], line)
        elif match := pattern("import_failed").match(text):
            self._begin_block(f"ERROR collecting {match['path']}", line)
        elif text == "import file mismatch:":
            self._begin_block("ERROR collecting ", line)
            self._feed_block(line)
        elif text.startswith("E   "):
            self._begin_block("", line)
            self._feed_block(line)
        elif match := pattern("loose_result").match(text):
            outcome, nodeid, message = match.groups()
            if "::" in nodeid or is_telling(message or ""):
                self.has_pieces = True
                self._note_result(line, outcome, nodeid, message)
        else:
            return False
        return True

    def _note_result(
        self, line: OutputLine, outcome: str, nodeid: str, message: str | None
    ) -> None:
        note(self.results, line, message or "", subject=nodeid, status=outcome)

    def take_pieces(self) -> None:
        """Take the pieces that were read for pytest's, if they say enough.

        A title alone can be anybody's, and so can a line that begins with an `E`.
        """
        if self.has_pieces:
            self.blocks = [block for block in self.blocks if block.is_telling]
            self.is_seen = bool(self.blocks or self.results)

    def _begin_block(self, title: str, line: OutputLine) -> None:
        self.has_pieces = True
        self._in_piece = True
        self._section = "failures"
        self.wants_all = True
        self._add_block(title, line)

    def _add_block(self, title: str, line: OutputLine) -> None:
        self._block = Block(title, line)
        if len(self.blocks) < MAX_NOTED:
            self.blocks.append(self._block)

    def _begin_session(self, line: OutputLine) -> None:
        earlier = copy(self)
        if earlier.last_line is not None and _is_red(earlier.last_line):
            self.earlier_red = earlier
        self._begin()
        self.header = line
        if earlier.header is None:
            # If stdout is a pipe, what goes to stderr may come before the header.
            self.errors = earlier.errors
            self.raw_error = earlier.raw_error
            self.traceback = earlier.traceback

    def _end(self, line: OutputLine) -> None:
        self._leave_section()
        self.is_seen = True
        if self.last_line is not None:  # of a quiet session before this one
            earlier = self.last_line
            self.bangs = [bang for bang in self.bangs if bang.line > earlier]
        self.last_line = line
        self._section = "ended"
        if not _is_red(line):
            # What looked like a failure was in the output of a test.
            self.blocks = []
            self.results = []

    def _leave_section(self) -> None:
        self._in_piece = False
        self._in_mismatch = False
        self._block = None
        self._section = ""
        self.wants_all = self._in_traceback

    def _feed_block(self, line: OutputLine) -> None:
        text = line.text.rstrip()
        if self._in_piece and pattern("last_line").match(text):
            self._end(line)
            return
        title = text.strip("_").strip()
        if title and text.startswith("_") and text.endswith("_"):
            if not title.replace("_", "").strip():
                if self._block is not None:  # a separator within one traceback
                    self._block.add(line)
                return
            self._add_block(title, line)
        elif self._block is not None:
            self._block.add(line)
            self.lost.feed_block(line)

    # Errors outside the sections.

    def _note_internal_error(self, line: OutputLine) -> None:
        self.is_seen = True
        if self._internal_count == MAX_NOTED:
            return
        self._internal_count += 1
        last = self.internal[-1] if self.internal else []
        if last and last[-1].number + 1 == line.number:
            last.append(line)
        else:
            self.internal.append([line])

    def _feed_traceback(self, line: OutputLine) -> None:
        """Read a line of a traceback outside the sections, down to what was raised."""
        text = line.text
        if len(self.traceback) < MAX_NOTED:
            self.traceback.append(line)
        if "_pytest" in text or "pluggy" in text:
            self._is_of_pytest = True
        if _STARTING in text:
            self.is_seen = True
        if text.startswith(
            (" ", "Traceback ", "During handling", "The above exception")
        ):
            return
        self._in_traceback = False
        self._words_left = MAX_WORDS_AFTER
        if self._is_of_pytest and pattern("raised").match(text):
            self.is_seen = True
            self.raw_error = Noted(line=line, text=text)
            if match := pattern("plugin_error").match(text):
                self._note_error("plugin_error", line, match)

    def _feed_words_of_error(self, line: OutputLine) -> None:
        """Read a further line of the message of an error that has ended pytest."""
        if self._words_left and self.raw_error is not None:
            goes_on = self.traceback[-1].number + 1 == line.number
            self._words_left = self._words_left - 1 if goes_on else 0
            if goes_on:
                self.traceback.append(line)

    def _feed_wording(self, line: OutputLine) -> None:
        wording = _wordings().find(line.text)
        if wording is None:
            self._feed_progress(line)
            return
        sort, name, match = wording
        if sort == "within":
            self._note_within(name, line, match)
        elif sort == "errors":
            self._note_error(name, line, match)
        else:
            self._note_figure(name, line, match)

    def _note_error(self, name: str, line: OutputLine, match: re.Match[str]) -> None:
        """Note an error of pytest's, or one that may be."""
        match name:
            case "usage_detail":
                note(self.usage_details, line, match[1])
            case "any_error":
                note(self.errors, line, match[1])
            case "usage":
                if "[file_or_dir]" in line.text:
                    self.is_seen = True
                words = line.text.removeprefix("ERROR: ").strip()
                if words.startswith("usage:"):
                    words = ""
                note(self.errors, line, words, status="usage")
            case "plugin_error":
                self.is_seen = True
                self._has_plugin_error = True
                note(self.errors, line, match[1], status="plugin")
            case "conftest":
                self.is_seen = True
                self.conftest = Noted(line=line, text=match[1])
                self.conftest_traceback = TracebackReader()
                self._in_conftest = True

    def _note_figure(self, name: str, line: OutputLine, match: re.Match[str]) -> None:
        """Note how many tests were collected, a time limit, or how something ended."""
        match name:
            case "last_line":
                self._end(line)
            case "collected":
                self.is_seen = True
                self.collected = int(match[1])
                errors = pattern("collected_errors").search(match[2])
                self.collection_error_count = int(errors[1]) if errors else 0
            case "rootdir":
                self.rootdir = match[1]
            case "plugins":
                self.plugins = match[1]
            case "coverage_failed":
                self.is_seen = True
                total, required = match["total"], float(match["required"])
                self.coverage = (
                    f"coverage {total} % is below the required {required:g} %"
                )
            case "collected_on_workers":
                self.collected = int(match[1])
            case "time_limit":
                self.time_limit_seconds = float(match[1])
            case "job_exit_code":
                code = next(filter(None, match.groups()))
                self.job_exit_code = Noted(line=line, text=code)
            case _ if self.last_line is None:  # a shell says of what it died
                self.fatal = self.fatal or Noted(line=line, text=match[1])

    def _note_within(self, name: str, line: OutputLine, match: re.Match[str]) -> None:
        """Note what may come after results on the same line."""
        if name == "too_many_warnings":
            self.too_many_warnings = Noted(line=line)
            return
        before = line._replace(text=line.text[: match.start()])
        match name:
            case "killed_by_plugin":
                self.killed_by_plugin = self.killed_by_plugin or Noted(line=line)
                if "++ Timeout ++" in line.text:
                    self.is_seen = True
                before = before._replace(text=before.text.rstrip("+ "))
            case "fatal":
                self.fatal = Noted(line=line, text=match[1])
            case "faulthandler_limit":
                hours, minutes, seconds = map(float, match.groups())
                limit_seconds = hours * 3_600 + minutes * 60 + seconds
                self.faulthandler = Noted(line=line, text=str(limit_seconds))
                if pattern("progress").fullmatch(before.text):
                    self.is_seen = True
            case "traceback":
                self._in_traceback = True
                self.traceback = [line]
                self._is_of_pytest = False
        # A failure on this line was there before the worker went down.
        self._feed_progress(before)
        if name == "node_down":
            self.lost.feed_down(line, match[1], match[2])

    # The results of tests as they come in.

    def _feed_progress(self, line: OutputLine) -> None:
        """Note the results on a line, and which test is running."""
        text = line.text.rstrip()
        # The pattern is slow, and few lines have a percentage.
        self.is_complete = "[100%]" in text and bool(pattern("complete").match(text))
        if "::" in text and (match := pattern("verbose").match(text)):
            nodeid = match["nodeid"]
            outcome = match["before"] or match["after"]
            self.running = None if outcome else Noted(line=line, subject=nodeid)
            if outcome in ("FAILED", "ERROR"):
                note(self.verbose, line, subject=nodeid, status=outcome)
                self.lost.feed_failure(line, worker=match["worker"], nodeid=nodeid)
            self._forget_bangs()
        elif match := pattern("progress").fullmatch(text):
            path, letters = match["path"] or "", match["letters"]
            if "%]" in text:
                self.is_seen = True
            self.running = Noted(line=line, subject=path)
            self._forget_bangs()
            if letters.startswith("F"):
                self.lost.feed_failure(line)
            if "F" in letters or "E" in letters:
                note(self.letters, line, letters, subject=path)

    def _forget_bangs(self) -> None:
        """Forget what a test printed: pytest's own bangs come after all tests."""
        if self.last_line is None:
            self.bangs = []

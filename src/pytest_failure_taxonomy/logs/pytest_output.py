"""Read pytest's own terminal output: what it says is noted, and nothing is decided."""

from __future__ import annotations

from pytest_failure_taxonomy.logs import patterns as p
from pytest_failure_taxonomy.logs.lost_workers import LostWorkers
from pytest_failure_taxonomy.logs.noted import MAX_NOTED, Noted, note, note_together
from pytest_failure_taxonomy.logs.reader import Line
from pytest_failure_taxonomy.logs.sections import Block


class PytestOutput:
    """Follow pytest's output line by line; it is pytest's once anything of it was seen."""

    def __init__(self) -> None:
        self.wants_all = False
        self.last_line: Line | None = None
        """`1 failed, 2 passed in 0.1s`: the session came to its end."""
        self.time_limit_seconds: float | None = None
        self.job_exit_code: Noted | None = None
        self._begin()
        self.is_seen = False

    def _begin(self) -> None:
        """Forget an earlier session of the same log."""
        self.is_seen = True
        self.header: Line | None = None
        self.last_line = None
        self.collected: int | None = None
        self.collection_error_count = 0
        self.blocks: list[Block] = []
        self.results: list[Noted] = []
        self.has_summary = False
        self.verbose: list[Noted] = []
        self.letters: list[Noted] = []
        self.is_complete = False
        self.bangs: list[Noted] = []
        self.internal: list[list[Line]] = []
        self.errors: list[Noted] = []
        self.usage_details: list[Noted] = []
        self.conftest: Noted | None = None
        self.lost = LostWorkers()
        self.too_many_warnings: Noted | None = None
        self.killed_by_plugin: Noted | None = None
        self.faulthandler: Noted | None = None
        self.fatal: Noted | None = None
        self.traceback: list[Line] = []
        self.raw_error: Noted | None = None
        self.is_of_pytest = False
        self.running: Noted | None = None
        self._section = ""
        self._block: Block | None = None
        self._in_traceback = False

    def _begin_session(self, line: Line) -> None:
        # What a pytest writes to stderr overtakes what it writes to a pipe.
        is_first = self.header is None
        errors, raw_error, traceback = self.errors, self.raw_error, self.traceback
        self._begin()
        self.header = line
        if is_first:
            self.errors, self.raw_error, self.traceback = errors, raw_error, traceback

    def feed(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        if not text:
            return
        if text[0] in "=!" and self._feed_title(line):
            return
        if self._section in ("failures", "errors"):
            self._feed_block(line)
        elif text.startswith("INTERNALERROR>"):
            self.is_seen = True
            note_together(self.internal, line)
        elif self._section == "summary" and (found := p.RESULT.match(text)):
            outcome, nodeid, message = found.groups()
            note(self.results, line, message or "", subject=nodeid, status=outcome)
        else:
            self._feed_other(line)
        self.wants_all = self._section in ("failures", "errors") or self._in_traceback

    def _feed_title(self, line: Line) -> bool:
        text = line.text
        if p.LAST_LINE.match(text):
            self._end(line)
            return True
        title = text.strip("=!" if text[0] == "=" else "!").strip()
        if not title or text[0] != text[-1]:
            return False
        if text[0] == "!":
            self.is_seen = self.is_seen or p.BANNER.match(title) is not None
            if self.is_seen:
                note(self.bangs, line, title)
                self._leave_section()
            return self.is_seen
        if title == p.SESSION_STARTS:
            if self._section not in ("failures", "errors"):
                self._begin_session(line)
            return True
        self._leave_section()
        self._section = {"FAILURES": "failures", "ERRORS": "errors", p.SUMMARY: "summary"}.get(
            title, "other"
        )
        if self._section != "other":
            self.bangs = []  # pytest's own come after all sections
        if self._section == "summary":
            self.is_seen = self.has_summary = True
            self.results = []  # an earlier one was in the output of a test
        elif self._section in ("failures", "errors"):
            self.is_seen = self.wants_all = True
        return True

    def _end(self, line: Line) -> None:
        self._leave_section()
        self.is_seen = True
        if self.last_line is not None:  # a quiet session came before
            self.bangs = [each for each in self.bangs if each.line > self.last_line]
        self.last_line = line
        self._section = "ended"

    def _leave_section(self) -> None:
        self._block, self._section, self.wants_all = None, "", self._in_traceback

    def _feed_block(self, line: Line) -> None:
        text = line.text.rstrip()
        if text.startswith("_") and text.endswith("_") and (title := text.strip("_").strip()):
            if not title.replace("_", "").strip():
                return  # between the entries of one traceback
            self._block = Block(title, line)
            if len(self.blocks) < MAX_NOTED:
                self.blocks.append(self._block)
        elif self._block is not None:
            self._block.add(line)
            self.lost.feed_block(line)

    def _feed_other(self, line: Line) -> None:
        text = line.text
        if self._in_traceback:
            self._feed_traceback(line)
            return
        if text.startswith(("collected ", "collecting ")) and (found := p.COLLECTED.match(text)):
            self.is_seen = True
            self.collected = int(found[1])
            errors = p.COLLECTED_ERRORS.search(found[2])
            self.collection_error_count = int(errors[1]) if errors else 0
        elif found := p.COLLECTED_ON_WORKERS.match(text):
            self.collected = int(found[1])
        elif p.LAST_LINE.match(text):
            self._end(line)
        elif found := p.CONFTEST.match(text):
            self.is_seen = True
            self.conftest = Noted(line=line, subject=found[1])
        elif self.conftest and text.startswith("E   "):
            self.conftest = Noted(line=line, text=text[4:], subject=self.conftest.subject)
        elif found := p.JOB_EXIT_CODE.match(text):
            self.job_exit_code = Noted(line=line, text=found[1] or found[2])
        elif not self._feed_error(line):
            self._feed_running(line)

    def _feed_error(self, line: Line) -> bool:
        """Note a usage or plugin error, of which some are pytest's for sure."""
        text = line.text
        if found := p.PLUGIN_ERROR.match(text):
            self.is_seen = True
            note(self.errors, line, found[1], status="plugin")
        elif p.USAGE.match(text):
            is_usage_line = text.startswith("ERROR: usage:")
            self.is_seen = self.is_seen or "[file_or_dir]" in text
            note(self.errors, line, "" if is_usage_line else text[7:], status="usage")
        elif found := p.ANY_ERROR.match(text):
            note(self.errors, line, found[1], status="any")
        elif found := p.USAGE_DETAIL.match(text):
            note(self.usage_details, line, found[1])
        else:
            return False
        return True

    def _feed_running(self, line: Line) -> None:
        """Note what comes between the results of tests, be it in the middle of a line."""
        text = line.text
        if "Traceback (most recent call last):" in text:
            self._in_traceback, self.traceback, self.is_of_pytest = True, [line], False
            self._feed_progress(Line(line.number, text.partition("Traceback ")[0]))
        elif p.KILLED_BY_PLUGIN in text:
            self.killed_by_plugin = self.killed_by_plugin or Noted(line=line)
            self.is_seen = self.is_seen or f"+{p.KILLED_BY_PLUGIN}+" in text
            self._feed_progress(Line(line.number, text.partition(" ++")[0].partition("+++")[0]))
        elif found := p.FATAL.search(text):
            self.fatal = Noted(line=line, text=found[1])
            self._feed_progress(Line(line.number, text[: found.start()]))
        elif found := p.FAULTHANDLER_LIMIT.search(text):
            hours, minutes, seconds = found.groups()
            limit = int(hours) * 3_600 + int(minutes) * 60 + float(seconds)
            self.faulthandler = Noted(line=line, text=str(limit))
            self.is_seen = self.is_seen or bool(p.PROGRESS.fullmatch(text[: found.start()]))
            self._feed_progress(Line(line.number, text[: found.start()]))
        elif found := p.NODE_DOWN.search(text):
            self._feed_progress(Line(line.number, text[: found.start()]))
            self.lost.feed_down(line, found[1], found[2])
        elif p.TOO_MANY_WARNINGS in text:
            self.too_many_warnings = Noted(line=line, text=text)
        elif found := p.TIME_LIMIT.match(text):
            self.time_limit_seconds = float(found[1])
        elif (found := p.OF_SHELL.match(text)) and self.last_line is None:
            self.fatal = self.fatal or Noted(line=line, text=found[1])
        else:
            self._feed_progress(line)

    def _feed_progress(self, line: Line) -> None:
        """Note the results of tests as they come in, and which test is running."""
        text = line.text.rstrip()
        self.is_complete = p.COMPLETE.match(text) is not None
        if found := p.VERBOSE.match(text):
            outcome = found["before"] or found["after"]
            noted = Noted(line=line, subject=found["nodeid"], status=outcome or "")
            self.running = noted if outcome is None else None
            if outcome in ("FAILED", "ERROR"):
                note(self.verbose, line, subject=noted.subject, status=noted.status)
                self.lost.feed_failure(line, worker=found["worker"], nodeid=noted.subject)
            self._forget_bangs()
        elif found := p.PROGRESS.fullmatch(text):
            self.is_seen = self.is_seen or "%]" in text
            self.running = Noted(line=line, subject=found["path"] or "")
            self._forget_bangs()
            if found["letters"][0] == "F":
                self.lost.feed_failure(line)
            if {"F", "E"} & set(found["letters"]):
                note(self.letters, line, found["letters"], subject=found["path"] or "")

    def _forget_bangs(self) -> None:
        """Forget what a test has printed: where pytest says why it stops, no test goes on."""
        if self.last_line is None:
            self.bangs = []

    def _feed_traceback(self, line: Line) -> None:
        """Follow a traceback that is no test's, down to the line that says what was raised."""
        text = line.text
        if len(self.traceback) < MAX_NOTED:
            self.traceback.append(line)
        if "_pytest" in text or "pluggy" in text:
            self.is_of_pytest = True
        if text.startswith((" ", "Traceback ", "During handling", "The above exception")):
            return
        self._in_traceback = False
        if self.is_of_pytest and p.RAISED.match(text):
            self.is_seen = True
            self.raw_error = Noted(line=line, text=text)
            if found := p.PLUGIN_ERROR.match(text):
                note(self.errors, line, found[1], status="plugin")

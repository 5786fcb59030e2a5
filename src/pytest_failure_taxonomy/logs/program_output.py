"""Read what any program prints: markers, failed tests, and the lines that say why.

`taxonomy/data/programs.toml` has the wordings of test runners, compilers, linters and
CI systems.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Final

from pytest_failure_taxonomy.logs.line_patterns import LinePattern
from pytest_failure_taxonomy.logs.output_readers import pattern
from pytest_failure_taxonomy.logs.tool_output import MAX_COLUMNS
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import OutputLine, SeenMarker
from pytest_failure_taxonomy.taxonomy.judgement import (
    MARKER_REASONS,
    FailureReason,
    marker_on_line,
    validate_marker,
)

MAX_TESTS: Final = 10_000
"""Names of tests that are kept of one command."""
MAX_NAME: Final = 300
"""Characters that are kept of a name."""
MAX_FIRST: Final = 6
"""Lines of each sort that are stored from the start of a command's output: what follows
is often a consequence."""
MAX_LAST: Final = 2
"""Lines of each sort that are stored from its end."""
MAX_OTHERS: Final = 4
"""Lines quoted of those that may tell nothing."""


@cache
def _pattern(name: str) -> LinePattern:
    """Return the patterns of a table, for the beginning of a line."""
    table = packaged_table("programs")
    rows = table[name]
    patterns: list[str] = []
    for row in [rows] if isinstance(rows, str) else rows:
        if isinstance(row, str):
            patterns.append(row)
        else:
            patterns += row["patterns"]
    # Blanks that were passed over are not tried again, or a line of them would take
    # quadratic time.
    return LinePattern(patterns, before=rf"(?>[ \t]*){table['before']}")


class _Lines:
    """Some lines from the start, and some from the end."""

    def __init__(self) -> None:
        self._first: list[OutputLine] = []
        self._last: deque[OutputLine] = deque(maxlen=MAX_LAST)

    def add(self, line: OutputLine) -> None:
        """Keep a line, if it is one of them."""
        if len(self._first) < MAX_FIRST:
            self._first.append(line)
        else:
            self._last.append(line)

    @property
    def all(self) -> list[OutputLine]:
        """The lines in their order."""
        return [*self._first, *self._last]


class _Command:
    """What one command printed."""

    def __init__(self) -> None:
        self.test_lines = _Lines()
        """What names a test that failed, and the line after it."""
        self.decisive = _Lines()
        """What a compiler or another program is known to say, and the line after it."""
        self.errors = _Lines()
        """Other lines with the word of an error."""
        self.warnings = _Lines()
        """Warnings of compilers and linters: they may count as errors."""
        self.echoes = _Lines()
        """Lines with such a word that only follow from another line."""
        self.says_something = False
        """One of these lines has the word of an error, or is known to tell of one."""
        self.tests: dict[str, None] = {}
        self.failed_count: int | None = None
        """How many tests failed, if a runner says so."""
        self.unnamed_count = 0
        """How many failed without a name."""
        self.end: OutputLine | None = None
        """Where a CI system says that it failed."""

    def add_test(self, name: str) -> None:
        """Add the name of a test that failed, an empty text if it has none."""
        if not name:
            self.unnamed_count += 1
        elif len(self.tests) < MAX_TESTS:
            self.tests[name.strip()[:MAX_NAME]] = None

    def count_failed(self, text: str) -> None:
        """Add the failed tests that a line counts, if it is the last of a runner."""
        if tally := _pattern("tallies").match(text):
            numbers = map(int, filter(None, tally.groups()))
            self.failed_count = sum(numbers, self.failed_count or 0)

    @property
    def weight(self) -> tuple[bool, bool]:
        """How much it says of why it failed, as a value to be compared."""
        return bool(self.reasons), self.says_something

    @property
    def reasons(self) -> list[OutputLine]:
        """The lines that name a test or are known to say why something failed."""
        return self.test_lines.all + self.decisive.all


class ProgramOutput:
    """The markers, the failed tests and the deciding lines of any program's output.

    If a CI system says which commands have failed, the first of them counts.
    """

    def __init__(self, known_markers: Iterable[str] = ()) -> None:
        self.wants_all = False
        self._known_markers = frozenset(known_markers)
        self._command = self._earlier = _Command()
        self._failed: _Command | None = None
        self._followed: _Lines | None = None
        """Where the next line is kept, as it goes on with the one before."""
        self._lines_left = 0
        """How many more lines go on with it."""
        self.marker: SeenMarker | None = None
        """The last marker."""
        self.marker_line: OutputLine | None = None

    def feed(self, line: OutputLine) -> None:
        """Read the next line."""
        text = line.text[:MAX_COLUMNS]
        marker = marker_on_line(line.text)
        if marker is not None:
            name = validate_marker(marker, self._known_markers)
            reason = MARKER_REASONS.get(name, FailureReason.UNKNOWN)
            self.marker = SeenMarker(name=name, reason=reason)
            self.marker_line = line
        elif _pattern("begins").match(text):
            self._begin()
        elif end := _pattern("ended").match(text):
            code = next(filter(None, end.groups()))
            if int(code) and self._failed is None:
                # The first group is of a whole job, whose failed command isn't named.
                self._failed = self._deciding if end[1] else self._command
                self._failed.end = line
            self._begin()
        else:
            self._feed_command(self._command, line, text)

    def _begin(self) -> None:
        self._earlier = self._weightier
        self._command = _Command()

    def _feed_command(self, command: _Command, line: OutputLine, text: str) -> None:
        command.count_failed(text)
        followed = self._take_followed()
        is_error = pattern("error_words").search(text) is not None
        sort = command.errors if is_error else None
        decisive = _pattern("decisive").match(text)
        match = decisive or _pattern("located").match(text)
        # The order matters: an echo names a test, too, and a harmless line an error.
        has_sort = bool(is_error or match or followed)
        if has_sort and _pattern("echoes").match(text):
            sort = command.echoes if is_error else None
        elif match is not None:
            is_error = is_error or decisive is not None
            sort = command.decisive
            if match.lastindex:  # a group is the name of a test
                sort = command.test_lines
                command.add_test(match[match.lastindex])
            self._follow(sort, 1)
        elif _pattern("warned").match(text):
            sort = command.warnings
            is_error = False
        elif has_sort and _pattern("harmless").match(text):
            sort = None
        elif followed is not None:
            sort = followed
        if _pattern("opens").match(text):  # what is wrong is on the next lines
            sort = sort or command.decisive
            self._follow(sort, int(packaged_table("programs")["opened_lines"]))
        if sort is not None:
            sort.add(line)
            command.says_something = command.says_something or is_error

    def _follow(self, lines: _Lines, count: int) -> None:
        """Add the next lines, too: they go on with this one."""
        self._followed = lines
        self._lines_left = count
        self.wants_all = True

    def _take_followed(self) -> _Lines | None:
        """Return where this line belongs if it goes on with the one before."""
        followed = self._followed if self._lines_left else None
        self._lines_left = max(0, self._lines_left - 1)
        self.wants_all = self._lines_left > 0
        return followed

    @property
    def _weightier(self) -> _Command:
        # The first of several is the biggest: of two alike the later command decides.
        return max(self._command, self._earlier, key=attrgetter("weight"))

    @property
    def _deciding(self) -> _Command:
        return self._failed or self._weightier

    @property
    def has_failed_command(self) -> bool:
        """Tell whether a CI system says that a command or the job has failed."""
        return self._failed is not None

    def decides_after(self, line: OutputLine) -> bool:
        """Tell whether a later line names a test, or is known to be an error."""
        return any(later.number > line.number for later in self._deciding.reasons)

    @property
    def says_something(self) -> bool:
        """Tell whether there is a line that may say why something failed."""
        return self._failed is not None or self._deciding.says_something

    @property
    def failed_tests(self) -> tuple[int, tuple[str, ...]]:
        """How many tests failed, as far as the runners say so, and their names."""
        command = self._deciding
        if command.failed_count == 0:  # what failed at first has passed in the end
            return 0, ()
        count = command.failed_count or len(command.tests) + command.unnamed_count
        return count, tuple(command.tests)

    def lines(self, last: Sequence[OutputLine]) -> list[OutputLine]:
        """Return the lines that may say why the command failed, the most telling first.

        Args:
            last: the last that it printed.
        """
        command = self._deciding
        lines = command.reasons or command.warnings.all
        lines += command.errors.all[-MAX_OTHERS:]
        lines += _find_last_lines(last, MAX_OTHERS if command.end else MAX_LAST)
        if not lines:
            lines = command.echoes.all[-MAX_OTHERS:]
        if command.end is not None:
            lines.append(command.end)
        return list(dict.fromkeys(lines))


def _find_last_lines(last: Sequence[OutputLine], count: int) -> list[OutputLine]:
    """Return the last lines of the last command that may say something, backwards."""
    lines: list[OutputLine] = []
    for line in reversed(last):
        if len(lines) == count or _pattern("begins").match(line.text):
            break
        text = line.text[:MAX_COLUMNS]
        is_weak = _pattern("echoes").match(text) or _pattern("harmless").match(text)
        if not is_weak:
            lines.append(line)
    return lines

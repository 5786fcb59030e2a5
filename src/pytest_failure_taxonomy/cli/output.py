"""Write answers to stdout as text, JSON or tables, and all else to stderr.

A stream that is closed, full or read by nobody does not change a command's exit code.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from string import Formatter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from pytest_failure_taxonomy.errors import ReportError, SettingsError
from pytest_failure_taxonomy.system.interpreter import drop_unwritten, write_words
from pytest_failure_taxonomy.text import (
    AS_REPORTED,
    ShownPaths,
    safe_lines,
    safe_text,
)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.faces.terminal import Line
    from pytest_failure_taxonomy.report.model import FailureReport

STDOUT: Final = "-"
"""The value of `--output` for stdout."""
MAX_LINE: Final = 2_000
MAX_CELL: Final = 100
"""Characters of a cell."""
_BEGINS_A_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_STYLES: Final = {"red": "31", "green": "32", "yellow": "33"}
_WIDTH: Final = 80
_NOBODY_READS: Final = frozenset({errno.EPIPE, errno.EBADF})
"""The user closed stdout, or the program that reads it: nothing to report."""


def answer(text: str) -> None:
    """Write an answer to stdout; if that fails, say so on stderr.

    What is in it reaches a terminal or a CI job's log as text, never as a command.
    """
    _answer_as_is(safe_lines(text))


def answer_json(value: Any) -> None:
    """Write an answer as JSON."""
    answer(json.dumps(value, indent=2) + "\n")


def answer_lines(lines: Iterable[Line]) -> None:
    """Write lines to stdout, with colours where it shows them."""
    _answer_as_is("".join(f"{line}\n" for line in styled(lines, sys.stdout)))


def _answer_as_is(text: str) -> None:
    error = write_words(sys.stdout, text)
    if error is not None and error.errno not in _NOBODY_READS:
        tell(
            f"stdout: the answer can't be written: {error.strerror}; redirect it elsewhere"
        )


def tell(message: str) -> None:
    """Write a message to stderr, after the command's name."""
    tell_plainly(f"failure-taxonomy: {message}")


def tell_plainly(text: str) -> None:
    """Write lines to stderr."""
    write_words(sys.stderr, f"{safe_lines(text)}\n")


def annotate(command: str) -> None:
    """Write a command for the CI system, in which all that is foreign is escaped.

    TeamCity promises to read those on stdout alone, where a dead pytest may have left
    half of a line.
    """
    if command.startswith("##teamcity["):
        write_words(sys.stdout, f"\n{command}\n")
    else:
        write_words(sys.stderr, f"{command}\n")


def print_verdict(
    report: FailureReport,
    path: Path,
    *,
    problem: str | None = None,
    is_of_pytest: bool = False,
) -> None:
    """Print a report's verdict to stderr, so that stdout has only the output of the command.

    Args:
        report: Of the run.
        path: The report's path.
        problem: In words, why there is no report at that path.
        is_of_pytest: The command was a pytest. Its own closing lines are on stdout, and so are
            those that complete or correct them.
    """
    from pytest_failure_taxonomy.faces.terminal import verdict_lines

    stream = sys.stdout if is_of_pytest else sys.stderr

    paths = paths_from_here(report)
    lines = verdict_lines(report, str(path), paths=paths, problem=problem)
    # A run that was cut short may have left an unfinished line.
    write_words(stream, "\n".join(["", *styled(lines, stream), ""]))


def styled(lines: Iterable[Line], stream: TextIO | None) -> Iterator[str]:
    """Yield lines as they are to be written, with colours where the stream shows them.

    Args:
        lines: what to write.
        stream: where it is to be written; `None` if that is closed.
    """
    is_terminal = (
        stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    )
    wants_colors = os.environ.get("FORCE_COLOR") or is_terminal
    colored = wants_colors and not os.environ.get("NO_COLOR")
    if is_terminal:
        width = get_terminal_size().columns
        lines = [part for line in lines for part in line.wrapped(width)]
    for line in lines:
        text = safe_lines(line.text)
        text = f" {text} ".center(_WIDTH, "=") if line.is_title else text
        color = [] if line.color is None else [_STYLES[line.color]]
        style = ";".join([*(["1"] if line.bold else []), *color])
        tail = f"{line.gap(_WIDTH)}{safe_lines(line.tail)}"
        if colored:
            text = f"\x1b[{style}m{text}\x1b[0m" if style else text
            tail = f"\x1b[2m{tail}\x1b[0m" if tail else ""
        yield text + tail


def answer_report(report: FailureReport, output: str) -> None:
    """Write a report to the file that `-o` names, or to stdout, and print its verdict.

    Raises:
        ReportError: The file can't be written.
    """
    if output == STDOUT:
        from pytest_failure_taxonomy.report.load import as_json

        answer_json(as_json(report))
    else:
        from pytest_failure_taxonomy.report.write import (
            refuse_special_file,
            write_report,
        )

        path = Path(output).absolute()
        with writing_to(path):
            refuse_special_file(path, what="")
            write_report(path, report)
    print_verdict(report, Path("(on stdout)" if output == STDOUT else output))


def write_answer(output: str, text: str, *, is_safe: bool = False) -> None:
    """Write an answer to the file that `-o` names, or to stdout for `STDOUT`.

    Args:
        output: where to.
        text: the answer.
        is_safe: whether it has commands for a CI system on purpose, and all else in it is escaped.

    Raises:
        ReportError: The file can't be written.
    """
    if output == STDOUT:
        (_answer_as_is if is_safe else answer)(
            text if text.endswith("\n") else f"{text}\n"
        )
        return
    from pytest_failure_taxonomy.report.write import replace_file

    path = Path(output).absolute()
    with writing_to(path):
        replace_file(path, text)


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Word what goes wrong while a file is written that `-o` names.

    Raises:
        ReportError: it can't be written.
    """
    try:
        yield
    except SettingsError as error:
        raise ReportError(f"-o: {error}") from None
    except OSError as error:
        raise ReportError(
            f"-o: {path} can't be written: {error.strerror}; give a path in a folder that can be"
        ) from error


def let_go_of_streams() -> None:
    """Drop what can't be written, for example by argparse: Python would change the exit code."""
    drop_unwritten(sys.stdout)
    drop_unwritten(sys.stderr)


def paths_from_here(report: FailureReport) -> ShownPaths:
    """Show paths relative to the working directory, unless the report is of another machine."""
    rootdir = report.run.invocation.rootdir
    try:
        if os.path.isdir(rootdir):
            return ShownPaths(rootdir, os.getcwd())
    except OSError:
        pass  # the working directory is gone
    return AS_REPORTED


# Tables.


class Column(NamedTuple):
    """One column of a table: its heading, and the cell's words for a row."""

    heading: str
    words: Callable[[Any], str]
    is_number: bool = False
    only_tells_apart: bool = False

    def is_of_use(self, rows: Iterable[Any]) -> bool:
        """Tell whether a table of these rows has the column."""
        return not self.only_tells_apart or len({self.words(row) for row in rows}) > 1


class _Cells(Formatter):
    """Formats the cells of a table; `None` is nothing."""

    def __init__(self, words: Mapping[str, Callable[[Any], str]]) -> None:
        self._words = words

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value by a format of Python's, or by one of the table's own."""
        if words := self._words.get(format_spec):
            return words(value)
        if isinstance(
            value, bytes
        ):  # Python would show them as it writes them in source code
            raise TypeError("bytes in the place of a text")
        return "" if value is None else str(format(value, format_spec))


def columns_of(
    cells: Mapping[str, str],
    words: Mapping[str, Callable[[Any], str]],
    names: Mapping[str, object] = MappingProxyType({}),
) -> list[Column]:
    """Return the columns of a table that a file of data describes.

    Args:
        cells: The form of the cells below each heading, in which `0` is the row. A heading that
            begins with `>` has its cells aligned to the right; one that begins with `?` only tells
            rows apart.
        words: Formats beside those of Python, by name.
        names: What stands for names in braces in headings.
    """
    form = _Cells(words).format
    return [
        Column(
            heading.lstrip(">?").format_map(names),
            partial(form, cell),
            heading.startswith(">"),
            heading.startswith("?"),
        )
        for heading, cell in cells.items()
    ]


def table_lines(columns: Sequence[Column], rows: Iterable[Any]) -> Iterable[Line]:
    """Yield the lines of a table, the headings first."""
    from pytest_failure_taxonomy.faces.terminal import Line

    cells = [[each.heading for each in columns]]
    cells += [
        [safe_text(each.words(row), MAX_CELL) for each in columns] for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, column, width in zip(row, columns, widths, strict=True)
        )
        yield Line(text="  ".join(padded).rstrip(), bold=row is cells[0])


def markdown_table(columns: Sequence[Column], rows: Iterable[Any]) -> str:
    """Return rows as a table in Markdown."""
    from pytest_failure_taxonomy.report.markup import as_table

    return as_table(
        [each.heading for each in columns],
        (
            [safe_text(str(each.words(row)), MAX_CELL) for each in columns]
            for row in rows
        ),
        ["--:" if each.is_number else "---" for each in columns],
    )


def csv_text(rows: Sequence[dict[str, object]], *, is_quoted: bool = False) -> str:
    """Return rows as CSV, with the names of the first one's fields as its head.

    Args:
        rows: They have the same fields. Lists and mappings become JSON.
        is_quoted: Whether to put every text in quotes, so that it may hold any line ends.
    """
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(
            out,
            fieldnames=list(rows[0]),
            lineterminator="\n",
            quoting=csv.QUOTE_NONNUMERIC if is_quoted else csv.QUOTE_MINIMAL,
        )
        writer.writeheader()
        writer.writerows(
            {name: csv_cell(each) for name, each in row.items()} for row in rows
        )
    return out.getvalue()


def csv_cell(each: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    if isinstance(each, dict | list):
        return json.dumps(each)
    is_formula = isinstance(each, str) and each[:1] in _BEGINS_A_FORMULA
    return f"'{each}" if is_formula else each

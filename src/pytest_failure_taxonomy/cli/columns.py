"""Rows as a table for a terminal, and as CSV that a spreadsheet can open safely."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.report.lines import Line
from pytest_failure_taxonomy.report.text import safe_text

MAX_CELL: Final = 100
"""Characters of a cell."""
_BEGINS_A_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class Column(NamedTuple):
    """One column of a table: its heading, and the cell's words for a row."""

    heading: str
    words: Callable[[Any], str]
    is_number: bool = False


def table_lines(columns: Sequence[Column], rows: Iterable[Any]) -> Iterable[Line]:
    """Yield the lines of a table, the headings first."""
    cells = [[safe_text(each.words(row), MAX_CELL) for each in columns] for row in rows]
    heads = [each.heading for each in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    yield Line(text=_row(heads, columns, widths), bold=True)
    for row in cells:
        yield Line(text=_row(row, columns, widths))


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = (
        cell.rjust(width) if column.is_number else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


def csv_text(rows: Sequence[dict[str, Any]], *, is_quoted: bool = False) -> str:
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
        writer.writerows({name: csv_cell(each) for name, each in row.items()} for row in rows)
    return out.getvalue()


def csv_cell(each: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    if isinstance(each, dict | list):
        return json.dumps(each)
    is_formula = isinstance(each, str) and each[:1] in _BEGINS_A_FORMULA
    return f"'{each}" if is_formula else each

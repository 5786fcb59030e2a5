"""`failure-taxonomy bench export`: a kept run as CSV or JSON, one row for each case and call."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.cli.bench_runs import add_run, load_run
from pytest_failure_taxonomy.cli.columns import csv_text
from pytest_failure_taxonomy.cli.options import add_output
from pytest_failure_taxonomy.cli.output import write_answer
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.report.text import encodable

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers

_FORMATS: Final = ("csv", "json")
_AS_JSON: Final = ("tags", "usage", "breakdown", "failure_modes", "transcript", "truncated")
"""Columns of CSV that hold JSON, beside `output`."""


def add_parser(commands: Parsers) -> None:
    """Add the command to those of `bench`."""
    parser = commands.add_parser(
        "export",
        help="write a run as CSV or JSON, one row for each case and call",
        description="Write a kept run for a notebook or a spreadsheet: one row for each case and "
        "call of its system. Exit code: 0, or 2 if there is no such run or it can't be written.",
        allow_abbrev=False,
    )
    add_run(parser)
    parser.add_argument("--to", choices=_FORMATS, required=True, help="the format to write")
    add_output(parser, "it")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Write the run."""
    from pytest_failure_taxonomy.bench.runs.shown import rows_of

    run = load_run(options)
    rows = rows_of(run)
    if not rows:
        raise BenchError(f"{run.path}: the run has no cases; name one that has")
    if options.to == "json":
        from pytest_failure_taxonomy.bench.runs.shown import json_text

        text = json_text(rows) + "\n"
    else:
        text = csv_text([_as_cells(row) for row in rows], is_quoted=True)
    text = encodable(text)
    write_answer(options.output, text)
    return 0


def _as_cells(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as CSV holds it: nested values as JSON, and what is missing as nothing."""
    cells = {
        name: str(each).lower() if isinstance(each, bool) else each for name, each in row.items()
    }
    cells |= {name: json.dumps(row[name]) for name in _AS_JSON}
    output = row["output"]
    # As a text, -5 would be taken for a formula.
    is_number = isinstance(output, int | float) and not isinstance(output, bool)
    cells["output"] = None
    if row["has_output"]:
        cells["output"] = output if is_number else json.dumps(output)
    if row["transcript"] is None:
        cells["transcript"] = None
    return cells

"""`failure-taxonomy schema`: print the JSON Schema of reports."""

from __future__ import annotations

import argparse
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.cli.output import answer

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers

VERSIONS: Final = ("1.0", "1.1", "1.2")


def add_parser(commands: Parsers) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "schema",
        help="print the JSON Schema of reports",
        description="Print the JSON Schema (draft 2020-12) that every report follows. Exit code: "
        "0.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        choices=VERSIONS,
        default=VERSIONS[-1],
        help="of the schema; default: %(default)s, which this version writes",
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print the schema, byte for byte as it is packaged."""
    folder = files("pytest_failure_taxonomy.report")
    answer(folder.joinpath(f"failure-report-{options.version}.schema.json").read_text("utf-8"))
    return 0

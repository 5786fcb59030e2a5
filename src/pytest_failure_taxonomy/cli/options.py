"""Options that several commands have."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.options import DEFAULT_REPORT
from pytest_failure_taxonomy.taxonomy.reasons import Stage

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Parsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001


def add_stage(parser: argparse.ArgumentParser, meaning: str, *, default: Stage | None) -> None:
    """Add `--stage`.

    Args:
        parser: The command's parser.
        meaning: What the stage is of, for the help.
        default: The stage if none is given.
    """
    shown_default = "" if default is None else "; default: %(default)s"
    parser.add_argument(
        "--stage",
        choices=[stage.value for stage in Stage],
        default=default and default.value,
        metavar="STAGE",
        help=f"{meaning}: %(choices)s{shown_default}",
    )


STDOUT: Final = "-"
"""The value of `--output` for stdout."""


def add_output(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--output`, a path or `STDOUT`.

    Args:
        parser: The command's parser.
        what: What is written there, for the help.
    """
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        default=STDOUT,
        help=f"where to write {what}; default: -, stdout",
    )


def add_report(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the report as an argument that may be left out.

    Args:
        parser: The command's parser.
        more: What else can be given, for the help.
    """
    parser.add_argument(
        "report",
        metavar="REPORT",
        nargs="?",
        default=DEFAULT_REPORT,
        help=f"the report{more}; default: %(default)s",
    )


def add_exit_code(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Add `--exit-code`, an integer that the command has to check.

    Args:
        parser: The command's parser.
        meaning: What the exit code is of, for the help.
    """
    parser.add_argument("--exit-code", type=int, metavar="N", help=meaning)

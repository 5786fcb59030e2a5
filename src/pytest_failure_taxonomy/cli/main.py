"""The entry point: parse, run a command, and turn a user's mistake into a line and exit code 2."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from pytest_failure_taxonomy._version import VERSION
from pytest_failure_taxonomy.cli import (
    bench,
    classify,
    convert,
    finalize,
    history,
    merge,
    recover,
    run,
    schema,
    show,
    validate,
)
from pytest_failure_taxonomy.cli.output import let_go_of_streams, tell
from pytest_failure_taxonomy.errors import FailureTaxonomyError

_EXIT_USAGE = 2
_COMMANDS = (
    run,
    finalize,
    merge,
    show,
    convert,
    history,
    recover,
    classify,
    validate,
    schema,
    bench,
)
"""In the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="failure-taxonomy",
        description="Say why a test run failed: one typed reason with its evidence.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    try:
        options = parser.parse_args(arguments)
        return int(options.execute(options))
    except FailureTaxonomyError as error:
        tell(str(error))
        return _EXIT_USAGE
    except FileNotFoundError:
        if _has_working_directory():
            raise
        tell("the working directory doesn't exist any more; change to one that does")
        return _EXIT_USAGE
    finally:
        let_go_of_streams()


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True

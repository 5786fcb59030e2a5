"""The entry point: parse, run a command, and turn a user's mistake into a line and exit code 2."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module

from pytest_failure_taxonomy.cli.arguments import command_line
from pytest_failure_taxonomy.cli.output import let_go_of_streams, tell, tell_plainly
from pytest_failure_taxonomy.errors import FailureTaxonomyError

_EXIT_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        options = command_line().parse_args(arguments)
        if options.runs is None:
            tell_plainly(options.about().rstrip())
            return _EXIT_USAGE
        module, _, function = options.runs.partition(".")
        run = getattr(import_module(f"pytest_failure_taxonomy.cli.{module}"), function)
        return int(run(options))
    except FailureTaxonomyError as error:
        tell(str(error))
        return _EXIT_USAGE
    except FileNotFoundError:
        try:
            os.getcwd()
        except OSError:
            tell("the working directory doesn't exist any more; change to one that does")
            return _EXIT_USAGE
        raise
    finally:
        let_go_of_streams()

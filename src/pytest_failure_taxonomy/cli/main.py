"""The entry point: parse, run a command, and turn a user's mistake into a line and exit code 2."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

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

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers

_EXIT_USAGE = 2
_COMMANDS = (run, show, merge, convert, history)
_OTHERS = (finalize, classify, recover, validate, bench, schema)
"""In the order of the help."""


class _Listed:
    """Stands in for argparse's commands, and keeps their help for a list of their own."""

    def __init__(self, commands: Parsers) -> None:
        self._commands = commands
        self.lines = ["for harnesses and benches:"]

    def add_parser(self, name: str, *, help: str, **given: Any) -> argparse.ArgumentParser:  # noqa: A002 - argparse's own name
        """Add a command that argparse itself does not list, because it has no help."""
        self.lines.append(f"    {name:<10}{help}")
        return self._commands.add_parser(name, **given)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="failure-taxonomy",
        description="Say why a test run failed, and what is to be mended.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    others = _Listed(commands)
    for command in _OTHERS:
        command.add_parser(cast("Parsers", others))
    parser.epilog = "\n".join(others.lines)
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

"""The command `failure-taxonomy bench`: creates task classes, and reads the runs that are kept."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_failure_taxonomy.cli import bench_compare, bench_export, bench_regrade, bench_runs
from pytest_failure_taxonomy.cli.output import answer, tell_plainly

if TYPE_CHECKING:
    from pytest_failure_taxonomy.cli.options import Parsers


def add_parser(commands: Parsers) -> None:
    """Add the command and its subcommands to the command line."""
    parser = commands.add_parser(
        "bench",
        help="begin a task class, and look into kept runs",
        description="Work with task classes, which are folders of cases with a rubric, and with "
        "the runs that pytest has kept of them.",
        allow_abbrev=False,
    )

    def show_help(_: argparse.Namespace) -> int:
        tell_plainly(parser.format_help().rstrip())
        return 2

    parser.set_defaults(execute=show_help)
    own = parser.add_subparsers(title="commands", metavar="COMMAND")
    init = own.add_parser(
        "init",
        help="write a small task class that works",
        description="Write a small task class that works into a new folder, to be changed. "
        "Exit code: 0 when it is written, 2 when it can't be.",
        allow_abbrev=False,
    )
    init.add_argument("folder", metavar="bench/NAME", type=Path)
    init.set_defaults(execute=execute_init)
    bench_compare.add_parser(own)
    bench_runs.add_parsers(own)
    bench_regrade.add_parsers(own)
    bench_export.add_parser(own)


def execute_init(options: argparse.Namespace) -> int:
    """Write a task class and print what to do next."""
    from pytest_failure_taxonomy.bench.load.folder import write_starter

    folder: Path = options.folder
    write_starter(folder)
    name = os.fspath(folder)
    answer(
        f"{name} is ready: a system that finds e-mail addresses, three cases, and their rubric\n"
        f"run it:    pytest {shlex.quote(name)}\n"
        f"in CI:     failure-taxonomy run -- pytest {shlex.quote(name)}\n"
        f"check it:  failure-taxonomy validate {shlex.quote(name)}\n"
        f"change it: conftest.py calls your system, cases/ and rubric.py say what is right\n"
    )
    return 0

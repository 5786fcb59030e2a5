"""Compare what this plugin and its peers cost, in CPU time and memory."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from .bench_absent import measure_absent
from .bench_items import measure_items, measure_waits
from .bench_journal import measure_journal
from .bench_rubric import measure_rubric
from .bench_runner import measure_runner
from .instructions import measure_instructions
from .measures import MEASURES, Bench
from .runs import BrokenRunError, adopt_orphans
from .table import render_table
from .variants import AGAIN, FLOOR, OURS, PEERS, PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .measures import Column, Table
    from .variants import Variant

QUICK_ROUNDS, QUICK_TESTS = 1, 200
SMALLEST_TESTS = 100

BENCH_MEASURES: dict[str, Callable[[Bench], list[Table]]] = {
    "bench-runner": measure_runner,
    "bench-rubric": measure_rubric,
    "bench-items": measure_items,
    "bench-waits": measure_waits,
    "bench-journal": measure_journal,
    "bench-absent": measure_absent,
}
"""Those of the bench layer, each with tables of its own."""
ON_REQUEST: dict[str, Callable[[Bench], list[Table]]] = {
    "instructions": measure_instructions
}
"""What takes long and needs more than Python."""


def main() -> int:
    """Run the benchmark.

    Returns:
        0 when everything was measured, whatever the figures; 1 when a run broke.
    """
    options = _parse_arguments()
    reporters = [each for each in (*PEERS, OURS) if each.name not in options.without]
    present = tuple(each for each in reporters if each.is_installed)
    started = time.monotonic()
    try:
        if OURS in reporters and OURS not in present:
            raise BrokenRunError(
                f"{OURS.name} is not installed here; `pip install -e .` does it"
            )
        columns, tables = _measure(options, present)
    except BrokenRunError as error:
        sys.stderr.write(f"benchmark: {error}\n")
        return 1
    settings = f"{options.rounds} rounds, {options.tests} tests"
    text = f"{_describe_surroundings(present)}\n{settings}, {time.monotonic() - started:.0f} s\n"
    if columns:
        names = [each.name for each in (PLAIN, AGAIN, FLOOR, *present)]
        missing = [each.name for each in reporters if each not in present]
        text += f"\n{render_table(columns, names)}{_say_skipped(missing)}"
    for table in tables:
        text += f"\n{table.title}\n\n{render_table(table.columns, table.rows)}"
        text += _say_skipped(table.skipped)
    sys.stdout.write(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    return 0


def _say_skipped(names: Sequence[str]) -> str:
    """Say what is missing from a table."""
    return "".join(f"\nSkipped: {name} is not installed.\n" for name in names)


def _measure(
    options: argparse.Namespace, reporters: tuple[Variant, ...]
) -> tuple[list[Column], list[Table]]:
    """Measure what was asked for, in the order of the table's columns and of the tables."""
    adopt_orphans()
    with tempfile.TemporaryDirectory() as workplace:
        bench = Bench(
            reporters=reporters,
            rounds=options.rounds,
            tests=options.tests,
            workplace=Path(workplace).resolve(),
        )
        chosen = options.only or (*MEASURES, *BENCH_MEASURES)
        columns = [MEASURES[name](bench) for name in MEASURES if name in chosen]
        with_tables = BENCH_MEASURES | ON_REQUEST
        tables = [with_tables[name](bench) for name in with_tables if name in chosen]
        return [each for many in columns for each in many], [
            each for many in tables for each in many
        ]


def _parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=__doc__
    )
    add = parser.add_argument
    add("--rounds", type=_at_least(1), default=10, help="runs of every variant (10)")
    add(
        "--tests",
        type=_at_least(SMALLEST_TESTS),
        default=2000,
        help="size of the suite (2000)",
    )
    add(
        "--only",
        choices=[*MEASURES, *BENCH_MEASURES, *ON_REQUEST],
        action="append",
        help="measure just this (repeatable)",
    )
    add(
        "--without",
        choices=[each.name for each in (*PEERS, OURS)],
        action="append",
        default=[],
        help="leave a reporter out (repeatable)",
    )
    add(
        "--quick",
        action="store_true",
        help=f"{QUICK_ROUNDS} round of {QUICK_TESTS} tests",
    )
    add(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the table to a Markdown file, too",
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.tests = QUICK_ROUNDS, QUICK_TESTS
    return options


def _at_least(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers that refuses those below `least`."""

    def read(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{number}: must be {least} or more")
        return number

    return read


def _describe_surroundings(present: Sequence[Variant]) -> str:
    """Name the machine, its load, Python and the versions of what was measured."""
    versions = []
    for name in ("pytest", "pluggy", *(each.name for each in present)):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue  # junitxml is part of pytest
    return (
        f"{platform.python_implementation()} {platform.python_version()},"
        f" {platform.system()} {platform.release()} {platform.machine()},"
        f" {os.cpu_count()} CPUs with a load of {os.getloadavg()[0]:.1f}\n{', '.join(versions)}"
    )


sys.exit(main())

"""`bench-runner`: what a runner of cases costs itself, beside others that do the same."""

from __future__ import annotations

import sys
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from .measures import Column, Table
from .processes import cpu, slope_of, spend, take_turns, wall
from .runner_program import AT_A_TIME, RUNNERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .measures import Bench
    from .processes import Spent

PROGRAM = Path(__file__).with_name("runner_program.py")
NAMES = {
    "asyncio": "asyncio, a semaphore and a gather",
    "pytest-failure-taxonomy": "pytest-failure-taxonomy, Runner.execute",
    "pydantic-evals": "pydantic-evals, Dataset.evaluate",
    "inspect-ai": "inspect-ai, eval",
}


KINDS = ("async", "plain")
ASYNC_ONLY = ("inspect-ai",)


def measure_runner(bench: Bench) -> list[Table]:
    """Measure the time of one more case, in µs, whose system and rubric return at once."""
    small, large = sizes = (bench.tests // 4, bench.tests * 5 // 2)
    runners = [name for name in RUNNERS if _is_installed(name)]
    chosen = [
        (name, kind)
        for name in runners
        for kind in KINDS
        if kind == "async" or name not in ASYNC_ONLY
    ]
    spent = take_turns(
        {
            (name, kind, size): partial(
                spend,
                [sys.executable, "-P", str(PROGRAM), name, str(size), kind],
                bench.workplace,
            )
            for name, kind in chosen
            for size in sizes
        },
        bench.rounds,
    )

    def column(heading: str, wanted: str, cost: Callable[[Spent], float]) -> Column:
        figures = {
            NAMES[name]: slope_of(
                spent[name, kind, small],
                spent[name, kind, large],
                (large - small) / 1e6,
                cost,
            )
            for name, kind in chosen
            if kind == wanted
        }
        return Column(heading=heading, figures=figures, is_absolute=True)

    return [
        Table(
            title=f"Runners: {large} cases that cost nothing, {AT_A_TIME} at a time",
            columns=(
                column("async: CPU µs a case", "async", cpu),
                column("async: wall µs a case", "async", wall),
                column("plain: CPU µs a case", "plain", cpu),
                column("plain: wall µs a case", "plain", wall),
            ),
            skipped=tuple(name for name in RUNNERS if name not in runners),
        )
    ]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return name == "asyncio"  # part of Python
    return True

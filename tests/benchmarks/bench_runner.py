"""`bench-runner`: what a runner of cases costs itself, beside others that do the same."""

from __future__ import annotations

import sys
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from .measures import Column, Table
from .processes import cpu, slope_of, spend, take_turns
from .runner_program import AT_A_TIME, RUNNERS

if TYPE_CHECKING:
    from .measures import Bench

PROGRAM = Path(__file__).with_name("runner_program.py")
NAMES = {
    "asyncio": "asyncio, a semaphore and a gather",
    "pytest-failure-taxonomy": "pytest-failure-taxonomy, Runner.execute",
    "pydantic-evals": "pydantic-evals, Dataset.evaluate",
    "inspect-ai": "inspect-ai, eval",
}


def measure_runner(bench: Bench) -> list[Table]:
    """Measure the CPU time of one more case, in µs, whose system and rubric return at once."""
    sizes = (bench.tests // 4, bench.tests * 5 // 2)
    runners = [name for name in RUNNERS if _is_installed(name)]
    spent = take_turns(
        {
            (name, size): partial(
                spend, [sys.executable, "-P", str(PROGRAM), name, str(size)], bench.workplace
            )
            for name in runners
            for size in sizes
        },
        bench.rounds,
    )
    small, large = sizes
    figures = {
        NAMES[name]: slope_of(spent[name, small], spent[name, large], (large - small) / 1e6, cpu)
        for name in runners
    }
    return [
        Table(
            title=f"Runners: {large} cases that cost nothing, {AT_A_TIME} at a time",
            columns=(Column(heading="CPU µs a case", figures=figures, is_absolute=True),),
            skipped=tuple(name for name in RUNNERS if name not in runners),
        )
    ]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return name == "asyncio"  # part of Python
    return True

"""`bench-rubric`: what it costs to grade a case in a process of its own."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .measures import Column, Table
from .processes import cpu, slope_of, spend, take_turns, wall
from .rubric_program import PYDANTIC_RUBRIC, RUBRIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from .measures import Bench
    from .processes import Spent

PROGRAM = Path(__file__).with_name("rubric_program.py")
AT_A_TIME = 8
MANY, FEW = "many", "few"
ROWS = (
    ("IsolatedRubric, warm: a fork a case", "warm", RUBRIC, MANY),
    ("the same with a rubric that imports pydantic", "warm", PYDANTIC_RUBRIC, MANY),
    (
        "IsolatedRubric, fresh, pydantic: an interpreter a case",
        "fresh",
        PYDANTIC_RUBRIC,
        FEW,
    ),
    ("a plain subprocess of Python a case, pydantic", "script", PYDANTIC_RUBRIC, FEW),
)
"""The name, the kind of process, the rubric, and whether there is time for many cases."""


def measure_rubric(bench: Bench) -> list[Table]:
    """Measure the time of one more case, in ms."""
    few = (max(1, bench.tests // 500), max(2, bench.tests // 80))
    sizes = {MANY: (bench.tests // 20, bench.tests // 4), FEW: few}
    command = [sys.executable, "-P", str(PROGRAM)]
    spent = take_turns(
        {
            (name, size, at_a_time): partial(
                spend,
                [
                    *command,
                    kind,
                    _write(bench.workplace, rubric),
                    str(size),
                    str(at_a_time),
                ],
                bench.workplace,
            )
            for name, kind, rubric, amount in ROWS
            for size in sizes[amount]
            for at_a_time in (1, AT_A_TIME)
        },
        max(1, bench.rounds // 2),
    )

    def column(heading: str, at_a_time: int, cost: Callable[[Spent], float]) -> Column:
        figures = {}
        for name, _, _, amount in ROWS:
            small, large = sizes[amount]
            runs = spent[name, small, at_a_time], spent[name, large, at_a_time]
            figures[name] = slope_of(*runs, (large - small) / 1e3, cost)
        return Column(heading=heading, figures=figures, is_absolute=True)

    return [
        Table(
            title="Rubrics: the process that grades a case",
            columns=(
                column("CPU ms a case, one at a time", 1, cpu),
                column("wall ms a case, one at a time", 1, wall),
                column(f"CPU ms a case, {AT_A_TIME} at a time", AT_A_TIME, cpu),
                column(f"wall ms a case, {AT_A_TIME} at a time", AT_A_TIME, wall),
            ),
        )
    ]


def _write(workplace: Path, rubric: str) -> str:
    """Write a rubric into a folder of its own, and return its path."""
    folder = workplace / ("pydantic" if rubric == PYDANTIC_RUBRIC else "plain")
    folder.mkdir(exist_ok=True)
    path = folder / "rubric.py"
    path.write_text(rubric, encoding="utf-8")
    return str(path)

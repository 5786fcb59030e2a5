"""`bench-rubric`: what it costs to grade a case in a process of its own."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .measures import Column, Table
from .processes import cpu, slope_of, spend, take_turns, wall
from .rubric_program import RUBRIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from .estimates import Figure
    from .measures import Bench
    from .processes import Spent

PROGRAM = Path(__file__).with_name("rubric_program.py")
AT_A_TIME = 8
ROWS = {
    "warm": "IsolatedRubric, warm: a fork a case",
    "fresh": "IsolatedRubric, fresh: an interpreter a case",
    "script": "a plain subprocess of Python a case",
}


def measure_rubric(bench: Bench) -> list[Table]:
    """Measure the time of one more case, in ms, by a rubric that imports pydantic."""
    rubric = bench.workplace / "rubric.py"
    rubric.write_text(RUBRIC, encoding="utf-8")
    few = (max(1, bench.tests // 500), max(2, bench.tests // 80))
    sizes = {"warm": (bench.tests // 20, bench.tests // 4), "fresh": few, "script": few}
    command = [sys.executable, "-P", str(PROGRAM)]
    spent = take_turns(
        {
            (kind, size, at_a_time): partial(
                spend, [*command, kind, str(rubric), str(size), str(at_a_time)], bench.workplace
            )
            for kind in ROWS
            for size in sizes[kind]
            for at_a_time in (1, AT_A_TIME)
        },
        bench.rounds,
    )

    def column(heading: str, at_a_time: int, cost: Callable[[Spent], float]) -> Column:
        def figure(kind: str) -> Figure:
            small, large = sizes[kind]
            runs = spent[kind, small, at_a_time], spent[kind, large, at_a_time]
            return slope_of(*runs, (large - small) / 1e3, cost)

        figures = {name: figure(kind) for kind, name in ROWS.items()}
        return Column(heading=heading, figures=figures, is_absolute=True)

    return [
        Table(
            title="Rubrics: a case graded by one that imports pydantic",
            columns=(
                column("CPU ms a case, one at a time", 1, cpu),
                column("wall ms a case, one at a time", 1, wall),
                column(f"CPU ms a case, {AT_A_TIME} at a time", AT_A_TIME, cpu),
                column(f"wall ms a case, {AT_A_TIME} at a time", AT_A_TIME, wall),
            ),
        )
    ]

"""`bench-journal`: what it costs to keep the outcome of a case in the file of its run."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .measures import Column, Table
from .processes import cpu, slope_of, spend, take_turns, wall

if TYPE_CHECKING:
    from collections.abc import Callable

    from .measures import Bench
    from .processes import Spent

PROGRAM = Path(__file__).with_name("journal_program.py")
ROWS = {
    "a short output": "short",
    "an output of 1 kB": "1 kB",
    "an output of 4 kB and a transcript of 4 kB in 8 messages": "4 kB",
}


def measure_journal(bench: Bench) -> list[Table]:
    """Measure the time of one more line, in µs, with secrets removed from what is kept."""
    small, large = bench.tests // 4, bench.tests * 5 // 2
    spent = take_turns(
        {
            (name, size): partial(
                spend,
                [sys.executable, "-P", str(PROGRAM), kind, str(size)],
                bench.workplace,
            )
            for name, kind in ROWS.items()
            for size in (small, large)
        },
        bench.rounds,
    )

    def column(heading: str, cost: Callable[[Spent], float]) -> Column:
        figures = {
            name: slope_of(
                spent[name, small], spent[name, large], (large - small) / 1e6, cost
            )
            for name in ROWS
        }
        return Column(heading=heading, figures=figures, is_absolute=True)

    return [
        Table(
            title=f"Journal: the outcomes of {large} cases in the file of a run",
            columns=(column("CPU µs a line", cpu), column("wall µs a line", wall)),
        )
    ]

"""`bench-absent`: what the bench layer costs a run of pytest that has no task class."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from .measures import Column, Table
from .processes import median_of, spend, take_turns
from .variants import AGAIN, PLAIN, Variant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .measures import Bench

NO_TESTS = 5
"""pytest's exit code for a run that collects nothing."""

TAXONOMY = Variant(name="+ failure_taxonomy", plugins=("failure_taxonomy",))
BOTH = Variant(
    name="+ failure_taxonomy_bench",
    plugins=("failure_taxonomy", "failure_taxonomy_bench"),
)
VARIANTS = (PLAIN, AGAIN, TAXONOMY, BOTH)


def measure_absent(bench: Bench) -> list[Table]:
    """Measure the CPU time of ``pytest --co`` on an empty folder and on many folders, in ms."""
    folders = bench.tests // 4
    empty = _write_tree(bench.workplace / "empty", 0)
    tree = _write_tree(bench.workplace / "tree", folders)
    rounds = 2 * bench.rounds
    command = [sys.executable, "-m", "pytest", "-q", "--co", "-p", "no:cacheprovider"]
    spent = take_turns(
        {
            (variant, place): partial(
                spend, [*command, *variant.arguments(place)], place, exit_code=NO_TESTS
            )
            for variant in VARIANTS
            for place in (empty, tree)
        },
        rounds,
    )

    def start(variant: Variant) -> list[float]:
        return [1e3 * each.cpu_seconds for each in spent[variant, empty]]

    def collection(variant: Variant) -> list[float]:
        whole = [1e3 * each.cpu_seconds for each in spent[variant, tree]]
        return [each - begin for each, begin in zip(whole, start(variant), strict=True)]

    return [
        Table(
            title="A run without a task class",
            columns=(
                _compare("ms to start", {each: start(each) for each in VARIANTS}),
                _compare(
                    f"ms to collect {folders} folders",
                    {each: collection(each) for each in VARIANTS},
                ),
            ),
        )
    ]


def _compare(heading: str, costs: dict[Variant, list[float]]) -> Column:
    """Return the cost of pytest alone, and what each variant adds to it in the same round."""
    figures = {PLAIN.name: median_of(costs[PLAIN])}
    for variant, rounds in costs.items():
        if variant != PLAIN:
            figures[variant.name] = median_of(_differences(rounds, costs[PLAIN]))
    return Column(heading=heading, figures=figures)


def _differences(costs: Sequence[float], plain: Sequence[float]) -> list[float]:
    return [cost - base for cost, base in zip(costs, plain, strict=True)]


def _write_tree(folder: Path, folders: int) -> Path:
    """Write folders with a file each that pytest looks at and leaves, a dozen side by side."""
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for number in range(folders):
        place = folder / f"part_{number % 12}" / f"place_{number}"
        place.mkdir(parents=True)
        (place / "notes.txt").write_text("no test\n", encoding="utf-8")
    return folder

"""What is measured: the cost of a passing and of a failing test, of a start, and in memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .estimates import Figure, estimate, undisturbed_seconds
from .runs import Usage, run_pytest
from .suites import Suite, write_suite
from .variants import AGAIN, FLOOR, PLAIN, Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

Cell = tuple[Variant, Suite]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One measured quantity: absolute for pytest alone, as a difference to it for the others."""

    heading: str
    figures: Mapping[str, Figure]
    """By the name of the variant."""
    is_absolute: bool = False
    """No figure of it is a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns with the same rows that stand apart from those of the reporters."""

    title: str
    columns: tuple[Column, ...]
    skipped: tuple[str, ...] = ()
    """What is not installed."""

    @property
    def rows(self) -> list[str]:
        """The names of the rows, in the order in which they were measured."""
        return list(
            dict.fromkeys(name for column in self.columns for name in column.figures)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What to compare, how often and with how many tests."""

    reporters: tuple[Variant, ...]
    rounds: int
    tests: int
    workplace: Path

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Pytest alone, twice to show the noise, and the reporters."""
        return (PLAIN, AGAIN, *self.reporters)


def measure_passing(bench: Bench) -> list[Column]:
    """Measure the CPU time that a passing test costs, in µs."""
    return [_slope(bench, "µs a passing test", bench.tests, is_failing=False)]


def measure_failing(bench: Bench) -> list[Column]:
    """Measure the CPU time that a failing test costs, in µs; a fifth of the tests will do."""
    return [_slope(bench, "µs a failing test", bench.tests // 5, is_failing=True)]


def measure_startup(bench: Bench) -> list[Column]:
    """Measure the CPU time of a run of one test, in ms, with the option absent and given."""
    suite = write_suite(bench.workplace, tests=1)
    off = {
        variant.switched_off(): variant
        for variant in bench.reporters
        if variant.plugins
    }
    cells = [(variant, suite) for variant in (*bench.variants, FLOOR, *off)]
    usages = _collect(bench, cells, 2 * bench.rounds)

    def cost(variant: Variant, rounds: Sequence[int]) -> float:
        return 1e3 * undisturbed_seconds(usages[variant, suite], rounds)

    absent = _compare(cost, (PLAIN, AGAIN, FLOOR, *off), 2 * bench.rounds)
    return [
        Column(
            heading="ms to start, option absent",
            figures={
                name.removesuffix(", option absent"): value
                for name, value in absent.items()
            },
        ),
        Column(
            heading="ms to start, option given",
            figures=_compare(cost, bench.variants, 2 * bench.rounds),
        ),
    ]


def measure_memory(bench: Bench) -> list[Column]:
    """Measure the peak memory of two sizes of a suite in MiB, and its growth a test in KiB.

    A single round: peaks repeat within 0.3 MiB, and the row of pytest alone, again, shows it.
    """
    small, large = (write_suite(bench.workplace, tests=bench.tests * n) for n in (1, 5))
    usages = _collect(
        bench,
        [(variant, suite) for variant in bench.variants for suite in (small, large)],
        1,
    )

    def peak_mib(suite: Suite) -> Callable[[Variant, Sequence[int]], float]:
        return lambda variant, _: usages[variant, suite][0].peak_kib / 1024

    def growth_kib(variant: Variant, _: Sequence[int]) -> float:
        grown = usages[variant, large][0].peak_kib - usages[variant, small][0].peak_kib
        return grown / (large.tests - small.tests)

    return [
        Column(heading=heading, figures=_compare(cost, bench.variants, 1))
        for heading, cost in (
            ("KiB a passing test", growth_kib),
            (f"MiB peak, {small.tests} tests", peak_mib(small)),
            (f"MiB peak, {large.tests} tests", peak_mib(large)),
        )
    ]


MEASURES: Mapping[str, Callable[[Bench], list[Column]]] = {
    "passing": measure_passing,
    "failing": measure_failing,
    "startup": measure_startup,
    "memory": measure_memory,
}


def _slope(bench: Bench, heading: str, tests: int, *, is_failing: bool) -> Column:
    """Measure the cost of one more test, in µs, between a tenth of the tests and all of them."""
    small, large = (
        write_suite(bench.workplace, tests=size, is_failing=is_failing)
        for size in (tests // 10, tests)
    )
    cells = [(variant, suite) for variant in bench.variants for suite in (small, large)]
    usages = _collect(bench, cells, bench.rounds)

    def cost(variant: Variant, rounds: Sequence[int]) -> float:
        seconds = [
            undisturbed_seconds(usages[variant, suite], rounds)
            for suite in (small, large)
        ]
        return 1e6 * (seconds[1] - seconds[0]) / (large.tests - small.tests)

    return Column(heading=heading, figures=_compare(cost, bench.variants, bench.rounds))


def _collect(
    bench: Bench, cells: Sequence[Cell], rounds: int
) -> dict[Cell, list[Usage]]:
    """Run all cells round-robin after a warm-up that makes the bytecode caches.

    Every round starts with another cell, so that none has the same neighbour in time for ever.
    """
    for suite in {suite: None for _, suite in cells}:
        run_pytest(PLAIN, suite, bench.workplace)
    single = write_suite(bench.workplace, tests=1)
    for variant in {variant: None for variant, _ in cells}:
        run_pytest(variant, single, bench.workplace)
    usages: dict[Cell, list[Usage]] = {cell: [] for cell in cells}
    for index in range(rounds):
        sys.stderr.write(f"round {index + 1} of {rounds}, {len(cells)} runs each\n")
        first = index % len(cells)
        for variant, suite in (*cells[first:], *cells[:first]):
            usages[variant, suite].append(run_pytest(variant, suite, bench.workplace))
    return usages


def _compare(
    cost: Callable[[Variant, Sequence[int]], float],
    variants: Sequence[Variant],
    rounds: int,
) -> dict[str, Figure]:
    """Return the cost of pytest alone and what every other variant adds to it."""

    def figure(variant: Variant) -> Figure:
        def figure_of(chosen: Sequence[int]) -> float:
            own = cost(variant, chosen)
            return own if variant == PLAIN else own - cost(PLAIN, chosen)

        return estimate(figure_of, rounds)

    return {variant.name: figure(variant) for variant in variants}

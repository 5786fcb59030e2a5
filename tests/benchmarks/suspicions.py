"""Measure how often the history is wrong of flaky tests, and how long it takes to tell.

    python -m tests.benchmarks.suspicions [--histories 1000]

It draws runs of tests by chance: how many of those that fail for no reason are suspected of one, in
how many histories of independent tests some seem to fail together, and how often what was planted
is found.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pytest_failure_taxonomy.history.companions import find_clusters
from pytest_failure_taxonomy.history.signals import Seen, bits, suspicions_of

_BEGIN = datetime(2026, 1, 1)  # noqa: DTZ001 - as the tables have it, in UTC
_PLANTED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "axis.time": lambda run: run["at"].hour < 3,
    "axis.load": lambda run: run["run_seconds"] > 450,
    "order.polluted": lambda run: run["collected"] == 1000,
    "order.brittle": lambda run: run["collected"] == 100,
    "environment": lambda run: run["job"] == "windows",
}
"""Where a test of a type fails."""


def _draw_runs(
    draw: random.Random, runs: int, rate: float, type_: str | None
) -> list[Seen]:
    """Return the runs of a test that fails at a rate, of a type only where that says so."""
    seen = []
    for _ in range(runs):
        run: dict[str, Any] = {
            "at": _BEGIN + timedelta(hours=draw.random() * 24 * 60),
            "branch": draw.choice(["main", "main", "feature"]),
            "run_seconds": draw.choice([300, 300, 300, 300, 600]) * draw.gauss(1, 0.05),
            "collected": draw.choice([1000, 1000, 100]),
            "job": draw.choice(["linux", "windows", "macos"]),
            "seconds": max(0.1, draw.gauss(2, 0.5)),
        }
        failed = draw.random() < rate and (type_ is None or _PLANTED[type_](run))
        raised = "AssertionError: assert 1 == 2" if failed else ""
        seen.append(Seen(raised=raised, has_failed=failed, **run))
    return sorted(seen, key=lambda run: run.at)


def measure(histories: int) -> None:
    """Print all figures."""
    for runs in (50, 300, 1_000):
        wrong = 0
        for seed in range(histories):
            draw = random.Random(seed)  # noqa: S311 - the same each time
            rate = draw.choice([0.03, 0.1, 0.3])
            wrong += bool(suspicions_of(_draw_runs(draw, runs, rate, None)))
        say(
            f"by chance, {runs} runs: {wrong / histories:.1%} are suspected of something"
        )
    for type_ in _PLANTED:
        for runs in (50, 300):
            found = 0
            for seed in range(histories // 10):
                draw = random.Random(seed)  # noqa: S311 - the same each time
                told = suspicions_of(_draw_runs(draw, runs, 0.5, type_))
                found += bool(told) and told[0].type == type_
            say(
                f"{type_}, {runs} runs: {10 * found / histories:.0%} are suspected of it"
            )
    wrong = whole = 0
    for seed in range(histories // 10):
        draw = random.Random(seed)  # noqa: S311 - the same each time
        every = (1 << 1_000) - 1
        rates = [draw.choice([0.01, 0.05, 0.2, 0.5]) for _ in range(200)]
        alone = {
            test: bits(draw.random() < rate for _ in range(1_000))
            for test, rate in enumerate(rates)
        }
        wrong += bool(find_clusters(alone, dict.fromkeys(alone, every)))
        planted = []
        for first in range(1_000, 1_070, 14):
            bad = bits(draw.random() < 0.05 for _ in range(1_000))
            planted.append(tuple(range(first, first + 14)))
            for test in planted[-1]:
                alone[test] = bad & bits(draw.random() < 0.9 for _ in range(1_000))
        whole += find_clusters(alone, dict.fromkeys(alone, every)) == planted
    say(
        f"200 independent tests, 1,000 runs: some seem companions in {10 * wrong / histories:.1%}"
    )
    say(
        f"5 clusters of 14 beside them: found as planted in {10 * whole / histories:.0%}"
    )
    for tests in (500, 1_000):
        draw = random.Random(1)  # noqa: S311 - the same each time
        bad = bits(draw.random() < 0.05 for _ in range(1_000))
        failed = {
            test: bad & bits(draw.random() < 0.9 for _ in range(1_000))
            for test in range(tests)
        }
        began = time.perf_counter()
        find_clusters(failed, dict.fromkeys(failed, (1 << 1_000) - 1))
        say(f"{tests} companions, 1,000 runs: {time.perf_counter() - began:.2f} s")


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=1_000)
    measure(parser.parse_args().histories)

"""What a case on a Dask cluster takes beside the system's own time, with 1, 2 and 4 workers.

Run `python -m tests.benchmarks.dask_cluster`; it starts the clusters on this machine. The system
sleeps, so that the processor is not what is measured, and the rubric runs in this process.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.bench.dask import DaskSystem
from pytest_failure_taxonomy.bench.models import BenchCase, RunPlan, TaskClass
from pytest_failure_taxonomy.bench.run.runner import Runner
from tests.helpers.dask_clusters import dask_cluster

SLEEP_SECONDS: Final = 0.1
CASES: Final = 400
SLOTS: Final = 8
"""Cases at a time on one worker."""
ROUNDS: Final = 3


def main() -> None:
    """Print a table."""
    tell(
        f"{CASES} cases, each sleeps {SLEEP_SECONDS:g} s; {SLOTS} at a time on a worker"
    )
    tell("| workers | cases at a time | took | ideal | overhead a case | alone |")
    tell("|---|---|---|---|---|---|")
    for workers in (1, 2, 4):
        with (
            tempfile.TemporaryDirectory() as folder,
            dask_cluster(Path(folder), workers=workers, threads=SLOTS) as cluster,
        ):
            took, alone = asyncio.run(measured(cluster.address, workers))
        ideal = CASES / (workers * SLOTS) * SLEEP_SECONDS
        each = (took - ideal) / CASES
        tell(
            f"| {workers} | {workers * SLOTS} | {took:.2f} s | {ideal:.2f} s |"
            f" {each * 1e3:.1f} ms | {alone * 1e3:.1f} ms |"
        )


def tell(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def measured(address: str, workers: int) -> tuple[float, float]:
    """Return how long all cases took, and one case alone without the system's own time."""
    system = DaskSystem("tests.benchmarks.dask_cluster:sleep", address)
    await system.check()
    try:
        await run_all(
            system, workers
        )  # what is imported at the first case is no overhead
        took = [await run_all(system, workers) for _ in range(ROUNDS)]
        alone = [await run_one(system) for _ in range(20)]
    finally:
        await system.aclose()
    return statistics.median(took), statistics.median(alone)


async def run_all(system: DaskSystem, workers: int) -> float:
    """Run all cases, and return how long that took."""
    cases = tuple(
        BenchCase(case_id=f"case-{number:04}", input=number) for number in range(CASES)
    )
    task_class = TaskClass(
        name="sleeping",
        breakdown_keys=frozenset(),
        failure_mode_taxonomy={},
        cases=cases,
    )
    plan = RunPlan(task_class=task_class, cases=cases, concurrency=workers * SLOTS)
    began = time.perf_counter()
    report = await Runner().execute(
        plan, system_under_test=system, rubric_runner=passes
    )
    took = time.perf_counter() - began
    assert report.passed_count == CASES
    return took


async def run_one(system: DaskSystem) -> float:
    """Call the system once, and return what that took beside its own time."""
    began = time.perf_counter()
    await system(BenchCase(case_id="alone"))
    return time.perf_counter() - began - SLEEP_SECONDS


async def sleep(case: BenchCase) -> int:
    """Be the system under test."""
    await asyncio.sleep(SLEEP_SECONDS)
    return os.getpid()


async def passes(case: BenchCase, output: object) -> dict[str, object]:
    """Be the rubric."""
    return {"passed": True, "score": 1.0, "breakdown": {}}


if __name__ == "__main__":
    main()

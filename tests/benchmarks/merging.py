"""Merge 200 reports of 2,000 failures each, and print time and memory.

`python -m tests.benchmarks.merging` makes the reports in a temporary folder (400 MB), and merges
them in a process of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.taxonomy.evidence import Counts, RaisedException, Shard
from tests.helpers.reports import make_context, make_failure, make_report, make_run

SHARDS: Final = 200
FAILURES: Final = 2_000
TESTS: Final = 5_000
CAUSES: Final = 20
_TRACEBACK: Final = (
    20 * "    def test():\n>       assert f(3) == 4\nE   some words of it\n"
)


def write_shard(path: Path, index: int) -> None:
    """Write the report of one shard."""
    failures = tuple(
        make_failure(
            nodeid=f"tests/test_{index}.py::test_{number}",
            exception=RaisedException(
                type=f"Error{chr(65 + number % CAUSES)}",
                module="shop",
                message="x" * 50,
            ),
            traceback=_TRACEBACK,
        )
        for number in range(FAILURES)
    )
    counts = Counts(collected=TESTS, passed=TESTS - FAILURES, failed=FAILURES)
    context = make_context(id=f"{index:032x}", shard=Shard(index=index, total=SHARDS))
    path.write_text(
        json.dumps(
            make_report(make_run(failures=failures, counts=counts), context=context)
        )
    )


def measure(folder: str) -> None:
    """Merge the reports in a folder, and print what that took."""
    reports = sorted(map(str, Path(folder).glob("*.json")))
    started, used = time.perf_counter(), time.process_time()
    main(["merge", "-o", str(Path(folder) / "merged" / "all.json"), *reports])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(  # noqa: T201 - the answer
        f"{len(reports)} reports: {time.perf_counter() - started:.1f} s of wall clock, "
        f"{time.process_time() - used:.1f} s of CPU, {peak:.0f} MiB at most"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as made:
            for number in range(1, SHARDS + 1):
                write_shard(Path(made) / f"{number}.json", number)
            subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.merging", made], check=True
            )

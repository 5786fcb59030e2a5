"""Fill a history with many runs, and print how long its questions and one more report take.

    python -m tests.benchmarks.history [--runs 10000] [--failures 100] [--keep FOLDER]

First one `history add` takes in a folder with reports of trials (`--trials 10000`). Then a history
is filled through `History.add`, in SQLite and in PostgreSQL, where its server is installed: each
report has 5,000 tests, of which 500 fail from time to time, by 2,000 causes. Then 60 runs of 60,000
passing tests go into another one, and it is shown by how much that grew.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

from sqlalchemy import text

from pytest_failure_taxonomy.history.database import History, open_history
from pytest_failure_taxonomy.history.questions import (
    Wanted,
    count_periods,
    find_flaky,
    find_since,
    find_top,
    list_runs,
    states_of,
)
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.model import FailureReport
from tests.helpers.past_runs import report_as_json
from tests.helpers.postgresql import find_programs, started_cluster

TESTS: Final = 5_000
FAILING: Final = 500
CAUSES: Final = 2_000
BRANCHES: Final = ("main", "main", *(f"feature/{number}" for number in range(40)))
BIG: Final = 60_000
_BEGIN: Final = datetime(2025, 1, 1)  # noqa: DTZ001 - as the tables have it, in UTC


class Reports:
    """Makes reports of which every failure, cause and pass is drawn by chance."""

    def __init__(self, failures: int) -> None:
        """Begin with one report as the template of all others."""
        self._random = random.Random(13)  # noqa: S311 - the same runs each time
        self._failures = failures
        self._template = report_as_json(0, failing=("tests/test_a.py::test_a",))
        self._failure = self._template["failures"][0]
        self._group = self._template["groups"][0]
        self._weights = [1 / (1 + number) ** 0.7 for number in range(CAUSES)]
        self._number = 0

    def next(self) -> FailureReport:
        """Return the report of the next run, an hour after the one before."""
        return decode_report(self._next())

    def _next(self) -> dict[str, Any]:
        self._number += 1
        draw = self._random
        report = copy.copy(self._template)
        started = _BEGIN + timedelta(hours=self._number)
        report["run"] = {
            **self._template["run"],
            "id": f"{self._number:032x}",
            "started_at": f"{started.isoformat()}Z",
        }
        report["environment"] = {
            **self._template["environment"],
            "git": {
                "commit": f"{self._number // 3:040x}",
                "branch": draw.choice(BRANCHES),
                "dirty": False,
            },
        }
        failing = draw.sample(range(FAILING), self._failures)
        names = [
            f"tests/test_{number % 100}.py::test_{number}" for number in range(TESTS)
        ]
        drawn = draw.choices(
            range(CAUSES), self._weights, k=max(1, self._failures // 4)
        )
        report["failures"], groups = [], dict[str, list[str]]()
        for place, number in enumerate(failing):
            fingerprint = f"{drawn[place % len(drawn)]:032x}"
            report["failures"].append(
                {**self._failure, "nodeid": names[number], "fingerprint": fingerprint}
            )
            groups.setdefault(fingerprint, []).append(names[number])
        report["groups"] = [
            {
                **self._group,
                "fingerprint": each,
                "nodeids": nodeids,
                "count": len(nodeids),
            }
            for each, nodeids in groups.items()
        ]
        outcomes = dict.fromkeys(names, "passed") | {
            names[each]: "failed" for each in failing
        }
        report["tests"] = [_test(nodeid, each) for nodeid, each in outcomes.items()]
        return report

    def passing(self, tests: int) -> FailureReport:
        """Return the next report, of so many passing tests."""
        report = self._next()
        draw = self._random
        report |= {"failures": [], "groups": [], "verdict": None, "reasons": []}
        report["tests"] = [
            _test(
                f"tests/test_{number % 900}.py::test_{number}", "passed", draw.random()
            )
            for number in range(tests)
        ]
        return decode_report(report)


def _test(nodeid: str, outcome: str, seconds: float = 0.01) -> dict[str, Any]:
    test: dict[str, Any] = {"nodeid": nodeid, "outcome": outcome}
    return {**test, "duration_seconds": seconds, "start_seconds": 0.0, "worker": None}


def measure(engine: str, url: str, runs: int, failures: int) -> None:
    """Fill a history, and print a line for each of its questions."""
    reports = Reports(failures)
    with open_history(url) as history:
        began = time.perf_counter()
        for _ in range(runs):
            history.add(reports.next())
        took = time.perf_counter() - began
        if engine == "PostgreSQL":
            with history.engine.connect() as connection:
                connection.execute(text("ANALYZE"))
        say(
            f"{engine}: {runs:,} runs of {failures} failures in {took:.0f} s, {size(history)} MB"
        )
        latest = reports.next()
        adds = [seconds_of(partial(history.add, reports.next())) for _ in range(20)]
        say(f"  add    {1000 * median(adds):8.1f} ms, at most {1000 * max(adds):.1f}")
        cause = find_top(history, limit=1)[0].fingerprint
        rare = find_top(history, limit=CAUSES)[-1].fingerprint
        last_month = Wanted(since=_BEGIN + timedelta(hours=runs - 24 * 30))
        for name, ask in {
            "top": lambda: find_top(history),
            "top, together": lambda: find_top(history, each=False),
            "top, a month": lambda: find_top(history, last_month),
            "top, a branch": lambda: find_top(history, Wanted(branch="main")),
            "top, a test": lambda: find_top(history, Wanted(nodeid="*::test_7")),
            "new": lambda: states_of(history, latest),
            "since": lambda: find_since(history, cause),
            "since, a rare one": lambda: find_since(history, rare),
            "flaky": lambda: find_flaky(history),
            "flaky, together": lambda: find_flaky(history, each=False),
            "flaky, a branch": lambda: find_flaky(history, Wanted(branch="main")),
            "list": lambda: list_runs(history),
            "list, a test": lambda: list_runs(history, Wanted(nodeid="*::test_7")),
            "stats": lambda: count_periods(history),
        }.items():
            times = [seconds_of(ask) for _ in range(5)]
            say(
                f"  {name:18s} {1000 * median(times):8.1f} ms, at most {1000 * max(times):.1f}"
            )


def measure_growth(engine: str, url: str, runs: int) -> None:
    """Print how much runs of passing tests take."""
    reports = Reports(1)
    with open_history(url) as history:
        sizes, took = [], []
        for _ in range(runs):
            took.append(seconds_of(partial(history.add, reports.passing(BIG))))
            sizes.append(bytes_of(history))
        grown = [(after - before) / 1024 for before, after in pairwise(sizes)]
        say(
            f"{engine}: {BIG:,} passing tests: the first run {took[0]:.2f} s and "
            f"{sizes[0] / 1e6:.1f} MB, later ones {median(took[1:]):.2f} s (at most "
            f"{max(took[1:]):.2f}) and {sum(grown) / len(grown):.0f} KiB (at most {max(grown):.0f})"
        )


def write_trials(folder: Path, trials: int) -> None:
    """Write reports of trials: of 30 tests, of which none to five fail, each in a folder."""
    draw = random.Random(13)  # noqa: S311 - the same trials each time
    for number in range(trials):
        failing = 0 if draw.random() < 0.5 else draw.randint(1, 5)
        names = [f"test_{number % 500}_{each}" for each in range(30)]
        outcomes = {
            name: "failed" if at < failing else "passed"
            for at, name in enumerate(names)
        }
        given: dict[str, Any] = {
            "message": f"assert {draw.randrange(20)} == 30",
            **outcomes,
        }
        report = report_as_json(0, **given)
        report["run"]["id"] = f"{number:032x}"
        report["run"]["started_at"] = (
            f"{(_BEGIN + timedelta(minutes=number)).isoformat()}Z"
        )
        attempt = {
            "subtask": f"task-{number % 500}",
            "approach": f"system-{number // 500 % 4}",
        }
        report["attempt"] = attempt
        place = folder / f"task-{number % 500}" / f"trial-{number}"
        place.mkdir(parents=True)
        (place / "failure-report.json").write_text(json.dumps(report))


def measure_trials(engine: str, url: str, folder: Path) -> None:
    """Print how long one command takes for all trials, and how much memory."""
    script = (
        "import resource, sys\nfrom pytest_failure_taxonomy.cli.main import main\n"
        "main(['history', 'add', *sys.argv[1:]])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, 'MiB')"
    )
    words = [sys.executable, "-c", script, "--history", url, str(folder)]
    began = time.perf_counter()
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    took = time.perf_counter() - began
    say(f"{engine}: {took:.0f} s: {', '.join(done.stdout.splitlines())}")


def seconds_of(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def bytes_of(history: History) -> int:
    """Return the size of a database; what a log of changes takes for a while is left out."""
    with history.engine.connect() as connection:
        if history.engine.dialect.name == "sqlite":
            pages = connection.scalar(text("PRAGMA page_count")) or 0
            free = connection.scalar(text("PRAGMA freelist_count")) or 0
            return (pages - free) * (connection.scalar(text("PRAGMA page_size")) or 0)
        return int(
            connection.scalar(text("SELECT pg_database_size(current_database())")) or 0
        )


def size(history: History) -> str:
    """Return the size of a database in MB."""
    return f"{bytes_of(history) / 1e6:,.0f}"


def say(line: str) -> None:
    """Print a line of the answer at once."""
    print(line, flush=True)  # noqa: T201


def databases(
    folder: Path, stack: ExitStack, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield an engine's name and the URL of a new database, for each name and engine."""
    for name in names:
        yield "SQLite", str(folder / f"{name}.db")
    if find_programs() is not None:
        cluster = stack.enter_context(started_cluster())
        for _ in names:
            yield "PostgreSQL", cluster.new_database()


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--failures", type=int, default=100, help="of each run")
    parser.add_argument("--growth", type=int, default=60, help="runs of passing tests")
    parser.add_argument(
        "--trials", type=int, default=10_000, help="reports that one call adds"
    )
    parser.add_argument(
        "--keep", type=Path, help="an existing folder for the SQLite databases"
    )
    chosen = parser.parse_args()
    with ExitStack() as stack:
        folder = chosen.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trials = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_trials(trials, chosen.trials)
        names = ("trials", "filled", "passing")
        for number, (engine, url) in enumerate(databases(folder, stack, names)):
            if number % 3 == 0:
                measure_trials(engine, url, trials)
            elif number % 3 == 2:
                measure_growth(engine, url, chosen.growth)
            else:
                measure(engine, url, chosen.runs, chosen.failures)


if __name__ == "__main__":
    main()

"""Cases on a Dask cluster: a real scheduler and real workers on loopback."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy import VERSION
from pytest_failure_taxonomy.bench import dask
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.system.process import has_process
from tests.helpers.children import child_environment, pytest_command
from tests.helpers.dask_clusters import DaskCluster, dask_cluster
from tests.helpers.reports import read_report
from tests.helpers.runs import FinishedRun, PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    SYSTEM,
    codes_by_case,
    only_bench,
    task_class_files,
)
from tests.helpers.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.posix("signals"),
    # Not imported here: that takes half a second of each worker, also where no test is run.
    pytest.mark.skipif(find_spec("distributed") is None, reason="needs distributed"),
]

SYSTEMS: Final = "tests.helpers.far_systems"
KILLED: Final = "worker-0"
"""The worker that tests kill."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Have two workers that no test ends."""
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def write(
    runs: PytestRuns,
    cases: list[dict[str, Any]],
    *,
    system: str = "answer",
    settings: str = "",
) -> None:
    """Write a task class whose cases note the calls of the system, and its worker, in `calls.txt`."""
    noted = [{**case, "note": str(runs.path / "calls.txt")} for case in cases]
    runs.write(
        task_class_files(
            noted, settings=f"sut: {SYSTEMS}:{system}\n{settings}", system=""
        )
    )


def cases_of(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Return cases that pass."""
    return [
        {"id": f"case-{number:03}", "input": number, **fields}
        for number in range(count)
    ]


def run_on(
    cluster: DaskCluster, runs: PytestRuns, *args: str, workers: int = 0
) -> FinishedRun:
    """Run all cases on a cluster."""
    extra = ["-n", str(workers)] if workers else []
    plugins = [BENCH, *(["xdist"] if workers else [])]
    return runs.run(
        "bench", f"--bench-backend={cluster.url}", *extra, *args, plugins=plugins
    )


def lines_of(runs: PytestRuns) -> list[tuple[str, str]]:
    """Return the case and the worker of each line of the note, in order."""
    return [(case_id, worker) for case_id, worker, _ in notes_of(runs)]


def processes_of(runs: PytestRuns) -> list[int]:
    """Return the processes of systems that still run."""
    noted = [int(process) for _, _, process in notes_of(runs)]
    return [process for process in noted if has_process(process)]


def notes_of(runs: PytestRuns) -> list[list[str]]:
    """Return the words of each line of the note."""
    path = runs.path / "calls.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split() for line in lines]


@pytest.mark.parametrize(("system", "workers"), [("answer", 0), ("answer_later", 2)])
def test_each_case_is_called_once_on_a_worker(
    cluster: DaskCluster, runs: PytestRuns, system: str, workers: int
) -> None:
    """Plain and async systems run on both workers, and what they spend is told here."""
    write(runs, cases_of(8, spend=0.25, sleep=0.2), system=system)
    run = run_on(cluster, runs, workers=workers)
    assert run.outcomes == {"passed": 8}
    calls = lines_of(runs)
    assert sorted(case_id for case_id, _ in calls) == [
        f"case-{each:03}" for each in range(8)
    ]
    assert {worker for _, worker in calls} == {"worker-0", "worker-1"}
    assert only_bench(run)["total_cost_usd"] == 2.0


def test_a_capped_run_is_continued_there(
    cluster: DaskCluster, runs: PytestRuns
) -> None:
    """The cap and what is done hold for a run on a cluster; only missing cases are called."""
    write(runs, cases_of(6, spend=1.0), settings="concurrency: 1\n")
    capped = only_bench(run_on(cluster, runs, "--bench-max-cost=2.5"))
    assert capped["counts"]["graded"] == 3
    whole = only_bench(run_on(cluster, runs, "--bench-resume"))
    assert whole["counts"]["passed"] == 6
    assert whole["total_cost_usd"] == 6.0
    assert len(lines_of(runs)) == 6


def test_what_a_system_does_there_is_as_here(
    cluster: DaskCluster, runs: PytestRuns
) -> None:
    """An `Answer`, an exception with its traceback, no JSON, a rate limit, and a time limit."""
    write(
        runs,
        [
            {"id": "answers", "input": 1, "returns": "answer", "spend": 0.25},
            {"id": "limited", "input": 2, "limited": True, "spend": 0.125},
            {"id": "odd", "input": 3, "returns": "object", "spend": 0.5},
            {"id": "raises", "input": 4, "raises": "no luck", "spend": 0.5},
            {
                "id": "sleeps",
                "input": 5,
                "sleep": 20,
                "spend": 0.5,
                "timeout_per_case_seconds": 1,
            },
        ],
        settings="retry: {on: [llm.rate_limited], attempts: 3, backoff_seconds: 0.01}\n",
    )
    run = run_on(cluster, runs)
    report = only_bench(run)
    assert codes_by_case(report) == {
        "answers": [],
        "limited": ["sut.exception"],
        "odd": ["sut.exception"],
        "raises": ["sut.exception"],
        "sleeps": ["sut.timeout"],
    }
    assert {case_id: score["cost_usd"] for case_id, score in report["per_case"]} == {
        "answers": 0.75,
        "limited": 0.375,
        "odd": 0.5,
        "raises": 0.5,
        "sleeps": 0.5,
    }
    assert Counter(case_id for case_id, _ in lines_of(runs))["limited"] == 3
    shown = "\n".join(run.stdout)
    assert 'raise ValueError(case["raises"])' in shown
    assert "ValueError: no luck" in shown


def test_a_case_that_timed_out_is_ended_there(
    cluster: DaskCluster, runs: PytestRuns
) -> None:
    """Its process is killed; a class that asks for threads has processes, too."""
    settings = "timeout_per_case_seconds: 1\nsut_isolation: thread\n"
    write(runs, cases_of(1, sleep=60, spend=0.5), settings=settings)
    run = run_on(cluster, runs)
    assert codes_by_case(only_bench(run)) == {"case-000": ["sut.timeout"]}
    assert only_bench(run)["total_cost_usd"] == 0.5
    wait_until(lambda: not processes_of(runs), "the end of the call")


def test_a_system_has_processes_of_its_own_there(
    cluster: DaskCluster, runs: PytestRuns
) -> None:
    """What ends its process loses one case, and not the worker."""
    cases = [{"id": "dies", "input": 1, "exit": 3, "spend": 0.5}, *cases_of(2)]
    write(runs, cases)
    run = run_on(cluster, runs)
    report = only_bench(run)
    assert (report["passed_count"], report["total_cost_usd"]) == (2, 0.5)
    assert (
        "exited with code 3"
        in dict(report["per_case"])["dies"]["failure_modes"][0]["detail"]
    )


def test_the_cost_cap_holds(cluster: DaskCluster, runs: PytestRuns) -> None:
    """At most the cases in flight exceed it."""
    write(
        runs,
        cases_of(30, spend=0.1, sleep=0.05),
        settings="max_cost_usd: 0.5\nconcurrency: 3\n",
    )
    run = run_on(cluster, runs)
    report = only_bench(run)
    assert run.exit_status == 1
    assert len(lines_of(runs)) == report["counts"]["started"] <= 8
    assert 0.5 < report["total_cost_usd"] <= 0.8 + 1e-9


def start(cluster: DaskCluster, runs: PytestRuns) -> subprocess.Popen[bytes]:
    """Start a run that goes on while the test does something to the cluster."""
    command = pytest_command(
        "bench",
        "--failure-taxonomy",
        f"--bench-backend={cluster.url}",
        plugins=("failure_taxonomy", BENCH),
    )
    with (runs.path / "stdout.txt").open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=runs.path,
            env=child_environment(),
            stdout=output,
            stderr=output,
        )


def test_ctrl_c_ends_the_calls_there(cluster: DaskCluster, runs: PytestRuns) -> None:
    """The run ends soon, no other case is called, and no call goes on."""
    settings = "concurrency: 2\n"
    write(runs, cases_of(4, sleep=120), system="answer_later", settings=settings)
    with start(cluster, runs) as run:
        wait_until(lambda: len(lines_of(runs)) == 2, "two cases")
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 2
    wait_until(lambda: not processes_of(runs), "the ends of the calls")
    assert len(lines_of(runs)) == 2
    output = (runs.path / "stdout.txt").read_text()
    assert "Task was destroyed" not in output


def test_a_killed_worker_costs_its_cases_in_flight(
    runs: PytestRuns, tmp_path: Path
) -> None:
    """They are typed, what they spent is lost, nothing is called twice, and the run ends."""
    with dask_cluster(tmp_path / "cluster") as cluster:
        settings = "concurrency: 4\nstop_after_same_failure: 2\n"
        write(runs, cases_of(16, sleep=1, spend=0.25), settings=settings)
        with start(cluster, runs) as run:
            wait_until(lambda: len(lines_of(runs)) >= 6, "the second round of cases")
            os.kill(cluster.workers[0].pid, signal.SIGKILL)
            run.wait(60)
        calls = lines_of(runs)
        report = read_report(runs.path / "failure-report.json")["bench"][0]
    assert Counter(case_id for case_id, _ in calls).most_common(1)[0][1] == 1
    lost = [case_id for case_id, codes in codes_by_case(report).items() if codes]
    assert 1 <= len(lost) <= 2
    # A case may be lost before its system has written its line.
    assert {worker for case_id, worker in calls if case_id in lost} <= {KILLED}
    assert report["counts"] == {
        "scheduled": 16,
        "started": 16,
        "graded": 16,
        "lost": 0,
        "passed": 16 - len(lost),
        "not_run": 0,
    }
    for case_id in lost:
        score = dict(report["per_case"])[case_id]
        (mode,) = score["failure_modes"]
        assert mode["code"] == "sut.exception"
        assert "WorkerLost: the worker tcp://127.0.0.1:" in mode["detail"]
        assert score["cost_usd"] == 0.0
    assert report["total_cost_usd"] == 0.25 * (16 - len(lost))


def test_lost_cases_are_called_again_if_the_class_says_so(
    runs: PytestRuns, tmp_path: Path
) -> None:
    """By our own `retry`, on another worker; what the lost calls spent is lost."""
    with dask_cluster(tmp_path / "cluster") as cluster:
        settings = (
            "retry: {on: [sandbox.worker_lost], backoff_seconds: 0.1}\nconcurrency: 4\n"
        )
        write(runs, cases_of(6, sleep=1.5, spend=0.25), settings=settings)
        with start(cluster, runs) as run:
            wait_until(lambda: len(lines_of(runs)) >= 4, "the first round of cases")
            os.kill(cluster.workers[0].pid, signal.SIGKILL)
            assert run.wait(60) == 0
        calls = lines_of(runs)
        report = read_report(runs.path / "failure-report.json")["bench"][0]
    lost = {case_id for case_id, worker in calls if worker == KILLED}
    counts = Counter(case_id for case_id, _ in calls)
    assert report["passed_count"] == 6
    assert len(lost) == 2
    assert counts == {case_id: 2 if case_id in lost else 1 for case_id in counts}
    assert report["total_cost_usd"] == 1.5


def test_a_scheduler_that_dies_ends_the_run_soon(
    runs: PytestRuns, tmp_path: Path
) -> None:
    """The cases in flight and those left are typed and told, or not started."""
    with dask_cluster(tmp_path / "cluster", workers=1) as cluster:
        settings = "concurrency: 2\nstop_after_same_failure: 4\n"
        write(runs, cases_of(16, sleep=1), settings=settings)
        with start(cluster, runs) as run:
            wait_until(lambda: len(lines_of(runs)) >= 3, "the second round of cases")
            os.kill(cluster.scheduler.pid, signal.SIGKILL)
            assert run.wait(60) == 1
        calls = lines_of(runs)
        report = read_report(runs.path / "failure-report.json")["bench"][0]
    assert len(calls) == len(set(calls)) <= 6
    details = [
        mode["detail"]
        for _, score in report["per_case"]
        for mode in score["failure_modes"]
    ]
    assert 4 <= len(details) <= 6  # those in flight, and some until the run is stopped
    words = "sandbox.worker_lost: ClusterLost: the scheduler tcp://127.0.0.1:"
    assert [each for each in details if not each.startswith(words)] == []


@pytest.mark.parametrize("workers", [0])
def test_a_scheduler_that_cant_be_reached_is_a_usage_error(
    runs: PytestRuns, workers: int
) -> None:
    """One line says so before any system is called."""
    write(runs, cases_of(2))
    extra = ["-n", str(workers)] if workers else []
    plugins = [BENCH, *(["xdist"] if workers else [])]
    run = runs.run(
        "bench", "--bench-backend=dask://127.0.0.1:1", *extra, plugins=plugins
    )
    assert run.exit_status == 4
    words = "ERROR: --bench-backend: the cluster tcp://127.0.0.1:1 can't be reached (OSError: "
    assert sum(line.startswith(words) for line in run.stderr) == 1
    assert lines_of(runs) == []


def test_a_worker_that_cant_import_the_system_is_a_usage_error(
    cluster: DaskCluster, runs: PytestRuns
) -> None:
    """Each worker says why, before any system is called."""
    runs.write(
        task_class_files(cases_of(2), settings="sut: not_there:answer\n", system="")
    )
    run = run_on(cluster, runs)
    assert run.exit_status == 4
    found = [line for line in run.stderr if "there is no module 'not_there'" in line]
    assert len(found) == 2
    assert all("the worker tcp://127.0.0.1:" in line for line in found)


def test_a_worker_with_another_version_is_named(
    cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker is, with the version to install."""
    monkeypatch.setattr(dask, "VERSION", "0.0.1")

    async def check() -> None:
        system = dask.DaskSystem(f"{SYSTEMS}:answer", cluster.address)
        try:
            await system.check()
        finally:
            await system.aclose()

    with pytest.raises(BenchError) as error:
        asyncio.run(check())
    lines = str(error.value).splitlines()
    assert len(lines) == 2
    words = f": has pytest-failure-taxonomy {VERSION}; install 0.0.1 there"
    assert all(line.startswith("the worker tcp://") for line in lines)
    assert all(line.endswith(words) for line in lines)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("dask://somewhere", "names no cluster; give dask://HOST:PORT, its scheduler"),
        ("dask://somewhere:x", "names no cluster"),
        ("dask://somewhere:8786/path", "names no cluster"),
        ("ray://somewhere:10001", "names no cluster"),
        ("somewhere:8786", "names no cluster"),
    ],
)
def test_a_malformed_address_is_a_usage_error(
    runs: PytestRuns, given: str, words: str
) -> None:
    """As an option and as an ini value, without a task class, too."""
    run = runs.run(f"--bench-backend={given}", plugins=[BENCH])
    assert run.exit_status == 4
    assert f"ERROR: --bench-backend: '{given}' {words}" in "\n".join(run.stderr)
    runs.write({"pytest.ini": f"[pytest]\nbench_backend = {given}\n"})
    assert f"bench_backend: '{given}' {words}" in "\n".join(
        runs.run(plugins=[BENCH]).stderr
    )


def test_a_fixture_cant_be_sent(cluster: DaskCluster, runs: PytestRuns) -> None:
    """The collection error says to name the system."""
    runs.write(task_class_files(cases_of(1), system=SYSTEM))
    run = run_on(cluster, runs)
    assert run.exit_status == 2
    words = "bench/echo: a fixture can't be sent to a cluster (--bench-backend); name the system"
    assert any(words in line for line in run.stdout)


def test_without_the_extra_one_line_says_what_to_install(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option is refused before anything is collected."""
    runs.write(
        {
            "hidden.py": (
                "import importlib.util as util\n"
                "find_spec = util.find_spec\n"
                "util.find_spec = lambda name, *rest: "
                "None if name == 'distributed' else find_spec(name, *rest)\n"
            )
        }
    )
    monkeypatch.setenv("PYTHONPATH", str(runs.path))
    run = runs.run(
        "-p", "hidden", "--bench-backend=dask://127.0.0.1:1", plugins=[BENCH]
    )
    assert run.exit_status == 4
    words = 'distributed is not installed; pip install "pytest-failure-taxonomy[dask]"'
    assert f"ERROR: --bench-backend: {words}" in run.stderr

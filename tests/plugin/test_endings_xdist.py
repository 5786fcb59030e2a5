"""How runs with several xdist workers end: the workers' deaths, and what the controller tells."""

from __future__ import annotations

import sys
from typing import Any, Final

import pytest

from tests.helpers.reports import extensions_of
from tests.helpers.runs import FinishedRun, PytestRuns, assert_counts_agree

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="needs deaths by signal"
)

MANY: Final = (
    "import os, signal, time, pytest\n"
    "@pytest.mark.parametrize('number', range(6))\n"
    "def test_before(number): pass\n"
    "def test_dies():\n"
    "    {death}\n"
    "@pytest.mark.parametrize('number', range(6))\n"
    "def test_after(number): pass\n"
)
EXIT_ON_TIMEOUT: Final = ("-o", "faulthandler_exit_on_timeout=true")
NEEDS_EXIT_ON_TIMEOUT: Final = pytest.mark.skipif(
    pytest.version_tuple < (9, 0), reason="faulthandler_exit_on_timeout came with 9.0"
)
NO_CORE: Final = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "

DEATHS: Final = (
    pytest.param("os._exit(3)", {"code": 3, "signal": None}, id="exit-3"),
    pytest.param("os._exit(0)", {"code": 0, "signal": None}, id="exit-0"),
    pytest.param(
        NO_CORE + "os.kill(os.getpid(), signal.SIGSEGV)",
        {"code": None, "signal": "SIGSEGV"},
        id="segfault",
    ),
    pytest.param(
        "os.kill(os.getpid(), signal.SIGKILL)",
        {"code": None, "signal": "SIGKILL"},
        id="kill",
    ),
)


def run_on(
    workers: int, runs: PytestRuns, content: str, *args: str, compare: bool = False
) -> FinishedRun:
    """Run one file on workers; with `compare`, also without our plugin."""
    runs.write({"test_it.py": content})
    start = runs.compare if compare else runs.run
    run = start("-n", str(workers), *args, plugins=["xdist"])
    assert run.report["exit"]["code"] == run.shell_status
    assert extensions_of(run.report) == {}
    assert_counts_agree(run)
    return run


def dead_worker(run: FinishedRun) -> dict[str, Any]:
    """Return the only worker that went down on a test."""
    (dead,) = [
        worker for worker in run.report["workers"] if worker["crashed_on"] is not None
    ]
    return dict(dead)


@pytest.mark.parametrize(("death", "status"), DEATHS)
def test_worker_dies(runs: PytestRuns, death: str, status: dict[str, Any]) -> None:
    """A dead worker's status and the test it died on are told; another worker runs the rest."""
    run = run_on(1, runs, MANY.format(death=death), compare=status["code"] == 3)
    assert run.exit_status == 1
    assert run.verdict == ("TESTS_FAILED", "worker.crashed")
    assert run.kinds == ["worker.crashed"]
    assert run.counts == {"collected": 13, "passed": 12, "failed": 1, "crashed": 1}
    assert run.report["verdict"]["nodeid"] == "test_it.py::test_dies"
    dead = dead_worker(run)
    assert dead["exit"] == status
    assert dead["crashed_on"] == "test_it.py::test_dies"
    (failure,) = run.report["failures"]
    assert (failure["nodeid"], failure["kind"]) == (
        "test_it.py::test_dies",
        "worker.crashed",
    )
    assert (failure["worker"], failure["exception"]) == (dead["id"], None)
    assert [worker["id"] for worker in run.report["workers"]] == ["gw0", "gw1"]
    assert run.report["workers"][1]["exit"] == {"code": 0, "signal": None}
    assert sum(worker["tests"] for worker in run.report["workers"]) == 13


@NEEDS_EXIT_ON_TIMEOUT
@pytest.mark.parametrize(
    ("death", "seconds", "reason"),
    [
        pytest.param("time.sleep(60)", 0.5, "TIMEOUT", id="limit"),
        pytest.param("os._exit(1)", 60.0, "TESTS_FAILED", id="own-exit"),
        pytest.param(
            "time.sleep(0.6); os._exit(3)", 0.0, "TESTS_FAILED", id="no-limit"
        ),
        pytest.param(
            NO_CORE + "os.kill(os.getpid(), signal.SIGSEGV)",
            60.0,
            "TESTS_FAILED",
            id="segfault",
        ),
    ],
)
def test_faulthandler_ends_a_worker(
    runs: PytestRuns, death: str, seconds: float, reason: str
) -> None:
    """A worker that faulthandler ended is told by its limit, where that was used up."""
    limit = (*EXIT_ON_TIMEOUT, "-o", f"faulthandler_timeout={seconds}")
    run = run_on(1, runs, MANY.format(death=death), *limit)
    assert run.exit_status == 1
    is_limit = reason == "TIMEOUT"
    assert run.verdict == (reason, "test.timeout" if is_limit else "worker.crashed")
    verdict, (failure,) = run.report["verdict"], run.report["failures"]
    assert (failure["nodeid"], failure["reason"]) == ("test_it.py::test_dies", reason)
    assert run.report["summary"]["timed_out"] == int(is_limit)
    assert verdict["confidence"] == ("likely" if is_limit else "certain")
    words = f"of the {seconds:g} s that faulthandler_timeout allows were used up"
    assert (words in verdict["evidence"][0]["detail"]) is is_limit


@NEEDS_EXIT_ON_TIMEOUT
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the watcher")
def test_faulthandler_ends_a_worker_of_a_controller_that_dies(runs: PytestRuns) -> None:
    """What the controller had seen of a worker's end is told after its own death, too."""
    content = (
        "import os, signal, time\n"
        "def test_hangs(): time.sleep(60)\n"
        "def test_kills():\n"
        "    os.kill(os.getppid(), signal.SIGKILL)\n"
        "    time.sleep(60)\n"
    )
    runs.write({"test_it.py": content})
    limit = (*EXIT_ON_TIMEOUT, "-o", "faulthandler_timeout=2")
    run = runs.run("-n", "1", *limit, plugins=["xdist"])
    assert run.exit_status == -9
    report = runs.wait_for_completion()
    held = [
        (each["reason"], each["kind"], each["nodeids"]) for each in report["reasons"]
    ]
    assert sorted(held) == [
        ("TIMEOUT", "process.killed", ["test_it.py::test_kills"]),
        ("TIMEOUT", "test.timeout", ["test_it.py::test_hangs"]),
    ]
    (failure,) = report["failures"]
    assert (failure["nodeid"], failure["reason"]) == (
        "test_it.py::test_hangs",
        "TIMEOUT",
    )
    assert [worker["exit"]["code"] for worker in report["workers"]] == [1, None]


@pytest.mark.linux("the watcher")
def test_a_controller_dies_while_its_workers_collect(runs: PytestRuns) -> None:
    """Its session has started then, and no hook that starts one is to blame."""
    conftest = (
        "import os, threading, time\n"
        "if 'PYTEST_XDIST_WORKER' in os.environ: time.sleep(5)\n"
        "def pytest_sessionstart(session):\n"
        "    if 'PYTEST_XDIST_WORKER' not in os.environ:\n"
        "        threading.Timer(1, os.kill, (os.getpid(), 9)).start()\n"
    )
    runs.write({"conftest.py": conftest, "test_it.py": "def test_it(): pass\n"})
    runs.run_unchecked("-n", "1", plugins=["xdist"])
    verdict = runs.wait_for_completion()["verdict"]
    assert verdict["kind"] == "process.killed"
    assert "pytest_sessionstart" not in verdict["message"]


def test_worker_exits_otherwise_after_its_session(runs: PytestRuns) -> None:
    """What a worker's process says after its session is told, and fails no run that passed."""
    content = "import atexit, os\ndef test_it(): atexit.register(os._exit, 9)\n"
    run = run_on(1, runs, content, compare=True)
    assert run.exit_status == 0
    assert run.verdict == (None, None)
    (worker,) = run.report["workers"]
    assert (worker["exit"], worker["crashed_on"]) == ({"code": 9, "signal": None}, None)


def test_worker_dies_in_a_setup(runs: PytestRuns) -> None:
    """A worker that dies before a test's setup is over is no other thing."""
    content = (
        "import os, pytest\n"
        "@pytest.fixture\n"
        "def deadly(): os._exit(1)\n"
        "def test_dies(deadly): pass\n"
        "def test_other(): pass\n"
    )
    run = run_on(1, runs, content)
    assert run.exit_status == 1
    assert run.verdict == ("TESTS_FAILED", "worker.crashed")
    assert dead_worker(run)["exit"] == {"code": 1, "signal": None}
    (failure,) = run.report["failures"]
    assert (failure["nodeid"], failure["phase"]) == ("test_it.py::test_dies", "setup")


def test_worker_dies_beside_a_failure(runs: PytestRuns) -> None:
    """A failed test is not hidden by a dead worker."""
    content = MANY.format(death="os._exit(1)") + "def test_fails(): assert 0\n"
    run = run_on(2, runs, content, compare=True)
    assert run.exit_status == 1
    assert run.report["verdict"]["reason"] == "TESTS_FAILED"
    assert sorted(run.kinds) == ["test.failed", "worker.crashed"]
    assert run.counts == {"collected": 14, "passed": 12, "failed": 2, "crashed": 1}


def test_no_worker_is_started_again(runs: PytestRuns) -> None:
    """With `--max-worker-restart 0` a death ends the run, whatever the exit code then is."""
    content = "import os\n" + "".join(
        f"def test_{number}(): os._exit(1)\n" for number in range(6)
    )
    run = run_on(1, runs, content, "--max-worker-restart", "0", compare=True)
    assert run.verdict == ("TESTS_FAILED", "worker.crashed")
    assert run.report["summary"]["crashed"] >= 1
    summary = run.report["summary"]
    assert summary["failed"] + summary["in_flight"] + summary["not_run"] == 6


def test_workers_die_in_collection(runs: PytestRuns) -> None:
    """Workers that die before they have collected anything are no empty suite."""
    content = "import os\nos._exit(1)\ndef test_it(): pass\n"
    run = run_on(1, runs, content, "--max-worker-restart", "1", compare=True)
    assert run.exit_status != 1, "no failed test, to pytest"
    assert run.verdict == ("TESTS_FAILED", "worker.crashed")
    assert [
        (worker["exit"]["code"], worker["tests"]) for worker in run.report["workers"]
    ] == [
        (1, 0),
        (1, 0),
    ]


def test_ctrl_c_in_a_worker(runs: PytestRuns) -> None:
    """A KeyboardInterrupt inside a worker is an interrupt, not a crash."""
    content = (
        "import time\n"
        "def test_interrupted(): raise KeyboardInterrupt\n"
        "def test_other(): time.sleep(0.2)\n"
    ) + "".join(f"def test_{number}(): time.sleep(0.2)\n" for number in range(8))
    run = run_on(2, runs, content)
    assert run.exit_status == 2
    assert run.verdict == ("INTERRUPTED", "interrupt.keyboard")
    assert run.report["exit"]["reason"] == "INTERRUPTED"
    assert run.report["verdict"]["nodeid"] == "test_it.py::test_interrupted"
    assert run.report["summary"]["not_run"] > 0


def test_ctrl_c_in_the_controller(runs: PytestRuns) -> None:
    """A Ctrl+C that reaches the controller leaves each worker's test in flight."""
    content = (
        "import os, signal, time\n"
        "def test_interrupts():\n"
        "    time.sleep(0.3)\n"  # until the controller has the report of the setup
        "    os.kill(os.getppid(), signal.SIGINT)\n"
        "    time.sleep(0.3)\n"
        "def test_never_run(): pass\n"
    )
    run = run_on(1, runs, content)
    assert run.exit_status == 2
    assert run.verdict == ("INTERRUPTED", "interrupt.keyboard")
    assert run.counts == {"collected": 2, "in_flight": 1, "not_run": 1}
    (running,) = run.report["in_flight"]
    assert (running["nodeid"], running["worker"]) == (
        "test_it.py::test_interrupts",
        "gw0",
    )


@pytest.mark.parametrize(
    ("arguments", "status", "errors"),
    [
        pytest.param("'enough', returncode=42", 3, ["internal.error"], id="code"),
        pytest.param("'enough'", 2, [], id="no-code"),
    ],
)
@pytest.mark.parametrize(
    "restarts", [("--max-worker-restart", "0"), ()], ids=["none", "any"]
)
def test_pytest_exit_in_a_worker(
    runs: PytestRuns,
    arguments: str,
    status: int,
    errors: list[str],
    restarts: tuple[str, ...],
) -> None:
    """It is told as such; xdist makes an internal error of it, or a Ctrl+C and a crash."""
    content = f"import pytest\ndef test_exits(): pytest.exit({arguments})\n" + "".join(
        f"def test_{number}(): pass\n" for number in range(8)
    )
    run = run_on(1, runs, content, *restarts, compare=True)
    assert run.exit_status == status
    assert run.verdict == ("INTERRUPTED", "interrupt.exit")
    assert [held["kind"] for held in run.report["reasons"]] == ["interrupt.exit"]
    said = "the run was ended by pytest.exit: enough (test_it.py:2)"
    assert run.report["verdict"]["message"] == said
    assert any(said in line for line in run.stdout)
    assert [each["kind"] for each in run.report["internal_errors"]] == errors


def test_every_worker_runs_all(runs: PytestRuns) -> None:
    """With `--dist each` every worker's tests count, as they do in pytest's last line."""
    content = (
        "def test_passes(): pass\ndef test_fails(): assert 0\ndef test_third(): pass\n"
    )
    run = run_on(2, runs, content, "--dist", "each", compare=True)
    assert run.exit_status == 1
    assert run.verdict == ("TESTS_FAILED", "test.failed")
    assert run.counts == {"collected": 6, "passed": 4, "failed": 2}
    assert [failure["worker"] for failure in run.report["failures"]] in (
        ["gw0", "gw1"],
        ["gw1", "gw0"],
    )


def test_healthy_workers(runs: PytestRuns) -> None:
    """A green run lists its workers, each with its tests and exit code 0."""
    content = "".join(f"def test_{number}(): pass\n" for number in range(10))
    run = run_on(2, runs, content, compare=True)
    assert run.exit_status == 0
    assert run.verdict == (None, None)
    assert run.counts == {"collected": 10, "passed": 10}
    workers = run.report["workers"]
    assert [worker["id"] for worker in workers] == ["gw0", "gw1"]
    assert [worker["exit"] for worker in workers] == [{"code": 0, "signal": None}] * 2
    assert sum(worker["tests"] for worker in workers) == 10
    assert {worker["crashed_on"] for worker in workers} == {None}


def test_broken_conftest_on_workers(runs: PytestRuns) -> None:
    """A conftest that breaks on workers alone can't hang the run or let it pass."""
    runs.write(
        {
            "conftest.py": "import os\nif 'PYTEST_XDIST_WORKER' in os.environ:\n    1 / 0\n",
            "test_it.py": "def test_it(): pass\n",
        }
    )
    args = ("-n", "1", "--max-worker-restart", "0")
    run = runs.compare(*args, plugins=["xdist"])
    assert run.exit_status == run.report["exit"]["code"]
    assert run.verdict == ("TESTS_FAILED", "worker.crashed")


def test_internal_error_on_a_worker(runs: PytestRuns) -> None:
    """A hook that raises on a worker fails the run, also where xdist then ends with exit code 0."""
    runs.write(
        {
            "conftest.py": "import os\n"
            "if 'PYTEST_XDIST_WORKER' in os.environ:\n"
            "    def pytest_runtest_logreport(): raise RuntimeError('hook is broken')\n"
        }
    )
    run = run_on(1, runs, "def test_it(): pass\n", compare=True)
    assert run.verdict == ("INTERNAL_ERROR", "internal.error")
    assert (
        "RuntimeError: hook is broken" in run.report["internal_errors"][0]["traceback"]
    )

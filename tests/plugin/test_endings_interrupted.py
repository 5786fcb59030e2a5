"""Runs that something ends early: Ctrl+C, `pytest.exit`, a limit on failures, a stepwise stop."""

from __future__ import annotations

import signal
import sys
from typing import Final

import pytest

from tests.helpers.endings import PASSING, Ending, check_ending
from tests.helpers.runs import PytestRuns

CTRL_C: Final = (
    "import signal\n"
    "def press_ctrl_c():\n"
    "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job ignores it
    "    signal.raise_signal(signal.SIGINT)\n"
)
FIXTURE: Final = "import pytest\n@pytest.fixture\ndef stop():\n"

INTERRUPTS: Final = (
    pytest.param(
        {
            "test_it.py": CTRL_C
            + PASSING
            + "def test_interrupted(): press_ctrl_c()\n"
            + "def test_never_run(): pass\n"
        },
        {"collected": 3, "passed": 1, "in_flight": 1, "not_run": 1},
        ("test_it.py::test_interrupted", "call"),
        id="test",
    ),
    pytest.param(
        {
            "test_it.py": CTRL_C
            + FIXTURE
            + "    press_ctrl_c()\n"
            + "def test_interrupted(stop): pass\n"
            + "def test_never_run(): pass\n"
        },
        {"collected": 2, "in_flight": 1, "not_run": 1},
        ("test_it.py::test_interrupted", "setup"),
        id="setup",
    ),
    pytest.param(
        {
            "test_it.py": CTRL_C
            + FIXTURE
            + "    yield\n"
            + "    press_ctrl_c()\n"
            + "def test_interrupted(stop): pass\n"
            + "def test_never_run(): pass\n"
        },
        # It had passed before it was torn down, and pytest's last line says so, too.
        {"collected": 2, "passed": 1, "in_flight": 1, "not_run": 1},
        ("test_it.py::test_interrupted", "teardown"),
        id="teardown",
    ),
    pytest.param(
        {
            "test_it.py": CTRL_C
            + "def test_fails(): assert 0\n"
            + "def test_interrupted(): raise KeyboardInterrupt\n"
        },
        {"collected": 2, "failed": 1, "in_flight": 1},
        ("test_it.py::test_interrupted", "call"),
        id="after-a-failure",
    ),
    pytest.param(
        {"test_it.py": CTRL_C + PASSING + "press_ctrl_c()\n"}, {}, None, id="collection"
    ),
    pytest.param(
        {
            "test_it.py": PASSING,
            "conftest.py": CTRL_C + "def pytest_collection(): press_ctrl_c()\n",
        },
        {},
        None,
        id="hook",
    ),
    pytest.param(
        {
            "test_it.py": PASSING,
            "conftest.py": CTRL_C + "def pytest_configure(): press_ctrl_c()\n",
        },
        {},
        None,
        id="configure",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize(("files", "counts", "in_flight"), INTERRUPTS)
def test_ctrl_c(
    runs: PytestRuns,
    files: dict[str, str],
    counts: dict[str, int],
    in_flight: tuple[str, str] | None,
) -> None:
    """A Ctrl+C is an interrupt; the test it hit is in flight, the rest has not run."""
    has_failure = "failed" in counts
    run = check_ending(
        runs,
        Ending(
            files=files,
            exit_status=2,
            reason="TESTS_FAILED" if has_failure else "INTERRUPTED",
            kind="test.failed" if has_failure else "interrupt.keyboard",
            also=["interrupt.keyboard"] if has_failure else [],
            nodeid="test_it.py::test_fails"
            if has_failure
            else in_flight and in_flight[0],
            counts=counts,
        ),
    )
    shown = [(test["nodeid"], test["phase"]) for test in run.report["in_flight"]]
    assert shown == ([in_flight] if in_flight else [])


UNCAUGHT: Final = (
    pytest.param("press_ctrl_c()\n", {}, id="conftest"),
    pytest.param(
        "def pytest_sessionfinish(): press_ctrl_c()\n",
        {"collected": 1, "passed": 1},
        id="sessionfinish",
    ),
    pytest.param(
        "def pytest_unconfigure(): press_ctrl_c()\n",
        {"collected": 1, "passed": 1},
        id="unconfigure",
    ),
)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no death by signal")
@pytest.mark.parametrize(("hook", "counts"), UNCAUGHT)
def test_ctrl_c_that_pytest_does_not_catch(
    runs: PytestRuns, hook: str, counts: dict[str, int] | None
) -> None:
    """A Ctrl+C outside of the session ends Python itself, by the signal."""
    run = check_ending(
        runs,
        Ending(
            files={"test_it.py": PASSING, "conftest.py": CTRL_C + hook},
            exit_status=-signal.SIGINT,
            reason="INTERRUPTED",
            kind="interrupt.keyboard",
            counts=counts,
        ),
    )
    assert run.report["exit"]["signal"] == "SIGINT"


EXITS: Final = (
    pytest.param(
        {
            "test_it.py": PASSING
            + "import pytest\n"
            + "def test_exits(): pytest.exit('enough', returncode=42)\n"
            + "def test_never_run(): pass\n"
        },
        42,
        {"collected": 3, "passed": 1, "in_flight": 1, "not_run": 1},
        id="returncode",
    ),
    pytest.param(
        {
            "test_it.py": "import pytest\n"
            "def test_exits(): pytest.exit('enough')\n"
            "def test_never_run(): pass\n"
        },
        2,
        {"collected": 2, "in_flight": 1, "not_run": 1},
        id="no-returncode",
    ),
    pytest.param(
        {
            "test_it.py": "import pytest\ndef test_exits(): pytest.exit('done', returncode=0)\n"
        },
        0,
        {"collected": 1, "in_flight": 1},
        id="returncode-0",
    ),
    pytest.param(
        {
            "test_it.py": "import pytest\ndef test_exits(): pytest.exit('done', returncode=-1)\n"
        },
        255,
        {"collected": 1, "in_flight": 1},
        marks=pytest.mark.posix("a shell has 8 bits of it there, and 32 on Windows"),
        id="returncode-negative",
    ),
    pytest.param(
        {
            "test_it.py": "import pytest\ndef test_exits(): pytest.exit('done', returncode=256)\n"
        },
        0,
        {"collected": 1, "in_flight": 1},
        marks=pytest.mark.posix("a shell has 8 bits of it there, and 32 on Windows"),
        id="returncode-256",
    ),
    pytest.param(
        {
            "test_it.py": FIXTURE
            + "    pytest.exit('no database', returncode=7)\n"
            + "def test_exits(stop): pass\n"
            + PASSING
        },
        7,
        {"collected": 2, "in_flight": 1, "not_run": 1},
        id="setup",
    ),
    pytest.param(
        {
            "test_it.py": FIXTURE
            + "    yield\n"
            + "    pytest.exit('no database', returncode=7)\n"
            + "def test_exits(stop): pass\n"
        },
        7,
        {"collected": 1, "passed": 1, "in_flight": 1},
        id="teardown",
    ),
    pytest.param(
        {
            "test_it.py": PASSING,
            "conftest.py": "import pytest\n"
            "def pytest_collection_modifyitems(): pytest.exit('not here', returncode=9)\n",
        },
        9,
        {"collected": 1, "not_run": 1},
        id="collection",
    ),
    pytest.param(
        {
            "test_it.py": PASSING,
            "conftest.py": "import pytest\n"
            "def pytest_sessionfinish(): pytest.exit('late', returncode=11)\n",
        },
        11,
        {"collected": 1, "passed": 1},
        id="sessionfinish",
    ),
    pytest.param(
        {
            "test_it.py": PASSING,
            "conftest.py": "import pytest\n"
            "def pytest_sessionstart(): pytest.exit('early', returncode=12)\n",
        },
        12,
        {},
        id="sessionstart",
    ),
    pytest.param(
        {
            "test_it.py": PASSING,
            "conftest.py": "import pytest\n"
            "def pytest_configure(): pytest.exit('earlier', returncode=13)\n",
        },
        13,
        {},
        id="configure",
    ),
    pytest.param(
        {
            "test_it.py": PASSING,
            "conftest.py": "import pytest\n"
            "def pytest_unconfigure(): pytest.exit('too late', returncode=14)\n",
        },
        1,  # pytest makes a traceback of it
        {"collected": 1, "passed": 1},
        id="unconfigure",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize(("files", "exit_status", "counts"), EXITS)
def test_pytest_exit(
    runs: PytestRuns, files: dict[str, str], exit_status: int, counts: dict[str, int]
) -> None:
    """`pytest.exit` is an interrupt, whatever its return code, 0 included."""
    run = check_ending(
        runs,
        Ending(
            files=files,
            exit_status=exit_status,
            reason="INTERRUPTED",
            kind="interrupt.exit",
            counts=counts,
        ),
    )
    assert len(run.report["verdict"]["evidence"]) == 1


STOPS: Final = (
    pytest.param("shouldstop", 2, "INTERRUPTED", "interrupt.stopped", id="shouldstop"),
    pytest.param(
        "shouldfail", 1, "TESTS_FAILED", "exit_status.changed", id="shouldfail"
    ),
)


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize(("attribute", "exit_status", "reason", "kind"), STOPS)
def test_stop_that_a_plugin_asks_for(
    runs: PytestRuns, attribute: str, exit_status: int, reason: str, kind: str
) -> None:
    """A plugin that stops the session where no test failed is quoted."""
    run = check_ending(
        runs,
        Ending(
            files={
                "test_it.py": PASSING + "def test_never_run(): pass\n",
                "conftest.py": "def pytest_runtest_teardown(item):\n"
                f"    item.session.{attribute} = 'the disk is nearly full'\n",
            },
            exit_status=exit_status,
            reason=reason,
            kind=kind,
            counts={"collected": 2, "passed": 1, "not_run": 1},
        ),
    )
    assert "the disk is nearly full" in run.report["verdict"]["evidence"][0]["detail"]


@pytest.mark.parametrize("attribute", ["shouldstop", "shouldfail"])
def test_stop_after_a_failure(runs: PytestRuns, attribute: str) -> None:
    """Where a test failed before, that is why the run failed."""
    check_ending(
        runs,
        Ending(
            files={
                "test_it.py": "def test_fails(): assert 0\ndef test_never_run(): pass\n",
                "conftest.py": "def pytest_runtest_teardown(item):\n"
                f"    item.session.{attribute} = 'the disk is nearly full'\n",
            },
            exit_status=2 if attribute == "shouldstop" else 1,
            reason="TESTS_FAILED",
            kind="test.failed",
            nodeid="test_it.py::test_fails",
            counts={"collected": 2, "failed": 1, "not_run": 1},
        ),
    )

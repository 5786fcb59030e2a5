"""Runs that end because a hook of a conftest raises, or that such a hook ends in its own way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from tests.helpers.endings import PASSING, Ending, check_ending
from tests.helpers.runs import PytestRuns

PASSED: Final = {"collected": 1, "passed": 1}
NOT_RUN: Final = {"collected": 1, "not_run": 1}
RUNNING: Final = {"collected": 1, "in_flight": 1}

# hook, exit status, kind, counts
RAISING: Final = (
    pytest.param("pytest_configure()", 3, "internal.error", {}, id="configure"),
    pytest.param("pytest_sessionstart()", 3, "internal.error", {}, id="sessionstart"),
    pytest.param("pytest_report_header()", 3, "internal.error", {}, id="report_header"),
    pytest.param("pytest_collection()", 3, "internal.error", {}, id="collection"),
    pytest.param(
        "pytest_collection_modifyitems()",
        3,
        "internal.error",
        NOT_RUN,
        id="modifyitems",
    ),
    pytest.param(
        "pytest_collection_finish()", 3, "internal.error", None, id="collection_finish"
    ),
    pytest.param("pytest_collectreport()", 3, "internal.error", {}, id="collectreport"),
    pytest.param(
        "pytest_runtestloop()", 3, "internal.error", NOT_RUN, id="runtestloop"
    ),
    pytest.param(
        "pytest_runtest_protocol()", 3, "internal.error", NOT_RUN, id="runtest_protocol"
    ),
    pytest.param(
        "pytest_runtest_logstart()", 3, "internal.error", RUNNING, id="logstart"
    ),
    pytest.param(
        "pytest_runtest_makereport()", 3, "internal.error", RUNNING, id="makereport"
    ),
    pytest.param(
        "pytest_runtest_logreport()", 3, "internal.error", None, id="logreport"
    ),
    pytest.param(
        "pytest_report_teststatus()", 3, "internal.error", None, id="teststatus"
    ),
    pytest.param(
        "pytest_runtest_logfinish()", 3, "internal.error", None, id="logfinish"
    ),
    pytest.param(
        "pytest_sessionfinish()", 1, "plugin.error", PASSED, id="sessionfinish"
    ),
    pytest.param(
        "pytest_terminal_summary()", 1, "plugin.error", PASSED, id="terminal_summary"
    ),
    pytest.param("pytest_unconfigure()", 1, "plugin.error", PASSED, id="unconfigure"),
    pytest.param("pytest_cmdline_main()", 1, "plugin.error", {}, id="cmdline_main"),
    pytest.param("pytest_addoption()", 1, "plugin.error", {}, id="addoption"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("hook", "exit_status", "kind", "counts"), RAISING)
def test_hook_that_raises(
    runs: PytestRuns,
    hook: str,
    exit_status: int,
    kind: str,
    counts: Mapping[str, int] | None,
) -> None:
    """What a hook raises is no test's failure; the report quotes it and where it came from."""
    run = check_ending(
        runs,
        Ending(
            files={
                "test_it.py": PASSING,
                "conftest.py": f"def {hook}: raise RuntimeError('hook is broken')\n",
            },
            exit_status=exit_status,
            reason="INTERNAL_ERROR",
            kind=kind,
            counts=counts,
        ),
    )
    (error,) = run.report["internal_errors"]
    assert error["kind"] == kind
    name = hook.partition("(")[0]
    assert (
        error["message"] == f"RuntimeError: hook is broken (conftest.py:1, in {name})"
    )
    assert "conftest.py" in error["traceback"]
    assert "RuntimeError: hook is broken" in error["traceback"]


OTHERS: Final = (
    pytest.param(
        Ending(
            files={
                "test_it.py": PASSING,
                "conftest.py": "def pytest_runtest_setup(): raise RuntimeError('no server')\n",
            },
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.setup_error",
            nodeid="test_it.py::test_passes",
            counts={"collected": 1, "errors": 1},
        ),
        id="runtest-setup",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": PASSING,
                "conftest.py": "def pytest_generate_tests(): raise RuntimeError('no server')\n",
            },
            exit_status=2,
            reason="INTERNAL_ERROR",
            kind="collection.error",
            nodeid="test_it.py",
            counts={"errors": 1, "collection_errors": 1},
        ),
        id="generate-tests",
    ),
    pytest.param(
        Ending(
            files={"test_it.py": PASSING + "import sys\nsys.exit(0)\n"},
            exit_status=3,
            reason="INTERNAL_ERROR",
            kind="internal.error",
        ),
        id="sys-exit-at-import",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": "import sys\ndef test_exits(): sys.exit(0)\n" + PASSING
            },
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            nodeid="test_it.py::test_exits",
            counts={"collected": 2, "failed": 1, "passed": 1},
        ),
        id="sys-exit-in-test",
    ),
    pytest.param(
        Ending(
            files={"test_it.py": PASSING, "conftest.py": "import sys\nsys.exit(5)\n"},
            exit_status=5,
            reason="INTERNAL_ERROR",
            kind="conftest.error",
        ),
        id="sys-exit-in-conftest",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": "def test_fails(): assert 0\n",
                "conftest.py": "def pytest_sessionfinish(): raise RuntimeError('no server')\n",
            },
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            also=["plugin.error"],
            nodeid="test_it.py::test_fails",
            counts={"collected": 1, "failed": 1},
        ),
        id="beside-a-failed-test",
    ),
)


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("ending", OTHERS)
def test_errors_of_other_sorts(runs: PytestRuns, ending: Ending) -> None:
    """Where pytest itself takes what was raised for a test's or a file's, so do we."""
    check_ending(runs, ending)


LATE: Final = (
    "import pytest\n@pytest.hookimpl({})\ndef pytest_sessionfinish(session):\n{}"
)
CHANGES: Final = (
    pytest.param(
        LATE.format("trylast=True", "    session.exitstatus = 3\n"), 3, id="trylast"
    ),
    pytest.param(
        LATE.format("wrapper=True", "    yield\n    session.exitstatus = 77\n"),
        77,
        id="wrapper",
    ),
    pytest.param(
        "import pytest\n@pytest.hookimpl(wrapper=True)\n"
        "def pytest_cmdline_main(config):\n    yield\n    return 1\n",
        1,
        id="cmdline-main",
    ),
)
TABLE: Final = {1: "TESTS_FAILED", 3: "INTERNAL_ERROR", 77: "UNKNOWN"}


@pytest.mark.parametrize(("conftest", "exit_status"), CHANGES)
def test_exit_status_that_a_plugin_changes(
    runs: PytestRuns, conftest: str, exit_status: int
) -> None:
    """A status that another plugin sets after all tests have passed is named as that."""
    check_ending(
        runs,
        Ending(
            files={"test_it.py": PASSING, "conftest.py": conftest},
            exit_status=exit_status,
            reason=TABLE[exit_status],
            kind="exit_status.changed",
            counts=PASSED,
        ),
    )


@pytest.mark.slow
@pytest.mark.lowest
def test_a_collection_error_that_a_plugin_forgives(runs: PytestRuns) -> None:
    """An interrupted pytest has run no test, and exit code 0 does not make that a success."""
    conftest = LATE.format("trylast=True", "    session.exitstatus = 0\n")
    runs.write({"conftest.py": conftest, "test_it.py": "import no_such_module\n"})
    run = runs.compare()
    assert run.exit_status == run.report["exit"]["code"] == 0
    assert run.report["exit"]["reason"] is None
    assert run.verdict == ("INTERNAL_ERROR", "collection.error")
    assert run.kinds == ["collection.error"]


def test_failures_that_a_plugin_forgives(runs: PytestRuns) -> None:
    """With exit code 0 there is no verdict, and what contradicts that is told beside it."""
    conftest = LATE.format("trylast=True", "    session.exitstatus = 0\n")
    runs.write({"conftest.py": conftest, "test_it.py": "def test_it(): assert 0\n"})
    run = runs.compare()
    assert (run.exit_status, run.verdict, run.kinds) == (0, (None, None), [])
    assert [failure["nodeid"] for failure in run.report["failures"]] == [
        "test_it.py::test_it"
    ]
    (fault,) = run.report["faults"]
    assert fault == (
        "pytest ended with exit code 0, so this is no verdict: "
        "assert 0: test_it (test_it.py:1) (test.failed)"
    )
    assert run.stdout[-2:] == [
        (
            "failure taxonomy: pytest ended with exit code 0, which a plugin or a conftest.py set "
            "(1 failed); report: failure-report.json"
        ),
        (
            "failure taxonomy: not by the tests: conftest.py:4 (pytest_sessionfinish) "
            "set the exit status to 0, although tests failed: test_it.py::test_it"
        ),
    ]

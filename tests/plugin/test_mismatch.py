"""xdist workers that collect different tests: one verdict that says in which way."""

from __future__ import annotations

import json
import sys
from typing import Final

import pytest

from tests.helpers.reports import extensions_of
from tests.helpers.runs import FinishedRun, PytestRuns, assert_counts_agree
from tests.helpers.warm_pytest import Switch

IS_SECOND: Final = (
    "import os\nIS_SECOND = os.environ.get('PYTEST_XDIST_WORKER') == 'gw1'\n"
)
RANDOM: Final = (
    "import uuid, pytest\n"
    "@pytest.mark.parametrize('x', [uuid.uuid4()], ids=str)\n"
    "def test_random(x): pass\n"
    "def test_other(): pass\n"
)
OF_A_SET: Final = (
    "import pytest\n"
    "@pytest.mark.parametrize('x', {f'value-{number}' for number in range(40)})\n"
    "def test_set(x): pass\n"
)
ONLY_ONE: Final = f"{IS_SECOND}def test_everywhere(): pass\nif IS_SECOND:\n    def test_only(): pass\n"
REVERSED: Final = (
    f"{IS_SECOND}def pytest_collection_modifyitems(items):\n"
    "    if IS_SECOND:\n"
    "        items.reverse()\n"
)
SAID: Final = "the xdist workers collected different tests: "


def mismatch_of(run: FinishedRun) -> tuple[str, str]:
    """Check that a run has one verdict, which is a mismatch; return its message and its text."""
    assert run.exit_status == 1
    assert run.verdict == ("INTERNAL_ERROR", "collection.mismatch")
    assert run.kinds == ["collection.mismatch"]
    verdict, (error,) = run.report["verdict"], run.report["internal_errors"]
    assert (verdict["failure_type"], verdict["retryable"]) == ("UNKNOWN", False)
    assert (error["kind"], error["message"]) == (
        "collection.mismatch",
        verdict["message"],
    )
    assert [each["detail"] for each in verdict["evidence"]] == [error["traceback"]]
    assert run.report["collection_errors"] == []
    summary = run.report["summary"]
    assert (summary["errors"], summary["collection_errors"]) == (1, 0)
    assert summary["not_run"] == summary["collected"]
    assert extensions_of(run.report) == {}
    assert_counts_agree(run)
    assert verdict["message"].startswith(SAID)
    return verdict["message"].removeprefix(SAID), error["traceback"]


@pytest.mark.parametrize(
    ("dist", "files", "words", "advice"),
    [
        pytest.param(
            "load",
            {"test_it.py": RANDOM},
            "the parameters of test_it.py::test_random differ from process to process ([",
            "uuid4()",
            id="parameters",
        ),
        pytest.param(
            "loadfile",
            {"test_it.py": ONLY_ONE},
            "test_it.py::test_only, which gw",
            "PYTEST_XDIST_WORKER",
            id="membership",
        ),
        pytest.param(
            "worksteal",
            {"test_it.py": OF_A_SET},
            "the parameters of test_it.py::test_set are in another order (test ",
            "PYTHONHASHSEED",
            id="order-of-a-set",
        ),
        pytest.param(
            "loadscope",
            {
                "conftest.py": REVERSED,
                "test_it.py": "def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\n",
            },
            "the order differs from test 1 on: test_it.py::test_",
            "one seed for all workers",
            id="order",
        ),
    ],
)
def test_workers_that_disagree(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    dist: str,
    files: dict[str, str],
    words: str,
    advice: str,
) -> None:
    """The verdict says which of the three it is and names tests, whichever worker came first."""
    if files == {"test_it.py": OF_A_SET}:
        monkeypatch.setattr(
            Switch, "is_on", False
        )  # forks of one process order sets alike
    runs.write(files)
    run = runs.compare("-n", "2", "--dist", dist, plugins=["xdist"])
    message, text = mismatch_of(run)
    assert words in message
    assert "gw0" in message
    assert "gw1" in message
    assert advice in text


@pytest.mark.slow
@pytest.mark.lowest
def test_each_worker_may_have_its_own_tests(runs: PytestRuns) -> None:
    """With `--dist each` nobody compares, and workers that differ are no failure."""
    runs.write({"test_it.py": ONLY_ONE})
    run = runs.run("-n", "2", "--dist", "each", plugins=["xdist"])
    assert (run.exit_status, run.verdict) == (0, (None, None))
    assert run.counts == {"collected": 3, "passed": 3}


@pytest.mark.slow
@pytest.mark.lowest
def test_it_is_on_disk_before_the_end(runs: PytestRuns) -> None:
    """A death right after xdist's report keeps the mismatch, with no secret in its node ids."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    runs.write(
        {
            "conftest.py": "import os, pytest\n"
            "@pytest.hookimpl(trylast=True)\n"
            "def pytest_collectreport(report):\n"
            "    if 'PYTEST_XDIST_WORKER' not in os.environ and report.failed:\n"
            "        os._exit(7)\n",
            "test_it.py": "import os, pytest\n"
            f"SECRET = '{token}' + os.environ['PYTEST_XDIST_WORKER']\n"
            "@pytest.mark.parametrize('x', [SECRET])\ndef test_secret(x): pass\n",
        }
    )
    run = runs.run_unchecked(
        *("-n", "2", "-p", "no:terminal"),
        plugins=["xdist"],
        prefix=(sys.executable, "-m", "pytest_failure_taxonomy", "run", "--"),
    )
    assert run.exit_status == 7
    report = runs.read_report()
    kinds = [held["kind"] for held in report["reasons"]]
    assert kinds == ["collection.mismatch", "process.exited"]
    assert (
        "the parameters of test_it.py::test_secret differ"
        in report["verdict"]["message"]
    )
    assert token not in json.dumps(report)

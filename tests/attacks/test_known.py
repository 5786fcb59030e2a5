"""What a list of known failures must not make green: anything but tests that failed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import SWITCH, pytest_command, run_child
from tests.helpers.reports import read_report
from tests.helpers.task_classes import BENCH, passing_cases, task_class_files

pytestmark = pytest.mark.slow

RUN: Final = [sys.executable, "-m", "pytest_failure_taxonomy", "run", "--"]
EVERY: Final = "- nodeid: '*'\n"
BY_FILE: Final = [f"{SWITCH}-known=known.yaml"]
BY_HISTORY: Final = [f"{SWITCH}-history", f"{SWITCH}-known=history"]
XDIST: Final = ["-n", "2"]
SPENDS: Final = """\
import pytest
from pytest_failure_taxonomy.bench import Answer
@pytest.fixture(scope="session")
def system_under_test():
    return lambda case: Answer(case.fields.get("answer", case.input), cost_usd=0.3)
"""


def bench(failing: int, settings: str = "", **more: str) -> dict[str, str]:
    """Return a task class of 12 cases of which the first ones fail."""
    wrong = [{**case, "answer": "wrong"} for case in passing_cases(failing)]
    return task_class_files(
        [*wrong, *passing_cases(12)[failing:]], settings=settings, **more
    )


def suite(*tests: str, **files: str) -> dict[str, str]:
    """Return a test file, and other files by their names without `.py`."""
    return {
        "test_it.py": "".join(tests),
        **{f"{name}.py": text for name, text in files.items()},
    }


GATE: Final = bench(3, "gate: {lower_bound_95: 0.9}\n")
FAILS: Final = "def test_fails(): assert 0\n"
PASSES: Final = "def test_passes(): pass\n"
DIES: Final = "import os\ndef test_dies(): os._exit(3)\n"
PHASES: Final = """\
import pytest, time
@pytest.fixture
def broken(): assert 0
@pytest.fixture
def torn():
    yield
    assert 0
def test_setup(broken): pass
def test_teardown(torn): pass
@pytest.mark.timeout(0.1)
def test_slow(): time.sleep(5)
"""
HALF: Final = "def f(x):\n    if x:\n        return 1\n    return 2\n"
BETWEEN: Final = (
    "import os, pytest\n"
    "@pytest.hookimpl(trylast=True)\n"
    "def pytest_sessionstart(session):\n"
    "    if os.environ.get('PYTEST_XDIST_WORKER') == 'gw0': os._exit(3)\n"
)
COUNTS: Final = """\
import pytest
@pytest.hookimpl(wrapper=True)
def pytest_{hook}(session):
    result = yield
    session.testsfailed += 1
    return result
"""
"""A plugin that has found something wrong, and counts it as a failure."""
IS_COUNTED: Final = "a plugin counted failures that belong to no test"
NO_GATE: Final = "the gate of bench echo failed"

RUNS: Final[Mapping[str, tuple[Mapping[str, str], list[str], int, str]]] = {
    "gate": (GATE, ["bench", *BY_FILE], 1, NO_GATE),
    "gate-xdist": (GATE, ["bench", *BY_FILE, *XDIST], 1, NO_GATE),
    "gate-history": (GATE, ["bench", *BY_HISTORY], 1, NO_GATE),
    "capped": (
        bench(2, "concurrency: 1\nmax_cost_usd: 0.7\n", system=SPENDS),
        ["bench", *BY_FILE],
        1,
        "bench echo is incomplete",
    ),
    "lost": (
        task_class_files(
            [*passing_cases(5), {"id": "case-dies", "input": 1, "exit": 3}]
        ),
        ["bench", *BY_FILE, *XDIST],
        1,
        "bench echo is incomplete",
    ),
    "coverage": (
        suite("import own\ndef test_half(): own.f(1)\n", FAILS, own=HALF),
        [*BY_FILE, "--cov=own", "--cov-fail-under=75.5"],
        1,
        "coverage 75.00 % is below the required 75.5 %",
    ),
    "collection": (
        suite(FAILS, test_more="import no_such_module\n"),
        [*BY_FILE, "--continue-on-collection-errors"],
        1,
        "something could not be collected",
    ),
    "stopped": (suite(FAILS, PASSES), [*BY_FILE, "-x"], 1, "stopping after 1 failures"),
    "no-test-of-a-worker": (
        suite(FAILS, PASSES, conftest=BETWEEN),
        [*BY_FILE, *XDIST],
        1,
        "a worker died without a test",
    ),
    "counted": (
        suite(FAILS, PASSES, conftest=COUNTS.format(hook="runtestloop")),
        BY_FILE,
        1,
        IS_COUNTED,
    ),
    "counted-at-the-end-xdist": (
        suite(FAILS, PASSES, conftest=COUNTS.format(hook="sessionfinish")),
        [*BY_FILE, *XDIST],
        1,
        IS_COUNTED,
    ),
    "crash-by-fingerprint": (
        {**suite(DIES, PASSES), "known.yaml": "- fingerprint: {}\n"},
        [*BY_FILE, *XDIST],
        1,
        "not known by known.yaml: 1 of them: test_it.py::test_dies",
    ),
    "crash": (suite(DIES, PASSES), [*BY_FILE, *XDIST], 0, "1 failure, which is known"),
    "crash-in-history": (
        suite(DIES, PASSES),
        [*BY_HISTORY, *XDIST],
        0,
        "which is known",
    ),
    "phases": (suite(PHASES), BY_FILE, 0, "3 failures, which are all known"),
    "no-gate": (bench(3), ["bench", *BY_FILE], 0, "3 failures, which are all known"),
}


@pytest.mark.attack("known", RUNS, some=2)
def test_nothing_but_failed_tests_is_known(
    tmp_path: Path, known: tuple[Mapping[str, str], list[str], int, str]
) -> None:
    """A list that names everything accepts the failures of tests, and the reason is said."""
    files, args, status, words = known
    if "--cov=own" in args and find_spec("pytest_cov") is None:
        pytest.skip("needs pytest-cov")
    for path, content in {
        "pytest.ini": "[pytest]\n",
        "known.yaml": EVERY,
        **files,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content, "utf-8")
    plugins = ("failure_taxonomy", BENCH, "xdist", "timeout", "pytest_cov")
    command = [*RUN, *pytest_command(*args, plugins=plugins)]
    env = {"FAILURE_TAXONOMY_HISTORY_SECONDS": "60"}
    if "{}" in files.get("known.yaml", ""):
        (tmp_path / "known.yaml").write_text(EVERY, "utf-8")
        run_child(tmp_path, command, env=env)
        report = json.loads((tmp_path / "failure-report.json").read_text("utf-8"))
        entry = files["known.yaml"].format(f"'{report['groups'][0]['fingerprint']}'")
        (tmp_path / "known.yaml").write_text(entry, "utf-8")
    if f"{SWITCH}-history" in args:
        assert run_child(tmp_path, command, env=env).status == 1  # new at first
    run = run_child(tmp_path, command, env=env)
    assert (run.status, words in run.stdout) == (status, True), run.stdout
    assert read_report(tmp_path / "failure-report.json")["exit"]["code"] == status


@pytest.mark.parametrize(
    "args",
    [
        ["-q"],
        ["-qq"],
        ["-q", "-n2", "--tb=no"],
        ["-p", "no:terminal"],
        [f"{SWITCH}-summary=off"],
    ],
    ids=" ".join,
)
def test_a_green_run_with_failures_is_never_silent(
    tmp_path: Path, args: list[str]
) -> None:
    """However quiet a run is, it says that known failures have made its status 0."""
    for path, content in {
        "pytest.ini": "[pytest]\n",
        "known.yaml": EVERY,
        **suite(FAILS),
    }.items():
        (tmp_path / path).write_text(content, "utf-8")
    plugins = ("failure_taxonomy", "xdist")
    run = run_child(tmp_path, pytest_command(SWITCH, *BY_FILE, *args, plugins=plugins))
    assert run.status == 0
    words = "1 failure, which is known (known.yaml), so the exit status is 0"
    assert (run.stdout + run.stderr).count(words) == 1


def test_a_status_that_a_plugin_has_set_is_never_silent(tmp_path: Path) -> None:
    """So it is where a plugin of the user's has made the status 0."""
    sets = (
        "import pytest\n@pytest.hookimpl(trylast=True)\n"
        "def pytest_sessionfinish(session): session.exitstatus = 0\n"
    )
    for path, content in {
        "pytest.ini": "[pytest]\n",
        **suite(FAILS, conftest=sets),
    }.items():
        (tmp_path / path).write_text(content, "utf-8")
    run = run_child(
        tmp_path, pytest_command(SWITCH, "-q", plugins=("failure_taxonomy",))
    )
    assert run.status == 0
    assert "exit code 0, which a plugin or a conftest.py set" in run.stdout

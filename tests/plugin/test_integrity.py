"""Green is checked: what else than the tests made a result is a note, or fails the run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import (
    SWITCH,
    ChildRun,
    pytest_command,
    run_child,
    run_pytest,
)
from tests.helpers.reports import read_report
from tests.helpers.repositories import Repository

CERTIFY: Final = f"{SWITCH}-certify"
REPORT: Final = "failure-report.json"
NOTE: Final = "failure taxonomy: not by the tests: "
GREEN: Final = "failure taxonomy: no failure (2 passed); report: failure-report.json"

HIDES: Final = """import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and "hidden" in item.name:
        report.outcome = "passed"
    return report
"""
HIDDEN: Final = "conftest.py:8 (pytest_runtest_makereport) hid what failed"
TESTS: Final = "def test_hidden():\n    assert 1 == 2\n\n\ndef test_passes(): pass\n"
PASSING: Final = "def test_one(): pass\ndef test_two(): pass\n"
HONEST: Final = """import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    setattr(item, f"rep_{report.when}", report)
    return report
"""

sees_code = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="what code runs is seen from Python 3.12 on"
)
WORKERS: Final = pytest.mark.parametrize(
    "workers", [(), ("-n", "2")], ids=["serial", "xdist"]
)


def run_files(
    folder: Path, conftest: str, tests: str, *args: str, **more: str
) -> ChildRun:
    """Write a conftest and tests, and other files by their names; run pytest on them."""
    files = {"pytest.ini": "[pytest]\n", "conftest.py": conftest, "test_it.py": tests}
    for name, text in {**files, **more}.items():
        (folder / name).write_text(text, "utf-8")
    plugins = ["xdist"] if "-n" in args else []
    return run_pytest(folder, *args, plugins=plugins)


def notes_of(run: ChildRun) -> list[str]:
    """Return the printed notes on what made results."""
    return [
        line.removeprefix(NOTE)
        for line in run.stdout.splitlines()
        if line.startswith(NOTE)
    ]


def found_by(run: ChildRun) -> Mapping[str, Any]:
    """Return the one finding of a run."""
    (found,) = run.report()["integrity"]
    assert isinstance(found, dict)
    return found


# As a note.


def test_a_hidden_failure_is_a_note(tmp_path: Path) -> None:
    """A line names the hook's statement, its hook and the test; the exit status stays 0."""
    run = run_files(tmp_path, HIDES, TESTS)
    assert run.status == 0
    assert run.tail == [GREEN, f"{NOTE}{HIDDEN}: test_it.py::test_hidden"]
    report = run.report()
    assert report["verdict"] is None
    assert report["integrity"] == [
        {
            "kind": "integrity.outcome_rewritten",
            "nodeids": ["test_it.py::test_hidden"],
            "where": {"path": "conftest.py", "line": 8},
            "hook": "pytest_runtest_makereport",
            "detail": "hid what failed",
        }
    ]


@WORKERS
@pytest.mark.parametrize("conftest", ["", HONEST], ids=["none", "attaches-reports"])
def test_an_ordinary_suite_has_no_note(
    tmp_path: Path, conftest: str, workers: tuple[str, ...]
) -> None:
    """Nothing is said of a suite whose hooks change no result, and its tests aren't followed."""
    run = run_files(tmp_path, conftest, PASSING, *workers)
    assert run.tail == [GREEN]
    report = run.report()
    assert (report["integrity"], report["entered"]) == ([], None)


def test_a_quiet_run_has_the_note(tmp_path: Path) -> None:
    """With `-q` the note stands alone; with `-qq` only the report has it."""
    run = run_files(tmp_path, HIDES, TESTS, "-q")
    assert run.tail == [f"{NOTE}{HIDDEN}: test_it.py::test_hidden"]
    run = run_pytest(tmp_path, "-qq")
    assert NOTE not in run.stdout
    assert found_by(run)["kind"] == "integrity.outcome_rewritten"


def test_three_findings_are_printed(tmp_path: Path) -> None:
    """Of several findings three are printed, and how many more the report has."""
    conftest = HIDES + (
        "import time\nimport unittest\n"
        "def pytest_collection_modifyitems(items):\n"
        "    items[:] = [item for item in items if 'slow' not in item.name]\n"
        "def pytest_sessionstart():\n"
        "    time.time = lambda: 0.0\n"
        "    unittest.TestCase.assertEqual = lambda *given: None\n"
        "    unittest.TestCase.assertTrue = lambda *given: None\n"
    )
    run = run_files(tmp_path, conftest, TESTS + "def test_slow(): pass\n")
    notes = notes_of(run)
    assert notes[0] == "conftest.py:15 replaced time.time"
    assert notes[3:] == ["2 more, in the report"]
    kinds = [found["kind"] for found in run.report()["integrity"]]
    assert sorted(kinds) == [
        *["integrity.assertion_replaced"] * 2,
        "integrity.environment_changed",
        "integrity.outcome_rewritten",
        "integrity.tests_removed",
    ]


# What is found.


def test_removed_tests_are_found(tmp_path: Path) -> None:
    """Tests that a hook took away are named; those that it deselects as pytest does are not."""
    tests = "def test_one(): pass\ndef test_slow(): assert 0\ndef test_slower(): pass\n"
    conftest = "def pytest_collection_modifyitems(config, items):\n    del items[1:]\n"
    run = run_files(tmp_path, conftest, tests)
    (note,) = notes_of(run)
    place = "conftest.py:2 (pytest_collection_modifyitems)"
    both = "test_it.py::test_slow, test_it.py::test_slower"
    assert note == f"{place} removed what was collected: {both}"
    told = "    config.hook.pytest_deselected(items=items[1:])\n"
    head, _, remove = conftest.rpartition("    ")
    run = run_files(tmp_path, f"{head}{told}    {remove}", tests)
    assert run.report()["integrity"] == []


@pytest.mark.parametrize(
    ("statement", "count"), [("[*items]", 0), ("items.pop()", 1)], ids=["reads", "pops"]
)
def test_an_installed_plugin_may_remove_tests(
    tmp_path: Path, statement: str, count: int
) -> None:
    """pytest-shard removes the tests of other shards in silence; a conftest may not."""
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "sharding.py").write_text(
        "def pytest_collection_modifyitems(items):\n    items[:] = items[1:]\n", "utf-8"
    )
    (tmp_path / "conftest.py").write_text(
        f"def pytest_collection_modifyitems(items):\n    {statement}\n", "utf-8"
    )
    (tmp_path / "test_it.py").write_text(PASSING + "def test_three(): pass\n", "utf-8")
    env = {"PYTHONPATH": str(installed)}
    run = run_pytest(tmp_path, "-p", "sharding", env=env)
    assert len(run.report()["integrity"]) == count


def test_an_exit_status_set_back_is_found(tmp_path: Path) -> None:
    """A run in which tests failed and that ends with 0 names the hook that did that."""
    conftest = "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
    run = run_files(tmp_path, conftest, "def test_fails(): assert 0\n")
    assert run.status == 0
    (note,) = notes_of(run)
    place = "conftest.py:2 (pytest_sessionfinish)"
    words = "set the exit status to 0, although tests failed: test_it.py::test_fails"
    assert note == f"{place} {words}"
    run = run_pytest(tmp_path, CERTIFY)
    assert run.status == 1
    kinds = {held["kind"] for held in run.report()["reasons"]}
    assert kinds == {"test.failed", "integrity.exit_status"}


@sees_code
def test_a_test_that_is_never_entered_is_found(tmp_path: Path) -> None:
    """A hook that puts something in place of a test's function is named, and it is counted."""
    conftest = (
        "def pytest_runtest_setup(item):\n"
        "    if item.name == 'test_hidden':\n"
        "        item.obj = lambda: None\n"
    )
    run = run_files(tmp_path, conftest, TESTS)
    found = found_by(run)
    assert found["kind"] == "integrity.test_replaced"
    assert found["nodeids"] == ["test_it.py::test_hidden"]
    assert found["where"] == {"path": "conftest.py", "line": 3}
    assert found["detail"] == "ran in place of the test"
    assert run.report()["entered"] == {"entered": 1, "ran": 2}


@pytest.mark.parametrize("args", [[], [CERTIFY]], ids=["noted", "certified"])
def test_our_plugin_switched_off_is_found(tmp_path: Path, args: list[str]) -> None:
    """A conftest that unregisters the check is named by the rest of the plugin."""
    conftest = (
        "def pytest_sessionstart(session):\n"
        "    manager = session.config.pluginmanager\n"
        "    manager.unregister(name='failure_taxonomy_integrity')\n"
    )
    run = run_files(tmp_path, conftest, PASSING, *args)
    found = found_by(run)
    assert found["kind"] == "integrity.record_changed"
    assert found["where"] == {"path": "conftest.py", "line": 3}
    assert run.status == len(args)


# Certified.


@WORKERS
def test_a_certified_run_is_red(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """A hidden failure makes it red, with the place in the verdict, on workers, too."""
    run = run_files(tmp_path, HIDES, TESTS, CERTIFY, *workers)
    assert run.status == 1
    report = run.report()
    assert report["exit"]["code"] == 1
    verdict = report["verdict"]
    assert verdict["reason"] == "TESTS_FAILED"
    assert verdict["kind"] == "integrity.outcome_rewritten"
    assert verdict["message"] == f"{HIDDEN}: test_it.py::test_hidden"
    assert verdict["charge_to"] == "subject"
    assert run.told[1].startswith(HIDDEN)
    assert found_by(run)["nodeids"] == ["test_it.py::test_hidden"]
    assert notes_of(run) == []  # it is the verdict


@sees_code
@WORKERS
@pytest.mark.parametrize("conftest", ["", HIDES], ids=["honest", "hides"])
def test_entered_tests_are_counted_once(
    tmp_path: Path, workers: tuple[str, ...], conftest: str
) -> None:
    """Each test counts once, also one whose failure is hidden; those of workers add up."""
    run = run_files(tmp_path, conftest, TESTS, CERTIFY, *workers)
    assert run.status == 1
    assert run.report()["entered"] == {"entered": 2, "ran": 2}


@WORKERS
@pytest.mark.parametrize("conftest", ["", HONEST], ids=["none", "attaches-reports"])
def test_an_honest_suite_is_certified(
    tmp_path: Path, workers: tuple[str, ...], conftest: str
) -> None:
    """It ends as it does without the option, and every test that ran was entered."""
    run = run_files(tmp_path, conftest, PASSING, CERTIFY, *workers)
    assert run.status == 0
    assert run.tail == [GREEN]
    report = run.report()
    assert (report["verdict"], report["integrity"]) == (None, [])
    if sys.version_info >= (3, 12):
        assert report["entered"] == {"entered": 2, "ran": 2}


KINDS_OF_TESTS: Final = """import functools, unittest
import pytest


class TestClass:
    def test_method(self): pass
    @staticmethod
    def test_static(): pass


class CaseTest(unittest.TestCase):
    def test_passes(self): pass
    def test_subtests(self):
        with self.subTest(number=1): pass
    @unittest.skip("never starts")
    def test_skipped(self): assert 0
    def test_skips(self): self.skipTest("in its code")
    @unittest.expectedFailure
    def test_expected(self): assert 0


@pytest.mark.parametrize("number", range(3))
def test_parameters(number): pass

@pytest.mark.skip
def test_never(): pass

def test_skips(): pytest.skip("in its code")

@pytest.mark.xfail
def test_xfails(): assert 0

@pytest.mark.xfail(run=False)
def test_is_not_run(): assert 0

def wrapped(function):
    @functools.wraps(function)
    def inner(*given): return function(*given)
    return inner

@wrapped
def test_decorated(): pass
"""


@WORKERS
@pytest.mark.parametrize(
    "conftest", ["", HIDES], ids=["by-entries", "by-outcomes-also"]
)
def test_every_kind_of_test_is_certified(
    tmp_path: Path, workers: tuple[str, ...], conftest: str
) -> None:
    """Classes, unittest, subtests, skips, expected failures and decorators raise no alarm."""
    run = run_files(tmp_path, conftest, KINDS_OF_TESTS, CERTIFY, *workers)
    assert run.status == 0, run.stdout
    report = run.report()
    assert (report["integrity"], report["faults"]) == ([], [])
    if sys.version_info >= (3, 12):
        ran = 2 + 4 + 3 + 3  # three do not start
        assert report["entered"] == {"entered": ran, "ran": ran}


def test_a_test_that_a_hook_runs_again_is_certified(tmp_path: Path) -> None:
    """A plugin of retries counts the last try, as its users want it."""
    conftest = (
        "import pytest\n"
        "@pytest.hookimpl(hookwrapper=True)\n"
        "def pytest_runtest_makereport(item, call):\n"
        "    result = yield\n"
        "    if call.when == 'call' and call.excinfo:\n"
        "        again = pytest.CallInfo.from_call(item.runtest, 'call')\n"
        "        report = pytest.TestReport.from_item_and_call(item, again)\n"
        "        result.force_result(report)\n"
    )
    tests = (
        "tries = []\ndef test_it():\n    tries.append(1)\n    assert len(tries) > 1\n"
    )
    run = run_files(tmp_path, conftest, tests, CERTIFY)
    assert (run.status, run.report()["integrity"]) == (0, [])


def test_certify_by_the_ini_value(tmp_path: Path) -> None:
    """The ini value does what the flag does."""
    ini = {"pytest.ini": "[pytest]\nfailure_taxonomy_certify = true\n"}
    run = run_files(tmp_path, HIDES, TESTS, **ini)
    assert run.status == 1


def test_a_certified_run_is_red_in_a_quiet_one(tmp_path: Path) -> None:
    """The status is 1 however quiet the run is; `-q` names the place."""
    run = run_files(tmp_path, HIDES, TESTS, CERTIFY, "-q")
    assert run.status == 1
    assert run.tail[0].startswith(HIDDEN)
    assert run_pytest(tmp_path, CERTIFY, "-qq").status == 1


@pytest.mark.parametrize(
    "tests",
    [TESTS, f"{TESTS}\n\ndef test_fails(): assert 0\n"],
    ids=["all-hidden", "one-fails"],
)
def test_a_finding_is_never_a_known_failure(tmp_path: Path, tests: str) -> None:
    """A list of known failures that names everything does not make the run green again."""
    known = {"known.yaml": "- nodeid: '*'\n"}
    args = (CERTIFY, f"{SWITCH}-known=known.yaml")
    run = run_files(tmp_path, HIDES, tests, *args, **known)
    assert run.status == 1
    report = run.report()
    assert "integrity.outcome_rewritten" in {held["kind"] for held in report["reasons"]}
    if "test_fails" in tests:
        words = "not accepted, because something else than the tests made results"
        assert words in run.stdout
        run = run_pytest(tmp_path, args[1])
        assert run.status == 0  # without the option


def test_a_baseline_is_not_made_red(tmp_path: Path) -> None:
    """A baseline has to fail by its tests: a green one with a finding is no valid one."""
    run = run_files(tmp_path, HIDES, TESTS, CERTIFY, f"{SWITCH}-stage=baseline_run")
    assert run.status == 0
    report = run.report()
    assert report["verdict"]["reason"] == "BASELINE_NOT_FAILING"
    assert found_by(run)["kind"] == "integrity.outcome_rewritten"
    assert notes_of(run) == [f"{HIDDEN}: test_it.py::test_hidden"]


# `failure-taxonomy run --certify`.


FIXTURE: Final = """import pytest


@pytest.fixture(autouse=True)
def quiet(request):
    request.node.obj = {replaces}
"""


@sees_code
@pytest.mark.parametrize("replaces", ["lambda **_: None", "print"])
def test_a_fixture_that_replaces_a_test_is_found(tmp_path: Path, replaces: str) -> None:
    """No hook is needed to give a test another function."""
    run = run_files(tmp_path, FIXTURE.format(replaces=replaces), TESTS, CERTIFY)
    assert run.status == 1
    (found,) = run.report()["integrity"]
    assert (found["kind"], found["where"]["line"]) == ("integrity.test_replaced", 6)


SKIPS: Final = """import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    try:
        return (yield)
    except {error}:
        pytest.skip("not here")
"""


@pytest.mark.parametrize(
    ("error", "raised", "status"),
    [
        ("ValueError", "int('x')", 1),
        ("Exception", "{}['x']", 1),
        ("OSError", "raise ConnectionError", 0),
        ("NotImplementedError", "raise NotImplementedError", 0),
    ],
)
def test_a_fault_of_code_that_becomes_a_skip(
    tmp_path: Path, error: str, raised: str, status: int
) -> None:
    """What the environment lacks may be skipped, and a fault of the code may not."""
    tests = f"def test_it():\n    {raised}\n"
    run = run_files(tmp_path, SKIPS.format(error=error), tests, CERTIFY)
    assert run.status == status, run.stdout


@pytest.mark.parametrize(
    "conftest",
    [
        "import unittest\ndef new(self): pass\nunittest.TestCase.assertNew = new\n",
        "import pytest\npytest.new = lambda: None\n",
        "import unittest\nunittest.TestCase.maxDiff = None\n",
    ],
)
def test_an_addition_replaces_nothing(tmp_path: Path, conftest: str) -> None:
    """A new name on what decides results is no finding, and a setting is none."""
    run = run_files(tmp_path, conftest, PASSING, CERTIFY)
    assert run.status == 0, run.stdout


@pytest.mark.parametrize("option", [CERTIFY, f"{SWITCH}-base=HEAD"])
def test_the_options_switch_the_report_on(tmp_path: Path, option: str) -> None:
    """A gate is never off in silence."""
    repository = Repository(tmp_path)
    (repository.folder / "conftest.py").write_text(HIDES, "utf-8")
    repository.commit("all", test_it=TESTS)
    run = run_pytest(repository.folder, option, switch=())
    assert run.status == (option == CERTIFY)
    assert HIDDEN in run.stdout


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_a_pytest_that_runs_nothing_is_not_accused(tmp_path: Path, option: str) -> None:
    """It has nothing to record."""
    words = [*pytest_command(option)]
    us = [sys.executable, "-m", "pytest_failure_taxonomy", "run", "--", *words]
    run = run_child(tmp_path, us)
    assert run.status == 0
    assert "not by the tests" not in run.stdout + run.stderr
    assert read_report(tmp_path / REPORT)["integrity"] == []


def run_certified(folder: Path, *command: str) -> ChildRun:
    """Run a command with `run --certify`."""
    us = [sys.executable, "-m", "pytest_failure_taxonomy"]
    return run_child(folder, [*us, "run", "--certify", "--", *command])


def test_run_certifies_a_pytest(tmp_path: Path) -> None:
    """The plugin is told without an option, and an honest suite stays green."""
    run_files(tmp_path, HIDES, TESTS)
    run = run_certified(tmp_path, *pytest_command())
    assert run.status == 1
    verdict = read_report(tmp_path / REPORT)["verdict"]
    assert verdict["kind"] == "integrity.outcome_rewritten"
    run_files(tmp_path, "", PASSING)
    assert run_certified(tmp_path, *pytest_command()).status == 0


def test_run_can_certify_nothing_but_a_pytest(tmp_path: Path) -> None:
    """A command that ends with 0 and has run no pytest says so, and the status is 1."""
    run = run_certified(tmp_path, sys.executable, "-c", "pass")
    assert run.status == 1
    assert run.stderr.splitlines()[-1] == (
        "failure-taxonomy: run --certify: no pytest was recorded, "
        "so there is nothing to certify"
    )


def test_run_certifies_no_pytest_without_the_plugin(tmp_path: Path) -> None:
    """If the project's settings switch the plugin off, the verdict names their line."""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:failure_taxonomy\n", "utf-8"
    )
    (tmp_path / "test_it.py").write_text(PASSING, "utf-8")
    run = run_certified(tmp_path, *pytest_command(plugins=()))
    assert run.status == 1
    report = read_report(tmp_path / REPORT)
    (found,) = report["integrity"]
    assert found["where"] == {"path": "pytest.ini", "line": 2}
    assert report["verdict"]["kind"] == found["kind"] == "integrity.record_changed"


# Compared with a commit.


def run_since(folder: Path, revision: str, *args: str) -> ChildRun:
    """Run pytest, and compare its files with those of a commit."""
    return run_pytest(folder, f"{SWITCH}-base={revision}", *args)


@pytest.mark.parametrize("revision", ["nonsense", "--all", ""])
def test_an_unknown_base_is_refused(tmp_path: Path, revision: str) -> None:
    """It is a usage error of one line that says where, what and what would be right."""
    repository = Repository(tmp_path)
    repository.commit("all", test_it=PASSING)
    run = run_since(repository.folder, revision)
    assert run.status == 4
    lines = [line for line in run.stderr.splitlines() if line]
    assert lines[0] == (
        f"ERROR: {SWITCH}-base: {revision!r} is no commit here; "
        "give a commit of the repository such as origin/main"
    )


def test_changed_files_are_found(tmp_path: Path) -> None:
    """A conftest and a test that differ are named by their lines, and a new test is not."""
    repository = Repository(tmp_path)
    folder = repository.folder
    one, two = "def test_one():\n    assert 1 == 2\n", "def test_two(): pass\n"
    repository.commit("all", conftest="import os\n", test_it=one + two)
    added = "\n\ndef test_new():\n    assert 1\n"
    repository.write(test_it=one + two + added, test_other=PASSING)
    assert run_since(folder, "HEAD").report()["integrity"] == []
    repository.write(
        conftest="import os\n\nBIG = 3\n", test_it=one.replace("2", "1") + two + added
    )
    run = run_since(folder, "HEAD", CERTIFY)
    assert run.status == 1
    conftest, test = run.report()["integrity"]
    assert conftest == {
        "kind": "integrity.files_changed",
        "nodeids": [],
        "where": {"path": "conftest.py", "line": 3},
        "hook": None,
        "detail": "has changed since HEAD",
    }
    assert test["nodeids"] == ["test_it.py::test_one"]
    assert test["where"] == {"path": "test_it.py", "line": 2}
    assert test["detail"] == "has changed since HEAD"
    repository.commit("changed")
    assert run_since(folder, "HEAD").report()["integrity"] == []
    before = run_since(folder, "HEAD~1").report()["integrity"]
    assert [found["where"] for found in before] == [conftest["where"], test["where"]]


def test_what_tests_import_and_read_is_compared(tmp_path: Path) -> None:
    """A changed file among the tests counts; a new one, and one that was renamed, do not."""
    repository = Repository(tmp_path)
    tests = repository.folder / "tests"
    tests.mkdir()
    (tests / "base.py").write_text("def check(value): assert value\n", "utf-8")
    (tests / "test_old.py").write_text(PASSING, "utf-8")
    repository.commit("all", test_it=PASSING)
    (tests / "base.py").write_text("def check(value): pass\n", "utf-8")
    (tests / "new.txt").write_text("new", "utf-8")
    (tests / "test_old.py").rename(tests / "test_new.py")
    (found,) = run_since(repository.folder, "HEAD").report()["integrity"]
    assert found["where"] == {"path": "tests/base.py", "line": 1}


def test_changed_settings_are_found(tmp_path: Path) -> None:
    """A new conftest and pytest's settings count, and other settings in that file don't."""
    repository = Repository(tmp_path)
    settings = repository.folder / "setup.cfg"
    settings.write_text("[tool:pytest]\n")
    repository.commit("all", test_it=PASSING)
    settings.write_text("[metadata]\nname = shop\n[tool:pytest]\n")
    assert run_since(repository.folder, "HEAD").report()["integrity"] == []
    settings.write_text("[tool:pytest]\naddopts = -k one\n")
    repository.write(conftest="")
    run = run_since(repository.folder, "HEAD")
    new, changed = run.report()["integrity"]
    assert new["detail"] == "is new since HEAD"
    assert changed["where"] == {"path": "setup.cfg", "line": 2}
    words = "has other settings for pytest since HEAD"
    assert changed["detail"] == words
    assert notes_of(run)[1] == f"setup.cfg:2 {words}"

"""The example project: every ending it promises, and that its README says the same as its table."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.prove import axes, ladder
from pytest_failure_taxonomy.prove.axes import Axis, Base, axes_of
from pytest_failure_taxonomy.prove.experiment import Experiments, Victim
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.runs import REPORT, PytestRuns, assert_counts_agree

PROJECT: Final = Path(__file__).parents[2] / "example_project"
ENDINGS: Final[list[dict[str, Any]]] = tomllib.loads(
    (PROJECT / "endings" / "endings.toml").read_text("utf-8")
)["ending"]
README: Final = (PROJECT / "README.md").read_text("utf-8")
ROW: Final = re.compile(
    r"\| `(?P<command>[^`]*pytest --failure-taxonomy[^`]*)`"
    r" \| (?P<code>\d+)(?: \((?P<signal>\w+)\))?"
    r" \| (?:null|`(?P<reason>\w+)` \(`(?P<kind>[\w.]+)`\)) \| (?P<shows>.*) \|"
)
ENTRY_POINTS: Final = {"pytest-cov": "pytest_cov"}
"""Plugins whose entry points have another name than theirs without `pytest-`."""
LEFT_OUT: Final = shutil.ignore_patterns(
    "__pycache__", ".*_cache", "build", "dist", "*.egg-info", REPORT
)


@pytest.fixture
def project(runs: PytestRuns, monkeypatch: pytest.MonkeyPatch) -> PytestRuns:
    """Start runs of pytest in a copy of the example project."""
    shutil.copytree(PROJECT, runs.path, dirs_exist_ok=True, ignore=LEFT_OUT)
    return runs


def skip_unless_possible(ending: dict[str, Any]) -> None:
    """Skip an ending that this system or the installed versions can't bring about."""
    if ending.get("posix_only") and sys.platform == "win32":
        pytest.skip("needs POSIX signals")
    needed = tuple(int(part) for part in ending.get("min_pytest", "0").split("."))
    if pytest.version_tuple[: len(needed)] < needed:
        pytest.skip(f"needs pytest {ending['min_pytest']}")
    for name in ending.get("requires", ()):
        try:
            version(name)
        except PackageNotFoundError:
            pytest.skip(f"needs {name}")
    for command in ending.get("prefix", ())[:1]:
        if shutil.which(command) is None:
            pytest.skip(f"needs {command}")


@pytest.mark.parametrize("ending", ENDINGS, ids=[ending["name"] for ending in ENDINGS])
def test_ending(
    project: PytestRuns, ending: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run of the example ends as its table says, and its report says why."""
    skip_unless_possible(ending)
    for name, value in ending.get("env", {}).items():
        monkeypatch.setenv(name, value)
    plugins = [ENTRY_POINTS.get(name, name[7:]) for name in ending.get("requires", ())]
    run = project.run(*ending["args"], plugins=plugins, prefix=ending.get("prefix", ()))
    assert run.shell_status == ending["exit_code"]
    if "signal" in ending:
        assert signal.Signals(-run.exit_status).name == ending["signal"]
    if "outcomes" in ending:
        assert run.outcomes == ending["outcomes"]
    if not ending.get("in_process", True):
        check_report_of_a_death(project, ending)
        return
    assert run.report["completeness"] == "full"
    assert run.report["exit"]["code"] == run.shell_status
    assert run.verdict == (ending.get("reason"), ending.get("kind"))
    assert_counts_agree(run)


def check_report_of_a_death(project: PytestRuns, ending: dict[str, Any]) -> None:
    """Check the report that outlived its pytest; on Linux a second process has completed it."""
    if sys.platform != "linux":
        assert project.read_report()["verdict"] is not None
        return
    report = project.wait_for_completion()
    assert report["completeness"] == "reconstructed"
    assert report["verdict"] is not None
    if report["exit"]["observed"]:  # an older kernel may not tell how it died
        verdict = report["verdict"]
        assert (verdict["reason"], verdict["kind"]) == (
            ending["reason"],
            ending["kind"],
        )
        assert report["exit"]["signal"] == ending.get(
            "signal", report["exit"]["signal"]
        )
    assert [test["phase"] for test in report["in_flight"]] == ["call"]
    assert report["summary"]["passed"] == 1
    assert report["not_run"]["count"] == 1


def test_readme_says_what_the_table_says() -> None:
    """The tables of the README have the rows of `endings.toml`, in the same order."""
    rows = [
        ROW.fullmatch(line) for line in README.splitlines() if line.startswith("| `")
    ]
    shown = [row.groupdict() for row in rows if row is not None]
    assert [row["command"] for row in shown] == [
        shlex.join(
            [*ending.get("prefix", ()), "pytest", "--failure-taxonomy", *ending["args"]]
        )
        for ending in ENDINGS
    ]
    for row, ending in zip(shown, ENDINGS, strict=True):
        assert int(row["code"]) == ending["exit_code"]
        for name in ("signal", "reason", "kind"):
            assert row[name] == ending.get(name), (row["command"], name)
        needs = (
            [f"pytest {ending['min_pytest']} or newer"]
            if "min_pytest" in ending
            else []
        )
        needs += ending.get("requires", [])
        wanted = (
            f"{ending['shows']} Needs {' and '.join(needs)}."
            if needs
            else ending["shows"]
        )
        assert row["shows"] == wanted


def test_names_of_endings_are_unique() -> None:
    """No two endings have the same name, because names are what tests and readers go by."""
    names = [ending["name"] for ending in ENDINGS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="time zones and forks")
def test_what_is_proven_of_the_failures(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each has the proof that the README says, nothing else is written, and all of it is said."""
    shutil.copytree(PROJECT / "proofs", runs.path, dirs_exist_ok=True, ignore=LEFT_OUT)
    monkeypatch.chdir(runs.path)
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    monkeypatch.setattr(axes, "axes_of", axis_that_decides)
    monkeypatch.setattr(ladder, "_MOST_FRESH", 10)  # a process each
    rows = re.findall(
        r"^\| `(test_\w+\.py::\w+)` \| `([\w.]+)` \|", README, re.MULTILINE
    )
    assert len(rows) == 5
    monkeypatch.setenv(
        "PYTHONHASHSEED", "2"
    )  # the last one fails with it, and a third of all
    for _ in range(30):  # one of them fails in some runs alone
        if len(runs.run().report["failures"]) == len(rows):
            break
    monkeypatch.delenv("PYTHONHASHSEED")
    report = runs.read_report()
    del report["order"]["seeds"]["hash"]  # as if it had been by chance
    (runs.path / REPORT).write_text(json.dumps(report), "ascii")
    before = tree_of(runs.path)
    capsys.readouterr()
    assert main(["prove", "--budget", "10m"]) == 0
    found = {cause["nodeids"][0]: cause for cause in runs.read_report()["causes"]}
    proofs = {nodeid: cause["proof"] for nodeid, cause in found.items()}
    proven = {
        key: each["type"] for key, each in proofs.items() if each["status"] == "proven"
    }
    assert proven == dict(rows)
    assert tree_of(runs.path) == before

    tax, _, day, answer, _ = (nodeid for nodeid, _ in rows)
    assert (proofs[tax]["runs"], proofs[tax]["failed"]) == (5, 5)
    assert proofs[tax]["without"] == {"runs": 5, "failed": 0, "state": None}
    assert proofs[day]["without"]["state"] == "TZ=UTC"
    assert proofs[day]["without"]["failed"] == 0
    assert [found[each]["retryable"] for each in (tax, day)] == [False, False]
    thread = proofs[answer]
    assert 0 < thread["failed"] < thread["runs"] >= 10
    low, high = (f"{thread['interval'][name]:.1%}" for name in ("low", "high"))
    polluter = "test_1_rates.py::test_a_reduced_rate"
    setter = "test_3_accounts.py::test_somebody_logs_in"
    program = "python -m pytest -p failure_taxonomy -p no:cacheprovider"
    said = capsys.readouterr()
    assert all(" left" in line for line in said.err.splitlines())  # what is being tried
    out = [line.strip() for line in said.out.splitlines()]
    assert out[:5] == [
        "5 causes to prove in at most 10 min",
        f"1. 1 x assert 10.7 == 12: test_the_tax (test_2_prices.py:8): {tax}",
        f"order-dependent, proven: passes alone (5 of 5), fails after {polluter} (5 of 5)",
        f"{polluter} leaves prices.RATE = 0.07 (was 0.2); with the old value restored, test_the_tax passes",
        f"{program} {polluter} {tax}",
    ]
    runs_of_day = proofs[day]["runs"]
    decides = f"fails with TZ=Asia/Kolkata ({runs_of_day} of {runs_of_day}), passes with TZ=UTC"
    for line in (
        f"the time zone decides, proven: {decides}",
        f"brittle, proven: fails alone (5 of 5), passes after {setter} (5 of 5)",
        f"flaky, proven: fails {thread['failed']} of {thread['runs']} whatever the order ({low} to {high})",
    ):
        assert any(known.startswith(line) for known in out), line


def axis_that_decides(
    experiments: Experiments, victim: Victim, base: Base, **known: Any
) -> Iterator[Axis]:
    """Yield the axis that the README names for a test, and of what it tries the first few.

    All others have tests of their own; to try them takes a minute here.
    """
    name = {"test_the_first_day": "time_zone", "test_the_first_word": "hash_seed"}
    for axis in axes_of(experiments, victim, base, **known):
        if axis.name == name.get(victim.nodeid.rpartition("::")[2]):
            yield replace(axis, conditions=axis.conditions[:3])


def tree_of(folder: Path) -> list[tuple[str, int, int]]:
    """Return all files of a folder but the report, with sizes and times."""
    return sorted(
        (str(path), (status := path.stat()).st_size, status.st_mtime_ns)
        for path in folder.rglob("*")
        if path.name != REPORT and not path.is_dir()
    )


def test_suite_of_the_example_with_every_installed_plugin(
    project: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's run, in which pytest finds us and all other plugins by itself, has a report."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    run = project.run("-W", "ignore")
    assert run.exit_status == 1
    assert run.verdict == ("TESTS_FAILED", "test.failed")
    assert (
        run.report["verdict"]["nodeid"]
        == "tests/test_tax.py::test_half_a_cent_is_rounded_up"
    )
    plugins = run.report["environment"]["plugins"]
    assert any(name.startswith("pytest-failure-taxonomy-") for name in plugins)

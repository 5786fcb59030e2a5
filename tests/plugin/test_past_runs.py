"""What a run says of the runs before it: the history at its end, and known failures."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.history import open_history
from pytest_failure_taxonomy.history.questions import list_runs
from pytest_failure_taxonomy.hooks.every_test import EveryTest
from pytest_failure_taxonomy.hooks.settings import _Reader, _shard
from pytest_failure_taxonomy.survive.machine import find_commit
from pytest_failure_taxonomy.taxonomy.evidence import MAX_TESTS, ContinuousIntegration
from tests.helpers.children import pytest_command, run_child
from tests.helpers.reports import read_report
from tests.helpers.runs import FinishedRun, PytestRuns, own_lines

SUITE = """
import os
def test_ok(): pass
def test_bad(): assert not os.path.exists("broken"), "it is broken"
def test_worse(): assert not os.path.exists("worse"), "it is worse"
"""
HISTORY = "--failure-taxonomy-history"


@pytest.fixture(autouse=True)
def a_suite(runs: PytestRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a suite whose tests fail where a file is there; its runs may wait for long."""
    runs.write({"test_it.py": SUITE})
    monkeypatch.setenv("FAILURE_TAXONOMY_HISTORY_SECONDS", "60")


def in_history(folder: Path) -> list[tuple[str | None, str]]:
    """Return reason and completeness of the runs in the default history, the last one first."""
    with open_history(rootdir=folder, create=False) as history:
        return [(row.reason, row.completeness) for row in list_runs(history)]


@pytest.mark.slow
def test_a_retry_can_help_where_a_test_is_flaky(runs: PytestRuns) -> None:
    """A failed assertion fails again, unless the history says that its test changes its mind."""
    broken, worse = runs.path / "broken", runs.path / "worse"
    advice = []
    for _ in range(3):
        broken.touch()
        advice.append(runs.run(HISTORY).report["verdict"])
        broken.unlink()
        assert runs.run(HISTORY).exit_status == 0
    assert [each["retryable"] for each in advice] == [False, False, True]
    assert [each["recovery_action"] for each in advice] == [
        "escalate",
        "escalate",
        "retry",
    ]
    broken.touch()
    worse.touch()
    assert not runs.run(HISTORY).report["verdict"]["retryable"]


@pytest.mark.slow
def test_a_run_says_what_has_changed(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that fails for the first time has passed before, with other versions."""
    installed = runs.path / "lib"
    monkeypatch.setenv("PYTHONPATH", str(installed))
    (installed / "shop-2.3.1.dist-info").mkdir(parents=True)
    passed = runs.run(HISTORY)
    assert "shop-2.3.1" in passed.report["environment"]["distributions"]
    (installed / "shop-2.3.1.dist-info").rename(installed / "shop-2.4.0.dist-info")
    (runs.path / "broken").touch()
    run = runs.run(HISTORY)
    assert "since the last pass: shop 2.3.1 -> 2.4.0" in own_lines(run.stdout)
    assert run.report["causes"][0]["history"]["distributions_changed"] == [
        "shop 2.3.1 -> 2.4.0"
    ]


@pytest.mark.slow
def test_a_run_says_what_the_history_knows(runs: PytestRuns) -> None:
    """New, then known, then come back; in the words for people and in the report."""
    (runs.path / "broken").touch()
    first = runs.run(HISTORY)
    assert "[new]" in "\n".join(own_lines(first.stdout))
    assert first.report["groups"][0]["history"]["state"] == "new"
    assert [each["outcome"] for each in first.report["tests"]] == [
        "passed",
        "failed",
        "passed",
    ]
    second = runs.run(HISTORY, "-n", "2", plugins=("xdist",))
    assert "[known since 20" in "\n".join(own_lines(second.stdout))
    assert second.report["groups"][0]["history"]["runs"] == 1
    assert {each["worker"] for each in second.report["tests"]} <= {"gw0", "gw1"}
    (runs.path / "broken").unlink()
    assert runs.run(HISTORY).exit_status == 0
    (runs.path / "broken").touch()
    third = runs.run(HISTORY)
    assert "[came back, first seen 20" in "\n".join(own_lines(third.stdout))
    assert [reason for reason, _ in in_history(runs.path)] == [
        "TESTS_FAILED",
        None,
        "TESTS_FAILED",
        "TESTS_FAILED",
    ]


@pytest.mark.slow
@pytest.mark.linux("the watcher")
def test_a_run_that_died_is_recorded(runs: PytestRuns) -> None:
    """By the process that completes its report."""
    runs.write(
        {"test_it.py": "import os, signal\ndef test_it(): os.kill(os.getpid(), 9)\n"}
    )
    runs.run_unchecked(HISTORY)
    report = runs.wait_for_completion()
    assert report["verdict"]["kind"] == "process.killed"
    assert in_history(runs.path) == [(report["verdict"]["reason"], "reconstructed")]


@pytest.mark.slow
@pytest.mark.linux("SIGKILL")
def test_a_death_is_known_by_its_verdict(runs: PytestRuns) -> None:
    """No group of failures has it; what counts is the same end in the same test."""
    runs.write(
        {"test_it.py": "import os\ndef test_it(): os.path.exists('x') or os.abort()\n"}
    )
    supervised = [sys.executable, "-m", "pytest_failure_taxonomy", "run", "--"]
    seen = []
    for number in range(4):
        if number == 2:
            (runs.path / "x").touch()
        run = run_child(runs.path, [*supervised, *pytest_command(HISTORY)])
        (runs.path / "x").unlink(missing_ok=True)
        headlines = [
            line for line in run.stdout.splitlines() if " process.crashed" in line
        ]
        said = [line.rpartition("  [")[0].rpartition(" [")[2] for line in headlines]
        seen += [words.split(" 20")[0] for words in said]
    assert seen == ["new]", "known since", "came back, first seen"]


WITHOUT_SQLALCHEMY = """
raise ModuleNotFoundError("No module named 'sqlalchemy'", name="sqlalchemy")
"""
WHAT_TO_INSTALL = 'history: sqlalchemy is not installed; pip install "pytest-failure-taxonomy[history]"'


@pytest.mark.slow
def test_without_the_extra(runs: PytestRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of the run says what to install."""
    runs.write({"absent/sqlalchemy.py": WITHOUT_SQLALCHEMY})
    monkeypatch.setenv("PYTHONPATH", str(runs.path / "absent"))
    run = runs.run(HISTORY)
    assert run.exit_status == 0
    (line,) = [line for line in run.stdout if "is not in the history" in line]
    assert WHAT_TO_INSTALL in line


@pytest.mark.parametrize(
    "words",
    [
        *([], ["list"], ["top"], ["flaky"], ["stats"], ["tasks"], ["unmerged"]),
        *(
            ["add", "r.json"],
            ["new", "r.json"],
            ["since", "abc"],
            ["prune", "--before", "1d"],
        ),
    ],
    ids=lambda words: " ".join(words) or "none",
)
def test_commands_without_the_extra(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Each says it in one line, and never by a traceback."""
    runs.write({"absent/sqlalchemy.py": WITHOUT_SQLALCHEMY})
    monkeypatch.setenv("PYTHONPATH", str(runs.path / "absent"))
    run = run_child(
        runs.path, [sys.executable, "-m", "pytest_failure_taxonomy", "history", *words]
    )
    assert run.status == 2
    assert run.stderr == f"failure-taxonomy: {WHAT_TO_INSTALL}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "url", ["me:geh3im-Pw@127.0.0.1:1/x", "127.0.0.1:1/x?Password=geh3im-Pw"]
)
def test_a_history_that_cannot_be_reached(runs: PytestRuns, url: str) -> None:
    """One line says so, without the password, and the run is as it would be without it."""
    (runs.path / "broken").touch()
    run = runs.run_unchecked(f"{HISTORY}=postgresql://{url}")
    assert run.exit_status == 1
    (line,) = (line for line in run.stdout if "is not in the history" in line)
    assert line.endswith(
        "; add it by: failure-taxonomy history add failure-report.json"
    )
    assert "geh3im-Pw" not in "\n".join(run.stdout) + json.dumps(run.report)
    assert run.report["groups"][0]["history"] is None


def test_a_history_in_the_form_of_libpq(runs: PytestRuns) -> None:
    """It is refused and not quoted, and no file has its name."""
    run = runs.run(f"{HISTORY}=host=127.0.0.1 port=1 password=geheim dbname=x")
    assert run.exit_status == 4
    assert (
        f"{HISTORY}: it is a connection string of libpq; give an SQLAlchemy URL"
        in "\n".join(run.stderr)
    )
    assert "geheim" not in "\n".join([*run.stdout, *run.stderr])
    assert [path.name for path in runs.path.iterdir() if "geheim" in path.name] == []


def test_a_history_that_is_slow(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for no longer than is allowed."""
    monkeypatch.setenv("FAILURE_TAXONOMY_HISTORY_SECONDS", "0.01")
    run = runs.run(f"{HISTORY}=my (own).db")
    assert run.exit_status == 0
    (line,) = (line for line in run.stdout if "is not in the history" in line)
    why, _, command = line.partition("; add it by: ")
    assert why.endswith("is not in the history: it gave no answer within 0.01 s")
    history = f"--history={runs.path / 'my (own).db'}"
    expected = ["failure-taxonomy", "history", "add", history, "failure-report.json"]
    assert shlex.split(command) == expected


def known_run(runs: PytestRuns, entries: str, *args: str, **given: Any) -> FinishedRun:
    """Run with a file of known failures."""
    runs.write({"known.yaml": entries})
    return runs.run("--failure-taxonomy-known=known.yaml", *args, **given)


@pytest.mark.slow
@pytest.mark.parametrize("args", [(), ("-n", "2")])
def test_known_failures_pass(runs: PytestRuns, args: tuple[str, ...]) -> None:
    """If every failure is listed, the exit status is 0, and the verdict says why."""
    (runs.path / "broken").touch()
    (runs.path / "worse").touch()
    plugins = ("xdist",) if args else ()
    run = known_run(
        runs, "- nodeid: 'test_it.py::test_*'\n  owner: me\n", *args, plugins=plugins
    )
    assert run.exit_status == 0
    assert run.report["verdict"] is None
    assert run.report["exit"]["code"] == 0
    said = "\n".join(own_lines(run.stdout))
    assert (
        "2 failures, which are all known (known.yaml), so the exit status is 0" in said
    )


@pytest.mark.parametrize(
    ("entries", "args", "words"),
    [
        (
            "- nodeid: test_it.py::test_bad\n",
            (),
            "not known by known.yaml: 1 of them: test_it.py",
        ),
        (
            "- nodeid: test_it.py::test_*\n  expires: 2020-01-31\n",
            (),
            "known.yaml:1: expired on 2020-01-31: test_it.py::test_*",
        ),
        ("- nodeid: test_it.py::test_*\n", ("-x",), ""),
        (
            "- nodeid: '*'\n- nodeid: '*test_ok'\n",
            ("-x",),
            "known.yaml:2: no longer fails: *test_ok",
        ),
    ],
)
def test_other_failures_fail(
    runs: PytestRuns, entries: str, args: tuple[str, ...], words: str
) -> None:
    """One that is not listed, or not any more, and a run that was cut short."""
    (runs.path / "broken").touch()
    (runs.path / "worse").touch()
    run = known_run(runs, entries, *args)
    assert run.exit_status == 1
    assert run.report["verdict"]["reason"] == "TESTS_FAILED"
    assert words in "\n".join(run.stdout)


def test_nothing_but_failed_tests_is_accepted(runs: PytestRuns) -> None:
    """An error of collection stays one, whatever is listed."""
    runs.write({"test_broken.py": "import nothing_of_that_name\n"})
    run = known_run(runs, "- nodeid: '*'\n", "--continue-on-collection-errors")
    assert run.exit_status == 1
    assert run.report["verdict"]["kind"] == "collection.error"
    assert "no longer fails" not in "\n".join(run.stdout)


@pytest.mark.slow
def test_what_the_history_knows_passes(runs: PytestRuns) -> None:
    """A failure is new once, and known from then on."""
    (runs.path / "broken").touch()
    assert runs.run(HISTORY, "--failure-taxonomy-known=history").exit_status == 1
    run = runs.run(HISTORY, "--failure-taxonomy-known=history")
    assert run.exit_status == 0
    assert "1 failure, which is known (history)" in "\n".join(run.stdout)


def test_bad_input_is_told_before_any_test(runs: PytestRuns) -> None:
    """All problems at once, each in a line."""
    runs.write(
        {
            "known.yaml": "- nodeid: a\n  fingerprint: abcdef\n- expires: soon\n  nodeid: b\n"
            "- fingerprint: xyz\n- 7\n"
        }
    )
    run = runs.run(
        "--failure-taxonomy-known=known.yaml",
        "--failure-taxonomy-shard=5/4",
        "--failure-taxonomy-subtask=s",
        "--failure-taxonomy-history=.",
    )
    assert run.exit_status == 4
    said = "\n".join(run.stderr)
    for words in (
        "known.yaml:1: the entry has both of nodeid and fingerprint; give one",
        "known.yaml:3: expires: 'soon' is no date; give one such as 2026-12-31",
        "is no fingerprint; give six or more of its hexadecimal digits",
        "known.yaml:6: an entry is the value 7; write a list of entries",
        "--failure-taxonomy-shard: '5/4' is no part of a suite; give one such as 2/4",
        "--failure-taxonomy-approach: it is missing; give both subtask and approach",
        "--failure-taxonomy-history: . is no database",
    ):
        assert words in said


@pytest.mark.slow
def test_every_outcome_is_kept(runs: PytestRuns) -> None:
    """As pytest's last line names it, with reruns and errors."""
    runs.write(
        {
            "test_it.py": """
import pytest
tries = []
def test_passed(): pass
def test_failed(): assert 0
@pytest.fixture
def broken(): assert 0
def test_error(broken): pass
@pytest.fixture
def leaves(): yield; assert 0
def test_left(leaves): pass
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_xfailed(): assert 0
@pytest.mark.xfail
def test_xpassed(): pass
@pytest.mark.flaky(reruns=1)
def test_flaky():
    tries.append(1)
    assert len(tries) > 1
@pytest.mark.flaky(reruns=1)
def test_failed_again(): assert 0
"""
        }
    )
    run = runs.run(HISTORY, plugins=("rerunfailures",))
    found = {
        test["nodeid"].partition("::test_")[2]: test for test in run.report["tests"]
    }
    outcomes = {name: test["outcome"] for name, test in found.items()}
    assert outcomes == {
        "passed": "passed",
        "failed": "failed",
        "error": "error",
        "left": "error",
        "skipped": "skipped",
        "xfailed": "xfailed",
        "xpassed": "xpassed",
        "flaky": "flaky",
        "failed_again": "failed",
    }
    starts = [test["start_seconds"] for test in run.report["tests"]]
    assert starts == sorted(starts)


def test_without_the_option_no_test_is_kept(runs: PytestRuns) -> None:
    """Nothing of it is registered."""
    run = runs.run()
    assert run.report["tests"] is None
    assert not (runs.path / ".failure-taxonomy").exists()


def test_too_many_tests_are_not_kept_in_part() -> None:
    """A list with holes would pass for whole."""
    recorder = EveryTest(SimpleNamespace(), SimpleNamespace(), 0.0)  # type: ignore[arg-type]  # not asked
    recorder._tests = dict.fromkeys(map(str, range(MAX_TESTS + 1)))  # type: ignore[assignment]  # counted
    assert recorder.tests() is None


@pytest.mark.linux("a SIGKILL")
def test_shards_of_real_runs_are_merged(
    runs: PytestRuns,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that died without a watcher is completed first, and one that is missing is told."""
    monkeypatch.chdir(runs.path)
    runs.write({"test_die.py": "import os\ndef test_die(): os.kill(os.getpid(), 9)\n"})
    runs.run("--failure-taxonomy-shard=1/3", "test_it.py")
    (runs.path / "failure-report.json").rename("1.json")
    settings = (
        "-o",
        "failure_taxonomy_watcher=false",
        "--failure-taxonomy-report=2.json",
    )
    runs.run_unchecked("--failure-taxonomy-shard=2/3", *settings, "test_die.py")
    assert main(["merge", "1.json", "2.json", "-o", "all.json"]) == 1
    said = capsys.readouterr().err
    assert "[TIMEOUT process.killed" in said or "[UNKNOWN process.vanished" in said
    report = read_report(runs.path / "all.json")
    assert [held["kind"] for held in report["reasons"]][-1] == "shard.missing"
    assert [each["nodeid"] for each in report["in_flight"]] == ["test_die.py::test_die"]
    assert report["summary"]["passed"] == 3
    shards = [run["run"]["shard"]["index"] for run in report["merged"]["runs"]]
    assert shards == [1, 2]


@pytest.mark.parametrize(
    ("option", "options", "environment", "expected"),
    [
        ("2/4", {}, {}, (2, 4)),
        (None, {}, {}, None),
        (None, {"splits": 3, "group": 2}, {}, (2, 3)),
        (None, {"num_shards": 3, "shard_id": 0}, {}, (1, 3)),
        (None, {"num_shards": 1, "shard_id": 0}, {}, None),
        (None, {}, {"CI_NODE_INDEX": "2", "CI_NODE_TOTAL": "4"}, (2, 4)),
        (None, {}, {"CIRCLE_NODE_INDEX": "0", "CIRCLE_NODE_TOTAL": "4"}, (1, 4)),
        (None, {}, {"CIRCLE_NODE_INDEX": "0", "CIRCLE_NODE_TOTAL": "1"}, None),
        (
            None,
            {},
            {"BUILDKITE_PARALLEL_JOB": "3", "BUILDKITE_PARALLEL_JOB_COUNT": "4"},
            (4, 4),
        ),
        (None, {}, {"CI_NODE_INDEX": "x", "CI_NODE_TOTAL": "4"}, None),
        (
            "1/2",
            {"splits": 3, "group": 2},
            {"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "9"},
            (1, 2),
        ),
    ],
)
def test_the_shard_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
    option: str | None,
    options: dict[str, int],
    environment: dict[str, str],
    expected: tuple[int, int] | None,
) -> None:
    """By our option, by plugins that split a suite, and by CI systems."""
    for name in list(os.environ):
        if name.startswith(("CI_NODE", "CIRCLE_NODE", "BUILDKITE_PARALLEL")):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    given = SimpleNamespace(failure_taxonomy_shard=option, **options)
    config = SimpleNamespace(
        getini=lambda name: [] if name == "addopts" else "",
        known_args_namespace=given,
        invocation_params=SimpleNamespace(dir=Path(), args=()),
    )
    shard = _shard(_Reader(config))  # type: ignore[arg-type]  # what it asks of it
    assert (None if shard is None else (shard.index, shard.total)) == expected


def test_the_commit_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From git in any folder of a repository, else from the CI system."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    ci = ContinuousIntegration(provider="gitlab", commit="c" * 40, ref="topic")
    state, repository = find_commit(tmp_path, ci)
    assert state is not None
    assert (state.commit, state.branch, state.dirty, repository) == (
        "c" * 40,
        "topic",
        None,
        None,
    )
    assert find_commit(tmp_path, None) == (None, None)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "a").write_text("1")
    script = (
        "git init -q -b main . && git config user.email a@example.org && git config user.name a &&"
        " git add a && git commit -q -m a && git checkout -q -b topic"
    )
    assert os.system(f"cd {folder} && {script}") == 0  # noqa: S605 - words of ours
    state, repository = find_commit(folder, None)
    assert state is not None
    assert repository is not None
    assert (state.branch, state.dirty, repository.name) == ("topic", False, "shop")
    assert repository.merge_base == state.commit
    (folder / "a").write_text("2")
    remote = "git remote add origin https://me:secret@example.org/team/shop.git"
    assert os.system(f"cd {folder} && {remote}") == 0  # noqa: S605 - likewise
    state, repository = find_commit(folder, None)
    assert state is not None
    assert repository is not None
    assert (state.dirty, repository.name) == (True, "team/shop")
    assert sys.executable

"""A folder for each case: made for each call, kept on failure, never anybody else's."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.bench.kept.reader import read_run
from tests.helpers.children import ChildRun, run_child
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ON_WORKERS,
    SERIAL,
    WORKERS,
    codes_by_case,
    only_bench,
    task_class_files,
)

PLUGINS: Final = [BENCH, "xdist"]

AGENT: Final = """\
import os
import time
from pathlib import Path

CALLS = Path(__file__).with_name("calls.txt")


def solve(case):
    with CALLS.open("a") as file:
        file.write(case.case_id + "\\n")
    module = case.workspace / "shop.py"
    assert str(case.workspace) == case["workspace"]
    assert not (case.workspace / "left.txt").exists()
    (case.workspace / "left.txt").write_text("left")
    if case.fields.get("times_out") and len(CALLS.read_text().split()) < 2:
        raise TimeoutError("the first call")
    time.sleep(case.fields.get("sleep", 0))
    if case.fields.get("locks"):
        locked = case.workspace / "locked"
        locked.mkdir()
        (locked / "file").write_text("x")
        (locked / "file").chmod(0o400)
        locked.chmod(0o500)
    if case.fields.get("links"):
        (case.workspace / "out").symlink_to(case["links"])
    module.write_text(f"PRICE = {case['answer']}\\n")
    return "done"
"""
"""Edits a file; `answer` 3 is right."""

RUBRIC: Final = """\
import os


def grade(case, output):
    with open(os.path.join(case["workspace"], "shop.py")) as file:
        passed = file.read() == "PRICE = 3\\n"
    modes = [] if passed else [{"code": "answer.wrong"}]
    return {"passed": passed, "score": float(passed), "breakdown": {}, "failure_modes": modes}
"""

FIXTURE: Final = """\
import pytest
from agent import solve


@pytest.fixture(scope="session")
def system_under_test():
    return solve
"""
TEMPLATE: Final = {
    "bench/echo/template/shop.py": "PRICE = 0\n",
    "bench/echo/template/tests/test_shop.py": "def test_it():\n    assert False\n",
    "bench/echo/template/conftest.py": "raise ValueError\n",
}


def tasks(count: int, **more: Any) -> list[dict[str, Any]]:
    """Return tasks, of which every fourth one is done wrong."""
    return [
        {"id": f"task-{n:02}", "input": "fix", "answer": 4 if n % 4 == 0 else 3, **more}
        for n in range(count)
    ]


def agent_bench(
    cases: list[dict[str, Any]], settings: str = "workspace: template/\n", **files: str
) -> dict[str, str]:
    """Return the files of a bench with an agent that is named."""
    own = task_class_files(
        cases, settings=f"sut: agent:solve\n{settings}", rubric=RUBRIC, system=""
    )
    return {**own, "agent.py": AGENT, **TEMPLATE, **files}


def failure_taxonomy(runs: PytestRuns, *words: str) -> ChildRun:
    """Run our command line in the folder of the runs."""
    command = [sys.executable, "-m", "pytest_failure_taxonomy", *words]
    return run_child(runs.path, command)


def kept_workspaces(runs: PytestRuns) -> list[str]:
    """Return the workspaces in the storage, by their path below that of the run."""
    paths = sorted((runs.path / ".bench").glob("*/*"))
    return [path.name for path in paths if path.name != "pytest.ini"]


@WORKERS
@pytest.mark.parametrize("is_named", [True, False], ids=["sut", "fixture"])
def test_each_case_has_its_own(
    runs: PytestRuns, workers: tuple[str, ...], is_named: bool
) -> None:
    """Those of failed cases stay, beside the run's file; nothing in a template is a test."""
    files = agent_bench(tasks(20))
    if not is_named:
        files["bench/echo/bench.yaml"] = "workspace: template/\n"
        files["conftest.py"] = FIXTURE
    runs.write(files)
    run = runs.run("bench", "-p", "no:cacheprovider", *workers, plugins=PLUGINS)
    assert run.outcomes == {"passed": 15, "failed": 5}
    failed = [f"task-{n:02}" for n in range(0, 20, 4)]
    assert kept_workspaces(runs) == failed
    (path,) = (runs.path / ".bench").glob("*.jsonl")
    workspace = path.with_suffix("") / "task-04"
    assert (workspace / "shop.py").read_text() == "PRICE = 4\n"
    assert f"  workspace: {workspace}" in "\n".join(run.stdout)
    call = read_run(path).cases["task-04"].last
    assert call is not None
    assert call.workspace == str(workspace)
    # The tests of what is kept are none of the next run.
    assert runs.run("-q", plugins=PLUGINS).outcomes == {"passed": 15, "failed": 5}


@SERIAL
def test_whose_are_kept(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """All or none if the class says so; none of a run that is not kept."""
    for keep, count in (("all", 4), ("none", 0)):
        settings = f"workspace: {{template: template, keep: {keep}}}\n"
        runs.write(agent_bench(tasks(4), settings))
        runs.run("bench", f"--bench-storage={keep}", *workers, plugins=PLUGINS)
        assert len(list((runs.path / keep).glob("*/task*"))) == count
        assert len(list((runs.path / keep).glob("*/"))) == (count > 0)


@WORKERS
def test_a_run_that_is_not_kept_leaves_none(
    runs: PytestRuns, workers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary workspaces are removed at the end."""
    temporary = runs.path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    runs.write(agent_bench(tasks(4)))
    run = runs.run("bench", "--bench-no-save", *workers, plugins=PLUGINS)
    assert run.outcomes == {"passed": 3, "failed": 1}
    assert list(temporary.glob("pytest-bench-*")) == []
    assert not (runs.path / ".bench").exists()


def test_what_a_system_leaves_is_removed_and_no_link_followed(runs: PytestRuns) -> None:
    """Neither read-only folders nor links out of the workspace are a problem."""
    runs.write({"mine/file.txt": "mine"})
    mine = str(runs.path / "mine")
    runs.write(
        agent_bench(
            [{"id": "a", "answer": 3, "input": 1, "locks": True, "links": mine}]
        )
    )
    run = runs.run("bench", plugins=PLUGINS)
    assert run.outcomes == {"passed": 1}
    assert kept_workspaces(runs) == []
    assert (runs.path / "mine/file.txt").read_text() == "mine"


def test_each_repetition_and_each_call_begins_anew(runs: PytestRuns) -> None:
    """What an earlier call left is gone; repetitions don't share a workspace."""
    settings = (
        "workspace: template/\nrepeat: 2\nconcurrency: 1\n"
        "retry: {on: [llm.rate_limited], backoff_seconds: 0}\n"
    )
    agent = AGENT.replace('TimeoutError("the', 'Limited("the').replace(
        "def solve",
        'class Limited(Exception):\n    failure_kind = "llm.rate_limited"\n\n\ndef solve',
    )
    cases = [{"id": "Task", "input": 1, "answer": 4, "times_out": True}]
    runs.write(agent_bench(cases, settings, **{"agent.py": agent}))
    report = only_bench(runs.run("bench", plugins=PLUGINS))
    assert codes_by_case(report) == {
        "Task#1": ["answer.wrong"],
        "Task#2": ["answer.wrong"],
    }
    assert (runs.path / "calls.txt").read_text().split() == ["Task"] * 3
    assert [name[:6] for name in kept_workspaces(runs)] == ["Task_1", "Task_2"]


def git(folder: Path, *words: str) -> str:
    """Run git, and return what it prints."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", *identity, *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def repository(folder: Path) -> tuple[str, str]:
    """Make a repository with two commits, and return both."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    hashes = []
    for price in (0, 3):
        (folder / "shop.py").write_text(f"PRICE = {price}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", f"price {price}")
        hashes.append(git(folder, "rev-parse", "HEAD"))
    return hashes[0], hashes[1]


def test_a_checkout_of_a_commit(runs: PytestRuns) -> None:
    """The system gets the commit without the history, which holds the solution."""
    first, second = repository(runs.path / "repos/shop")
    agent = AGENT.replace(
        "module.write_text",
        "import subprocess\n    log = subprocess.run(['git', 'log',"
        " '--all', '--format=%H %s'], cwd=case.workspace, capture_output=True, text=True)\n"
        "    assert log.stdout.split() == [case['full'], 'price', case['price']], log\n"
        "    module.write_text",
    )
    cases = [
        {
            "id": "a",
            "input": 1,
            "answer": 4,
            "base": first,
            "full": first,
            "price": "0",
        },
        {
            "id": "b",
            "input": 1,
            "answer": 3,
            "base": second[:9],
            "full": second,
            "price": "3",
        },
        {"id": "c", "input": 1, "answer": 3, "base": "0" * 40, "full": "", "price": ""},
    ]
    for git_setting, more in (
        ("../../repos/shop", {}),
        ("repo", {"repo": "../../repos/shop"}),
    ):
        settings = f"workspace: {{git: {git_setting}, commit: base}}\n"
        own = [{**case, **more} for case in cases]
        runs.write(agent_bench(own, settings, **{"agent.py": agent}))
        run = runs.run("bench/echo/cases", plugins=PLUGINS)
        report = only_bench(run)
        assert codes_by_case(report) == {"a": ["answer.wrong"], "b": []}
        assert report["counts"]["lost"] == 1
        assert report["lost_to_environment"] == [
            {"kind": "git.checkout_failed", "cases": 1}
        ]
        output = "\n".join(run.stdout)
        shop = re.escape(str(runs.path / "repos/shop"))
        assert re.search(
            rf"no score: WorkspaceError: no workspace: {shop} at 0+: git fetch: ",
            output,
        )
        assert "1 lost (environment: git.checkout_failed)" in output
        assert "check_out(path" not in output
    assert git(runs.path / "repos/shop", "status", "--porcelain") == ""
    assert not (runs.path / "repos/shop/.git/worktrees").exists()


def test_git_in_a_workspace_finds_no_repository_around_it(runs: PytestRuns) -> None:
    """An agent's `git reset --hard` is not for the user's project."""
    repository(runs.path / "inner")
    git(runs.path, "init", "--quiet")
    agent = AGENT.replace(
        "module.write_text",
        "import subprocess\n    done = subprocess.run(['git', 'status'],"
        " cwd=case.workspace, capture_output=True)\n    assert done.returncode == 128\n"
        "    done = subprocess.run(['python', '-m', 'pytest', '-q', 'tests'], cwd=case.workspace,"
        " capture_output=True, text=True, env={**os.environ, 'PYTEST_ADDOPTS': ''})\n"
        "    assert 'rootdir' in done.stdout or 'assert False' in done.stdout, done\n"
        "    module.write_text",
    )
    files = agent_bench([{"id": "a", "input": 1, "answer": 3}], **{"agent.py": agent})
    del files["bench/echo/template/conftest.py"]
    runs.write(
        {
            **files,
            "pytest.ini": "[pytest]\npythonpath = .\naddopts = --no-such-option\n",
        }
    )
    run = runs.run(
        "-c", os.devnull, "--rootdir=.", "-o", "pythonpath=.", "bench", plugins=PLUGINS
    )
    assert run.outcomes == {"passed": 1}


@pytest.mark.parametrize(
    ("settings", "fields", "words"),
    [
        (
            "workspace: templates\n",
            {},
            "bench.yaml: workspace: there is no folder 'templates'",
        ),
        (
            "workspace: ../other\n",
            {},
            "workspace: '../other' leaves the class's folder",
        ),
        ("workspace: [a]\n", {}, "bench.yaml:2: workspace: "),
        (
            "workspace: {git: ../x}\n",
            {},
            "bench.yaml:2: workspace: has no single source",
        ),
        (
            "workspace: {git: ../x, commit: bsae}\n",
            {"base": "1"},
            "no case has a field 'bsae'",
        ),
        (
            "workspace: {git: ../x, commit: base}\n",
            {"base": "--x"},
            "'base' is '--x'; write a commit as text, such as ",
        ),
        (
            "workspace: {git: ../x, commit: base}\n",
            {"base": 1234567},
            "'base' is 1234567; write a commit as text, such as ",
        ),
        (
            "workspace: template\n",
            {"workspace": "other"},
            "a.jsonl:1: workspace: a: there is no",
        ),
        (
            "lost_if: provider\n",
            {},
            "lost_if: 'provider' is unknown; write environment",
        ),
    ],
)
def test_what_is_refused(
    runs: PytestRuns,
    settings: str,
    fields: dict[str, Any],
    words: str,
) -> None:
    """A workspace that can't be made is told when the class is read, with its place."""
    runs.write(agent_bench([{"id": "a", "input": 1, "answer": 3, **fields}], settings))
    run = failure_taxonomy(runs, "validate", "bench")
    assert run.status == 1
    assert words in run.stderr


@SERIAL
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs the modes of POSIX")
def test_a_copy_that_fails_is_a_loss(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """The system is not called, and the gate is INCOMPLETE."""
    runs.write(
        agent_bench(tasks(2), "workspace: template/\ngate: {min_passed_cases: 1}\n")
    )
    os.mkfifo(runs.path / "bench/echo/template/pipe")
    run = runs.run("bench", *workers, plugins=PLUGINS)
    assert run.exit_status == 1
    report = only_bench(run)
    assert report["counts"]["lost"] == 2
    assert report["gate"]["verdict"] == "INCOMPLETE"
    assert not (runs.path / "calls.txt").exists()
    assert kept_workspaces(runs) == []
    assert "template/pipe: `" in "\n".join(run.stdout) or "named pipe" in "\n".join(
        run.stdout
    )


@ON_WORKERS
def test_a_killed_run_leaves_nothing_elsewhere(
    runs: PytestRuns, workers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All workspaces are in the storage; the resumed run makes new ones for what is missing."""
    temporary = runs.path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    settings = "workspace: template/\nconcurrency: 2\n"
    runs.write(agent_bench(tasks(20, sleep=0.3), settings))
    command = [sys.executable, "-m", "pytest", "bench", *workers]
    for name in ("failure_taxonomy", *PLUGINS):
        command += ["-p", name]
    process = subprocess.Popen(command, cwd=runs.path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not kept_workspaces(runs) or not (runs.path / "calls.txt").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(1)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    storage = runs.path / ".bench"
    seen = -1
    while seen != (
        seen := sum(path.stat().st_size for path in storage.glob("*.jsonl"))
    ):
        time.sleep(1)
    run = runs.run("bench", "--bench-resume", *workers, plugins=PLUGINS)
    report = only_bench(run)
    assert report["counts"]["passed"] == 15
    assert report["complete"]
    assert kept_workspaces(runs) == [f"task-{n:02}" for n in range(0, 20, 4)]
    left = [path.name for path in temporary.iterdir() if "workspaces" in path.name]
    assert left == []


def test_outputs_are_graded_again_in_their_workspaces(runs: PytestRuns) -> None:
    """If some are gone, nothing is graded or written."""
    runs.write(agent_bench(tasks(4)))
    runs.run("bench", plugins=PLUGINS)
    before = sorted((runs.path / ".bench").iterdir())
    run = failure_taxonomy(runs, "bench", "regrade", "latest")
    assert (run.status, run.stdout) == (2, "")
    right = "run with `workspace: {…, keep: all}` to regrade"
    assert f": 3 of 4 workspaces were not kept; {right}\n" in run.stderr
    assert sorted((runs.path / ".bench").iterdir()) == before
    runs.write(agent_bench(tasks(4), "workspace: {template: template, keep: all}\n"))
    runs.run("bench", plugins=PLUGINS)
    rubric = RUBRIC.replace("PRICE = 3", "PRICE = 4")
    runs.write({"bench/echo/rubric.py": rubric})
    run = failure_taxonomy(runs, "bench", "regrade", "latest")
    assert "1 of 4 passed" in run.stdout


def test_a_test_with_the_mark_is_told(runs: PytestRuns) -> None:
    """`bench.run_sync` gives workspaces; a test that is the system itself has none."""
    test = (
        "import pytest\nfrom agent import solve\n\n\n@pytest.mark.bench('echo')\n"
        "def test_marked(case, bench):\n    bench.score('x')\n\n\n"
        "def test_whole(bench):\n    report = bench.run_sync('echo', solve)\n"
        "    assert report.passed_count == 3\n"
    )
    runs.write({**agent_bench(tasks(4)), "test_it.py": test})
    run = runs.run("test_it.py", plugins=PLUGINS)
    assert run.outcomes == {"failed": 4, "passed": 1}
    assert "its case has no workspace" in "\n".join(run.stdout)

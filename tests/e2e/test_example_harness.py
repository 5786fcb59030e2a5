"""The worked harness of the example project, and `failure-taxonomy recover` by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_failure_taxonomy import merge_reports
from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.history import open_history
from pytest_failure_taxonomy.history.attempts import attempts_of
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    GitState,
    ProcessExit,
    RaisedException,
)
from pytest_failure_taxonomy.taxonomy.judgement import MARKER_REASONS, Stage
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import make_context, make_failure, make_report, make_run
from tests.helpers.runs import PytestRuns

HARNESS = Path(__file__).parents[2] / "example_project" / "harness" / "harness.py"


@pytest.mark.linux("git and a scripted agent")
def test_the_harness_solves_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent gives up, breaks the code, repeats itself, and succeeds with help."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "PYTEST_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_failure_taxonomy.plugin")
    folder = tmp_path / "a task"
    done = subprocess.run(
        [sys.executable, str(HARNESS), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(": ")[1] for line in lines if " -> " in line] == [
        "AGENT_GAVE_UP, UNKNOWN -> retry",
        "TESTS_FAILED, VERIFICATION_FAILED -> retry",
        "AGENT_GAVE_UP, CIRCULAR_FIX -> skip",
    ]
    assert lines[-5:] == [
        "solved in attempt 4: Return zero for a name that is not there",
        "  UNKNOWN: Using async await for fetch",
        "  VERIFICATION_FAILED: Using async/await with try-catch",
        "  CIRCULAR_FIX: Using async await pattern",
        "  success: Return zero for a name that is not there",
    ]
    merged = json.loads((folder / "attempt-4.json").read_text())
    assert merged["verdict"] is None
    stages = [run["run"]["stage"] for run in merged["merged"]["runs"]]
    assert stages == [
        "git_clone",
        "git_checkout",
        "setup",
        "baseline_run",
        "agent_run",
        "final_test",
    ]
    with open_history(folder / "history.db") as history:
        tried = attempts_of(history, "price-of-unknown-things")
    assert [each.success for each in tried] == [False, False, False, True]
    assert tried[-1].commit is not None


def test_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    """One line says so, and nothing in it is touched."""
    done = subprocess.run(
        [sys.executable, str(HARNESS), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == f"{tmp_path}: it exists already; give a new folder\n"


def test_the_prompt_names_the_markers_that_are_known() -> None:
    """Each with a meaning of its own, in the prompt of the example and on the page about it."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-harness.md"
    for path in (HARNESS.with_name("prompt.md"), page):
        text = path.read_text("utf-8")
        assert set(re.findall(r"^- `?([A-Z_]+)`?: ", text, re.MULTILINE)) == set(
            MARKER_REASONS
        )
        assert "[GZA_FAILURE:REASON]" in text


Recover = Callable[..., dict[str, Any]]


@pytest.fixture
def recover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Recover:
    """Return what calls the command in a new folder, and reads its answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAILURE_TAXONOMY_HISTORY", raising=False)

    def call(approach: str, *words: str, error: str | None = None) -> dict[str, Any]:
        if error is not None:
            Path("error.txt").write_text(error)
            words = (*words, "--error", "error.txt")
        assert main(["recover", "--subtask", "s", "--approach", approach, *words]) == 0
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return call


def test_the_sources_own_example(recover: Recover) -> None:
    """Three similar attempts are a circle, where nothing else tells why they failed."""
    assert recover("Using async await for fetch", error="it hangs")["type"] == "UNKNOWN"
    assert (
        recover("Using async/await with try-catch", error="it hangs")["type"]
        == "UNKNOWN"
    )
    found = recover("Using async await pattern", error="it hangs")
    assert (found["type"], found["action"], found["circular"]) == (
        "CIRCULAR_FIX",
        "skip",
        True,
    )
    assert (found["attempt_count"], len(found["tried"])) == (3, 2)
    assert found["hints"]
    build = recover("Using async await again", error="SyntaxError: invalid syntax")
    assert (build["type"], build["action"]) == ("BROKEN_BUILD", "escalate")


def test_a_success_is_what_one_rolls_back_to(recover: Recover) -> None:
    """Its commit is the last good one, and attempts are counted from there on."""
    recover("first", error="it hangs")
    done = recover("second", "--success", "--commit", "4f0c2d1")
    assert (done["success"], done["type"], done["action"]) == (True, None, None)
    found = recover("third", error="ModuleNotFoundError: No module named 'x'")
    assert (found["action"], found["last_good_commit"]) == ("rollback", "4f0c2d1")
    assert found["attempt_count"] == 1
    assert [each["success"] for each in found["tried"]] == [False, True]


def test_an_agent_that_gave_up_gets_more_turns(recover: Recover) -> None:
    """Its marker says so, in its output or in the report of its run."""
    hint = "Continue from the last commit, with more turns or with a smaller task."
    found = recover("first", error="working\n[GZA_FAILURE:MAX_TURNS]\n")
    assert (found["failure_reason"], found["hints"]) == ("AGENT_GAVE_UP", [hint])


@pytest.mark.linux("the output of a command is read")
def test_a_run_of_an_agent_that_gave_up_says_how_to_go_on(recover: Recover) -> None:
    """On the terminal, to the next agent, and to the harness."""
    step = "continue from the last commit, with more turns or with a smaller task"
    ours = [sys.executable, "-m", "pytest_failure_taxonomy"]
    agent = ["sh", "-c", "echo '[GZA_FAILURE:MAX_TURNS]'; exit 1"]
    run = ["run", "--stage", "agent_run", "--report", "r.json", "--", *agent]
    subprocess.run([*ours, *run], check=False, capture_output=True)
    for words, line in (([], step), (["--format", "agent"], f"  try: {step}")):
        command = [*ours, "show", *words, "r.json"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert line in done.stdout.splitlines()
    found = recover("first", "--report", "r.json")
    assert found["hints"] == [f"{step[0].upper()}{step[1:]}."]


def test_the_first_attempt_goes_back_to_its_baseline(recover: Recover) -> None:
    """Whose commit did load; a success counts for more, because it came later."""
    git = GitState(commit="abc1234", branch="task", dirty=False)
    environment = replace(make_context().environment, git=git)
    context = make_context(id="1" * 32, environment=environment)
    baseline = make_run(failures=(make_failure(),), stage=Stage.BASELINE_RUN)
    syntax = RaisedException(
        type="SyntaxError", module="builtins", message="invalid syntax"
    )
    error = CollectionFailure(
        nodeid="test_it.py", message="invalid syntax", exception=syntax
    )
    broken = make_run(
        exit=ProcessExit(code=2, source="pytest"), collection_failures=(error,)
    )
    stages = [make_report(baseline, context=context), make_report(broken)]
    Path("attempt.json").write_text(json.dumps(merge_reports(stages)))
    found = recover("first", "--report", "attempt.json")
    assert (found["type"], found["action"]) == ("BROKEN_BUILD", "rollback")
    assert found["last_good_commit"] == "abc1234"
    assert found["hints"][0] == "Go back to abc1234, the last commit that worked."
    recover("second", "--success", "--commit", "4f0c2d1")
    found = recover("third", "--report", "attempt.json")
    assert found["last_good_commit"] == "4f0c2d1"


def test_a_report_tells_by_itself(recover: Recover) -> None:
    """A run that is given twice is one attempt."""
    Path("r.json").write_text(
        json.dumps(make_report(make_run(failures=(make_failure(),))))
    )
    for _ in range(2):
        found = recover("a", "--report", "r.json")
        assert (found["type"], found["failure_reason"]) == (
            "VERIFICATION_FAILED",
            "TESTS_FAILED",
        )
        assert (found["attempt_count"], found["tried"]) == (1, [])
    Path("r.json").write_text(json.dumps(make_report(make_run())))
    assert recover("b", "--report", "r.json")["success"] is True


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--approach", " "), "approach: it is empty; give a few words"),
        (
            ("--approach", "a", "--error", "missing"),
            "missing: there is no such file; give",
        ),
        (("--approach", "a", "--report", "missing"), "missing: "),
    ],
)
def test_mistakes_are_told(
    recover: Recover,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    told: str,
) -> None:
    """One line, and exit code 2."""
    assert main(["recover", "--subtask", "s", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_an_attempt_from_a_run(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two options of pytest record it, in the default history."""
    monkeypatch.setenv("FAILURE_TAXONOMY_HISTORY_SECONDS", "60")
    runs.write({"test_it.py": "def test_it(): assert 0\n"})
    runs.run("--failure-taxonomy-subtask=s", "--failure-taxonomy-approach=try it")
    with open_history(rootdir=runs.path, create=False) as history:
        (found,) = attempts_of(history, "s")
    assert (found.approach, found.success, found.reason) == (
        "try it",
        False,
        "TESTS_FAILED",
    )
    assert found.failure_type == "VERIFICATION_FAILED"

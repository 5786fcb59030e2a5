"""What a run gives to GitHub Actions: annotations, a summary and outputs of its step."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import run_child
from tests.helpers.reports import read_report
from tests.helpers.runs import FinishedRun, PytestRuns

SUITE: Final = """
import pytest
def test_ok(): pass
@pytest.mark.parametrize("number", [1, 2])
def test_bad(number): assert not number, "it is\\n::error::broken"
"""
DEATH: Final = """
import os, resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
def test_ok(): pass
def test_dies(): os.abort()
"""
MODE: Final = "--failure-taxonomy-github"
CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
SUMMARY: Final = "summary.md"
OUTPUT: Final = "output.txt"


@pytest.fixture
def on_github(runs: PytestRuns, monkeypatch: pytest.MonkeyPatch) -> PytestRuns:
    """Return runs that take themselves for a step of a job on GitHub."""
    for name, text in step(runs.path).items():
        monkeypatch.setenv(name, text)
    runs.write({"test_it.py": SUITE})
    return runs


def step(folder: Path) -> dict[str, str]:
    """Return the variables that GitHub sets for a step, with a folder as the repository."""
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(folder.parent),
        "GITHUB_STEP_SUMMARY": str(folder / SUMMARY),
        "GITHUB_OUTPUT": str(folder / OUTPUT),
    }


def commands(lines: list[str]) -> list[str]:
    """Return the lines that GitHub takes for workflow commands and that pytest didn't print."""
    return [line for line in lines if re.match("::(error|warning|notice) ", line)]


@pytest.mark.parametrize(
    ("args", "plugins"),
    [
        pytest.param((), (), id="serial"),
        pytest.param(("-n", "2"), ("xdist",), id="xdist"),
        pytest.param(("-q",), (), id="quiet"),
        pytest.param(("-qq",), (), id="as-quiet-as-can-be"),
        pytest.param(
            ("--failure-taxonomy-summary=off",), (), id="no-words-on-the-terminal"
        ),
    ],
)
def test_a_failing_run(
    on_github: PytestRuns, args: tuple[str, ...], plugins: tuple[str, ...]
) -> None:
    """Each cause, on the user's line; a summary; what later steps ask for."""
    run = on_github.run(*args, plugins=plugins)
    assert run.exit_status == 1
    (cause,) = commands(run.stdout)
    name = on_github.path.name
    assert cause.startswith(
        f"::error file={name}/test_it.py,line=5,title=2 x it is%3A test_bad (test_it.py%3A5)::"
    )
    *tests, owner, advice, codes = cause.partition("::test_it")[2].split("%0A")
    assert sorted(tests) == [".py::test_bad[1]", "test_it.py::test_bad[2]"] or (
        sorted(tests) == [".py::test_bad[2]", "test_it.py::test_bad[1]"]
    )
    assert (owner, advice) == ("owner: test", "a retry won't help")
    assert codes == "[TESTS_FAILED test.failed]"
    summary = (on_github.path / SUMMARY).read_text("utf-8")
    assert summary.startswith("## \u274c 2 of 3 tests failed: it is: test")
    assert "#### 2 x `it is: test_bad (test_it.py:5)`" in summary
    assert (on_github.path / OUTPUT).read_text("utf-8").splitlines() == [
        "reason=TESTS_FAILED",
        "kind=test.failed",
        "retryable=false",
    ]


def test_a_run_that_passes(on_github: PytestRuns) -> None:
    """Nothing is annotated; the summary says that all is well, and no output is given."""
    run = on_github.run("-k", "ok")
    assert commands(run.stdout) == []
    assert (
        (on_github.path / SUMMARY)
        .read_text("utf-8")
        .startswith("## \u2705 pytest: no failure")
    )
    assert not (on_github.path / OUTPUT).exists()


RATE_LIMIT: Final = """
def test_limit(failure_taxonomy):
    failure_taxonomy.record("LLM_ERROR", "llm.rate_limited", "too many")
    raise OSError
"""
VAGUE: Final = "def test_vague():\n    assert ['a', 'b'] == ['b', 'a']\n"


def test_several_runs_of_one_step(on_github: PytestRuns) -> None:
    """A green run leaves what a red one gave; of red ones the least retryable leads."""
    on_github.write({"test_limit.py": RATE_LIMIT, "test_vague.py": VAGUE})
    output = on_github.path / OUTPUT
    output.write_text("mine<<END\nreason=\nretryable=false\nEND\nbroken<<\n", "utf-8")

    def last_of_step(*args: str) -> list[str]:
        on_github.run(*args)
        return output.read_text("utf-8").splitlines()[-3:]

    limit = ["reason=LLM_ERROR", "kind=llm.rate_limited", "retryable=true"]
    vague = ["reason=TESTS_FAILED", "kind=test.failed", "retryable="]
    failed = [*vague[:2], "retryable=false"]
    assert last_of_step("test_limit.py") == limit
    assert last_of_step("test_it.py", "-k", "ok") == limit
    assert last_of_step("test_vague.py") == vague
    assert last_of_step("test_limit.py") == vague
    assert last_of_step("test_it.py") == failed
    assert last_of_step("--no-such-option") == failed
    assert last_of_step("test_it.py", "-k", "ok") == failed


def test_a_test_that_passed_on_a_rerun(on_github: PytestRuns) -> None:
    """It is counted in the summary and not annotated."""
    on_github.write(
        {
            "test_it.py": "seen = []\ndef test_it():\n    seen.append(1)\n    assert len(seen) > 1\n"
        }
    )
    run = on_github.run("--reruns=1", plugins=("rerunfailures",))
    assert (run.exit_status, commands(run.stdout)) == (0, [])
    assert "| passed | flaky | rerun |" in (on_github.path / SUMMARY).read_text("utf-8")


@pytest.mark.parametrize(
    ("variables", "args", "is_told"),
    [
        pytest.param({}, (), False, id="elsewhere"),
        pytest.param({}, (f"{MODE}=on",), True, id="on-elsewhere"),
        pytest.param({"GITHUB_ACTIONS": "false"}, (), False, id="not-true"),
        pytest.param({"GITHUB_ACTIONS": "true"}, (), True, id="there"),
        pytest.param(
            {"GITHUB_ACTIONS": "true"}, (f"{MODE}=off",), False, id="off-there"
        ),
        pytest.param(
            {"GITHUB_ACTIONS": "true"},
            ("-o", "failure_taxonomy_github=off"),
            False,
            id="ini",
        ),
        pytest.param({"GITHUB_ACTIONS": "true"}, (f"{MODE}=auto",), True, id="auto"),
    ],
)
def test_who_is_told(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    args: tuple[str, ...],
    is_told: bool,
) -> None:
    """GitHub by default, and whoever asks; without a file for it there is no summary."""
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    runs.write({"test_it.py": SUITE})
    run = runs.run(*args)
    assert bool(commands(run.stdout)) is is_told
    assert not (runs.path / SUMMARY).exists()


def test_without_the_option_nothing_is_told(on_github: PytestRuns) -> None:
    """A plugin that is only installed does nothing, on GitHub as well."""
    assert commands(on_github.run_plain().stdout) == []
    assert not (on_github.path / SUMMARY).exists()


def test_a_summary_that_cannot_be_written(
    on_github: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so; the run and the annotations are as they would be."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(on_github.path))
    run = on_github.run()
    assert run.exit_status == 1
    assert len(commands(run.stdout)) == 1
    (line,) = (line for line in run.stdout if "step summary" in line)
    assert line.startswith("failure taxonomy: step summary: it can't be written: ")


@pytest.mark.parametrize(
    ("arg", "said"),
    [
        ("no_such.py", "there is no file or folder no_such.py"),
        ("--no-such-option", "pytest does not know --no-such-option"),
    ],
)
def test_a_run_that_never_starts(on_github: PytestRuns, arg: str, said: str) -> None:
    """Its cause is annotated, and it has no place."""
    run: FinishedRun = on_github.run(arg)
    (line,) = commands(run.stdout + run.stderr)
    assert line.startswith(f"::error title={said}::")
    assert line.endswith("[INTERNAL_ERROR usage.error]")


def test_a_broken_module(on_github: PytestRuns) -> None:
    """What is not installed, at the import."""
    on_github.write({"test_it.py": "import no_such_module\n"})
    run = on_github.run()
    (cause,) = commands(run.stdout)
    place = f"file={on_github.path.name}/test_it.py,line=1"
    assert cause.startswith(f"::error {place},title=no_such_module is not installed")


@pytest.mark.slow
@pytest.mark.linux("the watcher")
def test_a_death(on_github: PytestRuns) -> None:
    """The watcher writes summary and outputs; who is called next prints the annotation."""
    on_github.write({"test_it.py": DEATH})
    run = on_github.run_unchecked()
    assert commands(run.stdout + run.stderr) == []
    report = on_github.wait_for_completion()
    assert report["verdict"]["kind"] == "process.crashed"
    summary = (on_github.path / SUMMARY).read_text("utf-8")
    assert summary.startswith(
        "## \u274c the pytest process crashed (SIGABRT) at test\\_it.py:"
    )
    assert "<sub>\\[UNKNOWN process.crashed\\]</sub>" in summary
    assert "<details><summary>Where it crashed</summary>" in summary
    assert "kind=process.crashed\n" in (on_github.path / OUTPUT).read_text("utf-8")
    finalize = [*CLI, "finalize", "failure-report.json"]
    said = run_child(on_github.path, finalize, env=step(on_github.path))
    assert_crash(said.stderr, on_github.path)
    elsewhere = run_child(on_github.path, finalize)
    assert commands(elsewhere.stderr.splitlines()) == []
    assert read_report(on_github.path / "failure-report.json") == report
    assert (on_github.path / SUMMARY).read_text("utf-8") == summary


def assert_crash(stderr: str, folder: Path, line_of: str = ",line=5") -> None:
    """Check the only annotation: the crash, on the line of the test that it happened in."""
    (line,) = commands(stderr.splitlines())
    assert line.startswith(
        f"::error file={folder.name}/test_it.py{line_of},title=the pytest proc"
    )
    assert line.endswith("[UNKNOWN process.crashed]")
    assert "SIGABRT" in line


@pytest.mark.slow
@pytest.mark.posix("SIGABRT")
@pytest.mark.parametrize(
    "how",
    [
        "run",
        pytest.param("run-shell", marks=pytest.mark.linux("the watcher")),
        "finalize",
    ],
)
def test_a_death_that_is_completed_by_a_command(runs: PytestRuns, how: str) -> None:
    """It prints the annotation itself, and writes the rest."""
    runs.write({"test_it.py": DEATH})
    test = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "failure_taxonomy",
        "--failure-taxonomy",
    ]
    if how == "finalize":
        test += ["-o", "failure_taxonomy_watcher=false"]
        run_child(runs.path, test, env=step(runs.path))
        command = ["finalize", "--exit-code", "134", "failure-report.json"]
    else:
        command = [
            "run",
            "--",
            *(["sh", "-c", f"{' '.join(test)}; exit 1"] if "-" in how else test),
        ]
    said = run_child(runs.path, [*CLI, *command], env=step(runs.path))
    # Elsewhere nobody keeps the stack of the crash, and `finalize` can't know of it.
    has_stack = how != "finalize" and sys.platform == "linux"
    assert_crash(said.stderr, runs.path, ",line=5" if has_stack else "")
    assert (runs.path / SUMMARY).read_text("utf-8").count(
        "## \u274c the pytest process crashed"
    ) == 1
    assert (runs.path / OUTPUT).read_text("utf-8").count("reason=UNKNOWN\n") == 1

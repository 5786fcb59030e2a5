"""Runs that are kept and continued: after a death, Ctrl+C and a cap, with what has changed."""

from __future__ import annotations

import json
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
from pytest_failure_taxonomy.system.process import has_process
from tests.helpers.children import pytest_command
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ON_WORKERS,
    SERIAL,
    SYSTEM,
    WORKERS,
    calls,
    only_bench,
    passing_cases,
    task_class_files,
)
from tests.helpers.waiting import wait_until

PLUGINS: Final = [BENCH, "xdist"]

TWO_SYSTEMS: Final = (
    SYSTEM.replace("scope=", 'params=["large", "small"], scope=')
    .replace("system_under_test()", "system_under_test(request)")
    .replace("note(case)\n        if", "note(case, request.param)\n        if")
    .replace("def note(case)", 'def note(case, label="")')
    .replace('case.case_id + "', 'f"{label}:{case.case_id}" + "')
)
"""A conftest.py with two systems, whose calls are noted as `large:case-000`."""


def kept(runs: PytestRuns, folder: str = ".bench") -> list[Path]:
    """Return the files of the runs that are kept."""
    return sorted((runs.path / folder).glob("*.jsonl"))


def write(
    runs: PytestRuns, cases: list[dict[str, Any]], settings: str = "", **more: Any
) -> None:
    """Write a task class of cases that take a moment, one or two at a time."""
    runs.write(task_class_files(cases, settings=f"concurrency: 2\n{settings}", **more))


def kill_in_the_middle(
    runs: PytestRuns, *options: str, signal_number: int, plugins: list[str] = PLUGINS
) -> None:
    """Start a run, and end pytest when some cases, but not all, are done."""
    command = [sys.executable, "-m", "pytest", "--failure-taxonomy", "bench", *options]
    for name in ("failure_taxonomy", *plugins):
        command += ["-p", name]
    process = subprocess.Popen(
        command, cwd=runs.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not any(path.read_text().count('"input_digest"') > 5 for path in kept(runs)):
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal_number)
    process.wait(60)
    seen = -1  # xdist's workers outlive their controller for a moment
    while seen != (seen := sum(path.stat().st_size for path in kept(runs))):
        time.sleep(1)


@WORKERS
def test_why_pytest_stopped_and_what_goes_on_are_said_in_a_quiet_run(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Cases that pytest never came to say so in the verdict."""
    write(
        runs, [{**each, "answer": "wrong"} for each in passing_cases(12)], "gate: {}\n"
    )
    run = runs.run("bench", "-q", "-x", *workers, plugins=PLUGINS)
    (report,) = run.report["bench"]
    assert report["stopped"] == "pytest stopped after a failure"
    assert report["counts"]["not_run"] > 0
    text = "\n".join(run.stdout)
    assert "cases were not run: pytest stopped after a failure" in text
    assert text.count("--bench-resume runs what is missing") == 1


@pytest.mark.parametrize(
    ("number", "workers"),
    [
        pytest.param(signal.SIGKILL, ("-n", "2"), id="killed-xdist"),
        pytest.param(signal.SIGINT, (), id="interrupted-serial"),
    ],
)
def test_a_run_that_was_ended_is_continued(
    runs: PytestRuns,
    workers: tuple[str, ...],
    number: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No case that has a score is called again; nothing is left in the temporary folder."""
    temporary = runs.path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    write(runs, [{**each, "sleep": 0.1} for each in passing_cases(40)])
    kill_in_the_middle(runs, *workers, signal_number=number)
    (path,) = kept(runs)
    done = set(read_run(path).scores())
    assert 5 < len(done) < 40
    (runs.path / "calls.txt").unlink()
    run = runs.run("bench", "--bench-resume", *workers, plugins=PLUGINS)
    report = only_bench(run)
    assert report["counts"]["passed"] == 40
    assert report["complete"]
    assert run.outcomes == {"passed": 40}
    called = calls(runs)
    assert not done & set(called)
    assert {*done, *called} == {f"case-{n:03}" for n in range(40)}
    assert sorted(each.name for each in (runs.path / ".bench").iterdir()) == [
        ".gitignore",
        path.name,
    ]
    output = "\n".join(run.stdout)
    assert f"resumed: {len(done)} of 40 cases were done before" in output
    assert report["run_id"] == path.stem
    deadline = time.monotonic() + 20
    while list(temporary.glob("pytest-bench-*")) and time.monotonic() < deadline:
        time.sleep(0.1)  # the server of a dead run's rubrics ends soon after it
    assert list(temporary.glob("pytest-bench-*")) == []


WAITING: Final = SYSTEM.replace(
    'await asyncio.sleep(case["sleep"])',
    'while not os.path.exists(f"{CALLS}.go"):\n                await asyncio.sleep(0.02)',
)
"""Answers once a file says so."""


@pytest.mark.slow
@pytest.mark.linux("SIGKILL, and xdist's workers that end with their controller")
@WORKERS
def test_a_run_that_is_still_alive_is_not_continued(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """No case is called twice: not beside the first run, and not by two that continue it."""
    write(runs, [{**each, "sleep": 1} for each in passing_cases(6)], system=WAITING)
    command = [*pytest_command("bench", *workers, plugins=PLUGINS)]
    with subprocess.Popen(command, cwd=runs.path, stdout=subprocess.DEVNULL) as first:
        wait_until(lambda: len(calls(runs)) >= 2, "a call")
        refusal = runs.run_unchecked(
            "bench", "--bench-resume", *workers, plugins=PLUGINS
        )
        (path,) = kept(runs)
        first.send_signal(signal.SIGKILL)
    assert refusal.exit_status == 4
    (line,) = (line for line in refusal.stderr if line.startswith("ERROR: "))
    told = re.fullmatch(
        rf"ERROR: --bench-resume: {path}: process (\d+) has run it since {path.name[:16]};"
        " wait until it has ended",
        line,
    )
    assert told is not None
    assert workers or int(told[1]) == first.pid
    assert len(calls(runs)) == len(set(calls(runs)))
    # xdist's workers outlive their controller for a moment.
    of_first = [int(number) for number in re.findall(r'"pid":(\d+)', path.read_text())]
    wait_until(lambda: not any(map(has_process, of_first)), "the end of the first run")
    (runs.path / "calls.txt").unlink()
    (runs.path / "calls.txt.go").touch()
    both = [
        subprocess.Popen([*command, "--bench-resume"], cwd=runs.path) for _ in range(2)
    ]
    assert 0 in [process.wait(60) for process in both]
    assert len(calls(runs)) == len(set(calls(runs)))
    assert len(read_run(path).scores()) == 6
    assert sorted(os.listdir(path.parent)) == [".gitignore", path.name]


@ON_WORKERS
def test_the_report_of_a_killed_run_has_what_was_graded(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Its `bench` section is made of the file that the run has left."""
    write(runs, [{**each, "sleep": 0.1} for each in passing_cases(40)])
    kill_in_the_middle(runs, *workers, signal_number=signal.SIGKILL)
    report = runs.wait_for_completion()
    assert report["completeness"] == "reconstructed"
    (bench,) = report["bench"]
    (path,) = kept(runs)
    done = read_run(path).scores()
    assert bench["task_class"] == "echo"
    assert {case_id for case_id, _ in bench["per_case"]} == set(done)
    assert bench["counts"]["scheduled"] == 40
    assert not bench["complete"]


def test_a_system_that_ends_the_process_is_named(runs: PytestRuns) -> None:
    """`os._exit` in a case loses neither the class nor the others' scores, and names the case."""
    cases = [*passing_cases(4), {"id": "exits", "input": 1, "exit": 3, "sleep": 0.5}]
    write(runs, cases)
    run = runs.run_unchecked("bench", plugins=[BENCH])
    assert run.exit_status == 3
    report = runs.wait_for_completion()
    (bench,) = report["bench"]
    assert report["verdict"]["nodeid"] == "bench/echo/cases/a.jsonl::exits"
    detail = report["verdict"]["evidence"][-1]["detail"]
    assert detail == "cases of echo that ran when the process ended: exits"
    assert bench["counts"] == {
        "scheduled": 5,
        "started": 5,
        "graded": 4,
        "lost": 1,
        "passed": 4,
        "not_run": 0,
    }
    assert "exits" not in dict(bench["per_case"])


def test_only_what_is_missing_after_a_cap(runs: PytestRuns) -> None:
    """A higher cap lets a capped run go on; what was spent before counts for the new one."""
    cases = [{**each, "rubric_cost": 1.0} for each in passing_cases(6)]
    write(
        runs, cases, "max_cost_usd: 2\nconcurrency: 1\n".replace("concurrency: 1\n", "")
    )
    first = only_bench(runs.run("bench", "--bench-concurrency=1", plugins=[BENCH]))
    assert first["counts"]["graded"] == 3
    options = ("--bench-concurrency=1", "--bench-resume", "--bench-max-cost=4.5")
    second = only_bench(runs.run("bench", *options, plugins=[BENCH]))
    assert second["counts"]["graded"] == 5
    assert second["total_cost_usd"] == 5.0
    assert len(calls(runs)) == 5


def test_what_has_changed_runs_again_and_is_said(runs: PytestRuns) -> None:
    """A changed case alone runs again; a changed rubric or version has all run again."""
    cases = passing_cases(5)
    write(runs, cases)
    runs.run("bench", plugins=[BENCH])
    (runs.path / "calls.txt").unlink()
    cases[2]["more"] = "new"
    write(runs, cases)
    run = runs.run("bench", "--bench-resume", plugins=[BENCH])
    assert calls(runs) == ["case-002"]
    assert (
        "4 of 5 cases were done before; 1 had changed and ran again: case-002"
        in "\n".join(run.stdout)
    )
    rubric = (runs.path / "bench/echo/rubric.py").read_text() + "\n# stricter\n"
    write(runs, cases, rubric=rubric)
    run = runs.run("bench", "--bench-resume", plugins=[BENCH])
    assert len(calls(runs)) == 6
    assert "all cases run: the rubric has changed since" in "\n".join(run.stdout)
    run = runs.run("bench", "--bench-resume", "--bench-sut-version=2", plugins=[BENCH])
    assert "all cases run: the system's version has changed since" in "\n".join(
        run.stdout
    )
    assert len(kept(runs)) == 3


def test_the_score_of_a_changed_case_is_no_score_any_more(runs: PytestRuns) -> None:
    """Not even if the cap is reached before the case runs again."""
    cases = [{**each, "rubric_cost": 1.0} for each in passing_cases(4)]
    write(runs, cases)
    runs.run("bench", plugins=[BENCH])
    cases[2]["more"] = "new"
    write(runs, cases)
    report = only_bench(
        runs.run("bench", "--bench-resume", "--bench-max-cost=2", plugins=[BENCH])
    )
    assert len(calls(runs)) == 4
    assert report["counts"]["graded"] == 3
    assert "case-002" not in [case_id for case_id, _ in report["per_case"]]


def test_a_class_that_has_lost_a_case_is_run_whole(runs: PytestRuns) -> None:
    """A continued run without that case is one of the whole class, and has a lower bound."""
    write(runs, passing_cases(5))
    runs.run("bench", plugins=[BENCH])
    write(runs, passing_cases(4))
    report = only_bench(runs.run("bench", "--bench-resume", plugins=[BENCH]))
    assert report["counts"]["scheduled"] == 4
    run = runs.run("bench", "--bench-baseline=latest", plugins=[BENCH])
    assert only_bench(run)["baseline"]["n"] == 4


def test_a_line_that_is_cut_off_is_told(runs: PytestRuns) -> None:
    """The case of which it is the line runs again; the lines behind it count."""
    write(runs, passing_cases(5))
    runs.run("bench", plugins=[BENCH])
    (path,) = kept(runs)
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    (runs.path / "calls.txt").unlink()
    run = runs.run("bench", "--bench-resume", plugins=[BENCH])
    assert len(calls(runs)) == 1
    assert only_bench(run)["counts"]["passed"] == 5
    assert "the line is cut off and was skipped" in "\n".join(run.stdout)


def test_named_runs(runs: PytestRuns) -> None:
    """A run is named by its id, the beginning of it, or its file."""
    write(runs, passing_cases(3))
    runs.run("bench", plugins=[BENCH])
    (path,) = kept(runs)
    for given in (path.stem, path.stem[:20], str(path)):
        (runs.path / "calls.txt").unlink(missing_ok=True)
        runs.run("bench", f"--bench-resume={given}", plugins=[BENCH])
        assert calls(runs) == []
    assert kept(runs) == [path]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bench-resume=nothing"], "--bench-resume: there is no run nothing in"),
        (
            ["--bench-resume", "bench"],
            "--bench-resume: bench is no run; write --bench-resume=late",
        ),
        (["--bench-resume", "--bench-no-save"], "leave --bench-no-save out"),
        (
            ["--bench-storage=bench/echo/rubric.py"],
            "rubric.py is no folder; name another folder",
        ),
        (["--bench-resume=pytest.ini"], "its first line does not describe a run"),
    ],
)
def test_bad_input_is_refused_before_any_call(
    runs: PytestRuns, options: list[str], words: str
) -> None:
    """One line says where, what, and what would be right."""
    write(runs, passing_cases(2))
    if "pytest.ini" in options[0] and "resume" in options[0]:
        (runs.path / "pytest.ini").write_text('{"record": "run"}\n')
        options = [*options, "-c", os.devnull, f"--rootdir={runs.path}"]
    run = runs.run_unchecked(*options, plugins=[BENCH])
    assert run.exit_status == 4
    assert words in "\n".join([*run.stdout, *run.stderr])
    assert "Traceback" not in "\n".join(run.stderr)
    assert calls(runs) == []


def test_a_run_of_a_newer_version_is_not_continued(runs: PytestRuns) -> None:
    """Its file is refused by name."""
    write(runs, passing_cases(2))
    runs.run("bench", plugins=[BENCH])
    (path,) = kept(runs)
    first, *rest = path.read_text().splitlines()
    header = {**json.loads(first), "schema_version": 9}
    path.write_text("\n".join([json.dumps(header), *rest, ""]))
    run = runs.run_unchecked("bench", f"--bench-resume={path}", plugins=[BENCH])
    assert run.exit_status == 4
    assert "has schema version 9, and this program reads up to 1" in "\n".join(
        run.stderr
    )


def test_nothing_to_continue_is_said(runs: PytestRuns) -> None:
    """Where no run was kept, all cases run, and a line says why."""
    write(runs, passing_cases(3))
    run = runs.run("bench", "--bench-resume", plugins=[BENCH])
    assert "resumed: all cases run: no run of it was kept" in "\n".join(run.stdout)
    assert len(calls(runs)) == 3


def change_version(path: Path, version: int) -> None:
    """Change the schema version of a kept run."""
    first, *rest = path.read_text().splitlines()
    header = {**json.loads(first), "schema_version": version}
    path.write_text("\n".join([json.dumps(header), *rest, ""]))


def refused(runs: PytestRuns, *options: str) -> str:
    """Return the one line with which a run is refused, before any system is called."""
    (runs.path / "calls.txt").unlink(missing_ok=True)
    before = kept(runs)
    run = runs.run_unchecked(*options, plugins=PLUGINS)
    assert run.exit_status == 4
    (line,) = (each for each in run.stderr if each.startswith("ERROR: "))
    assert "Traceback" not in "\n".join(run.stderr)
    assert calls(runs) == []
    assert kept(runs) == before
    return line


@pytest.mark.parametrize(
    ("given", "workers"),
    [
        pytest.param("--bench-resume", (), id="latest-serial"),
        pytest.param("--bench-resume={}", ("-n", "2"), id="id-xdist"),
        pytest.param("--bench-resume={:.20}", (), id="beginning-serial"),
    ],
)
def test_what_cannot_be_read_is_refused(
    runs: PytestRuns, given: str, workers: tuple[str, ...]
) -> None:
    """A run of a newer version isn't paid for again, however it is named."""
    write(runs, passing_cases(2))
    runs.run("bench", plugins=[BENCH])
    (path,) = kept(runs)
    change_version(path, 9)
    said = refused(runs, "bench", given.format(path.stem), *workers)
    assert "--bench-resume: " in said
    assert "has schema version 9, and this program reads up to 1" in said


@SERIAL
def test_only_the_run_that_would_go_on_must_be_readable(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Neither an older run nor one of another class is looked at."""
    write(runs, passing_cases(2))
    runs.write(task_class_files(passing_cases(2), folder="bench/other"))
    runs.run("bench/echo", plugins=[BENCH])
    runs.run("bench/other", plugins=[BENCH])
    for path in kept(runs):
        change_version(path, 9)
    time.sleep(1)
    runs.run("bench/echo", plugins=[BENCH])
    (runs.path / "calls.txt").unlink()
    runs.run("bench/echo", "--bench-resume", *workers, plugins=PLUGINS)
    assert calls(runs) == []


def test_a_beginning_of_several_runs_is_refused(runs: PytestRuns) -> None:
    """Those of one pytest run are one; those of several are listed."""
    write(runs, passing_cases(2), system=TWO_SYSTEMS)
    runs.run("bench", plugins=[BENCH])
    session = kept(runs)[0].stem[:23]
    (runs.path / "calls.txt").unlink()
    runs.run("bench", f"--bench-resume={session}", plugins=[BENCH])
    assert calls(runs) == []
    runs.run("bench", plugins=[BENCH])
    said = refused(runs, "bench", "--bench-resume=20")
    assert "--bench-resume: 20: 2 runs begin like this; name one, such as 20" in said
    assert session in said


@SERIAL
def test_a_run_of_something_else_is_refused(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Nothing is paid for again because a user took the wrong run."""
    write(runs, passing_cases(2))
    runs.write(task_class_files(passing_cases(2), folder="bench/other"))
    runs.run("bench/other", plugins=[BENCH])
    (path,) = kept(runs)
    for given in (str(path), path.stem):
        said = refused(runs, "bench/echo", f"--bench-resume={given}", *workers)
        assert "is a run of bench/other, and none of bench/echo; " in said


@SERIAL
def test_a_file_is_continued_by_its_own_system_alone(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """The other system runs anew, which is said; a copy with another name is as good."""
    write(runs, passing_cases(3), system=TWO_SYSTEMS)
    runs.run("bench", plugins=PLUGINS)
    (large,) = (path for path in kept(runs) if "-large-" in path.name)
    large.rename(runs.path / "copied.jsonl")
    (runs.path / "calls.txt").unlink()
    run = runs.run("bench", "--bench-resume=copied.jsonl", *workers, plugins=PLUGINS)
    assert calls(runs) == [f"small:case-00{n}" for n in range(3)]
    assert [each["system_label"] for each in run.report["bench"]] == ["large", "small"]
    assert "copied.jsonl is a run of bench/echo with large" in "\n".join(run.stdout)
    assert "resumed: 3 of 3 cases were done before" in "\n".join(run.stdout)


def test_a_file_is_continued_by_its_own_folder_alone(runs: PytestRuns) -> None:
    """A class of the same name in another folder runs anew."""
    write(runs, passing_cases(3))
    runs.run("bench", plugins=[BENCH])
    (path,) = kept(runs)
    runs.write(task_class_files(passing_cases(3), folder="more/echo"))
    (runs.path / "calls.txt").unlink()
    run = runs.run("bench", "more", f"--bench-resume={path}", plugins=[BENCH])
    assert len(calls(runs)) == 3
    assert f"{path.name} is a run of bench/echo" in "\n".join(run.stdout)
    assert "is a run of bench/echo, and none of more/echo" in refused(
        runs, "more", f"--bench-resume={path}"
    )


@SERIAL
def test_a_selection_adds_to_a_run(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """A complete run stays complete; the report is that of the whole run."""
    cases = passing_cases(6)
    write(runs, cases)
    runs.run("bench", plugins=[BENCH])
    (path,) = kept(runs)
    (runs.path / "calls.txt").unlink()
    run = runs.run(
        "bench", "-k", "case-001", "--bench-resume", *workers, plugins=PLUGINS
    )
    assert calls(runs) == []
    assert list(read_run(path).cases) == [each["id"] for each in cases]
    counts = only_bench(run)["counts"]
    assert (counts["scheduled"], counts["passed"]) == (6, 6)
    assert "resumed: 6 of 6 cases were done before" in "\n".join(run.stdout)
    cases[1]["more"] = cases[2]["more"] = "new"
    write(runs, cases)
    run = runs.run(
        "bench", "-k", "case-001", "--bench-resume", *workers, plugins=PLUGINS
    )
    assert calls(runs) == ["case-001"]
    assert only_bench(run)["counts"]["passed"] == 6
    runs.run("bench", "--bench-resume", *workers, plugins=PLUGINS)
    assert calls(runs) == ["case-001", "case-002"]
    assert kept(runs) == [path]
    baseline = runs.run("bench", "--bench-baseline=latest", *workers, plugins=PLUGINS)
    assert only_bench(baseline)["baseline"]["old_run_id"] == path.stem


def test_a_selection_drops_what_the_class_has_no_more(runs: PytestRuns) -> None:
    """A case that was removed isn't missing for ever."""
    write(runs, passing_cases(6))
    runs.run("bench", plugins=[BENCH])
    write(runs, passing_cases(5))
    run = runs.run("bench", "-k", "case-001", "--bench-resume", plugins=[BENCH])
    assert only_bench(run)["counts"]["scheduled"] == 5
    assert only_bench(run)["complete"]


def test_a_selection_of_a_run_that_is_not_complete(runs: PytestRuns) -> None:
    """What is missing of the whole run is still missing, which is said."""
    write(runs, [{**each, "rubric_cost": 1.0} for each in passing_cases(6)])
    runs.run("bench", "--bench-concurrency=1", "--bench-max-cost=2", plugins=[BENCH])
    run = runs.run("bench", "-k", "case-005", "--bench-resume", plugins=[BENCH])
    assert calls(runs) == ["case-000", "case-001", "case-002", "case-005"]
    assert only_bench(run)["counts"]["not_run"] == 2
    assert run.exit_status == 1
    runs.run("bench", "--bench-resume", plugins=[BENCH])
    assert calls(runs) == [f"case-{n:03}" for n in range(6)]


TESTS: Final = """\
import pytest


def test_whole(bench, system_under_test):
    report = bench.run_sync("echo", system_under_test)
    print("spent", report.total_cost_usd)


@pytest.mark.bench("echo")
def test_each(bench, case):
    bench.score(case.input, cost_usd=0.5)
"""


@SERIAL
def test_the_run_of_a_test_is_not_continued(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """It runs anew, in a new file, and without the costs of before."""
    write(runs, [{**each, "rubric_cost": 1.0} for each in passing_cases(3)])
    runs.write({"test_it.py": TESTS})
    runs.run("test_it.py", plugins=[BENCH])
    first = kept(runs)
    run = runs.run("test_it.py", "--bench-resume", *workers, plugins=PLUGINS)
    assert len(calls(runs)) == 6
    assert len(kept(runs)) == 2 * len(first) == 4
    assert sorted(each["total_cost_usd"] for each in run.report["bench"]) == [3.0, 4.5]
    assert "done before" not in "\n".join(run.stdout)
    (whole,) = (
        path for path in first if read_run(path).header.test.endswith("test_whole")
    )
    for given in (str(whole), whole.stem):
        said = refused(runs, "bench", f"--bench-resume={given}", *workers)
        assert (
            "is a run of the test test_it.py::test_whole, which is not continued; "
            in said
        )


@ON_WORKERS
def test_a_shard_continues_its_own_run(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Not that of another shard, which ran later; where there is none, the reason is said."""
    write(runs, passing_cases(6))
    runs.run("bench", "--bench-shard=1/2", plugins=[BENCH])
    runs.run("bench", "--bench-shard=2/2", plugins=[BENCH])
    runs.run("bench", plugins=[BENCH])
    (runs.path / "calls.txt").unlink()
    for number in (1, 2):
        options = (f"--bench-shard={number}/2", "--bench-resume")
        run = runs.run("bench", *options, *workers, plugins=PLUGINS)
        assert calls(runs) == []
        assert only_bench(run)["counts"]["passed"] == 3
    run = runs.run(
        "bench", "--bench-shard=1/3", "--bench-resume", *workers, plugins=PLUGINS
    )
    assert "all cases run: the shard has changed since" in "\n".join(run.stdout)


@pytest.mark.parametrize(
    "options", [(), ("--bench-no-save",)], ids=["kept", "not kept"]
)
def test_what_dead_runs_left_in_the_temporary_folder_is_removed(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Only what we have made there: no link is followed, and a live run keeps its files."""
    temporary = runs.path / "tmp"
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    begin = "pytest-bench-workers-"
    runs.write(
        {
            f"tmp/{begin}{ended.pid}-0a/gw0.journal": "started\tcase\n",
            f"tmp/{begin}{ended.pid}-0a/20260101T000000Z-0a-echo.jsonl": "{}\n",
            f"tmp/{begin}{ended.pid}-0b/notes.txt": "not ours",
            f"tmp/{begin}{os.getpid()}-0c/gw0.journal": "",
            "tmp/elsewhere/gw0.journal": "",
        }
    )
    (temporary / f"{begin}{ended.pid}-0d").symlink_to(temporary / "elsewhere")
    before = {str(path.relative_to(temporary)) for path in temporary.rglob("*")}
    write(runs, passing_cases(2))
    runs.run("bench", "-n", "2", *options, plugins=PLUGINS)
    left = {
        str(path.relative_to(temporary)) for path in temporary.rglob("pytest-bench-*")
    }
    left |= {str(path.relative_to(temporary)) for path in temporary.rglob("*/*")}
    assert before - left - {"elsewhere"} == {
        f"{begin}{ended.pid}-0a",
        f"{begin}{ended.pid}-0a/gw0.journal",
        f"{begin}{ended.pid}-0a/20260101T000000Z-0a-echo.jsonl",
    }

"""`failure-taxonomy convert --from HARNESS`: a report for each trial of a harness of agents."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

import pytest

from pytest_failure_taxonomy.cli import reports as commands
from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.logs.harness_folders import HARNESSES
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import Stage, known_kinds
from tests.helpers import harness_folders as made
from tests.helpers.reports import assert_valid_report, make_report


class Said(NamedTuple):
    """What a command has answered."""

    code: int
    out: str
    err: str


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Return what calls the command in this process."""

    def call(*words: str | Path) -> Said:
        capsys.readouterr()
        code = main([*map(str, words)])
        return Said(code, *capsys.readouterr())

    return call


def reports_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the reports of a folder by the names of their trials, all checked."""
    found = {}
    for path in sorted(folder.iterdir()):
        report = json.loads(path.read_text())
        assert_valid_report(report)
        found[trial_of(report)["task"]] = report
    return found


def trial_of(report: dict[str, Any]) -> dict[str, Any]:
    """Return what a report says of the harness."""
    told: dict[str, Any] = report["trial"]
    return told


def verdicts(reports: dict[str, dict[str, Any]]) -> dict[str, str | None]:
    """Return kind and charge of each verdict, by task."""
    told = {task: report["verdict"] for task, report in reports.items()}
    return {
        task: verdict and f"{verdict['kind']} {verdict['charge_to']}"
        for task, verdict in told.items()
    }


def test_trials_of_terminal_bench(tmp_path: Path, call: Callable[..., Said]) -> None:
    """Tests decide where they came to their end; what the harness has stopped is said by it."""
    run = made.terminal_bench_run(tmp_path / "2026-01-02")
    answer = call(
        "convert", "--from", "terminal-bench", tmp_path, "-o", tmp_path / "out"
    )
    assert answer == (0, "8 trials: 3 passed, 5 failed\n", "")
    reports = reports_in(tmp_path / "out")
    assert verdicts(reports) == {
        "good": None,
        "kept": None,  # only in the list of the run
        "slow-but-good": None,
        "failed": "test.failed subject",
        "slow": "stage.timeout subject",
        "never-started": "tool.command_missing environment",
        "slow-tests": "stage.timeout ambiguous",
        "silent": "command.failed ambiguous",
    }
    failed = reports["failed"]
    assert [each["nodeid"] for each in failed["failures"]] == [
        "../tests/test_outputs.py::test_greets",
        "../tests/test_outputs.py::test_other",
    ]
    assert failed["run"]["started_at"] == "2026-01-02T03:04:05.000Z"
    assert failed["run"]["duration_seconds"] == 60.5
    system = "terminus (anthropic/sonnet)"
    assert failed["attempt"] == {"subtask": "failed", "approach": system}
    assert failed["trial"]["told"]["failure_mode"] == "unset"
    said = "2 of 3 tests failed, and the agent hit its time limit, 3 causes"
    assert reports["slow"]["verdict"]["message"] == said
    assert [held["kind"] for held in reports["slow"]["reasons"]] == [
        "stage.timeout",
        "test.failed",
    ]
    assert trial_of(reports["slow-but-good"])["label"] == "agent_timeout"
    told = trial_of(reports["slow"])
    assert told.pop("told")["failure_mode"] == "agent_timeout"
    assert told == {
        "harness": "terminal-bench",
        "task": "slow",
        "system": system,
        "name": f"slow.1-of-5.{run.name}",
        "passed": False,
        "label": "agent_timeout",
    }
    assert reports["silent"]["verdict"]["confidence"] == "likely"


def test_tests_that_only_the_harness_names_have_failed(
    tmp_path: Path, call: Callable[..., Said]
) -> None:
    """A failed test that the output doesn't name, or only counts, is listed with the others."""
    named = {"test_greets": "failed", "test_other": "failed"}
    counted = "F.F    [100%]\n2 failed, 1 passed in 0.10s\n"
    for task, log in (("counted", counted), ("cut", made.PASSING_LOG), ("none", None)):
        made.terminal_bench_trial(
            tmp_path / "run", task, is_resolved=False, parser_results=named, log=log
        )
    made.terminal_bench_trial(
        tmp_path / "run", "forged", is_resolved=False, log=made.PASSING_LOG
    )
    assert (
        call(
            "convert", "--from", "terminal-bench", tmp_path, "-o", tmp_path / "out"
        ).code
        == 0
    )
    found = reports_in(tmp_path / "out")
    assert found.pop("forged")["verdict"]["kind"] == "command.failed"
    for task, report in found.items():
        assert {each["nodeid"] for each in report["failures"]} == set(named), task
        assert report["summary"]["failed"] == 2, task
        assert report["verdict"]["kind"] == "test.failed", task


def test_trials_of_swe_bench(tmp_path: Path, call: Callable[..., Said]) -> None:
    """The tests that it names count; a patch that can't be applied is the system's."""
    bad = ["tests/test_outputs.py::test_greets"]
    output = made.PYTEST_LOG.replace("../tests", "tests") + ">>>>> Test Exit Code: 1\n"
    resolved = {
        "patch_is_None": False,
        "patch_successfully_applied": True,
        "resolved": True,
    }
    made.swe_bench_trial(
        tmp_path,
        "failed-1",
        output=output,
        report={**resolved, "resolved": False}
        | {"tests_status": made.swe_bench_statuses(FAIL_TO_PASS=bad)},
    )
    made.swe_bench_trial(
        tmp_path,
        "others-fail-1",
        output=output,
        report={**resolved, "tests_status": made.swe_bench_statuses()},
    )
    applied = ">>>>> Patch Apply Failed:\nerror: patch does not apply\nTraceback ...\n"
    made.swe_bench_trial(tmp_path, "patch-1", log=applied)
    made.swe_bench_trial(
        tmp_path,
        "slow-1",
        log="Test runtime: 1_800.00 seconds\nswebench.EvaluationError: Test timed out after 1800 "
        "seconds.\n",
        output=made.PYTEST_LOG[:120] + "\n\nTimeout error: 1800 seconds exceeded.",
    )
    made.swe_bench_trial(
        tmp_path,
        "image-1",
        log="Traceback (most recent call last):\n  File ...\n"
        'docker.errors.ImageNotFound: 404 Client Error: Not Found ("No such image")\n',
    )
    made.swe_bench_trial(
        tmp_path,
        "not-collected-1",
        output="ERROR: file or directory not found: tests/test_outputs.py\n\n"
        "============================ no tests ran in 0.00s =============================\n"
        ">>>>> Test Exit Code: 4\n",
        report={**resolved, "resolved": False}
        | {"tests_status": made.swe_bench_statuses(FAIL_TO_PASS=bad)},
    )
    # Other programs print what nobody but the harness can read.
    made.swe_bench_trial(
        tmp_path,
        "django-1",
        output="test_x (a.B) ... FAIL\nFAILED (failures=1)\n>>>>> Test Exit Code: 1\n",
        report={**resolved, "resolved": False}
        | {"tests_status": made.swe_bench_statuses(PASS_TO_PASS=["test_x (a.B)"])},
    )
    made.write_json(
        tmp_path / "org__model-1.5.nightly.json",
        {"submitted_ids": ["failed-1", "empty-1"], "empty_patch_ids": ["empty-1"]},
    )
    answer = call("convert", "--from", "swe-bench", tmp_path, "-o", tmp_path / "out")
    assert answer == (0, "8 trials: 1 passed, 7 failed\n", "")
    reports = reports_in(tmp_path / "out")
    assert verdicts(reports) == {
        "django-1": "test.failed subject",
        "failed-1": "test.failed subject",
        "others-fail-1": None,
        "patch-1": "tool.git subject",
        "slow-1": "stage.timeout ambiguous",
        "image-1": "sandbox.docker environment",
        "not-collected-1": "usage.error verifier",
        "empty-1": "agent.gave_up subject",
    }
    assert [each["nodeid"] for each in reports["failed-1"]["failures"]] == bad
    assert reports["not-collected-1"]["not_run"]["nodeids"] == bad
    (path,) = (tmp_path / "out").glob("not-collected-1*")
    assert "not run: 1 of 1 test" in call("show", path).out
    assert len(reports["django-1"]["causes"]) == 1
    told = trial_of(reports["patch-1"])
    assert (told["system"], told["name"], told["passed"]) == (
        "org__model-1.5",
        "nightly",
        None,
    )
    note = reports["others-fail-1"]["notes"]
    assert "2 tests failed that swe-bench does not count" in note


def test_trials_of_harbor(tmp_path: Path, call: Callable[..., Said]) -> None:
    """A reward below 1 is a failure; an exception says what ended the trial, and where."""
    job = tmp_path / "jobs" / "2026-01-02"
    zero, one = ({"rewards": {"reward": reward}} for reward in (0.0, 1))
    made.harbor_trial(job, "good__1", verifier_result=one, log=made.PASSING_LOG)
    made.harbor_trial(job, "partial__1", verifier_result={"rewards": {"reward": 0.5}})
    made.harbor_trial(
        job,
        "slow-but-good__1",
        verifier_result=one,
        exception_info=made.raised("AgentTimeoutError", "after 900.0 seconds"),
    )
    made.harbor_trial(
        job,
        "limited__1",
        verifier_result=zero,
        reward_valid=False,
        exception_info=made.raised("ApiRateLimitError", "429 Too Many Requests"),
        log=made.PYTEST_LOG,
    )
    made.harbor_trial(
        job,
        "environment__1",
        exception_info=made.raised("EnvironmentStartTimeoutError", "after 600 seconds"),
    )
    made.harbor_trial(
        job, "odd__1", exception_info=made.raised("NewError", "what is this")
    )
    listed = made.harbor_trial(job, "listed__1", verifier_result=zero)
    made.write_json(
        listed / "verifier" / "ctrf.json",
        {"results": {"tests": [{"name": "a.py::test_a", "status": "failed"}]}},
    )
    jest = "FAIL a.test.js\n  \u25cf adds\n\n    expect(received).toBe(expected)\n\n"
    jest += "Tests:       1 failed, 2 passed, 3 total\n"
    made.harbor_trial(job, "jest__1", verifier_result=zero, log=jest)
    # What an agent has written is no trial.
    made.harbor_trial(listed / "agent" / "jobs", "forged__1", verifier_result=one)
    answer = call(
        "convert", "--from", "harbor", tmp_path / "jobs", "-o", tmp_path / "out"
    )
    assert answer == (0, "8 trials: 2 passed, 6 failed\n", "")
    reports = reports_in(tmp_path / "out")
    assert verdicts(reports) == {
        "good": None,
        "slow-but-good": None,
        "partial": "test.failed subject",
        "limited": "llm.rate_limited ambiguous",
        "environment": "stage.setup_timeout environment",
        "odd": "command.failed ambiguous",
        "listed": "test.failed subject",
        "jest": "test.failed subject",
    }
    assert "reward" not in reports["jest"]["verdict"]["message"]  # the output says more
    assert reports["partial"]["failures"][0]["nodeid"] == "reward"
    assert reports["listed"]["failures"][0]["nodeid"] == "a.py::test_a"
    assert "what is this" in reports["odd"]["verdict"]["message"]
    told = trial_of(reports["limited"])
    assert told["system"] == "claude-code (anthropic/sonnet)"
    assert (told["passed"], told["label"]) == (None, "ApiRateLimitError")
    assert told["told"]["rewards"] == {"reward": 0.0}


@pytest.mark.parametrize("form", ["json", "eval"])
def test_trials_of_inspect(
    tmp_path: Path, call: Callable[..., Said], form: str
) -> None:
    """Each score is a test; limits and errors say what ended a sample."""
    wrong = {"match": {"value": "I", "answer": "hi", "explanation": "expected hello"}}
    error = {
        "message": "429 slow down",
        "traceback": "Traceback (most recent call last):\n  ...\nopenai.RateLimitError: 429\n",
    }
    samples = (
        made.inspect_sample(
            "good", scores={"match": {"value": "C"}, "length": {"value": 3.5}}
        ),
        made.inspect_sample("wrong", scores=wrong),
        made.inspect_sample(
            "parts", scores={"judge": {"value": {"style": 1.0, "facts": False}}}
        ),
        made.inspect_sample(
            "long", scores=wrong, limit={"type": "message", "limit": 50}
        ),
        made.inspect_sample("limited", error=error),
        made.inspect_sample("ungraded"),
    )
    if form == "eval":
        place = made.inspect_archive(tmp_path / "logs" / "one.eval", *samples)
    else:
        document = {**made.INSPECT_HEADER, "samples": samples}
        place = made.write_json(tmp_path / "logs" / "one.json", document)
    answer = call("convert", "--from", "inspect", place.parent, "-o", tmp_path / "out")
    assert answer == (0, "6 trials: 1 passed, 5 failed\n", "")
    reports = reports_in(tmp_path / "out")
    assert verdicts(reports) == {
        "greetings/good": None,
        "greetings/wrong": "test.failed subject",
        "greetings/parts": "test.failed subject",
        "greetings/long": "agent.gave_up subject",
        "greetings/limited": "llm.rate_limited environment",
        "greetings/ungraded": "command.failed ambiguous",
    }
    assert reports["greetings/wrong"]["failures"][0]["nodeid"] == "match"
    assert reports["greetings/parts"]["failures"][0]["nodeid"] == "judge.facts"
    told = trial_of(reports["greetings/long"])
    assert (told["system"], told["name"]) == (
        "react (openai/gpt-5)",
        "evaluati-epoch-1",
    )
    assert told["told"] == {"scores": {"match": "I"}, "limit": "message", "error": None}


@pytest.mark.parametrize("form", ["json", "eval"])
def test_an_evaluation_that_failed_itself(
    tmp_path: Path, call: Callable[..., Said], form: str
) -> None:
    """Where Inspect got to no sample, its log is one trial of the whole task and says why."""
    error = {
        "message": "slow down",
        "traceback": "...\nopenai.RateLimitError: slow down\n",
    }
    stats = {
        "started_at": "2026-01-02T03:04:05+00:00",
        "completed_at": "2026-01-02T03:04:06+00:00",
    }
    document = {
        **made.INSPECT_HEADER,
        "status": "error",
        "error": error,
        "stats": stats,
    }
    place = tmp_path / "logs" / f"one.{form}"
    if form == "eval":
        place.parent.mkdir()
        with ZipFile(place, "w") as archive:
            archive.writestr("header.json", json.dumps(document))
    else:
        made.write_json(place, {**document, "samples": []})
    answer = call("convert", "--from", "inspect", place.parent, "-o", tmp_path / "out")
    assert answer == (0, "1 trial: 0 passed, 1 failed\n", "")
    reports = reports_in(tmp_path / "out")
    assert verdicts(reports) == {"greetings": "llm.rate_limited environment"}
    told = trial_of(reports["greetings"])
    assert (told["name"], told["label"], told["passed"]) == (
        "evaluati",
        "RateLimitError",
        None,
    )
    assert told["told"]["error"] == "slow down"
    assert reports["greetings"]["run"]["duration_seconds"] == 1


def test_what_differs_is_listed(tmp_path: Path, call: Callable[..., Said]) -> None:
    """The harness's success, tests and failure mode are compared with what the output says."""
    run = tmp_path / "run"
    made.terminal_bench_run(run)
    answer = call("convert", "--from", "terminal-bench", run, "--compare")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith("8 trials, 0 differences\n")
    assert "    2  passed                   passed\n" in answer.out
    assert "no result, parse_error   TOOL_ERROR tool.command_missing\n" in answer.out
    made.terminal_bench_trial(
        run,
        "a",
        is_resolved=True,
        parser_results={"test_exists": "passed"},
        log=made.PYTEST_LOG,
    )
    made.terminal_bench_trial(
        run,
        "b",
        is_resolved=False,
        parser_results={"test_new": "failed"},
        log=made.PYTEST_LOG,
    )
    made.terminal_bench_trial(
        run, "c", failure_mode="test_timeout", log=made.NEVER_STARTED
    )
    answer = call("convert", "--from", "terminal-bench", run, "--compare")
    assert answer.code == 1
    *listed, last = [line for line in answer.out.splitlines() if line[:1].isalnum()]
    listed = [line for line in listed if not line.startswith("count ")]
    assert [line.partition(": ")[2].partition(": ")[2] for line in listed] == [
        "a.1-of-5.run: terminal-bench: passed; ours: TESTS_FAILED test.failed",
        "b.1-of-5.run: terminal-bench: test_new; ours: test_greets, test_other",
        "c.1-of-5.run: terminal-bench: test_timeout; ours: TOOL_ERROR tool.command_missing",
    ]
    assert last == "11 trials, 3 differences (reason 1, success 1, tests 1)"
    answer = call(
        "convert", "--from", "terminal-bench", run, "--compare", "-o", tmp_path / "o"
    )
    assert answer.code == 2
    assert "--compare writes no report" in answer.err


def test_one_trial_goes_to_stdout(tmp_path: Path, call: Callable[..., Said]) -> None:
    """Where there are more the folder has to be named; one harness's files are not another's."""
    run = tmp_path / "run"
    made.terminal_bench_trial(run, "failed", is_resolved=False, log=made.PYTEST_LOG)
    answer = call("convert", "--from", "terminal-bench", run)
    assert answer.code == 0
    assert json.loads(answer.out)["verdict"]["kind"] == "test.failed"
    assert "2 of 3 tests failed" in answer.err
    made.terminal_bench_trial(run, "other", is_resolved=True)
    answer = call("convert", "--from", "terminal-bench", run)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith(
        "there are several trials; give -o FOLDER for the reports\n"
    )
    answer = call("convert", "--from", "harbor", run, tmp_path / "none")
    assert answer.code == 2
    of_harbor = "it has no trial of harbor; it has some of terminal-bench; "
    of_harbor += "give --from terminal-bench"
    right = "give results as a harness has written them, of trials that have ended"
    assert answer.err.splitlines() == [
        f"failure-taxonomy: {run}: {of_harbor}",
        f"failure-taxonomy: {tmp_path / 'none'}: there is no such file; {right}",
    ]
    (tmp_path / "empty").mkdir()
    outs: tuple[tuple[str | Path, ...], ...] = ((), ("-o", tmp_path / "out"))
    for out in outs:
        of_harbor = "it has no trial of harbor; give a folder that harbor has written"
        answer = call("convert", "--from", "harbor", tmp_path / "empty", *out)
        assert answer == (
            2,
            "",
            f"failure-taxonomy: {tmp_path / 'empty'}: {of_harbor}\n",
        )
    for words, said in (
        (("--from", "junit", "a.xml", "b.xml"), "it takes one file"),
        (("--from", "ctrf", "a.json", "--compare"), "--compare is for harnesses"),
    ):
        answer = call("convert", *words)
        assert answer.code == 2
        assert said in answer.err


def test_what_can_be_read_is_written(tmp_path: Path, call: Callable[..., Said]) -> None:
    """Each result that is damaged has one line; links that lead elsewhere are not followed."""
    run = made.terminal_bench_run(tmp_path / "run")
    secret = made.write(
        tmp_path / "secret.txt", "E   password = 'hunter2'\nERROR: hunter2\n"
    )
    made.write(run / "half" / "half.1" / "results.json", '{"task_id": "half", "trial')
    listed = json.loads((run / "results.json").read_text())["results"]
    made.write_json(run / "results.json", {"results": [{"task_id": "cut"}, *listed, 3]})
    made.write_json(run / "list" / "list.1" / "results.json", [1, 2])
    made.write_json(
        run / "types" / "types.1" / "results.json", {"task_id": 3, "trial_name": {}}
    )
    made.write(run / "deep" / "deep.1" / "results.json", "[" * 100_000)
    made.terminal_bench_trial(run, "stolen", failure_mode="parse_error")
    sessions = run / "stolen" / "stolen.1-of-5.run" / "sessions"
    sessions.mkdir()
    (sessions / "tests.log").symlink_to(secret)
    (run / "loop").symlink_to(run, target_is_directory=True)
    big = made.write(run / "big" / "big.1" / "results.json", "{}")
    os.truncate(big, 65 << 20)  # of which the disk keeps nothing
    answer = call("convert", "--from", "terminal-bench", run, "-o", tmp_path / "out")
    assert (answer.code, answer.out) == (2, "8 trials: 3 passed, 5 failed\n")
    assert len(list((tmp_path / "out").iterdir())) == 8
    lines = answer.err.splitlines()
    assert len(lines) == 7
    for line, name, what in zip(
        lines,
        ("results.json", "big", "deep", "half", "list", "stolen", "types"),
        (
            "it has no texts task_id and trial_name",
            "bigger than 64 MiB",
            "it is no JSON (",
            "it is no JSON (",
            "it has no texts task_id and trial_name",
            f"it is a link that leads out of {run}",
            "it has no texts task_id and trial_name",
        ),
        strict=True,
    ):
        assert line.startswith(f"failure-taxonomy: {run / name}"), line
        assert what in line
        assert "; give " in line


def test_damaged_logs_of_inspect(tmp_path: Path, call: Callable[..., Said]) -> None:
    """A sample that can't be read leaves the others; a log without an end has a head."""
    good = made.inspect_sample(1, scores={"match": {"value": "C"}})
    logs = tmp_path / "logs"
    made.inspect_archive(logs / "a.eval", good, head="_journal/start.json")
    whole = made.inspect_archive(
        logs / "b.eval", good, made.inspect_sample(2)
    ).read_bytes()
    (logs / "c.eval").write_bytes(whole[: len(whole) // 2])
    at = whole.index(b"samples/2_epoch_1.json") + 40
    (logs / "d.eval").write_bytes(whole[:at] + b"\xff\xff\xff\xff" + whole[at + 4 :])
    made.write_json(logs / "other.json", ["no log"])
    answer = call("convert", "--from", "inspect", logs, "-o", tmp_path / "out")
    assert answer.out == "2 trials: 1 passed, 1 failed\n"  # the others are copies
    assert answer.code == 2
    first, second = answer.err.splitlines()
    assert first.startswith(
        f"failure-taxonomy: {logs / 'c.eval'}: it is no log of Inspect ("
    )
    assert second.startswith(
        f"failure-taxonomy: {logs / 'd.eval'}: samples/2_epoch_1.json: it can"
    )
    # Inspect's archives are compressed by zstd.
    made.inspect_archive(logs / "c.eval", {**good, "id": 3, "filler": " " * (65 << 20)})
    answer = call(
        "convert", "--from", "inspect", logs / "c.eval", "-o", tmp_path / "out"
    )
    assert (answer.code, answer.out) == (2, "")
    assert (
        "c.eval: samples/1_epoch_1.json: it is bigger than 64 MiB; give " in answer.err
    )
    at = whole.index(b"PK\x01\x02") + 10  # how the first member is compressed
    (logs / "d.eval").write_bytes(whole[:at] + b"\x5d\x00" + whole[at + 2 :])
    answer = call(
        "convert", "--from", "inspect", logs / "d.eval", "-o", tmp_path / "out"
    )
    assert answer.code == 2
    (line,) = answer.err.splitlines()
    assert ("by zstd, which this Python" in line) or ("it can't be read" in line)
    assert "; give " in line or "; install zipfile-zstd, or " in line


@pytest.mark.parametrize(
    "value", [10**400, -1e308, "\ud800", "x" * 10**6, {"a": [1]}, True, None]
)
def test_values_of_any_type_and_size(
    tmp_path: Path, call: Callable[..., Said], value: object
) -> None:
    """What a field should not hold is kept out, and the report is one that can be read.

    A result of another type has a line, as it decides whether the trial has passed.
    """
    job, logs, run = tmp_path / "job", tmp_path / "logs", tmp_path / "run"
    made.harbor_trial(
        job,
        "odd__1",
        verifier_result={"rewards": {"reward": value, "x": value}},
        exception_info={"exception_type": value, "exception_message": value},
        started_at=value,
        note=value,
    )
    sample = made.inspect_sample(
        "a", scores={"m": {"value": value, "explanation": value}}
    )
    odd = {"epoch": value, "limit": value, "error": value, "started_at": value}
    made.inspect_archive(logs / "a.eval", {**sample, **odd, "id": 1})
    made.terminal_bench_trial(
        run,
        "a",
        is_resolved=value,
        failure_mode=value,
        parser_results={"t": value},
        extra=value,
    )
    for harness, place in (("harbor", job), ("inspect", logs), ("terminal-bench", run)):
        answer = call("convert", "--from", harness, place, "-o", tmp_path / "out")
        is_result = harness == "inspect" or value is True
        is_result |= harness == "terminal-bench" and value is None
        assert answer.out.startswith("1 trial: ")  # it is kept in any case
        if is_result:
            assert (answer.code, answer.err) == (0, ""), harness
        else:
            assert answer.code == 2, harness
            (line,) = answer.err.splitlines()
            what = (
                "the reward reward is no number"
                if harness == "harbor"
                else "is_resolved is neit"
            )
            assert f": {what}" in line
            assert "does not count; give " in line
    for path in (tmp_path / "out").iterdir():
        assert len(path.name.encode()) < 255
        assert call("show", "--json", "run.id", path).err == ""


def test_times_at_the_ends_of_the_calendar(
    tmp_path: Path, call: Callable[..., Said]
) -> None:
    """A time that can't be one of UTC is none; one that ends before it begins has no length."""
    for number, (start, end) in enumerate(
        (
            ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"),
            ("2026-01-02", "2026-01-01"),
        )
    ):
        made.terminal_bench_trial(
            tmp_path / "run", f"t{number}", trial_started_at=start, trial_ended_at=end
        )
    assert (
        call(
            "convert",
            "--from",
            "terminal-bench",
            tmp_path / "run",
            "-o",
            tmp_path / "o",
        )[0]
        == 0
    )
    found = reports_in(tmp_path / "o")
    assert found["t0"]["run"]["duration_seconds"] is None
    assert found["t1"]["run"]["started_at"] == "2026-01-02T00:00:00.000Z"
    assert found["t1"]["run"]["duration_seconds"] == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_pipes_are_not_opened(tmp_path: Path, call: Callable[..., Said]) -> None:
    """Nobody waits for what may never come."""
    run = tmp_path / "run"
    made.terminal_bench_trial(run, "a", is_resolved=True, log="")
    (run / "a" / "a.1-of-5.run" / "sessions" / "tests.log").unlink()
    os.mkfifo(run / "a" / "a.1-of-5.run" / "sessions" / "tests.log")
    (run / "pipe").mkdir()
    os.mkfifo(run / "pipe" / "results.json")
    os.mkfifo(tmp_path / "run" / "pipe.eval")
    answer = call("convert", "--from", "terminal-bench", run, "-o", tmp_path / "out")
    assert (answer.code, answer.out) == (2, "1 trial: 1 passed, 0 failed\n")
    assert "is a named pipe and not a file; give " in answer.err
    answer = call("convert", "--from", "inspect", run)
    assert answer.code == 2
    assert f"{run / 'pipe.eval'}: is a named pipe and not a file; give " in answer.err


def test_names_of_files_are_safe(tmp_path: Path, call: Callable[..., Said]) -> None:
    """No name leads out of the folder, none hides, and two trials never share a file."""
    run = tmp_path / "run"
    names = (
        "../../escaped",
        "/etc/x",
        "a b",
        "a/b",
        "A",
        "a",
        "con",
        ".hidden",
        "é" * 300,
        "\u202e",
    )
    for number, task in enumerate(names):
        document = {
            "task_id": task,
            "trial_name": task,
            "is_resolved": True,
            "id": str(number),
        }
        made.write_json(run / f"t{number}" / "trial" / "results.json", document)
    out = tmp_path / "out"
    answer = call("convert", "--from", "terminal-bench", run, "-o", out)
    assert answer == (0, f"{len(names)} trials: {len(names)} passed, 0 failed\n", "")
    files = sorted(each.name for each in out.iterdir())
    assert len({each.casefold() for each in files}) == len(names)
    assert all(
        each.isascii() and not each.startswith(".") and len(each) < 255
        for each in files
    )
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}
    told = {trial_of(json.loads((out / each).read_text()))["task"] for each in files}
    assert told == {*names}


def test_only_reports_of_the_same_trial_are_replaced(
    tmp_path: Path, call: Callable[..., Said]
) -> None:
    """A second time changes nothing but these; a file of anybody else's stays."""
    run, out = tmp_path / "run", tmp_path / "out"
    made.terminal_bench_trial(run, "a", failure_mode="parse_error")
    mine = made.write(out / "a--run--a.1-of-5.run.json", '{"mine": true}')
    command = ("convert", "--from", "terminal-bench", run, "-o", out)
    assert call(*command).code == 0
    (path,) = {*out.iterdir()} - {mine}
    assert path.name.startswith("a--run--a.1-of-5.run-")
    made.terminal_bench_trial(run, "a", is_resolved=True)
    assert call(*command) == (0, "1 trial: 1 passed, 0 failed\n", "")
    assert {*out.iterdir()} == {path, mine}
    assert json.loads(path.read_text())["verdict"] is None
    assert mine.read_text() == '{"mine": true}'
    answer = call(*command[:-1], path)
    assert answer.code == 2
    assert answer.err.startswith(f"failure-taxonomy: -o: {path}/a--run--")
    assert "can't be written: " in answer.err


def test_secrets_are_removed(tmp_path: Path, call: Callable[..., Said]) -> None:
    """They are neither in what the tests printed nor in what the harness says."""
    key = "sk-ant-api03-" + "Zx9" * 20
    job = tmp_path / "job"
    said = made.raised("NonZeroAgentExitCodeError", f"curl -H 'x-api-key: {key}'")
    made.harbor_trial(
        job, "leaky__1", exception_info=said, log=f"ERROR: token={key}\n", note=key
    )
    assert call("convert", "--from", "harbor", job, "-o", tmp_path / "out").code == 0
    (path,) = (tmp_path / "out").iterdir()
    assert key not in path.read_text()
    assert "REDACTED" in path.read_text()


def test_a_history_knows_attempts_by_task_and_system(
    tmp_path: Path, call: Callable[..., Said]
) -> None:
    """`history add` of the reports records each trial once, as an attempt at its task."""
    pytest.importorskip("sqlalchemy")
    from pytest_failure_taxonomy.history import open_history
    from pytest_failure_taxonomy.history.attempts import attempts_of

    run = tmp_path / "run"
    for number in (1, 2, 3):
        made.terminal_bench_trial(
            run, "a", number=number, failure_mode="unknown_agent_error"
        )
    made.terminal_bench_trial(run, "b", is_resolved=True)
    assert (
        call("convert", "--from", "terminal-bench", run, "-o", tmp_path / "out").code
        == 0
    )
    store, reports = tmp_path / "history.db", sorted((tmp_path / "out").iterdir())
    for _ in range(2):
        assert call("history", "add", "--history", store, *reports).code == 0
    with open_history(str(store)) as history:
        attempts = attempts_of(history, "a")
        (success,) = attempts_of(history, "b")
    assert success.success
    assert success.approach == "run"  # the folder: there is no metadata
    assert [each.reason for each in attempts] == ["UNKNOWN"] * 3
    # Trials of one system are the same approach on purpose.
    assert {each.failure_type for each in attempts} == {"UNKNOWN"}


def test_a_history_keeps_tasks_apart(tmp_path: Path, call: Callable[..., Said]) -> None:
    """Tests of two tasks that are called the same are two, and no trial makes one flaky."""
    pytest.importorskip("sqlalchemy")
    bad, good = {"test_greets": "failed"}, {"test_greets": "passed"}
    for number, name in enumerate(("old", "new", "old", "new", "old", "new")):
        run = tmp_path / "runs" / f"{name}-{number}"
        made.write_json(run / "run_metadata.json", {"agent_name": name})
        at = {"trial_started_at": f"2026-01-0{number + 1}T03:04:05+00:00"}
        for task in ("a", "b"):
            passed = name == "old"
            told: dict[str, Any] = {"parser_results": good if passed else bad, **at}
            told |= {"is_resolved": passed, "id": f"{task}{number}"}
            made.terminal_bench_trial(run, task, number=number, **told)
    convert = (
        "convert",
        "--from",
        "terminal-bench",
        tmp_path / "runs",
        "-o",
        tmp_path / "out",
    )
    assert call(*convert).code == 0
    ask = ("history", "--history", tmp_path / "history.db")

    def table(*words: str) -> list[list[str]]:
        lines = call(*ask[:1], *words, *ask[1:]).out.splitlines()
        return [re.split("  +", line.strip()) for line in lines]

    assert call(*ask[:1], "add", *ask[1:], tmp_path / "out").code == 0
    heading, first, second = table("top")
    assert first[0] == second[0] == "3"
    assert {row[heading.index("project")] for row in (first, second)} == {"a", "b"}
    assert first[heading.index("fingerprint")] == second[heading.index("fingerprint")]
    heading, *rows = table("list")
    assert heading[3:7] == ["kind", "task", "system", "commit"]
    assert {tuple(row[-6:-4]) for row in rows if row[2].startswith("✗")} == {
        ("a", "new"),
        ("b", "new"),
    }
    heading, *rows = table("list", "--project", "a")
    assert "system" in heading  # these are not all the same
    assert "task" not in heading
    assert len(rows) == 6
    said = call("history", "flaky", *ask[1:])
    assert said.out == ""
    first_line, second_line = said.err.splitlines()
    assert first_line == "failure-taxonomy: no test is flaky"
    assert second_line == (
        "failure-taxonomy: 12 trials of harnesses not counted, as no two are of the same code; "
        "failure-taxonomy history rates --by task says how often they passed"
    )
    assert "history rates --by task" in call("history", "tasks", *ask[1:]).err
    heading, *rows = table("rates", "--by", "task")
    assert [row[:3] for row in rows] == [["a", "6", "3"], ["b", "6", "3"]]


def test_attempts_are_merged_by_task(tmp_path: Path, call: Callable[..., Said]) -> None:
    """Each task gets a report of all attempts at it; without --by they don't belong together."""
    run, out = tmp_path / "run", tmp_path / "out"
    made.terminal_bench_trial(run, "a", is_resolved=True)
    bad = {"test_greets": "failed"}
    made.terminal_bench_trial(run, "a", number=2, is_resolved=False, parser_results=bad)
    made.terminal_bench_trial(run, "b/c", is_resolved=True)
    assert (
        call("convert", "--from", "terminal-bench", run, "-o", tmp_path / "trials").code
        == 0
    )
    trials = sorted((tmp_path / "trials").iterdir())
    answer = call("merge", "--by", "task", "-o", out, tmp_path / "trials")
    counts = "2 tasks: 1 passed in every attempt, 1 did not\n"
    assert answer == (1, counts, "")
    first, second = sorted(out.iterdir())
    assert first.name.startswith("a-")
    assert second.name.startswith("b_c-")
    report = json.loads(first.read_text())
    assert_valid_report(report)
    assert report["attempt"] is None  # they are two
    shown = call("show", first).out
    assert "run, a.1-of-5.run: no failure" in shown
    said = "1 test failed: terminal-bench says that it failed, and nothing says why: test_greets"
    assert f"run, a.2-of-5.run: {said}" in shown
    assert report["verdict"]["message"] == said
    # Again, with one attempt more, and from what was merged before.
    made.terminal_bench_trial(run, "a", number=3, is_resolved=True)
    assert (
        call("convert", "--from", "terminal-bench", run, "-o", tmp_path / "trials").code
        == 0
    )
    trials = sorted((tmp_path / "trials").iterdir())
    assert call("merge", "--by", "task", "-o", out, first, second, *trials) == (
        1,
        counts,
        "",
    )
    assert sorted(out.iterdir()) == [first, second]
    runs = json.loads(first.read_text())["merged"]["runs"]
    assert {each["attempt"]["trial"] for each in runs} == {
        f"a.{n}-of-5.run" for n in (1, 2, 3)
    }
    answer = call("merge", tmp_path / "trials")
    assert answer.code == 2
    assert "they are attempts at 2 tasks; --by task separates them" in answer.err
    plain = made.write_json(tmp_path / "plain.json", make_report())
    answer = call("merge", "--by", "task", "-o", out, plain)
    assert answer.code == 2
    assert "it is of 0 tasks; give reports of attempts at one task each" in answer.err
    assert "give -o FOLDER" in call("merge", "--by", "task", *trials).err


def test_the_table_knows_what_harnesses_say() -> None:
    """Each row names a kind and a stage that are; each failure mode of terminal-bench has one."""
    table = packaged_table("harnesses")
    assert (*HARNESSES,) == commands.HARNESSES
    assert {*table} == {*HARNESSES, "exceptions"} - {"harbor"}
    for rows in table.values():
        for label, (kind, stage, *words) in rows.items():
            assert kind in known_kinds(), label
            assert Stage(stage), label
            assert len(words) < 2, label


_MODES: Final = (
    "none",
    "unset",
    "unknown",
    "test_timeout",
    "agent_timeout",
    "unknown_agent_error",
)
_OTHER_MODES: Final = (
    *("parse_error", "fatal_llm_parse_error", "context_length_exceeded"),
    *("output_length_exceeded", "agent_installation_failed"),
)


@pytest.mark.parametrize("mode", [*_MODES, *_OTHER_MODES])
def test_each_failure_mode_of_terminal_bench(
    tmp_path: Path, call: Callable[..., Said], mode: str
) -> None:
    """A trial without any other result has a verdict, and its own word is kept."""
    made.terminal_bench_trial(tmp_path / "run", "a", failure_mode=mode)
    answer = call("convert", "--from", "terminal-bench", tmp_path / "run")
    assert answer.code == 0
    report = json.loads(answer.out)
    assert report["verdict"] is not None
    assert trial_of(report)["told"]["failure_mode"] == mode
    known = packaged_table("harnesses")["terminal-bench"]
    if mode in known:
        assert report["verdict"]["kind"] == known[mode][0]


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="root reads everything"
)
def test_a_folder_that_cannot_be_read(
    tmp_path: Path, call: Callable[..., Said]
) -> None:
    """It is named, and the others are read."""
    run = tmp_path / "run"
    made.terminal_bench_trial(run, "a", is_resolved=True)
    (run / "closed").mkdir(mode=0)
    answer = call("convert", "--from", "terminal-bench", run, "-o", tmp_path / "out")
    assert (answer.code, answer.out) == (2, "1 trial: 1 passed, 0 failed\n")
    assert answer.err.startswith(f"failure-taxonomy: {run / 'closed'}: can't be read (")

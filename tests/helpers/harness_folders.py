"""What harnesses of agents leave behind, in small: made here in the formats of their sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

PYTEST_LOG: Final = """\
============================= test session starts ==============================
collected 3 items

../tests/test_outputs.py F.F                                             [100%]

=================================== FAILURES ===================================
__________________________________ test_greets _________________________________

    def test_greets():
>       assert "hello" == "hallo"
E       AssertionError: assert 'hello' == 'hallo'

/tests/test_outputs.py:2: AssertionError
__________________________________ test_other __________________________________

    def test_other():
>       assert 1 == 3
E       assert 1 == 3

/tests/test_outputs.py:9: AssertionError
=========================== short test summary info ============================
PASSED ../tests/test_outputs.py::test_exists
FAILED ../tests/test_outputs.py::test_greets - AssertionError: assert 'hello'...
FAILED ../tests/test_outputs.py::test_other - assert 1 == 3
========================= 2 failed, 1 passed in 0.10s ==========================
"""
PASSING_LOG: Final = """\
============================= test session starts ==============================
collected 1 item

../tests/test_outputs.py .                                               [100%]

==================================== PASSES ====================================
=========================== short test summary info ============================
PASSED ../tests/test_outputs.py::test_exists
============================== 1 passed in 0.01s ===============================
"""
NEVER_STARTED: Final = "/tests/run-tests.sh: line 12: uv: command not found\n"


def write_json(path: Path, value: Any) -> Path:
    """Write a JSON file, and the folders that it is in."""
    return write(path, json.dumps(value))


def write(path: Path, text: str) -> Path:
    """Write a file, and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def terminal_bench_trial(
    run: Path, task: str, *, log: str | None = None, number: int = 1, **result: Any
) -> dict[str, Any]:
    """Write a trial of terminal-bench 0.2.18, and return what its results.json says."""
    name = f"{task}.{number}-of-5.{run.name}"
    document = {
        "id": f"of-{task}-{number}",
        "trial_name": name,
        "task_id": task,
        "instruction": "Write a greeting.",
        "is_resolved": None,
        "failure_mode": "unset",
        "parser_results": None,
        "recording_path": f"{run.name}/{task}/{name}/sessions/agent.cast",
        "total_input_tokens": 17,
        "total_output_tokens": None,
        "trial_started_at": "2026-01-02T03:04:05.000006+00:00",
        "trial_ended_at": "2026-01-02T03:05:05.500006+00:00",
        **result,
    }
    write_json(run / task / name / "results.json", document)
    if log is not None:
        write(run / task / name / "sessions" / "tests.log", log)
    return document


def terminal_bench_run(run: Path) -> Path:
    """Write a run of terminal-bench whose trials end in all sorts of ways."""
    write_json(
        run / "run_metadata.json",
        {
            "run_id": run.name,
            "agent_name": "terminus",
            "model_name": "anthropic/sonnet",
        },
    )
    both = {"test_exists": "passed", "test_greets": "failed", "test_other": "failed"}
    trials = [
        terminal_bench_trial(
            run,
            "good",
            is_resolved=True,
            parser_results={"test_exists": "passed"},
            log=PASSING_LOG,
        ),
        terminal_bench_trial(
            run, "failed", is_resolved=False, parser_results=both, log=PYTEST_LOG
        ),
        terminal_bench_trial(
            run,
            "slow-but-good",
            is_resolved=True,
            failure_mode="agent_timeout",
            parser_results={"test_exists": "passed"},
            log=PASSING_LOG,
        ),
        terminal_bench_trial(
            run,
            "slow",
            is_resolved=False,
            failure_mode="agent_timeout",
            parser_results=both,
            log=PYTEST_LOG,
        ),
        terminal_bench_trial(
            run, "never-started", failure_mode="parse_error", log=NEVER_STARTED
        ),
        terminal_bench_trial(
            run, "slow-tests", failure_mode="test_timeout", log=PYTEST_LOG[:120]
        ),
        terminal_bench_trial(run, "silent", failure_mode="parse_error", log="\n"),
    ]
    kept = {
        **trials[0],
        "trial_name": "kept.1-of-5.x",
        "task_id": "kept",
        "id": "kept-alone",
    }
    write_json(run / "results.json", {"results": [*trials, kept], "accuracy": 0.4})
    return run


def swe_bench_trial(
    place: Path,
    instance: str,
    *,
    log: str = "",
    output: str | None = None,
    report: dict[str, Any] | None = None,
) -> Path:
    """Write a trial of SWE-bench 5.0.2 below a folder, and return its own."""
    folder = place / "logs" / "run_evaluation" / "nightly" / "org__model-1.5" / instance
    write(
        folder / "run_instance.log",
        f"2026-01-02 03:04:05,006 - INFO - {instance}\n{log}",
    )
    if output is not None:
        write(folder / "test_output.txt", output)
    if report is not None:
        write_json(folder / "report.json", {instance: report})
    return folder


def swe_bench_statuses(**failure: list[str]) -> dict[str, Any]:
    """Return `tests_status` of a report in which one test of each group has passed."""
    return {
        group: {
            "success": ["tests/test_outputs.py::test_exists"],
            "failure": failure.get(group, []),
        }
        for group in ("FAIL_TO_PASS", "PASS_TO_PASS", "FAIL_TO_FAIL", "PASS_TO_FAIL")
    }


def harbor_trial(
    job: Path, name: str, *, log: str | None = None, **result: Any
) -> Path:
    """Write a trial of harbor 0.26.0, and return its folder."""
    write_json(job / "result.json", {"id": "0", "n_total_trials": 2, "stats": {}})
    write_json(
        job / name / "result.json",
        {
            "schema_version": 1,
            "id": f"of-{name}",
            "task_name": name.partition("__")[0],
            "trial_name": name,
            "trial_uri": f"file:///jobs/{name}",
            "agent_info": {
                "name": "claude-code",
                "version": "2.0",
                "model_info": {"name": "sonnet", "provider": "anthropic"},
            },
            "verifier_result": None,
            "exception_info": None,
            "started_at": "2026-01-02T03:04:05Z",
            "finished_at": "2026-01-02T03:06:05Z",
            **result,
        },
    )
    if log is not None:
        write(job / name / "verifier" / "test-stdout.txt", log)
    return job / name


def raised(name: str, message: str) -> dict[str, Any]:
    """Return harbor's `exception_info`."""
    text = (
        f"Traceback (most recent call last):\n  ...\nharbor.errors.{name}: {message}\n"
    )
    return {
        "exception_type": name,
        "exception_message": message,
        "exception_traceback": text,
        "occurred_at": "2026-01-02T03:05:05Z",
    }


def inspect_sample(
    number: int | str, *, epoch: int = 1, **sample: Any
) -> dict[str, Any]:
    """Return a sample of inspect_ai 0.3.260."""
    return {
        "id": number,
        "epoch": epoch,
        "input": "Say hello.",
        "target": "hello",
        "messages": [],
        "scores": None,
        "started_at": "2026-01-02T03:04:05+00:00",
        "completed_at": "2026-01-02T03:04:17.500000+00:00",
        "uuid": f"uuid-{number}-{epoch}",
        **sample,
    }


INSPECT_HEADER: Final[dict[str, Any]] = {
    "version": 2,
    "status": "success",
    "eval": {
        "eval_id": "evaluation1",
        "run_id": "run1",
        "created": "2026-01-02T03:00:00+00:00",
        "task": "greetings",
        "model": "openai/gpt-5",
        "solver": "react",
        "dataset": {},
        "config": {},
    },
}


def inspect_archive(
    path: Path, *samples: dict[str, Any], head: str = "header.json"
) -> Path:
    """Write a log of Inspect as an archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr(head, json.dumps(INSPECT_HEADER))
        for number, sample in enumerate(samples, 1):
            archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
    return path

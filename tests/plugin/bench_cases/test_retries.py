"""Calls that the provider failed: tried again, told apart from failures, and given up in time."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ECHO_RUBRIC,
    ON_WORKERS,
    SERIAL,
    calls,
    codes_by_case,
    only_bench,
    passing_cases,
    task_class_files,
)
from tests.helpers.task_classes import (
    SYSTEM as PLAIN_SYSTEM,
)

OPENAI: Final = """\
class OpenAIError(Exception): ...
class APIError(OpenAIError): ...
class APIStatusError(APIError): ...


class RateLimitError(APIStatusError):
    def __init__(self, message, retry_after=None):
        super().__init__(message)
        if retry_after is not None:
            self.response = type("Response", (), {"headers": {"retry-after": retry_after}})()


RateLimitError.__module__ = "openai"
"""

SYSTEM: Final = """\
import os
from collections import Counter

import pytest

import openai

CALLS = os.path.join(os.path.dirname(__file__), "calls.txt")


@pytest.fixture(scope="session")
def system_under_test():
    counts = Counter()

    async def answer(case):
        counts[case.case_id] += 1
        with open(CALLS, "a") as file:
            file.write(case.case_id + "\\n")
        case.spend(0.5)
        if counts[case.case_id] <= case.fields.get("limited", 0):
            raise openai.RateLimitError("slow down", case.fields.get("retry_after"))
        if "raises" in case.fields:
            raise RuntimeError(case["raises"])
        return case.input

    return answer
"""
RETRY: Final = "retry: {on: [llm.rate_limited], attempts: 3, backoff_seconds: 0.01}\n"


def write(runs: PytestRuns, cases: list[dict[str, Any]], settings: str = RETRY) -> None:
    """Write a class whose system is limited by its provider."""
    files = task_class_files(cases, settings=settings, system=SYSTEM)
    runs.write(
        {**files, "openai.py": OPENAI, "pytest.ini": "[pytest]\npythonpath = .\n"}
    )


@ON_WORKERS
def test_calls_over_the_limit_are_made_again_and_paid(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Each attempt is kept and costs; a case that never got through is told apart."""
    cases = [
        *passing_cases(4),
        {"id": "twice", "input": 1, "limited": 2},
        {"id": "never", "input": 1, "limited": 9},
    ]
    write(runs, cases)
    run = runs.run("bench", *workers, plugins=[BENCH, "xdist"])
    report = only_bench(run)
    costs = {case_id: score["cost_usd"] for case_id, score in report["per_case"]}
    assert costs["twice"] == 1.5
    assert costs["never"] == 1.5
    assert calls(runs).count("never") == 3
    assert codes_by_case(report)["never"] == ["sut.exception"]
    (mode,) = dict(report["per_case"])["never"]["failure_modes"]
    assert mode["detail"].startswith("llm.rate_limited: RateLimitError: slow down")
    assert report["lost_to_provider"] == [{"kind": "llm.rate_limited", "cases": 1}]
    assert "5 of 6 passed, 1 failed at the provider (llm.rate_limited)" in "\n".join(
        run.stdout
    )


def test_other_exceptions_are_not_tried_again(runs: PytestRuns) -> None:
    """A bug of the system stays one after any number of calls."""
    write(runs, [{"id": "bug", "input": 1, "raises": "no"}])
    report = only_bench(runs.run("bench", plugins=[BENCH]))
    assert calls(runs) == ["bug"]
    assert report["lost_to_provider"] == []


def test_the_pause_that_a_server_asks_for(runs: PytestRuns) -> None:
    """`Retry-After` is waited for, though our own pause would be shorter."""
    write(runs, [{"id": "asked", "input": 1, "limited": 1, "retry_after": "1"}])
    run = runs.run("bench", plugins=[BENCH])
    assert only_bench(run)["counts"]["passed"] == 1
    (path,) = (runs.path / ".bench").glob("*.jsonl")
    import json

    attempts = [
        each
        for each in map(json.loads, path.read_text().splitlines())
        if each["record"] == "attempt"
    ]
    first, second = attempts
    assert first["kind"] == "llm.rate_limited"
    assert "score" not in first
    assert first["input_digest"] == second["input_digest"] != ""
    assert second["started_at"] - first["started_at"] >= 1.0


@SERIAL
def test_one_cause_that_fails_all_stops_the_run(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """After ten in a row no more money is spent; the run is incomplete and says why."""
    cases = [
        {"id": f"case-{n:02}", "input": n, "raises": f"no key, request {n}"}
        for n in range(60)
    ]
    write(runs, cases, "concurrency: 2\n")
    run = runs.run("bench", *workers, plugins=[BENCH, "xdist"])
    report = only_bench(run)
    assert 10 <= len(calls(runs)) <= 12
    assert "cases in a row failed with the same cause" in report["stopped"]
    assert not report["complete"]
    assert run.exit_status == 1
    assert "in a row failed with the same cause" in "\n".join(run.stdout)


def test_causes_that_differ_stop_nothing(runs: PytestRuns) -> None:
    """Nor do failures between which a case passes."""
    cases = [
        {"id": f"case-{n:02}", "input": n, **({"raises": "no"} if n % 9 else {})}
        for n in range(30)
    ]
    write(runs, cases, "concurrency: 1\n")
    report = only_bench(runs.run("bench", plugins=[BENCH]))
    assert report["stopped"] is None
    assert report["counts"]["graded"] == 30


def test_cases_that_were_lost_run_again_when_the_run_is_continued(
    runs: PytestRuns,
) -> None:
    """What the provider failed, and what failed with the cause that stopped the run, is missing."""
    cases = [{"id": "never", "input": 1, "limited": 3}, *passing_cases(3)]
    write(runs, cases)
    runs.run("bench", plugins=[BENCH])
    (runs.path / "calls.txt").unlink()
    cases[0]["limited"] = 0
    write(runs, [{**cases[0], "limited": 3}, *cases[1:]])
    run = runs.run("bench", "--bench-resume", plugins=[BENCH])
    assert set(calls(runs)) == {"never"}
    assert "3 of 4 cases were done before" in "\n".join(run.stdout)


@SERIAL
def test_cases_that_failed_with_the_cause_that_stopped_a_run_run_again(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Once the cause is fixed, a continued run is as good as a new one."""
    cases = [{"id": f"case-{n:02}", "input": n} for n in range(30)]
    write(runs, cases, "concurrency: 2\n")
    system = (runs.path / "conftest.py").read_text()
    raises = system.replace(
        "        if counts[case",
        '        raise ValueError("no key")\n        if counts[case',
    )
    (runs.path / "conftest.py").write_text(raises)
    report = only_bench(runs.run("bench", *workers, plugins=[BENCH, "xdist"]))
    assert report["counts"]["passed"] == 0
    assert report["stopped"]
    (runs.path / "conftest.py").write_text(system)
    report = only_bench(
        runs.run("bench", "--bench-resume", *workers, plugins=[BENCH, "xdist"])
    )
    assert report["counts"]["passed"] == 30
    assert report["complete"]


@pytest.mark.parametrize(
    ("fields", "files"),
    [
        (
            {},
            {
                "system": PLAIN_SYSTEM.replace(
                    'case.fields.get("answer", case.input)', "object()"
                )
            },
        ),
        ({"sleep": 5}, {"settings": "timeout_per_case_seconds: 0.05\n"}),
        ({}, {"rubric": "def grade(case, output):\n    return None\n"}),
        (
            {},
            {
                "rubric": ECHO_RUBRIC.replace(
                    '"breakdown": {', '"breakdown": {"tyop": 1.0, '
                )
            },
        ),
        (
            {},
            {
                "rubric": ECHO_RUBRIC.replace("[] if passed else ", "").replace(
                    '"answer.', '"anwser.'
                )
            },
        ),
    ],
    ids=["no JSON", "too slow", "no score", "unknown key", "unknown code"],
)
def test_so_does_a_cause_without_an_exception(
    runs: PytestRuns, fields: dict[str, Any], files: dict[str, str]
) -> None:
    """Outputs that are none, time limits, and answers of a rubric can all fail alike, too."""
    runs.write(
        task_class_files([{**each, **fields} for each in passing_cases(40)], **files)
        | {"pytest.ini": "[pytest]\nbench_concurrency = 2\n"}
    )
    report = only_bench(runs.run("bench", plugins=[BENCH]))
    assert 10 <= len(calls(runs)) <= 13
    assert "cases in a row failed with the same cause" in report["stopped"]

"""Write small task classes for tests, and read what a run made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest

from tests.helpers.runs import FinishedRun, PytestRuns

# After a test, pytester forgets what modules the test was the first to import. Those of numpy can't
# be imported a second time.
with suppress(ImportError):
    import scipy.optimize
    import scipy.special  # noqa: F401 - as above

BENCH: Final = "failure_taxonomy_bench"
"""The entry point of the bench layer."""

SERIAL: Final = pytest.mark.parametrize("workers", [()], ids=["serial"])
ON_WORKERS: Final = pytest.mark.parametrize("workers", [("-n", "2")], ids=["xdist"])
WORKERS: Final = pytest.mark.parametrize(
    "workers", [(), ("-n", "2")], ids=["serial", "xdist"]
)
"""How a test runs a bench: both ways only where they differ in what it looks at."""

ECHO_RUBRIC: Final = """\
def grade(case, output):
    print("grading", case["id"])
    passed = output == case["input"]
    modes = [] if passed else [{"code": "answer.wrong", "detail": f"got {output!r}"}]
    return {
        "passed": passed,
        "score": 1.0 if passed else 0.25,
        "breakdown": {"exactness": 1.0 if passed else 0.25},
        "failure_modes": modes,
        "cost_usd": case.get("rubric_cost", 0.0),
    }
"""
"""Passes what equals the case's input."""

MODES: Final = """\
answer.wrong: {severity: block, description: the answer is not the input}
answer.slow: {severity: warn, description: the answer took long}
"""

SYSTEM: Final = """\
import asyncio
import os
import time

import pytest

CALLS = os.path.join(os.path.dirname(__file__), "calls.txt")


def note(case):
    with open(CALLS, "a") as file:
        file.write(case.case_id + "\\n")


@pytest.fixture(scope="session")
def system_under_test():
    async def answer(case):
        note(case)
        if "sleep" in case.fields:
            await asyncio.sleep(case["sleep"])
        if "raises" in case.fields:
            raise RuntimeError(case["raises"])
        if "block" in case.fields:
            time.sleep(case["block"])
        if "exit" in case.fields:
            os._exit(case["exit"])
        return case.fields.get("answer", case.input)

    return answer
"""
"""A conftest.py: answers the input, and does what the case's other fields say."""


def task_class_files(
    cases: Mapping[str, Iterable[Mapping[str, Any]]] | Sequence[Mapping[str, Any]],
    *,
    folder: str = "bench/echo",
    settings: str = "",
    rubric: str = ECHO_RUBRIC,
    modes: str = MODES,
    system: str = SYSTEM,
) -> dict[str, str]:
    """Return the files of a task class and a conftest.py with its system, by path and content.

    Args:
        cases: those of each file in `cases/`, or those of one file `a.jsonl`.
        folder: of the task class.
        settings: the content of its `bench.yaml`.
        rubric: the content of its `rubric.py`.
        modes: the content of its `failure_modes.yaml`.
        system: the content of the `conftest.py` of the root directory.
    """
    by_file = cases if isinstance(cases, Mapping) else {"a.jsonl": cases}
    files = {
        "conftest.py": system,
        f"{folder}/failure_modes.yaml": modes,
        f"{folder}/breakdown_keys.yaml": "- exactness\n",
        f"{folder}/rubric.py": rubric,
    }
    if settings:
        files[f"{folder}/bench.yaml"] = settings
    for name, entries in by_file.items():
        lines = [json.dumps(entry) for entry in entries]
        files[f"{folder}/cases/{name}"] = "".join(f"{line}\n" for line in lines)
    return {name: content for name, content in files.items() if content}


def passing_cases(count: int) -> list[dict[str, Any]]:
    """Return cases that pass."""
    return [{"id": f"case-{number:03}", "input": number} for number in range(count)]


def calls(runs: PytestRuns) -> list[str]:
    """Return the ids of the cases for which the system was called, sorted."""
    path = runs.path / "calls.txt"
    return sorted(path.read_text().split()) if path.exists() else []


def only_bench(run: FinishedRun) -> dict[str, Any]:
    """Return the one report of a task class that a run's report holds."""
    (report,) = run.report["bench"]
    return dict(report)


def codes_by_case(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the codes of each case's failure modes."""
    return {
        case_id: [mode["code"] for mode in score["failure_modes"]]
        for case_id, score in report["per_case"]
    }

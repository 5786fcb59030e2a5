"""Grade outputs by one kind of process: the sample of `bench-rubric`.

``python -P rubric_program.py KIND RUBRIC CASES AT_A_TIME``. It asserts that every output passed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Grade = Callable[[int], Awaitable[dict[str, Any]]]

RUBRIC = """\
def grade(case, output):
    passed = output["number"] == case["input"]
    return {"passed": passed, "score": float(passed), "breakdown": {}}
"""
"""A rubric that needs nothing but Python."""

PYDANTIC_RUBRIC = """\
import json
import sys

from pydantic import BaseModel


class Output(BaseModel):
    number: int


def grade(case, output):
    passed = Output.model_validate(output).number == case["input"]
    return {"passed": passed, "score": float(passed), "breakdown": {}}


if __name__ == "__main__":
    json.dump(grade(**json.load(sys.stdin)), sys.stdout)
"""
"""One that imports pydantic, as many do, and can be run as a script as well."""


async def grade_isolated(
    rubric: Path,
    mode: Literal["warm", "fresh"],
    run: Callable[[Grade], Awaitable[None]],
) -> None:
    """Grade by an `IsolatedRubric`."""
    from pytest_failure_taxonomy.bench.isolate.client import IsolatedRubric
    from pytest_failure_taxonomy.bench.models import BenchCase, BenchSettings

    isolated = IsolatedRubric(rubric, BenchSettings(rubric_isolation=mode))

    async def grade(number: int) -> dict[str, Any]:
        case = BenchCase(case_id=f"case-{number}", input=number)
        answer: dict[str, Any] = json.loads(
            (await isolated(case, {"number": number})).json
        )
        return answer

    try:
        await run(grade)
    finally:
        await isolated.aclose()


async def grade_by_script(
    rubric: Path, run: Callable[[Grade], Awaitable[None]]
) -> None:
    """Grade by a new interpreter a case and nothing else: no limits, no isolation."""

    async def grade(number: int) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(rubric),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        question = {"case": {"input": number}, "output": {"number": number}}
        answer, _ = await process.communicate(json.dumps(question).encode())
        found: dict[str, Any] = json.loads(answer)
        return found

    await run(grade)


async def main(kind: str, rubric: Path, cases: int, at_a_time: int) -> None:
    """Grade all, so many at a time."""
    left = iter(range(cases))

    async def run(grade: Grade) -> None:
        async def work() -> None:
            for number in left:
                answer = await grade(number)
                if not answer["passed"]:
                    sys.exit(f"case {number}: {answer}")

        await asyncio.gather(*(work() for _ in range(at_a_time)))

    if kind == "script":
        await grade_by_script(rubric, run)
    else:
        await grade_isolated(rubric, "warm" if kind == "warm" else "fresh", run)


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    )

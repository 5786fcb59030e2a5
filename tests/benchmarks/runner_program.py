"""Run cases that cost nothing with one runner: the sample of `bench-runner`.

``python -P runner_program.py RUNNER CASES KIND [SECONDS AT_A_TIME]``. The kind of system and rubric
is `async` or `plain`. An async system takes the seconds, by default none. It asserts that every
case passed.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from dataclasses import dataclass
from typing import Any

AT_A_TIME, SECONDS = 8, 0.0
if __name__ == "__main__" and len(sys.argv) > 4:
    AT_A_TIME, SECONDS = int(sys.argv[5]), float(sys.argv[4])


async def system(_: object) -> str:
    """Wait, if it is to, and return."""
    if SECONDS:
        await asyncio.sleep(SECONDS)
    return "done"


def plain_system(_: object) -> str:
    """Return at once, too."""
    return "done"


def run_asyncio(cases: int, kind: str) -> int:
    """Call system and rubric of each case with nothing but a semaphore around."""

    def plain_grade(_: int, output: str) -> bool:
        return output == "done"

    async def grade(case: int, output: str) -> bool:
        return plain_grade(case, output)

    async def run() -> list[bool]:
        free = asyncio.Semaphore(AT_A_TIME)

        async def run_one(case: int) -> bool:
            async with free:
                if kind == "async":
                    return await grade(case, await system(case))
                output = await asyncio.to_thread(plain_system, case)
                return await asyncio.to_thread(plain_grade, case, output)

        return await asyncio.gather(*map(run_one, range(cases)))

    return sum(asyncio.run(run()))


def run_ours(cases: int, kind: str) -> int:
    """Run them by `Runner.execute`."""
    from pytest_failure_taxonomy.bench.models import BenchCase, RunPlan, TaskClass
    from pytest_failure_taxonomy.bench.run.runner import Runner

    def plain_grade(_: BenchCase, output: str) -> dict[str, object]:
        passed = output == "done"
        return {"passed": passed, "score": float(passed), "breakdown": {}}

    async def grade(case: BenchCase, output: str) -> dict[str, object]:
        return plain_grade(case, output)

    task_class = TaskClass(
        name="equal",
        breakdown_keys=frozenset(),
        failure_mode_taxonomy={},
        cases=tuple(BenchCase(case_id=f"case-{number}") for number in range(cases)),
    )
    plan = RunPlan.of(task_class).model_copy(update={"concurrency": AT_A_TIME})
    called: Any = (system, grade) if kind == "async" else (plain_system, plain_grade)
    report = asyncio.run(
        Runner().execute(plan, system_under_test=called[0], rubric_runner=called[1])
    )
    return report.passed_count


def run_pydantic_evals(cases: int, kind: str) -> int:
    """Run them by `Dataset.evaluate`."""
    evals: Any = importlib.import_module("pydantic_evals")
    evaluators: Any = importlib.import_module("pydantic_evals.evaluators")

    @dataclass(repr=False)
    class IsDone(evaluators.Evaluator):  # type: ignore[misc]  # it may not be installed: untyped
        async def evaluate(self, context: Any) -> bool:
            return bool(context.output == "done")

    @dataclass(repr=False)
    class IsDonePlain(evaluators.Evaluator):  # type: ignore[misc]  # as above
        def evaluate(self, context: Any) -> bool:
            return bool(context.output == "done")

    dataset = evals.Dataset(
        name="equal",
        cases=[
            evals.Case(name=f"case-{number}", inputs=number) for number in range(cases)
        ],
        evaluators=[IsDone() if kind == "async" else IsDonePlain()],
    )
    task = system if kind == "async" else plain_system
    report = asyncio.run(
        dataset.evaluate(task, max_concurrency=AT_A_TIME, progress=False)
    )
    found = [one.value for case in report.cases for one in case.assertions.values()]
    return sum(found)


def run_inspect(cases: int, kind: str) -> int:
    """Run them by `inspect_ai.eval`, without a model; its solvers and scorers are async."""
    del kind
    inspect: Any = importlib.import_module("inspect_ai")
    datasets: Any = importlib.import_module("inspect_ai.dataset")
    scorers: Any = importlib.import_module("inspect_ai.scorer")
    solvers: Any = importlib.import_module("inspect_ai.solver")

    @solvers.solver  # type: ignore[untyped-decorator]  # it may not be installed: untyped
    def done() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.output.completion = await system(state)
            return state

        return solve

    task = inspect.Task(
        dataset=[
            datasets.Sample(id=number, input="-", target="done")
            for number in range(cases)
        ],
        solver=done(),
        scorer=scorers.match(),
    )
    (log,) = inspect.eval(
        task,
        model="none/none",
        max_samples=AT_A_TIME,
        display="none",
        log_samples=False,
    )
    share: float = log.results.scores[0].metrics["accuracy"].value
    return round(share * cases)


RUNNERS = {
    "asyncio": run_asyncio,
    "pytest-failure-taxonomy": run_ours,
    "pydantic-evals": run_pydantic_evals,
    "inspect-ai": run_inspect,
}
"""By the name of what is installed."""

if __name__ == "__main__":
    runner, size = sys.argv[1], int(sys.argv[2])
    passed = RUNNERS[runner](size, sys.argv[3])
    if passed != size:
        sys.exit(f"{passed} of {size} cases passed")

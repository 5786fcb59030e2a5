"""The score of one fake model by this plugin and its peers, in HumanEval's shape.

`python -m tests.benchmarks.humaneval` prints a table; a peer that is not installed is
left out. The 164 problems are made here. So is the model: it gives the solution to 128
of them; to the others, it does what models and their providers do. `python -P
humaneval.py RUNNER FILE` runs one runner, and writes its figures.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

PROBLEMS: Final = 164
AT_A_TIME: Final = 8
SECONDS_OF_CALL: Final = 0.05
MOST_SECONDS: Final = 2.0
"""For a call of the model, and for the code."""
LEAVES: Final = "    import os\n    os._exit(0)\n"

FAMILIES: Final[tuple[tuple[str, tuple[Any, ...]], ...]] = (
    ("add_{n}: x: the number plus {n}: x + {n}", (0, -3, 10)),
    ("times_{n}: x: the number times {n}: x * {n}", (0, -3, 10)),
    ("divides_{n}: x: whether {n} divides it: x % {n} == 0", (0, 6, 35)),
    ("longer_{n}: text: whether it has {n} letters: len(text) > {n}", ("", "bench")),
    ("repeat_{n}: text: the text {n} times: text * {n}", ("", "a", "no")),
    ("count_{n}: items: how often {n} is in it: items.count({n})", ([], [2, 3, 2])),
    ("split_{n}: x: quotient and rest for {n}: divmod(x, {n})", (0, 7, 30)),
    (
        "without_{n}: items: the items but {n}: [i for i in items if i != {n}]",
        ([2, 9],),
    ),
)
"""Name, parameter, what is returned, and the expression; arguments to test it with."""

SHARES: Final = (
    ("raises", 6),
    ("hangs", 3),
    ("None", 7),
    ("    while True:\n        pass\n", 2),
    (LEAVES, 4),
    ("    raise SystemExit(0)\n", 2),
    ("    return (\n", 3),
    ("    return missing\n", 3),
    ("    return 'wrong'\n", 6),
)
"""What the model does beside the solution, and for how many problems."""


def make_problems() -> list[dict[str, str]]:
    """Return the problems; each solution is right by its test."""
    problems = []
    for number in range(PROBLEMS):
        family, arguments = FAMILIES[number % len(FAMILIES)]
        text = family.format(n=number // len(FAMILIES) + 2)
        name, parameter, what, expression = text.split(": ")
        function = eval(f"lambda {parameter}: {expression}")  # noqa: S307 - it is ours
        results = [function(value) for value in arguments]
        checks = "".join(
            f"    assert candidate({value!r}) == {result!r}\n"
            for value, result in zip(arguments, results, strict=True)
        )
        problems.append(
            {
                "task_id": f"Ours/{number}",
                "prompt": f'def {name}({parameter}):\n    """Return {what}."""\n',
                "entry_point": name,
                "canonical_solution": f"    return {expression}\n",
                "test": f"def check(candidate):\n{checks}",
            }
        )
    return problems


def failure_of(task_id: str) -> str:
    """Return what the model does with a problem; '' if it gives the solution."""
    place = int(task_id.partition("/")[2]) * 61 % PROBLEMS  # in no order, each once
    for failure, count in SHARES:
        if place < count:
            return failure
        place -= count
    return ""


async def complete(problem: dict[str, str]) -> str | None:
    """Answer as a model: with code, with nothing, with an error, or never."""
    failure = failure_of(problem["task_id"])
    await asyncio.sleep(3600 if failure == "hangs" else SECONDS_OF_CALL)
    if failure == "raises":
        raise ConnectionError("the provider closed the connection")
    if failure == "None":
        return None
    return failure or problem["canonical_solution"]


async def is_solved(problem: dict[str, str], completion: str) -> bool:
    """Grade as the scorer of `inspect_evals` does: by the exit code."""
    call = f"check({problem['entry_point']})"
    source = problem["prompt"] + completion + "\n" + problem["test"] + "\n" + call
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        source,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return await asyncio.wait_for(process.wait(), MOST_SECONDS) == 0
    except TimeoutError:
        process.kill()
        await process.wait()
        return False


CONFTEST: Final = """\
import pytest
from humaneval import complete

@pytest.fixture(scope="session")
def system_under_test():
    return lambda case: complete(case.fields)
"""


def run_ours() -> dict[str, object]:
    """Run pytest on the starter for code, with these problems and this model."""
    import pytest

    from pytest_failure_taxonomy.bench.load.folder import write_starter

    folder = Path("ours")
    write_starter(folder, "code")
    rubric = (folder / "rubric.py").read_text("utf-8")
    rubric = rubric.replace("seconds=5", f"seconds={MOST_SECONDS}")
    cases = [
        {
            "id": problem["task_id"].replace("/", "-"),
            "input": problem["prompt"],
            **problem,
        }
        for problem in make_problems()
    ]
    lines = [json.dumps(case) for case in cases]
    (folder / "rubric.py").write_text(rubric, "utf-8")
    (folder / "conftest.py").write_text(CONFTEST, "utf-8")
    (folder / "bench.yaml").write_text(
        f"timeout_per_case_seconds: {MOST_SECONDS:g}\nconcurrency: {AT_A_TIME}\n"
    )
    (folder / "cases" / "problems.jsonl").write_text("\n".join(lines), "utf-8")
    (folder / "oracle" / "examples.yaml").unlink()
    pytest.main([str(folder), "-q", "--bench-json=bench.json"])
    (run,) = json.loads(Path("bench.json").read_text("utf-8"))
    return {
        "mean": run["mean_score"],
        "counted": run["counts"]["scheduled"],
        "bound": run["lower_bound_95"]["value"],
    }


def run_pydantic_evals() -> dict[str, object]:
    """Run `Dataset.evaluate`, with an evaluator of our own."""
    evals: Any = importlib.import_module("pydantic_evals")
    evaluators: Any = importlib.import_module("pydantic_evals.evaluators")

    @dataclass(repr=False)
    class IsSolved(evaluators.Evaluator):  # type: ignore[misc]  # it may be absent
        async def evaluate(self, context: Any) -> bool:
            return await is_solved(context.inputs, context.output)

    async def call(problem: dict[str, str]) -> str | None:
        return await asyncio.wait_for(complete(problem), MOST_SECONDS)

    cases = [
        evals.Case(name=problem["task_id"], inputs=problem)
        for problem in make_problems()
    ]
    dataset = evals.Dataset(name="humaneval", cases=cases, evaluators=[IsSolved()])
    report = asyncio.run(
        dataset.evaluate(call, max_concurrency=AT_A_TIME, progress=False)
    )
    counted = sum(len(case.assertions) for case in report.cases)
    return {"mean": report.averages().assertions, "counted": counted, "bound": None}


def run_inspect() -> dict[str, object]:
    """Run `inspect_ai.eval`, which goes on after errors."""
    inspect: Any = importlib.import_module("inspect_ai")
    datasets: Any = importlib.import_module("inspect_ai.dataset")
    scorers: Any = importlib.import_module("inspect_ai.scorer")
    solvers: Any = importlib.import_module("inspect_ai.solver")

    @solvers.solver  # type: ignore[untyped-decorator]  # it may be absent
    def model() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            call = complete(state.metadata)
            state.store.set("completion", await asyncio.wait_for(call, MOST_SECONDS))
            return state

        return solve

    scorer = scorers.scorer(metrics=[scorers.accuracy()])

    @scorer  # type: ignore[untyped-decorator]  # as above
    def verify() -> Any:
        async def score(state: Any, target: Any) -> Any:
            solved = await is_solved(state.metadata, state.store.get("completion"))
            return scorers.Score(value="C" if solved else "I")

        return score

    task = inspect.Task(
        dataset=[
            datasets.Sample(id=problem["task_id"], input="-", metadata=problem)
            for problem in make_problems()
        ],
        solver=model(),
        scorer=verify(),
    )
    (log,) = inspect.eval(
        task,
        model="none/none",
        max_samples=AT_A_TIME,
        display="none",
        fail_on_error=False,
    )
    (result,) = log.results.scores
    return {
        "mean": result.metrics["accuracy"].value,
        "counted": result.scored_samples,
        "bound": None,
    }


RUNNERS: Final = {
    "this plugin": ("pytest_failure_taxonomy", run_ours),
    "pydantic-evals": ("pydantic_evals", run_pydantic_evals),
    "inspect_ai": ("inspect_ai", run_inspect),
}
"""The module that has to be installed, and what runs it."""


def main() -> None:
    """Print the table."""
    from tests.benchmarks.processes import cpu, spend, wall
    from tests.benchmarks.runs import adopt_orphans

    adopt_orphans()  # what they start counts, too
    sys.stdout.write(
        "| | mean | cases counted | lower bound, 95 % | wall s | CPU s |\n"
        "|---|---|---|---|---|---|\n"
    )
    absent = [name for name, (module, _) in RUNNERS.items() if not find_spec(module)]
    for name in RUNNERS:
        if name in absent:
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "figures.json")
            command = [sys.executable, "-P", __file__, name, str(file)]
            spent = spend(command, Path(folder))
            figures = json.loads(file.read_text("utf-8"))
        bound = f"{figures['bound']:.3f}" if figures["bound"] else "none"
        sys.stdout.write(
            f"| {name} | {figures['mean']:.3f} | {figures['counted']} | {bound} |"
            f" {wall(spent):.1f} | {cpu(spent):.1f} |\n"
        )
        sys.stdout.flush()
    if absent:
        sys.stdout.write(f"\nnot installed: {', '.join(absent)}\n")


if __name__ == "__main__" and len(sys.argv) > 1:
    sys.path.insert(0, str(Path(__file__).parent))
    _, run = RUNNERS[sys.argv[1]]
    Path(sys.argv[2]).write_text(json.dumps(run()), "utf-8")
elif __name__ == "__main__":
    main()

"""The problems and the model of the benchmark that compares scores."""

from __future__ import annotations

from collections import Counter

from tests.benchmarks.humaneval import PROBLEMS, SHARES, failure_of, make_problems


def test_each_solution_is_right_by_its_test_and_no_two_problems_are_equal() -> None:
    """What the model is not able to do is the only reason to fail."""
    problems = make_problems()
    assert len({problem["entry_point"] for problem in problems}) == PROBLEMS
    for problem in problems:
        solved = f"{problem['prompt']}{problem['canonical_solution']}"
        call = f"check({problem['entry_point']})"
        exec(f"{solved}\n{problem['test']}\n{call}", {})  # noqa: S102 - ours


def test_the_model_solves_128_and_fails_by_each_share() -> None:
    """The same problems each time."""
    failures = Counter(failure_of(problem["task_id"]) for problem in make_problems())
    assert failures == {"": 128, **dict(SHARES)}

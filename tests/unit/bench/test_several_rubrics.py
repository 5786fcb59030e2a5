"""Several rubrics as one: what comes of their answers, and of those that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.isolate.client import open_rubrics
from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchScore,
    BenchSettings,
    RunPlan,
    TaskClass,
)
from pytest_failure_taxonomy.bench.run.runner import Runner
from pytest_failure_taxonomy.bench.scores import (
    RubricError,
    RubricTimeoutError,
    Verdict,
    combine,
    read_answer,
)

KEYS: Final = frozenset({"found", "tidy", "right", "style", "trial"})


def make_answer(score: float = 1.0, *, passed: bool = True, **more: Any) -> Verdict:
    """Return an answer of one rubric."""
    return read_answer({"passed": passed, "score": score, "breakdown": {}, **more})


def test_one_answer_of_two() -> None:
    """The mean is weighted; keys, codes and costs of both are there, and each score by name."""
    answer = combine(
        {
            "style": make_answer(
                0.5,
                breakdown={"tidy": 0.2},
                failure_modes=[{"code": "b"}],
                cost_usd=0.1,
            ),
            "right": make_answer(
                1.0,
                breakdown={"found": 1.0},
                failure_modes=[{"code": "a"}],
                cost_usd=0.2,
            ),
        },
        {"right": 3.0, "style": 1.0},
        KEYS,
    )
    assert answer.passed
    assert answer.score == pytest.approx(0.875)
    assert answer.breakdown == {"found": 1.0, "tidy": 0.2, "right": 1.0, "style": 0.5}
    assert [mode.code for mode in answer.failure_modes] == ["a", "b"]
    assert answer.cost_usd == pytest.approx(0.3)


def test_all_have_to_pass() -> None:
    """One rubric that does not pass the output fails it, whatever its weight."""
    answers = {"right": make_answer(), "style": make_answer(0.9, passed=False)}
    assert not combine(answers, {"right": 100.0, "style": 0.1}, KEYS).passed


def test_a_weight_of_0_decides_nothing() -> None:
    """The score, the good keys and the cost of such a rubric are there; the rest is not."""
    answers = {
        "right": make_answer(0.8, breakdown={"found": 0.8}),
        "trial": make_answer(
            0.1,
            passed=False,
            breakdown={"found": 0.0, "tidy": 0.4, "right": 0.0, "unknown": 1.0},
            failure_modes=[{"code": "unheard.of"}],
            cost_usd=2.0,
        ),
    }
    weights = {"right": 1.0, "trial": 0.0}
    answer = combine(answers, weights, KEYS)
    assert (answer.passed, answer.score, answer.cost_usd) == (True, 0.8, 2.0)
    assert answer.breakdown == {"found": 0.8, "tidy": 0.4, "right": 0.8, "trial": 0.1}
    assert answer.failure_modes == ()
    del answers["trial"]
    answer = combine(
        answers, weights, KEYS, {"trial": RubricError("raised ValueError: no")}
    )
    assert (answer.passed, answer.breakdown) == (True, {"found": 0.8, "right": 0.8})


@pytest.mark.parametrize(
    ("breakdowns", "message"),
    [
        (
            {"right": {"found": 1.0}, "style": {"found": 0.5}},
            "style: the breakdown key 'found' is given by right, too",
        ),
        (
            {"right": {"style": 1.0}, "style": {}},
            "right: the breakdown key 'style' is the name of a rubric; give another",
        ),
    ],
)
def test_keys_that_clash(
    breakdowns: Mapping[str, Mapping[str, float]], message: str
) -> None:
    """Nobody could say whose number such a key has; what was spent still counts."""
    answers = {
        name: make_answer(breakdown=dict(breakdown), cost_usd=0.5)
        for name, breakdown in breakdowns.items()
    }
    with pytest.raises(RubricError) as caught:
        combine(answers, dict.fromkeys(breakdowns, 1.0), KEYS)
    assert (str(caught.value), caught.value.cost_usd) == (message, 1.0)


def test_errors_name_their_rubrics() -> None:
    """The first of them decides what sort of error it is; the cost of the others is kept."""
    errors = {
        "style": RubricTimeoutError("was not done within 1 s"),
        "trial": RubricError(
            "raised ValueError: x", traceback="Traceback", printed="hello\n"
        ),
    }
    weights = {"right": 1.0, "style": 1.0, "trial": 2.0}
    with pytest.raises(RubricTimeoutError) as caught:
        combine({"right": make_answer(cost_usd=0.25)}, weights, KEYS, errors)
    said = "style: was not done within 1 s; trial: raised ValueError: x"
    assert str(caught.value) == said
    assert (caught.value.traceback.text(), caught.value.printed) == (
        "Traceback",
        "hello\n",
    )
    assert caught.value.cost_usd == 0.25


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c", "d"]),
        st.tuples(st.floats(0, 1), st.booleans(), st.floats(0, 1e6)),
        min_size=1,
    ),
    st.randoms(use_true_random=False),
)
def test_any_answers_and_weights(
    parts: dict[str, tuple[float, bool, float]], rng: Any
) -> None:
    """The score lies between those that count, and neither order nor scale of weights matters."""
    weights = {name: weight for name, (_, _, weight) in parts.items()}
    if not any(weights.values()):
        weights[next(iter(weights))] = 1.0
    answers = {
        name: make_answer(score, passed=ok) for name, (score, ok, _) in parts.items()
    }
    answer = combine(answers, weights, KEYS)
    scores = [answers[name].score for name, weight in weights.items() if weight]
    assert min(scores) - 1e-9 <= answer.score <= max(scores) + 1e-9
    assert answer.passed == all(
        answers[name].passed for name, weight in weights.items() if weight
    )
    names = list(answers)
    rng.shuffle(names)
    assert combine({name: answers[name] for name in names}, weights, KEYS) == answer


RUBRICS: Final = {
    "right": "def grade(case, output):\n    print('looked')\n"
    "    return {'passed': True, 'score': 1.0, 'breakdown': {'found': 1.0}, 'cost_usd': 0.5}\n",
    "style": "import time\n\ndef grade(case, output):\n"
    "    if output == 'raise':\n        raise ValueError('no style')\n"
    "    if output == 'hang':\n        time.sleep(60)\n"
    "    if output == 'shape':\n        return {'passed': True}\n"
    "    return {'passed': True, 'score': 0.5, 'breakdown': {}}\n",
}


@pytest.fixture
def two_rubrics(tmp_path: Path) -> Mapping[str, Path]:
    """Files of two rubrics."""
    paths = {name: tmp_path / f"{name}.py" for name in RUBRICS}
    for name, path in paths.items():
        path.write_text(RUBRICS[name])
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["warm", "fresh"])
def test_rubrics_in_their_processes(two_rubrics: Mapping[str, Path], mode: Any) -> None:
    """Each runs isolated; one that fails fails its case by name, and the other's cost is kept."""
    cases = tuple(
        BenchCase(case_id=each) for each in ("good", "hang", "raise", "shape")
    )
    task_class = TaskClass(
        name="two",
        breakdown_keys=frozenset({"found", *RUBRICS}),
        failure_mode_taxonomy={},
        cases=cases,
        rubrics=two_rubrics,
    )
    settings = BenchSettings(rubric_isolation=mode, rubric_wall_clock_seconds=3.0)

    async def run() -> dict[str, BenchScore]:
        combined = open_rubrics(task_class, settings)
        try:
            report = await Runner().execute(
                RunPlan(task_class=task_class, cases=cases),
                system_under_test=lambda case: case.case_id,
                rubric_runner=combined,
            )
        finally:
            await combined.aclose()
        return dict(report.per_case)

    scores = asyncio.run(run())
    assert scores["good"].breakdown == {"found": 1.0, "right": 1.0, "style": 0.5}
    assert (scores["good"].score, scores["good"].cost_usd) == (0.75, 0.5)
    said = {
        name: score.failure_modes[0]
        for name, score in scores.items()
        if not score.passed
    }
    assert {name: mode.code for name, mode in said.items()} == {
        "hang": "rubric.timeout",
        "raise": "rubric.malformed_output",
        "shape": "rubric.malformed_output",
    }
    assert (said["hang"].detail or "").startswith("style: was not done within 3 s")
    assert said["raise"].detail == "style: raised ValueError: no style"
    assert (said["shape"].detail or "").startswith("style: score: is missing")
    assert all(scores[name].cost_usd == 0.5 for name in said)

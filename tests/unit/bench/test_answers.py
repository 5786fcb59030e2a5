"""What is taken for a rubric's answer, and what is said of the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.answers import read_answer
from pytest_failure_taxonomy.bench.models import BenchScore, FailureMode
from pytest_failure_taxonomy.bench.outcomes import RubricAnswer, RubricError

GOOD: dict[str, Any] = {"passed": True, "score": 0.5, "breakdown": {"correctness": 0.5}}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"score": 1},
        {"cost_usd": 0.25},
        {"wall_clock_ms": -3},
        {"wall_clock_ms": 12.5},
        {"failure_modes": []},
        {"failure_modes": [{"code": "x"}]},
        {"failure_modes": [{"code": "x", "severity": "fatal", "detail": None}]},
    ],
)
def test_a_good_answer_is_taken_in_all_its_forms(more: dict[str, Any]) -> None:
    """A mapping of any type and JSON text come to the same."""
    given_answer = {**GOOD, **more}
    text = RubricAnswer(json=json.dumps(given_answer).encode())
    answer = read_answer(given_answer)
    assert read_answer(MappingProxyType(given_answer)) == read_answer(text) == answer
    assert (answer.passed, answer.score) == (True, given_answer["score"])


def test_failure_modes_may_be_given_as_such() -> None:
    """In process a rubric may use our own classes."""
    mode = FailureMode(code="x", severity="warn", detail="why")
    in_score = read_answer(BenchScore(passed=True, score=1.0, failure_modes=(mode,)))
    in_mapping = read_answer({**GOOD, "failure_modes": [mode]})
    assert in_score.failure_modes == in_mapping.failure_modes
    assert in_score.failure_modes[0].detail == "why"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"score": 1.5}, "score: 1.5 is more than 1"),
        ({"score": -0.1}, "score: -0.1 is less than 0"),
        ({"score": True}, "score: True is no number"),
        ({"score": "1"}, "score: '1' is no number"),
        ({"score": None}, "score: None is no number"),
        ({"passed": "yes"}, "passed: 'yes' is not true or false"),
        ({"passed": 1}, "passed: 1 is not true or false"),
        ({"breakdown": []}, "breakdown: [] is no mapping"),
        ({"breakdown": {"a": "b"}}, "breakdown.a: 'b' is no number"),
        ({"breakdown": {"a": True}}, "breakdown.a: True is no number"),
        ({"cost_usd": -1}, "cost_usd: -1 is less than 0"),
        ({"comment": "hi"}, "comment: is no field of an answer"),
        ({"failure_modes": "x"}, "failure_modes: 'x' is no list"),
        ({"failure_modes": ["x"]}, "failure_modes.0: 'x' is no mapping"),
        ({"failure_modes": [{"code": ""}]}, "failure_modes.0.code: is empty"),
        ({"failure_modes": [{}]}, "failure_modes.0.code: is missing"),
        ({"failure_modes": [{"code": 3}]}, "failure_modes.0.code: 3 is no text"),
        ({"wall_clock_ms": "1 s"}, "wall_clock_ms: '1 s' is no number"),
        ({"score": 2, "passed": 0}, "passed: 0 is not true or false; score: 2 is more than 1"),
    ],
)
def test_a_bad_answer_is_told_in_one_line(change: dict[str, Any], says: str) -> None:
    """Every problem is named by its field and its value, alike for a mapping and for JSON."""
    bad = {**GOOD, **change}
    assert _complaint(bad) == says
    assert _complaint(RubricAnswer(json=json.dumps(bad).encode())) == says


@pytest.mark.parametrize("field", ["passed", "score", "breakdown"])
def test_three_fields_must_be_there(field: str) -> None:
    """Nothing is assumed of an answer that leaves them out."""
    bad = {name: each for name, each in GOOD.items() if name != field}
    assert _complaint(bad) == f"{field}: is missing"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("field", ["score", "cost_usd", "breakdown"])
def test_what_is_no_finite_number_is_refused(field: str, bad: float) -> None:
    """A mean with one NaN in it would say nothing any more."""
    change = {field: {"a": bad} if field == "breakdown" else bad}
    assert "is no finite number" in _complaint({**GOOD, **change})
    text = RubricAnswer(json=json.dumps({**GOOD, **change}).encode())
    assert field in _complaint(text)


def test_a_score_made_without_checks_is_checked() -> None:
    """`model_copy` and `model_construct` let anything through."""
    score = BenchScore(passed=True, score=1.0)
    assert _complaint(score.model_copy(update={"score": 7.0})) == "score: 7.0 is more than 1"
    assert "score: is missing" in _complaint(BenchScore.model_construct(passed=True))


class _Broken(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        raise OSError("gone")

    def __iter__(self) -> Iterator[str]:
        return iter(["passed"])

    def __len__(self) -> int:
        return 1


class _Unspeakable:
    def __repr__(self) -> str:
        raise OSError("no words")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (None, "the answer is of type NoneType; a mapping would be right"),
        ([GOOD], "the answer is of type list; a mapping would be right"),
        (_Broken(), "OSError: gone"),
        ({**GOOD, "score": _Unspeakable()}, "score: a value of type _Unspeakable is no number"),
        (RubricAnswer(json=b"[]"), "[] is no mapping"),
    ],
    ids=["nothing", "list", "broken", "unspeakable", "list in JSON"],
)
def test_what_is_no_answer_at_all_is_told(bad: object, says: str) -> None:
    """Nor does an object whose own methods raise get through."""
    assert _complaint(bad) == says


@pytest.mark.parametrize("text", [b"", b"debug\n{}", b"{", b"\xff\xfe"])
def test_what_is_no_json_is_told(text: bytes) -> None:
    """A line that was printed before the answer spoils it, and one sees why."""
    assert _complaint(RubricAnswer(json=text)).startswith("the answer is no JSON: ")


def test_a_complaint_is_never_long() -> None:
    """A thousand problems fill no screen."""
    bad = {**GOOD, "breakdown": {f"key-{number}": "x" * 1_000 for number in range(1_000)}}
    assert len(_complaint(bad)) <= 300


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists) | st.binary())
def test_nothing_else_than_an_answer_is_taken(bad: object) -> None:
    """Whatever a rubric returns, it is an answer or a complaint."""
    given_answer = RubricAnswer(json=bad) if isinstance(bad, bytes) else bad
    assert _complaint(given_answer)


def _complaint(bad: object) -> str:
    with pytest.raises(RubricError) as caught:
        read_answer(bad)
    message = str(caught.value)
    assert "\n" not in message
    return message

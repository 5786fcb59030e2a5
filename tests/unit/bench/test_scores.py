"""From the answers and failures of systems and rubrics to scores."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.models import (
    RUNNER_CODES,
    BenchScore,
    FailureMode,
    Severity,
    TaskClass,
)
from pytest_failure_taxonomy.bench.scores import (
    RubricAnswer,
    RubricError,
    failed_score,
    graded_score,
    read_answer,
)
from pytest_failure_taxonomy.bench.user_code import cap, describe, safe


def _grade(answer: dict[str, Any], **taxonomy: Severity) -> BenchScore:
    task_class = TaskClass(
        name="stub",
        breakdown_keys=frozenset({"correctness", "llm_taste"}),
        failure_mode_taxonomy={
            code.replace("__", "."): each for code, each in taxonomy.items()
        },
    )
    whole = {
        "passed": True,
        "score": 0.5,
        "breakdown": {},
        "wall_clock_ms": 1e9,
        **answer,
    }
    return graded_score(read_answer(whole), task_class, wall_clock_ms=2.0)


@pytest.mark.parametrize(
    ("code", "detail", "told"),
    [
        ("sut.exception", "a \ud800", "a \\ud800"),
        ("sut.timeout", None, None),
        ("rubric.malformed_output", "bad", "bad"),
        ("rubric.timeout", "late", "late"),
    ],
)
def test_four_paths_keep_nothing(
    code: str, detail: str | None, told: str | None
) -> None:
    """Score, breakdown and cost are gone; the measured time stays."""
    score = failed_score(code, detail, wall_clock_ms=2.0)
    (mode,) = score.failure_modes
    assert (mode.code, mode.severity, mode.detail) == (code, "block", told)
    assert (score.passed, score.score, score.breakdown, score.cost_usd) == (
        False,
        0.0,
        {},
        0.0,
    )
    assert score.wall_clock_ms == 2.0


def test_a_good_answer_is_kept_but_for_its_time() -> None:
    """What the rubric says of the time is its claim; what counts is what was measured."""
    score = _grade({"breakdown": {"correctness": 1.0}, "cost_usd": 0.5})
    assert score == BenchScore(
        passed=True,
        score=0.5,
        breakdown={"correctness": 1.0},
        cost_usd=0.5,
        wall_clock_ms=2.0,
    )


@pytest.mark.parametrize(
    ("breakdown", "detail"),
    [
        ({"correctness": 1.5}, "breakdown.correctness: 1.5 is not from 0 to 1"),
        ({"correctness": -0.1}, "breakdown.correctness: -0.1 is not from 0 to 1"),
        ({"stars": 0.5}, "breakdown.stars: 0.5 is not from 1 to 5"),
        ({"stars": 5.0, "correctness": 1.0}, None),
    ],
)
def test_a_value_outside_of_its_range_is_malformed(
    breakdown: dict[str, float], detail: str | None
) -> None:
    """From 0 to 1, if the class says nothing else; what the rubric has cost is spent."""
    task_class = TaskClass(
        name="stub",
        breakdown_keys=frozenset({"correctness", "stars"}),
        breakdown_ranges={"stars": (1.0, 5.0)},
        failure_mode_taxonomy={},
    )
    answer = read_answer(
        {"passed": True, "score": 1, "breakdown": breakdown, "cost_usd": 0.5}
    )
    score = graded_score(answer, task_class, wall_clock_ms=2.0)
    modes = [(mode.code, mode.detail) for mode in score.failure_modes]
    assert modes == ([] if detail is None else [("rubric.malformed_output", detail)])
    assert (score.passed, score.cost_usd) == (detail is None, 0.5)


@pytest.mark.parametrize(
    "text",
    [
        b'{"passed": false, "passed": true, "score": 1, "breakdown": {}}',
        json.dumps(
            {"passed": True, "score": 1, "breakdown": {1: 0.5, "1": 0.6}}
        ).encode(),
    ],
)
def test_equal_keys_are_no_answer(text: bytes) -> None:
    """Of `{1: ..., "1": ...}` JSON makes one key twice; which value counts would be chance."""
    assert "stands twice in the answer" in _complaint(RubricAnswer(json=text))


def test_the_smallest_offending_key_is_named() -> None:
    """The same answer reads the same in every run."""
    (mode,) = _grade(
        {"breakdown": {"z": 1.0, "b": 1.0, "correctness": 1.0}}
    ).failure_modes
    assert mode.detail == "b"


def test_a_banned_key_is_refused_though_the_class_lists_it() -> None:
    """A class made in code has no loader to refuse it."""
    (mode,) = _grade({"breakdown": {"llm_taste": 1.0}}).failure_modes
    assert (mode.code, mode.detail) == ("rubric.unknown_breakdown_key", "llm_taste")


def test_unknown_codes_are_replaced_in_place() -> None:
    """The others keep order and detail; score and breakdown stay; the case has not passed."""
    score = _grade(
        {
            "breakdown": {"correctness": 0.5},
            "failure_modes": [
                {"code": "known", "detail": "first"},
                {"code": "typo"},
                {"code": "other", "severity": "block"},
            ],
        },
        known="block",
        other="info",
    )
    assert [
        (mode.code, mode.severity, mode.detail) for mode in score.failure_modes
    ] == [
        ("known", "block", "first"),
        ("rubric.unknown_failure_mode", "block", "typo"),
        ("other", "info", None),
    ]
    assert (score.passed, score.score, score.breakdown) == (
        False,
        0.5,
        {"correctness": 0.5},
    )


def test_a_known_code_that_blocks_leaves_passed_alone() -> None:
    """Whether the case passed is the rubric's to say."""
    assert _grade({"failure_modes": [{"code": "known"}]}, known="block").passed


@pytest.mark.parametrize("code", sorted(RUNNER_CODES))
def test_a_runner_code_is_unknown_unless_listed(code: str) -> None:
    """A rubric may give only what its file lists, and a runner code never below `block`."""
    answer = {"failure_modes": [{"code": code}]}
    (unlisted,) = _grade(answer).failure_modes
    assert (unlisted.code, unlisted.detail) == ("rubric.unknown_failure_mode", code)
    taxonomy: dict[str, Severity] = {code.replace(".", "__"): "info"}
    listed = _grade(answer, **taxonomy)
    assert [(mode.code, mode.severity) for mode in listed.failure_modes] == [
        (code, "block")
    ]


class _BadStrError(Exception):
    def __str__(self) -> str:
        return self.args[0]  # type: ignore[no-any-return]  # it is none: the point of the test


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError(), "ValueError: "),
        (ValueError("x" * 500), "ValueError: " + "x" * 200),
        (ValueError("a\ud800\x00b"), "ValueError: a\\ud800\\x00b"),
        (_BadStrError(3), "_BadStrError: <no message: TypeError in __str__>"),
        (GeneratorExit(), "GeneratorExit: "),
    ],
)
def test_an_exception_is_told_by_type_and_message(
    error: BaseException, says: str
) -> None:
    """The detail can always be written, whatever the message holds."""
    assert describe(error) == says
    assert describe(error).encode()


def test_a_text_is_left_alone_where_it_can_be() -> None:
    """Only what can't be written is escaped, and only what is too long is cut."""
    assert safe("grüße") == "grüße"
    assert cap("x" * 100, 100) == "x" * 100
    cut = cap("a" * 500 + "z" * 500, 200)
    assert (len(cut) <= 200, cut[0], cut[-1]) == (True, "a", "z")
    assert "[850 characters omitted]" in cut


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
        (
            {"score": 2, "passed": 0},
            "passed: 0 is not true or false; score: 2 is more than 1",
        ),
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
    assert (
        _complaint(score.model_copy(update={"score": 7.0}))
        == "score: 7.0 is more than 1"
    )
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
        (
            {**GOOD, "score": _Unspeakable()},
            "score: a value of type _Unspeakable is no number",
        ),
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
    bad = {
        **GOOD,
        "breakdown": {f"key-{number}": "x" * 1_000 for number in range(1_000)},
    }
    assert len(_complaint(bad)) <= 300


@pytest.mark.slow
@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists)
    | st.binary()
)
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

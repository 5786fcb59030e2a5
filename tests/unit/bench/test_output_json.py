"""Whether JSON can hold a value, and where it can't."""

from __future__ import annotations

import json
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.answers import json_problem

_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
)
_FINITE = _SCALARS.filter(lambda each: each not in {float("inf"), float("-inf")})
_VALUES = st.recursive(
    _FINITE,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(_VALUES)
def test_what_json_can_hold_has_no_problem(value: object) -> None:
    """Every value that JSON's own grammar has is taken."""
    assert json_problem(value) is None


@pytest.mark.slow
@given(_VALUES)
def test_a_set_is_found_wherever_it_is(value: object) -> None:
    """One thing that JSON has not spoils a value of any shape, and its place is told."""
    problem = json_problem({"good": value, "bad": [value, {1}]})
    assert problem == "TypeError: $.bad[1] is of type set, which JSON can't hold"


def _circular() -> Any:
    value: dict[str, Any] = {}
    value["self"] = [value]
    return value


def _deep() -> Any:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


class _Evil(dict[str, int]):
    def items(self) -> Any:
        raise OSError("no items")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"x", "TypeError: $ is of type bytes, which JSON can't hold"),
        (Decimal(1), "TypeError: $ is of type decimal.Decimal, which JSON can't hold"),
        (float("inf"), "ValueError: $ is inf, which JSON can't hold"),
        (
            [{"a b": object()}],
            "TypeError: $[0]['a b'] is of type object, which JSON can't hold",
        ),
        (
            {"a": {None: 1}},
            "TypeError: $.a has a key of type NoneType; in JSON all keys are strings",
        ),
        (
            {"a": {(1, 2): 1}},
            "TypeError: $.a has a key of type tuple; in JSON all keys are strings",
        ),
        (_circular(), "ValueError: $.self[0] contains itself, which JSON can't hold"),
        (_deep(), "RecursionError: $ is nested too deep to be written as JSON"),
        (_Evil(a=1), "OSError: $ can't be written as JSON"),
        ([10**5000], "ValueError: $[0] is an integer of too many digits to be written"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_a_problem_says_where_and_what(value: object, problem: str) -> None:
    """The message has the path, and the type or the value."""
    assert json_problem(value) == problem


def test_subclasses_of_what_json_knows_are_taken() -> None:
    """Python's own writer takes them, and they come out as what they derive from."""
    value = OrderedDict(a=(1, 2))
    assert json_problem(value) is None
    assert json.loads(json.dumps(value)) == {"a": [1, 2]}

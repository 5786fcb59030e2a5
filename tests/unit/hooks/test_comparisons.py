"""Whether the sides of a failed assertion differ only in what comes and goes."""

from __future__ import annotations

import traceback
import unittest
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, Final, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.comparisons import compare_sides
from pytest_failure_taxonomy.hooks.comparisons import compare_in_unittest

TODAY: Final = date(2026, 2, 28)
TOMORROW: Final = date(2026, 3, 1)
NOON: Final = datetime(2026, 2, 28, 12, 0, 1)  # noqa: DTZ001 - as tests write it


class Hostile:
    """An object whose methods may not be called."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __hash__(self) -> int:
        raise AssertionError("hashed")

    def __repr__(self) -> str:
        raise AssertionError("shown")


class Zone(tzinfo):
    """A time zone of the user's own."""

    def utcoffset(self, _: Any) -> NoReturn:
        """Fail, as it may not be asked."""
        raise AssertionError("asked")

    dst = tzname = utcoffset


HOSTILE: Final = Hostile()
ROWS: Final = (
    ("dates", "==", TODAY, TOMORROW),
    ("dates", "==", NOON, NOON + timedelta(hours=23)),
    ("dates", "==", NOON, NOON.replace(tzinfo=UTC)),
    ("dates", "==", TODAY, NOON + timedelta(1)),
    ("dates", "==", time(1), time(2)),
    ("dates", "==", "2026-02-28", "2026-03-01"),
    ("dates", "==", "made at 2026-02-28T12:00:01Z", "made at 2026-02-28T12:00:02.5Z"),
    ("dates", "==", {"id": 1, "at": NOON}, {"id": 1, "at": NOON + timedelta(0, 1)}),
    ("dates", "==", [("a", TODAY)], [("a", TOMORROW)]),
    ("dates", "<", NOON, NOON),
    ("dates", ">=", TODAY, TOMORROW),
    ("other", "<", 1, 1),
    ("other", "==", TODAY, date(2026, 3, 2)),
    ("other", "==", "2026-02-28", "2026-03-02"),
    ("other", "==", "of 2026-02-28", "at 2026-03-01"),
    ("other", "==", "2026-99-99", "2026-03-01"),
    ("other", "==", {"id": 1, "at": TODAY}, {"id": 2, "at": TOMORROW}),
    ("other", "!=", TODAY, TOMORROW),
    ("order", "==", ["a", "b", "c"], ["c", "a", "b"]),
    ("order", "==", (1, 2.0, None), (None, 1, 2)),
    ("order", "==", [{"x": 1}, {"y": [2]}], [{"y": [2]}, {"x": 1}]),
    ("order", "==", {"names": ["a", "b"], "n": 2}, {"names": ["b", "a"], "n": 2}),
    ("order", "==", [{"x", "y"}, {"z"}], [{"z"}, {"y", "x"}]),
    ("order", "==", "{'b', 'a', 'c'}", "{'a', 'b', 'c'}"),
    ("order", "==", "a=1\nb=2\n", "b=2\na=1\n"),
    ("other", "==", "x=1, y=2", "x=2, y=1"),
    ("order", "==", [HOSTILE, 1], [1, HOSTILE]),
    ("order", "==", [["a", "b"], TODAY], [["b", "a"], TOMORROW]),
    ("other", "==", ["a", "b"], ["a", "c"]),
    ("other", "==", ["a", "a", "b"], ["a", "b", "b"]),
    ("other", "==", ["a", "b"], ("b", "a")),
    ("other", "==", ["a", "b"], ["b", "a", "a"]),
    ("other", "==", "ab cd", "cd ab"),
    ("other", "==", {"a": 1}, {"b": 1}),
    ("other", "==", {"a", "b"}, {"a", "c"}),
    ("other", "==", 1, 2),
    ("other", "==", None, 1),
    ("other", "in", "a", ["b"]),
    ("other", "==", HOSTILE, Hostile()),
    ("other", "==", [HOSTILE], [Hostile()]),
    ("other", "==", {HOSTILE.__class__: 1}, {int: 1}),
    ("other", "==", NOON.replace(tzinfo=Zone()), NOON),
    ("other", "==", [1] * 10_001, [2] * 10_001),
)


@pytest.mark.parametrize(
    ("expected", "operator", "left", "right"), ROWS, ids=range(len(ROWS))
)
def test_what_the_sides_differ_in(
    expected: str, operator: str, left: object, right: object
) -> None:
    """Only values of Python's own types are looked into."""
    assert compare_sides(operator, left, right) == expected


def test_collections_that_hold_themselves() -> None:
    """They have no end."""
    left: list[Any] = [1, 2]
    right: list[Any] = [2, 1]
    left.append(left)
    right.append(right)
    assert compare_sides("==", left, right) == "other"


PLAIN: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.dates() | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(values=st.lists(PLAIN, min_size=2, max_size=6), random=st.randoms())
def test_elements_in_another_order(values: list[Any], random: Any) -> None:
    """Whatever they are, another order is all that differs."""
    others = values.copy()
    random.shuffle(others)
    is_another = [repr(value) for value in values] != [repr(value) for value in others]
    expected = {"order"} if is_another else {"other"}
    if values == others:  # some are equal, such as 1 and True
        expected = {"other", "order"}
    assert compare_sides("==", values, others) in expected


@given(left=PLAIN, right=PLAIN)
def test_any_values(left: Any, right: Any) -> None:
    """No value makes it fail, and the sides may be exchanged."""
    assert compare_sides("==", left, right) == compare_sides("==", right, left)


@pytest.mark.parametrize(
    ("assertion", "sides", "expected"),
    [
        ("assertEqual", (TODAY, TOMORROW), "dates"),
        ("assertEqual", (["a", "b"], ["b", "a"]), "order"),
        ("assertListEqual", (["a", "b"], ["b", "a"]), "order"),
        ("assertEqual", (1, 2), "other"),
        ("assertTrue", (False, "x"), "other"),
    ],
)
def test_assertions_of_unittest(
    assertion: str, sides: tuple[Any, Any], expected: str
) -> None:
    """They have the two sides as arguments."""
    with pytest.raises(AssertionError) as caught:
        getattr(unittest.TestCase(), assertion)(*sides)
    frames = traceback.walk_tb(caught.value.__traceback__)
    kinds = [compare_in_unittest(frame)[0] for frame, _ in frames]
    assert next((kind for kind in kinds if kind != "other"), "other") == expected


def test_a_list_that_holds_itself_many_times_is_not_compared() -> None:
    """Its parts would be more than anybody can count."""
    left: list[Any] = []
    right: list[Any] = []
    left += [left] * 50
    right += [right] * 50
    assert compare_sides("==", left, right) == "other"

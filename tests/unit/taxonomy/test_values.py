"""The form that all values have."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from pytest_failure_taxonomy.taxonomy.values import (
    MADE_BEFORE_COMPILING,
    list_changed_fields,
    replace,
    to_dict,
    value,
)


@value
class Point:
    """A place."""

    x: int
    """To the right."""
    y: int = 0
    names: tuple[str, ...] = ()

    @property
    def is_origin(self) -> bool:
        """Tell whether it is where all begins."""
        return self.x == self.y == 0


@value
class Other:
    """Another class with a field of the same name."""

    x: int


def test_fields_are_given_by_name_and_have_defaults() -> None:
    """As a dataclass with `kw_only`."""
    assert to_dict(Point(x=1)) == {"x": 1, "y": 0, "names": ()}
    assert to_dict(Point(y=2, x=1, names=("a",))) == {"x": 1, "y": 2, "names": ("a",)}
    assert Point(x=0).is_origin
    assert Point.__doc__ == "A place."


@pytest.mark.parametrize("given", [{}, {"y": 1}, {"x": 1, "z": 2}, {"z": 1}])
def test_a_wrong_name_is_an_error(given: dict[str, int]) -> None:
    """Nothing is missing and nothing is too many."""
    with pytest.raises(TypeError, match="Point: missing="):
        Point(**given)  # type: ignore[arg-type]


def test_it_never_changes() -> None:
    """No field is set, added or deleted."""
    point = Point(x=1)
    for name in ("x", "z"):
        with pytest.raises(AttributeError):
            setattr(point, name, 2)
    with pytest.raises(AttributeError):
        del point.x
    assert not hasattr(point, "__dict__")


def test_equality_is_by_class_and_fields() -> None:
    """And hashes agree with it."""
    assert Point(x=1) == Point(x=1, y=0)
    assert hash(Point(x=1)) == hash(Point(x=1, y=0))
    assert Point(x=1) != Point(x=2)
    assert Other(x=1) == Other(x=1)
    others: tuple[object, ...] = (Other(x=1), 1, (1, 0, ()))
    assert all(Point(x=1) != other for other in others)


def test_it_shows_its_fields() -> None:
    """As a dataclass does."""
    assert repr(Point(x=1)) == "Point(x=1, y=0, names=())"


def test_it_is_copied_whole() -> None:
    """By hand, by `copy` and by `pickle`."""
    point = Point(x=1, names=("a",))
    assert replace(point, y=5) == Point(x=1, y=5, names=("a",))
    assert copy.copy(point) == copy.deepcopy(point) == _pickled(point) == point


def test_a_class_of_which_many_are_made_stays_as_it_is() -> None:
    """From some number on it has an `__init__` of its own, which does the same."""

    @value
    class Many:
        x: int
        y: int = 0
        names: tuple[str, ...] = ()

    first = Many(x=1)
    for x in range(2 * MADE_BEFORE_COMPILING):
        many = Many(x=x, names=("a",))
        assert to_dict(many) == {"x": x, "y": 0, "names": ("a",)}
        assert list_changed_fields(many) == {"x": x, "names": ("a",)}, (
            "what is as always is not told"
        )
    assert Many(x=1) == first
    assert replace(first, y=5) == Many(x=1, y=5)
    assert type(Many(x=1)) is Many
    assert copy.copy(first) == copy.deepcopy(Many(x=1)) == first
    wrong: tuple[dict[str, Any], ...] = ({}, {"y": 1}, {"x": 1, "z": 2})
    for given in wrong:
        with pytest.raises(TypeError):
            Many(**given)
    with pytest.raises(AttributeError):
        Many(x=1).x = 2  # type: ignore[misc]  # as a type checker says, too


def _pickled(point: Point) -> object:
    return pickle.loads(pickle.dumps(point))  # noqa: S301 - our own

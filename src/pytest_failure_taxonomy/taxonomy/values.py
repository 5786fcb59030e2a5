"""The form that all values of this package have."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass with slots, whose fields are given by name.

    Equality, hash and repr are shared by all of them instead of being compiled for each: that takes
    a third off the time that a pytest with the option on needs to load this package.
    """
    made = dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)(cls)
    made.__eq__ = _equal  # type: ignore[method-assign]  # that is the point
    made.__hash__ = _hash  # type: ignore[method-assign]
    made.__repr__ = _represent  # type: ignore[method-assign]
    return made


def _equal(self: Any, other: object) -> bool:
    if other.__class__ is not self.__class__:
        return False
    return bool(_fields(self) == _fields(other))


def _hash(self: Any) -> int:
    return hash(_fields(self))


def _represent(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__qualname__}({fields})"


def _fields(self: Any) -> Any:
    return attrgetter(*self.__slots__)(self)

"""Frozen values: objects with named fields that never change.

They could be frozen dataclasses, but those compile their methods at each start of Python, and took
half of the time that a pytest with the option on needs to load this package; see
docs/decisions/0007-values.md.
"""

from __future__ import annotations

from itertools import count
from operator import attrgetter, methodcaller
from typing import Any, Final, TypeVar, dataclass_transform

T = TypeVar("T")

MADE_BEFORE_COMPILING: Final = 20
"""How many objects of a class are made before it gets an `__init__` of its own. To compile those
of all classes that failures need takes half as long as one failing test takes in pytest itself, and
most classes never have as many objects."""

_set = object.__setattr__
_MADE_BY_PYTHON = ("__dict__", "__weakref__")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a class whose objects hold the annotated fields, given by name, and never change.

    A default is a value of the class's body; it must be one that never changes either. Two objects
    are equal when they are of one class and all their fields are.
    """
    names = tuple(cls.__annotations__)
    body = {
        name: each for name, each in vars(cls).items() if name not in _MADE_BY_PYTHON
    }
    defaults = {name: body.pop(name) for name in names if name in body}
    # What reads all fields at once; it is called for every value that is written.
    read: Any = staticmethod(lambda one: tuple(getattr(one, name) for name in names))
    if len(names) > 1:
        read = attrgetter(*names)
    body.update(
        _METHODS, __slots__=names, _read=read, _defaults=defaults, _made=count(1)
    )
    made: type[T] = type(cls)(cls.__name__, cls.__bases__, body)  # type: ignore[misc]
    return made


def replace(one: T, **changes: Any) -> T:
    """Return a value like another, with some of its fields changed."""
    return type(one)(**(to_dict(one) | changes))


def to_dict(one: Any) -> dict[str, Any]:
    """Return the fields of a value by their names, as they are."""
    return dict(zip(one.__slots__, one._read(one), strict=True))  # noqa: SLF001 - put there above


to_told: Final = methodcaller("_told")
"""Return the same without the fields that are as they are by default, which most are."""


def _begin(self: Any, **given: Any) -> None:
    cls = type(self)
    if next(cls._made) == MADE_BEFORE_COMPILING:
        _compile_methods(cls)
    if self._defaults:
        given = {**self._defaults, **given}
    try:
        for name, each in given.items():
            _set(self, name, each)
    except AttributeError:
        pass  # one that is not there
    else:
        if len(given) == len(self.__slots__):
            return
    names = frozenset(self.__slots__)
    missing = sorted(names - given.keys())
    unknown = sorted(given.keys() - names)
    raise TypeError(f"{type(self).__qualname__}: {missing=}, {unknown=}")


def _compile_methods(cls: Any) -> None:
    """Give a class methods of its own, which take a quarter of the time of those for all.

    While its fields are set, the object is of a class that doesn't refuse to change.
    """
    defaults = cls._defaults
    parameters = [
        f"{name}=default_{name}" if name in defaults else name for name in cls.__slots__
    ]
    always = [
        f"{name!r}: self.{name}" for name in cls.__slots__ if name not in defaults
    ]
    statements = [
        f"def __init__(self, *, {', '.join(parameters)}):",
        ' set_field(self, "__class__", changing)',
        *(f" self.{name} = {name}" for name in cls.__slots__),
        " self.__class__ = final",
        "def _told(self):",
        f" fields = {{{', '.join(always)}}}",
        *(
            f" if self.{name} is not default_{name}: fields[{name!r}] = self.{name}"
            for name in defaults
        ),
        " return fields",
    ]
    names = {f"default_{name}": each for name, each in defaults.items()}
    changing = type(cls.__name__, cls.__bases__, {"__slots__": cls.__slots__})
    names |= {"set_field": _set, "changing": changing, "final": cls}
    exec("\n".join(statements), names)  # noqa: S102 - the names are those of our own fields
    cls.__init__, cls._told = names["__init__"], names["_told"]


def _told(self: Any) -> dict[str, Any]:
    defaults, fields = self._defaults, to_dict(self)
    as_always = [name for name in defaults if fields[name] is defaults[name]]
    return {name: each for name, each in fields.items() if name not in as_always}


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise AttributeError(f"{type(self).__qualname__}.{name}: a value never changes")


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._read(self) == self._read(other)


def _hash(self: Any) -> int:
    return hash(self._read(self))


def _represent(self: Any) -> str:
    fields = ", ".join(f"{name}={each!r}" for name, each in to_dict(self).items())
    return f"{type(self).__qualname__}({fields})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return _rebuild, (type(self), to_dict(self))


def _rebuild(cls: type[T], fields: dict[str, Any]) -> T:
    return cls(**fields)


_METHODS = {
    "__init__": _begin,
    "_told": _told,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _represent,
    "__reduce__": _reduce,
}

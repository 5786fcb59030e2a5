"""Frozen values: objects with named fields that never change.

They could be frozen dataclasses, but those compile their methods at each start of
Python, and took half of the time that a pytest with the option on needs to load this
package; see docs/decisions/0007-values.md.

So a class begins with methods that all classes share, which read the names of the
fields at each call. That is slow for an object and free for a class, and most classes
have few objects or none in a run. A class whose twentieth object is made gets an
`__init__` and a `_list_changed_fields` of its own, compiled from source as a dataclass
would do at once (`_compile_methods`). Objects made before are the same: they have the
same slots, and methods are looked up in the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from operator import attrgetter, methodcaller
from typing import Annotated, Any, Final, TypeVar, dataclass_transform

T = TypeVar("T")

MADE_BEFORE_COMPILING: Final = 20
"""How many objects of a class are made before it gets an `__init__` of its own.

To compile those of all classes that failures need takes half as long as one failing
test takes in pytest itself, and most classes never have as many objects.
"""

_set = object.__setattr__
_MADE_BY_PYTHON = ("__dict__", "__weakref__")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a class whose objects hold the annotated fields and never change.

    The fields are given by name. A default is a value of the class's body; it must be
    one that never changes either. Two objects are equal when they are of one class and
    all their fields are.
    """
    names = tuple(cls.__annotations__)
    body = dict(vars(cls))
    for name in _MADE_BY_PYTHON:
        body.pop(name, None)
    defaults = {name: body.pop(name) for name in names if name in body}
    # Reads all fields at once, because each value that is written needs them.
    read: Any = staticmethod(
        lambda instance: tuple(getattr(instance, name) for name in names)
    )
    if len(names) > 1:
        read = attrgetter(*names)
    body.update(
        _METHODS,
        __slots__=names,
        _read=read,
        _defaults=defaults,
        _made=count(1),
    )
    # A class with slots has to be made anew: they can't be added to one that exists.
    made: type[T] = type(cls)(cls.__name__, cls.__bases__, body)  # type: ignore[misc]
    return made


def replace(original: T, **changes: Any) -> T:
    """Return a value like another, with some of its fields changed."""
    return type(original)(**(to_dict(original) | changes))


def to_dict(instance: Any) -> dict[str, Any]:
    """Return the fields of a value by their names, as they are."""
    fields = instance._read(instance)  # noqa: SLF001 - put there above
    return dict(zip(instance.__slots__, fields, strict=True))


def defaults_of(cls: Any) -> Mapping[str, object]:
    """Return the defaults of a class's fields that have one, by name."""
    defaults: Mapping[str, object] = cls._defaults
    return defaults


list_changed_fields: Final = methodcaller("_list_changed_fields")
"""Return the same without the fields that are as they are by default, which most
are."""


def _begin(self: Any, **fields: Any) -> None:
    cls = type(self)
    # `next` of a count is atomic, so only one thread compiles.
    if next(cls._made) == MADE_BEFORE_COMPILING:
        _compile_methods(cls)
    if self._defaults:
        fields = {**self._defaults, **fields}
    try:
        for name, content in fields.items():
            _set(self, name, content)
    except AttributeError:
        pass  # a class with slots refuses a field that it doesn't have: see below
    else:
        if len(fields) == len(self.__slots__):
            return
    names = frozenset(self.__slots__)
    missing = sorted(names - fields.keys())
    unknown = sorted(fields.keys() - names)
    raise TypeError(f"{cls.__qualname__}: {missing=}, {unknown=}")


def _compile_methods(cls: Any) -> None:
    """Give a class methods of its own, which take a quarter of the time of shared ones.

    A frozen dataclass calls `object.__setattr__` for each field, which takes three
    times as long. Here the object is of a twin class with the same slots, and without
    the refusal to change, until its fields are set: an object may change between
    classes whose layout is the same.
    """
    parameters = []
    assignments = []
    always = []
    changed = []
    changing = type(cls.__name__, cls.__bases__, {"__slots__": cls.__slots__})
    names = {"set_field": _set, "changing": changing, "final": cls}
    for name in cls.__slots__:
        assignments.append(f" self.{name} = {name}")
        if name in cls._defaults:
            default = f"default_{name}"
            names[default] = cls._defaults[name]
            parameters.append(f"{name}={default}")
            changed.append(f" if self.{name} is not {default}:")
            changed.append(f"  fields[{name!r}] = self.{name}")
        else:
            parameters.append(name)
            always.append(f"{name!r}: self.{name}")
    statements = [
        f"def __init__(self, *, {', '.join(parameters)}):",
        ' set_field(self, "__class__", changing)',
        *assignments,
        " self.__class__ = final",
        "def _list_changed_fields(self):",
        f" fields = {{{', '.join(always)}}}",
        *changed,
        " return fields",
    ]
    exec("\n".join(statements), names)  # noqa: S102 - the names are those of our fields
    cls.__init__ = names["__init__"]
    cls._list_changed_fields = names["_list_changed_fields"]


def _list_changed_fields(self: Any) -> dict[str, Any]:
    fields = to_dict(self)
    for name, default in self._defaults.items():
        if fields[name] is default:
            del fields[name]
    return fields


def _refuse(self: Any, name: str, *_: Any) -> None:
    owner = type(self).__qualname__
    raise AttributeError(f"{owner}.{name}: a value never changes")


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._read(self) == self._read(other)


def _hash(self: Any) -> int:
    return hash(self._read(self))


def _represent(self: Any) -> str:
    fields = []
    for name, content in to_dict(self).items():
        fields.append(f"{name}={content!r}")
    return f"{type(self).__qualname__}({', '.join(fields)})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return _rebuild, (type(self), to_dict(self))


def _rebuild(cls: type[T], fields: dict[str, object]) -> T:
    return cls(**fields)


_METHODS = {
    "__init__": _begin,
    "_list_changed_fields": _list_changed_fields,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _represent,
    "__reduce__": _reduce,
}


@value
class Bounds:
    """How small and how big a number may be, or how long a list."""

    low: float
    high: float | None = None


class Pattern(str):
    """A regular expression that all of a text has to match."""

    __slots__ = ()


DATE_TIME: Final = "date-time"
"""Marks a text as a time of the calendar."""

Count = Annotated[int, Bounds(low=0)]
Positive = Annotated[int, Bounds(low=1)]
"""A number of a line, or of things of which there is at least one."""
Seconds = Annotated[float, Bounds(low=0)]
Share = Annotated[float, Bounds(low=0, high=1)]
Time = Annotated[
    str,
    Pattern(
        "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
        "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
        r"(\.[0-9]{1,9})?(Z|\+00:00)$"
    ),
    DATE_TIME,
]
"""RFC 3339 in UTC, without leap seconds, which no clock of a computer tells."""

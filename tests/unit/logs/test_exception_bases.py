"""The table of base classes says what the classes of this Python say."""

from __future__ import annotations

import importlib
from contextlib import suppress

from pytest_failure_taxonomy.logs.printed_exceptions import bases_of
from pytest_failure_taxonomy.taxonomy import packaged_table

OF_PYTHON = ("json", "socket", "ssl", "subprocess", "urllib", "http", "sqlite3")


def class_of(name: str) -> type | None:
    """Return a class of the standard library by its dotted name, if it is there."""
    module, _, last = name.rpartition(".")
    with suppress(ImportError):
        found = getattr(importlib.import_module(module), last, None)
        return found if isinstance(found, type) else None
    return None


def test_bases_of_the_standard_library() -> None:
    """Each row is a class that is derived from what the row names."""
    compared = 0
    for name in packaged_table("bases")["bases"]:
        kind = class_of(name) if name.startswith(OF_PYTHON) else None
        if kind is None:
            continue
        names = {f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__[:-1]}
        assert set(bases_of(name)) <= names, name
        compared += 1
    assert compared >= 15


def test_what_nobody_knows_is_an_exception() -> None:
    """Its own name comes first."""
    assert bases_of("shop.errors.Empty") == (
        "shop.errors.Empty",
        "builtins.Exception",
        "builtins.BaseException",
    )

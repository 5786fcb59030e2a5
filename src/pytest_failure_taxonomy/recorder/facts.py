"""Read what an exception holds besides its message, and what it was raised from.

What is read stands in `taxonomy/data/facts.toml`. As everywhere in the recorder no code of the
user's runs: see `inspection`. This module is loaded for the first exception that is more than a
plain assertion.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder import inspection, origin
from pytest_failure_taxonomy.recorder.inspection import attribute_of, bases_of, dotted_name_of
from pytest_failure_taxonomy.recorder.origin import OriginFinder
from pytest_failure_taxonomy.recorder.owners import distribution_with
from pytest_failure_taxonomy.report.text import cap_between_words
from pytest_failure_taxonomy.taxonomy.evidence import Fact, LinkedException, RaisingFrame
from pytest_failure_taxonomy.taxonomy.tables import packaged_table

_Chain = tuple[LinkedException, ...]

MAX_LINKS: Final = 8
"""Exceptions that are read of one chain."""
_MAX_TEXT: Final = 1_000
"""Characters of a fact; a longer text is none."""
_MAX_MESSAGE: Final = 2_000
"""Characters kept of the message of an exception in a chain."""

_WITH_FRAMES: Final = frozenset(
    {"builtins.OSError", "builtins.KeyError", "http.client.HTTPException", "bdb.BdbQuit"}
)
"""Exceptions of which a frame of the standard library may say more."""
_FIXTURES: Final = pytest.fixture.__code__.co_filename
_OF_FIXTURES: Final = {"pytest_fixture_setup": "fixturedef", "finish": "self"}
"""Functions of pytest that set a fixture up or tear it down, and where they have it."""
_OF_CLASSIC_SETUP: Final = ("_xunit_", "_unittest_")
"""How the fixtures are called that pytest makes of `setup_method`, `setUpClass` and the like."""


def facts_of(
    error: BaseException, bases: tuple[str, ...], origins: OriginFinder, frame: RaisingFrame | None
) -> tuple[Fact, ...]:
    """Return what the fields of an exception and the standard library's own frames say.

    Args:
        error: has been raised.
        bases: the dotted names of its classes.
        origins: of the run.
        frame: the one that raised it, where the place of that is a fact.
    """
    facts: dict[str, str] = {}
    if not _WITH_FRAMES.isdisjoint(bases):
        _read_frames(error, facts, origins)
    for base in bases:
        for name, paths in packaged_table("facts")["fields"].get(base, {}).items():
            _add(facts, name, error, paths)
    if "command" in facts:
        facts["command"] = facts["command"].strip().partition(" ")[0]
    if "builtins.ModuleNotFoundError" in bases and "name" in facts:
        facts |= distribution_with(facts["name"], str(origins.rootdir))
    if frame is not None:
        facts["place"] = f"{frame.path}:{frame.line}"
    return tuple(Fact(name=name, text=text) for name, text in facts.items())


def chain_of(error: BaseException, shown: object, origins: OriginFinder) -> _Chain:
    """Return what an exception was raised from, or while it was handled, the nearest first.

    Args:
        error: has been raised.
        shown: what pytest has formatted; it has the texts of the whole chain.
        origins: of the run.
    """
    links: list[LinkedException] = []
    entries = attribute_of(shown, "chain")
    texts = iter(entries[-2::-1] if type(entries) is list else ())
    seen = {id(error)}
    while len(links) < MAX_LINKS:
        linked, is_cause = inspection.cause_or_context_of(error)
        if linked is None and issubclass(type(error), BaseExceptionGroup):
            linked, texts = next(origin.leaves_of(error), None), iter(())
        if linked is None or id(linked) in seen:
            break
        seen.add(id(linked))
        bases = tuple(map(dotted_name_of, bases_of(type(linked))[:-1]))
        crash = next(texts, (None, None))[1]
        formatted = "" if crash is None else str(crash.message)
        is_said = formatted or inspection.says_plainly(linked)
        text = inspection.text_of(linked, formatted) if is_said else ""
        message = cap_between_words(text, _MAX_MESSAGE)
        # A warning of an exception that could not be caught was issued far away from it.
        frame = origins.find(linked)[1] if issubclass(type(error), Warning) else None
        facts = facts_of(linked, bases, origins, frame)
        links += [LinkedException(bases=bases, message=message, is_cause=is_cause, facts=facts)]
        error = linked
    return tuple(links)


def fixture_of(error: BaseException) -> str | None:
    """Return the name of the fixture in whose setup or teardown an exception was raised.

    A fixture that is kept for several tests raises the same exception for each of them.
    """
    for entry in reversed(origin.entries_of(inspection.traceback_of(error))):
        code = entry.tb_frame.f_code
        if code.co_filename == _FIXTURES and code.co_name in _OF_FIXTURES:
            found = attribute_of(entry.tb_frame.f_locals.get(_OF_FIXTURES[code.co_name]), "argname")
            is_written = type(found) is str and not found.startswith(_OF_CLASSIC_SETUP)
            return found if is_written else None
    return None


def _read_frames(error: BaseException, facts: dict[str, str], origins: OriginFinder) -> None:
    """Add what the innermost frames say, those of libraries; the outermost of them counts."""
    entries = origin.entries_of(inspection.traceback_of(error))
    for entry in reversed(entries[-origin.MAX_FRAMES :]):
        frame, code = entry.tb_frame, entry.tb_frame.f_code
        if origin.is_own(code.co_filename, origins.rootdir):
            return
        module = origin.module_name_in(frame.f_globals)
        if module in ("bdb", "pdb"):
            place = origin.own_place_of(error, origins.rootdir)
            facts |= {"breakpoint": f"{place.path}:{place.line}"} if place else {}
            return
        variables = packaged_table("facts")["frames"].get(f"{module}.{code.co_qualname}", {})
        facts |= {"raised_by": module} if variables else {}
        for name, path in variables.items():
            variable, _, rest = path.partition(".")
            _add(facts, name, frame.f_locals.get(variable), rest)


def _add(facts: dict[str, str], name: str, one: object, paths: str) -> None:
    """Add a fact where one of the paths, which may be empty, leads to a text or a whole number."""
    for path in paths.split() or ("",):
        found = _stored(one, path)
        if type(found) is int or (type(found) is str and 0 < len(found) <= _MAX_TEXT):
            facts[name] = str(found)
            return


def _stored(one: Any, path: str) -> Any:
    """Return what is at the end of a path, `None` where it leads nowhere."""
    for step in filter(None, path.split(".")):
        kind = type(one)
        if step.isdecimal():
            is_tuple = issubclass(kind, tuple)
            items = tuple.__getitem__(one, slice(None)) if is_tuple else one if kind is list else ()
            one = items[int(step)] if int(step) < len(items) else None
        else:
            one = one.get(step) if kind is dict else next(_fields(one, step), None)
    return one


def _fields(one: object, name: str) -> Iterator[object]:
    """Yield what an object itself and its classes hold under a name, and that is no property."""
    own = attribute_of(one, name)
    if own is not None:
        yield own
    for base in bases_of(type(one)):
        held: Any = inspection.body_of(base).get(name)
        kind: type = type(held)
        is_pythons = kind is GetSetDescriptorType and inspection.module_of(base) == "builtins"
        if kind is MemberDescriptorType or is_pythons:
            with suppress(AttributeError):  # a slot that is empty
                yield held.__get__(one)
        elif held is not None and inspection.is_plain(held):
            yield held

"""Read what an exception holds besides its message, and what it was raised from.

What is read stands in `taxonomy/data/facts.toml`. As everywhere in the recorder no code of the
user's runs: see `inspection`. This module is loaded for the first exception that is more than a
plain assertion.
"""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from pytest_failure_taxonomy.recorder.inspection import (
    attribute_of,
    bases_of,
    body_of,
    cause_or_context_of,
    dotted_name_of,
    is_plain,
    module_of,
    says_plainly,
    text_of,
    traceback_of,
)
from pytest_failure_taxonomy.recorder.origin import (
    LIBRARIES,
    MAX_FRAMES,
    STANDARD_LIBRARY,
    entries_of,
    leaves_of,
    own_place_of,
    path_below_libraries,
    place_of,
)
from pytest_failure_taxonomy.recorder.requirements import distribution_with
from pytest_failure_taxonomy.report.text import cap_between_words
from pytest_failure_taxonomy.taxonomy.evidence import Fact, LinkedException, Location, RaisingFrame

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
_DEBUGGERS: Final = frozenset({"pdb.py", "bdb.py"})
_UNCAUGHT: Final = frozenset(
    {"pytest.PytestUnraisableExceptionWarning", "pytest.PytestUnhandledThreadExceptionWarning"}
)
_FIXTURES: Final = pytest.fixture.__code__.co_filename
_OF_FIXTURES: Final = {"pytest_fixture_setup": "fixturedef", "finish": "self"}
"""Functions of pytest that set a fixture up or tear it down, and where they have it."""
_OF_CLASSIC_SETUP: Final = ("_xunit_", "_unittest_")
"""How the fixtures are called that pytest makes of `setup_method`, `setUpClass` and the like."""


def facts_of(
    error: BaseException, bases: tuple[str, ...], frame: RaisingFrame | None, rootdir: Path
) -> tuple[Fact, ...]:
    """Return what the fields of an exception and the standard library's own frames say.

    Args:
        error: has been raised.
        bases: the dotted names of its classes.
        frame: the one that raised it, where that is known.
        rootdir: absolute.
    """
    facts: dict[str, str] = {}
    if not _WITH_FRAMES.isdisjoint(bases):
        _read_frames(error, facts, rootdir)
    for base in bases:
        for name, paths in _table()["fields"].get(base, {}).items():
            _add(facts, name, error, paths)
    if "command" in facts:
        facts["command"] = facts["command"].strip().partition(" ")[0]
    _split_url(facts)
    if "builtins.ModuleNotFoundError" in bases and "name" in facts:
        facts |= distribution_with(facts["name"], str(rootdir))
    if "builtins.Warning" in bases and frame is not None:
        facts["place"] = f"{frame.path}:{frame.line}"
    return _as_facts(facts)


def chain_of(error: BaseException, shown: object, rootdir: Path) -> tuple[LinkedException, ...]:
    """Return what an exception was raised from, or while it was handled, the nearest first.

    Args:
        error: has been raised.
        shown: what pytest has formatted; it has the texts of the whole chain.
        rootdir: absolute.
    """
    links: list[LinkedException] = []
    entries = attribute_of(shown, "chain")
    texts = iter(entries[-2::-1] if type(entries) is list else ())
    seen = {id(error)}
    is_uncaught = not _UNCAUGHT.isdisjoint(map(dotted_name_of, bases_of(type(error))))
    while len(links) < MAX_LINKS:
        linked, is_cause = cause_or_context_of(error)
        if linked is None:
            linked, texts = _behind(error), iter(())
        if linked is None or id(linked) in seen:
            break
        seen.add(id(linked))
        bases = tuple(map(dotted_name_of, bases_of(type(linked))[:-1]))
        crash = next(texts, (None, None))[1]
        formatted = "" if crash is None else str(crash.message)
        facts = facts_of(linked, bases, None, rootdir)
        place = place_of(linked, rootdir) if is_uncaught and not links else None
        links.append(
            LinkedException(
                bases=bases,
                message=cap_between_words(text_of(linked, formatted), _MAX_MESSAGE)
                if formatted or says_plainly(linked)
                else "",
                is_cause=is_cause,
                facts=facts if place is None else (*facts, Fact(name="place", text=_shown(place))),
            )
        )
        error = linked
    return tuple(links)


def fixture_of(error: BaseException) -> str | None:
    """Return the name of the fixture in whose setup or teardown an exception was raised.

    A fixture that is kept for several tests raises the same exception for each of them.
    """
    for entry in reversed(entries_of(traceback_of(error))):
        code = entry.tb_frame.f_code
        if code.co_filename == _FIXTURES and code.co_name in _OF_FIXTURES:
            found = attribute_of(entry.tb_frame.f_locals.get(_OF_FIXTURES[code.co_name]), "argname")
            is_written = type(found) is str and not found.startswith(_OF_CLASSIC_SETUP)
            return found if is_written else None
    return None


@cache
def _table() -> Mapping[str, Any]:
    text = pkgutil.get_data("pytest_failure_taxonomy.taxonomy", "data/facts.toml") or b""
    return tomllib.loads(text.decode())


def _behind(error: BaseException) -> BaseException | None:
    """Return what an exception holds instead of having been raised from it."""
    if issubclass(type(error), BaseExceptionGroup):
        return next(leaves_of(error), None)
    for base in bases_of(type(error)):
        path = _table()["behind"].get(dotted_name_of(base))
        found = None if path is None else _stored(error, path)
        if issubclass(type(found), BaseException):
            return found
    return None


def _read_frames(error: BaseException, facts: dict[str, str], rootdir: Path) -> None:
    """Add what the frames say that raised an exception and are a library's of the table."""
    is_of_library = True
    for entry in reversed(entries_of(traceback_of(error))[-MAX_FRAMES:]):
        frame, code = entry.tb_frame, entry.tb_frame.f_code
        file = _library_file(code.co_filename)
        if file in _DEBUGGERS:
            place = own_place_of(error, rootdir)
            if place is not None:
                facts["breakpoint"] = _shown(place)
            return
        is_of_library = is_of_library and file != ""
        wanted = _table()["frames"].get(file, {}).get(code.co_qualname, {})
        if is_of_library and wanted:
            module = file.removeprefix("site-packages/").removesuffix(".py")
            facts["raised_by"] = module.replace("/", ".")
            for name, path in wanted.items():
                variable, _, rest = path.partition(".")
                _add(facts, name, frame.f_locals.get(variable), rest)


@lru_cache(maxsize=1_000)
def _library_file(name: str) -> str:
    """Return the path of a file in the standard library or an installed one; else an empty text."""
    if name.startswith("<frozen "):
        return f"{name[8:-1].replace('.', '/')}.py"
    below = path_below_libraries(name)
    if len(below) < len(name) and not LIBRARIES.isdisjoint(name.replace("\\", "/").split("/")):
        return f"site-packages/{below}"
    return below[len(STANDARD_LIBRARY) :] if name.startswith(STANDARD_LIBRARY) else ""


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
        held: Any = body_of(base).get(name)
        kind: type = type(held)
        if kind is MemberDescriptorType or (
            kind is GetSetDescriptorType and module_of(base) == "builtins"
        ):
            with suppress(AttributeError):  # a slot that is empty
                yield held.__get__(one)
        elif held is not None and is_plain(held):
            yield held


def _split_url(facts: dict[str, str]) -> None:
    """Replace a URL by one without user, password and query, and add its host and port."""
    url = facts.pop("url", "")
    if url and facts.get("filename") == url:  # of urllib, which derives its error from OSError
        del facts["filename"]
    netloc = facts.pop("netloc", "")
    with suppress(ValueError):
        parts = urlsplit(url or f"//{netloc}")
        host = parts.hostname or ""
        port = parts.port
        if url and host:
            shown = f"[{host}]" if ":" in host else host
            at = shown if port is None else f"{shown}:{port}"
            facts["url"] = f"{parts.scheme}://{at}{parts.path}"
        if host:
            facts.setdefault("host", host)
        if port is not None:
            facts.setdefault("port", str(port))


def _shown(place: Location) -> str:
    return f"{place.path}:{place.line}"


def _as_facts(facts: Mapping[str, str]) -> tuple[Fact, ...]:
    return tuple(Fact(name=name, text=text) for name, text in facts.items())

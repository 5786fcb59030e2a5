"""Find what tests leave behind, and put it back.

A snapshot is taken in the process that runs the tests, before and after some of them. None of the
user's code runs meanwhile: objects are told apart by identity, and only what is made of Python's
own scalars and containers is compared by value and shown. Attributes are read as in
`recorder/inspection.py`. What a snapshot holds stays alive as long as the snapshot does, so an
identity is never used twice.

`_PARTS` is the table of everything but attributes: how it is called, read and put back.
"""

from __future__ import annotations

import decimal
import functools
import gc
import locale
import logging
import os
import pickle
import random
import re
import signal
import sys
import threading
import time
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import copy_context
from itertools import islice
from pathlib import Path
from types import BuiltinFunctionType, CellType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.recorder import origin
from pytest_failure_taxonomy.recorder.inspection import (
    attribute_of,
    bases_of,
    body_of,
    dotted_name_of,
    module_of,
    own_names_of,
)
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.taxonomy.values import value

# A test may have replaced functions in these modules; ours are to be the real ones.
gc, locale, os, random, signal = map(isolate_module, (gc, locale, os, random, signal))

_MISSING: Final = object()
_DEEPEST: Final = 4
"""Attributes of attributes, and containers in containers."""
_MOST_IN_ONE: Final = 2_000
"""Elements of a container that are compared; of a larger one its length is."""
_MOST_LOOKED_INTO: Final = 200
"""Elements of a container whose own attributes are compared."""
_MOST_ELEMENTS: Final = 200_000
"""Attributes and elements of the project's that are compared in all."""
_MOST_FILES: Final = 10_000
_MOST_SHOWN: Final = 80
"""Characters of a value."""
_MOST_SEARCHED: Final = 20_000
"""Characters of a value that are searched for secrets."""

_IGNORED: Final = frozenset(
    {
        # Python computes these when they are asked for.
        *("__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__"),
        *("__abstractmethods__", "__builtins__", "__doc__", "__warningregistry__"),
        # To load a module again replaces these as well.
        *("__cached__", "__loader__", "__spec__"),
        # pytest and unittest note here which failure was the last one.
        *("last_exc", "last_type", "last_value", "last_traceback"),
        *("_classSetupFailed", "tearDown_exceptions"),
        # These have rows of their own.
        *("_event_loop_policy", "altzone", "daylight", "timezone", "tzname"),
    }
)
_PLAIN: Final = frozenset(map(id, (str, int, float, bool, bytes, complex, type(None))))
"""The ids of types, for a metaclass may have a `__hash__` of its own."""
_CONTAINERS: Final[tuple[tuple[Any, str], ...]] = (
    *((list, "extend"), (deque, "extend"), (bytearray, "extend")),
    *((set, "update"), (OrderedDict, "update"), (dict, "update")),
    *((tuple, ""), (frozenset, "")),
)
"""Types, subclasses first, each with the method that fills an empty one."""
_CACHE: Final = type(functools.lru_cache(lambda: None))
_BETWEEN_ITEMS: Final = re.compile(r", | with \{")
_IDENTITY: Final = re.compile("\0[^\0]*\0")
"""Stands in a text of `_text` behind a name; it tells objects apart and isn't shown."""


@value
class Difference:
    """Something that is not as it was."""

    key: str
    """The same in every process."""
    text: str
    """For people, without secrets."""
    can_be_put_back: bool


class _Kept(list[tuple[Any, Any]]):
    """The containers in a value with copies of what they held; `_MISSING` if there is no copy."""

    elements_left = 20_000


class _Holder(NamedTuple):
    """A module, a class or an instance, with what it holds."""

    path: str
    """Its name with dots, behind `module:` for the project's or `library:` for others."""
    one: Any
    names: dict[str, Any]


class Snapshot(NamedTuple):
    """What was found in a process at one moment."""

    parts: dict[str, Mapping[str, Any]]
    """Of each row of `_PARTS`."""
    holders: dict[int, _Holder]
    """By their ids, as the next."""
    contents: dict[int, tuple[str, _Kept]]
    """Of what can change without being replaced."""


def take(project: Path, modules: Iterable[ModuleType] = ()) -> Snapshot:
    """Return the state of this process.

    Args:
        project: pytest's root directory.
        modules: those of the project that may not be in `sys.modules`, such as a `conftest.py`.
    """
    walk = _Walk(project)
    walk.walk_modules(modules)
    parts: dict[str, Mapping[str, Any]] = {part.name: {} for part in _PARTS}
    for part in _PARTS:
        with suppress(Exception):  # the working directory may have gone, a module be broken
            parts[part.name] = part.take(project)
    return Snapshot(parts=parts, holders=walk.holders, contents=walk.contents)


def differences(
    before: Snapshot, after: Snapshot, redact: Callable[[str], str]
) -> tuple[Difference, ...]:
    """Return what has changed between two snapshots of a process, likely culprits first.

    Args:
        before: taken earlier.
        after: taken later.
        redact: removes secrets from a text.
    """
    found = [*_changed_attributes(before, after, redact)]
    for rank, part in enumerate(_PARTS):
        for name, was, now in _changed(before.parts[part.name], after.parts[part.name]):
            # Of what there is always one, nothing was known before a library was imported.
            if name or was is not None:
                key = f"{part.name}:{name}" if name else part.name
                # A context variable that has a value never loses it.
                is_fixed = part.name == "contextvar" and was is _MISSING
                text = part.say(redact(name), was, now, redact)
                found.append((rank, key, text, part.put_back is not None and not is_fixed))
    return tuple(
        Difference(key=key, text=text, can_be_put_back=can_be_put_back)
        for _, key, text, can_be_put_back in sorted(found, key=lambda each: each[0])
    )


def put_back(before: Snapshot, keys: Collection[str]) -> tuple[str, ...]:
    """Make things what they were, and return the keys of those for which that failed."""
    failed = []
    parts = {part.name: part for part in _PARTS}
    holders = {holder.path: holder for holder in before.holders.values()}
    for key in keys:
        part, _, name = key.partition(":")
        path, _, attribute = key.rpartition(".")
        try:
            if part in ("module", "library"):
                _put_attribute_back(holders[path], attribute, before.contents)
            elif put := parts[part].put_back:
                put(name, before.parts[part].get(name, _MISSING))
            else:
                failed.append(key)
        except Exception:  # noqa: BLE001 - whatever the system says of it
            failed.append(key)
    return tuple(failed)


def changed_files(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return words for the files that were added, changed or removed, from two `take_files`."""
    part = next(part for part in _PARTS if part.name == "file")
    return tuple(part.say(name, was, now, str) for name, was, now in _changed(before, after))


def take_files(project: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the project's files, by their paths, without caches and the like."""
    found: dict[str, tuple[int, int]] = {}
    folders = [""]
    while folders and len(found) < _MOST_FILES:
        below = folders.pop()
        with suppress(OSError), os.scandir(os.path.join(project, below)) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
            for entry in inside if all(entry.name != "pyvenv.cfg" for entry in inside) else ():
                path = os.path.join(below, entry.name).replace(os.sep, "/")
                if not entry.is_dir(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found[path] = status.st_size, status.st_mtime_ns
                elif not (entry.name in _NO_FOLDERS or entry.name.startswith(".")):
                    folders.append(path)
    return found


_NO_FOLDERS: Final = origin.NOT_SOURCES | {"__pycache__", "node_modules"}


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    # Where only some files were read, others have not come or gone.
    is_cut = max(len(before), len(after)) >= _MOST_FILES
    for name in sorted(before.keys() & after.keys() if is_cut else before.keys() | after.keys()):
        was, now = before.get(name, _MISSING), after.get(name, _MISSING)
        if was is not now and _text(was) != _text(now):
            yield name, was, now


# Attributes of modules, classes and instances.


class _Walk:
    """Go through the modules, to the classes and instances that they hold."""

    def __init__(self, project: Path) -> None:
        self.holders: dict[int, _Holder] = {}
        self.contents: dict[int, tuple[str, _Kept]] = {}
        self._finder = origin.OriginFinder(project)
        self._own: set[str] = set()
        """The names of the project's modules."""
        self._elements_left = _MOST_ELEMENTS

    def walk_modules(self, others: Iterable[ModuleType]) -> None:
        libraries, own = [], []
        named: list[tuple[Any, Any]] = list(sys.modules.items())
        imported = {id(module) for _, module in named}
        named += [(None, module) for module in others if id(module) not in imported]
        for key, module in named:
            if not issubclass(type(module), ModuleType) or key == "__main__":
                continue
            names = _names_in(module)
            file = names.get("__file__")
            found = self._finder.file(file, names) if type(file) is str else None
            path = found.path.removesuffix(".py").replace("/", ".") if found else "?"
            name = key if type(key) is str else path
            if found is not None and found.owner == origin.OWN:
                own.append((name, module))
                self._own.add(origin.module_name_in(names))
            elif (found is None or found.owner != origin.RUNNER) and not _is_of_runner(name):
                libraries.append((name, module, names))
        # What several modules hold is reported where it was made rather than where it is imported.
        for name, module in sorted(own, key=lambda one: (_is_of_tests(one[0]), -one[0].count("."))):
            self._walk(f"module:{name}", module, 0)
        for name, module, names in libraries:
            self._note(f"library:{name}", module, names)
            for inner, one in names.items():
                if issubclass(type(one), type) and body_of(one).get("__module__") == name:
                    self._note(f"library:{name}.{inner}", one, _names_in(one))

    def _note(self, path: str, one: Any, names: dict[str, Any]) -> None:
        self.holders.setdefault(id(one), _Holder(path, one, names))

    def _walk(self, path: str, one: Any, depth: int) -> None:
        if id(one) in self.holders or depth > _DEEPEST or self._elements_left <= 0:
            return
        names = _names_in(one)
        self._note(path, one, names)
        self._elements_left -= len(names)
        for name, held in names.items():
            if id(type(held)) in _PLAIN or name in _IGNORED or _keeps_nothing(held):
                continue
            if id(held) not in self.contents:
                kept = _Kept()
                text = _text(held, kept)
                if kept:
                    self.contents[id(held)] = text, kept
                    self._elements_left -= _Kept.elements_left - kept.elements_left
            for label, inner in (("", held), *islice(_elements_of(held), _MOST_LOOKED_INTO)):
                if self._is_looked_into(inner, one, depth, is_element=bool(label)):
                    self._walk(f"{path}.{name}{label}", inner, depth + 1)

    def _is_looked_into(self, one: Any, holder: Any, depth: int, *, is_element: bool) -> bool:
        kind, module = type(one), module_of(type(one))
        is_in_class = issubclass(type(holder), type)
        if issubclass(kind, type):
            home = module_of(holder) if is_in_class else attribute_of(holder, "__name__")
            return module_of(one) == home and not is_element
        # Of others' instances, those that a module or a class holds: an application, a session.
        is_held = (depth == 0 or is_in_class) and not is_element
        is_other = module == "builtins" or issubclass(kind, logging.Logger)
        return module in self._own or (is_held and not is_other and not _is_of_runner(module))


def _is_of_tests(module: str) -> bool:
    parts = module.split(".")
    return any(part in ("conftest", "test", "tests") or part.startswith("test_") for part in parts)


def _is_of_runner(module: str) -> bool:
    """Tell whether a module is pytest's or a plugin's, which keep what they know of each test."""
    # Hypothesis notes how long the garbage collector takes.
    package = module.partition(".")[0]
    return package in origin.RUNNERS or package == "hypothesis" or module.startswith("pytest_")


def _elements_of(one: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield what lists and dicts hold, also those in them, with where it is found."""
    kind = type(one)
    pairs: Iterable[tuple[Any, Any]] = ()
    if issubclass(kind, dict):
        pairs = list(islice(dict.items(one), _MOST_LOOKED_INTO))
    elif issubclass(kind, (list, tuple)):
        pairs = enumerate(list.__iter__(one) if issubclass(kind, list) else tuple.__iter__(one))
    for number, (key, inner) in enumerate(pairs if depth <= _DEEPEST else ()):
        is_named = id(type(key)) in _PLAIN or issubclass(type(key), type)
        inner_path = f"{path}[{_IDENTITY.sub('', _text(key)) if is_named else f'#{number}'}]"
        yield inner_path, inner
        yield from _elements_of(inner, inner_path, depth + 1)


def _names_in(one: Any) -> dict[str, Any]:
    """Return what a module, a class or an instance holds by name."""
    kind = type(one)
    if issubclass(kind, type):
        own = list(body_of(one).items())
    else:
        own = list(_dict_of(one).items())
        for name, slot in _slots_of(kind).items():
            with suppress(AttributeError):  # nothing was assigned to it
                own.append((name, slot.__get__(one)))
    return {name: held for name, held in own if type(name) is str}


def _dict_of(one: Any) -> dict[str, Any]:
    # The first look of a thread at one of the user's own classes would call its `__init__`.
    kind = type(one)
    if issubclass(kind, threading.local) and module_of(kind) in ("_thread", "asyncio.events"):
        names: dict[str, Any] = threading.local.__getattribute__(one, "__dict__")
        return names
    return own_names_of(one)


def _slots_of(kind: type) -> dict[str, MemberDescriptorType]:
    return {
        name: slot
        for base in bases_of(kind)
        for name, slot in list(body_of(base).items())
        if type(slot) is MemberDescriptorType and not name.startswith("__")
    }


def _changed_attributes(
    before: Snapshot, after: Snapshot, redact: Callable[[str], str]
) -> Iterator[tuple[float, str, str, bool]]:
    reported: set[int] = set()
    for place, new in after.holders.items():
        old = before.holders.get(place)
        if old is None:
            continue
        part, _, shown = old.path.partition(":")
        for name in [*new.names, *(name for name in old.names if name not in new.names)]:
            was, now = old.names.get(name, _MISSING), new.names.get(name, _MISSING)
            contents = before.contents.get(id(was)), after.contents.get(id(now))
            if was is now and contents[1] and type(now) is FunctionType:
                contents = contents[0] or (_name_of(now), _Kept()), contents[1]
            if name in _IGNORED or (was is now and (None in contents or id(now) in reported)):
                continue
            # Of a function that was replaced, what it kept doesn't matter.
            was_text, now_text = (
                content[0]
                if content and not (_is_function(type(one)) and was is not now)
                else _text(one, depth=1)
                for one, content in zip((was, now), contents, strict=True)
            )
            # That a package got an attribute for a module is part of the import.
            if was_text == now_text or (was is _MISSING and issubclass(type(now), ModuleType)):
                continue
            reported.add(id(now))
            rank: float = _RANK_OF_LIBRARIES
            if part == "module":
                rank = -1 if _is_of_tests(shown) else -2
            _, kept = contents[0] or ("", ())
            text = _change(f"{shown}.{name}", was_text, now_text, redact)
            can_be_put_back = was is not now or all(copy is not _MISSING for _, copy in kept)
            yield rank, f"{old.path}.{name}", text, can_be_put_back


def _put_attribute_back(
    holder: _Holder, name: str, contents: Mapping[int, tuple[str, _Kept]]
) -> None:
    was = holder.names.get(name, _MISSING)
    _set(holder.one, name, was)
    text, kept = contents.get(id(was), ("", ()))
    if type(was) is FunctionType and not kept:
        was.__dict__.clear()
    for container, copy in kept:
        if type(container) is _CACHE:
            _CACHE.cache_clear(container)
        elif type(container) is CellType:
            container.cell_contents = copy
        elif copy is not _MISSING:
            base, fill = _base_of(type(container))
            base.clear(container)
            if base is OrderedDict:  # its `update` would call a `__setitem__` of the user's
                for key, inner in copy.items():
                    base.__setitem__(container, key, inner)
            else:
                getattr(base, fill)(container, copy)
        elif _text(was) != text:
            raise ValueError


def _set(one: Any, name: str, was: Any) -> None:
    if issubclass(type(one), type):
        if was is _MISSING:
            type.__delattr__(one, name)
        elif body_of(one).get(name, _MISSING) is not was:
            type.__setattr__(one, name, was)
    elif slot := _slots_of(type(one)).get(name):
        slot.__delete__(one) if was is _MISSING else slot.__set__(one, was)
    else:
        _put_item(_dict_of(one), name, was)


def _put_item(items: Any, name: str, was: Any) -> None:
    if was is _MISSING:
        items.pop(name, None)
    else:
        items[name] = was


# What a value is compared and shown by.


def _text(one: Any, kept: _Kept | None = None, depth: int = 0) -> str:
    """Return a value in Python's words, of any other object its type and identity.

    Args:
        one: any object.
        kept: gets the containers in it that can be filled again as they were.
        depth: how many containers it lies in.
    """
    kept = _Kept() if kept is None else kept
    kind = type(one)
    if id(kind) in _PLAIN:
        if kind in (str, bytes) and len(one) > _MOST_SEARCHED:
            return f"{one[:_MOST_SEARCHED]!r}\0{hash(one)}\0"
        is_large = kind is int and one.bit_length() > _MOST_SEARCHED / 2
        return hex(one) if is_large else repr(one)  # Python refuses to write so many digits
    if kind is staticmethod or kind is classmethod or kind is property:
        return _text(one.fget if kind is property else one.__func__, kept, depth)
    base, fill = _base_of(kind)
    if base is None:
        return _text_of_object(one, kept, depth)
    name, length = dotted_name_of(kind).removeprefix("builtins."), base.__len__(one)
    kept.elements_left -= length
    if length > _MOST_IN_ONE or depth > _DEEPEST or kept.elements_left < 0:
        kept.append((one, _MISSING))
        return f"{name} with {length} elements"
    if fill:
        kept.append((one, _copy_of(one, base)))
    if issubclass(base, dict):
        pairs = list(dict.items(one))
        texts = [f"{_text(k, kept, depth + 1)}: {_text(v, kept, depth + 1)}" for k, v in pairs]
    else:
        texts = [_text(inner, kept, depth + 1) for inner in base.__iter__(one)]
    is_ordered = issubclass(base, (list, tuple, deque, bytearray))
    opening, closing = "()" if base is tuple else "{}" if issubclass(base, dict) else "[]"
    text = f"{opening}{', '.join(texts if is_ordered else sorted(texts))}{closing}"
    return text if kind in (list, dict, tuple) else f"{name}({text})"


def _text_of_object(one: Any, kept: _Kept, depth: int) -> str:
    text = _name_of(one)
    kind = type(one)
    if depth or (kind is not FunctionType and kind is not _CACHE) or _is_of_runner(text[13:]):
        return text
    if kind is _CACHE:
        cached = _CACHE.cache_info(one)
        kept.append((one, ()))
        # Misses tell of results that have taken the place of others.
        return f"{text} with a cache of {cached.currsize}\0{cached.misses}\0"
    # What a function keeps between calls: in attributes, in its defaults, in its closure.
    kept.append((one.__dict__, dict(one.__dict__)))
    names, defaults = one.__code__.co_varnames[: one.__code__.co_argcount], one.__defaults__ or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    given |= one.__kwdefaults__ or {}
    held = {name: default for name, default in given.items() if id(type(default)) not in _PLAIN}
    held |= one.__dict__
    for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is empty
            held[name] = cell.cell_contents
            kept.append((cell, held[name]))
    return f"{text} with {_text(held, kept, 1)}" if held else text


def _is_function(kind: type) -> bool:
    return kind is FunctionType or kind is BuiltinFunctionType or kind is _CACHE


def _keeps_nothing(one: Any) -> bool:
    """Tell whether it is a function like most, which has nothing that could change in place."""
    return (
        type(one) is FunctionType
        and not (one.__closure__ or one.__dict__ or one.__kwdefaults__)
        and all(id(type(default)) in _PLAIN for default in one.__defaults__ or ())
    )


def _name_of(one: Any) -> str:
    """Return how an object is called, with its identity."""
    kind = type(one)
    if _is_function(kind):
        names = (one.__module__, one.__qualname__)
        text = f"the function {'.'.join(name if type(name) is str else '?' for name in names)}"
    elif issubclass(kind, type):
        text = f"the class {dotted_name_of(one)}"
    elif issubclass(kind, ModuleType):
        name = attribute_of(one, "__name__")
        text = f"the module {name if type(name) is str else '?'}"
    else:
        text = f"an object of {dotted_name_of(kind)}"
    return f"{text}\0{id(one)}\0"


def _base_of(kind: type) -> tuple[Any, str]:
    return next((row for row in _CONTAINERS if issubclass(kind, row[0])), (None, ""))


def _copy_of(one: Any, base: Any) -> Any:
    """Return a copy of a container, made without a method or a `__hash__` of the user's."""
    if base is set:
        return set(one)
    if not issubclass(base, dict):
        return [*base.__iter__(one)]
    if type(one) is dict or type(one) is defaultdict:
        return dict.copy(one)
    pairs = list(dict.items(one))
    return dict(pairs) if all(id(type(key)) in _PLAIN for key, _ in pairs) else _MISSING


def _change(subject: str, was: str, now: str, redact: Callable[[str], str]) -> str:
    """Return what something is and what it was, to stand behind "the test leaves"."""
    start = f"{subject} = "  # the name of a value may tell that it is a secret
    texts = []
    for text in (was, now):
        redacted = redact(start + _IDENTITY.sub("", text)[:_MOST_SEARCHED])
        texts.append(redacted.removeprefix(start))
    if max(map(len, texts)) > _MOST_SHOWN and was[0] == now[0] and was[0] not in "'\"b":
        items = [_BETWEEN_ITEMS.split(text.strip("[]{}()")) for text in texts]
        changes = []
        for word, some, others in (("added", items[1], items[0]), ("removed", *items)):
            known = set(others)
            rest = ", ".join(item for item in some if item not in known)
            changes += [f"{_shortened(rest)} {word}"] if rest else []
        if changes:
            return f"{subject} with {' and '.join(changes)}"
    was_text, now_text = map(_shortened, texts)
    if now == _NOTHING:
        return f"{subject} removed (was {was_text})"
    if was == _NOTHING:
        return f"{subject} = {now_text} (was not set)"
    if was_text == now_text:
        return f"{subject} = another {now_text.removeprefix('the ').removeprefix('an ')}"
    return f"{subject} = {now_text} (was {was_text})"


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


_NOTHING: Final = _text(_MISSING)


# Everything but attributes.


class _Part(NamedTuple):
    """A row of the table."""

    name: str
    """The start of its keys."""
    words: str
    """What a difference is about; `{}` stands for its name."""
    take: Callable[[Path], Mapping[str, Any]]
    put_back: Callable[[str, Any], object] | None = None
    """Makes it what it was, or removes it where that is `_MISSING`."""
    acts: tuple[str, str, str] | None = None
    """What happened where values are not shown: it was added, removed, changed."""

    def say(self, name: str, was: Any, now: Any, redact: Callable[[str], str]) -> str:
        """Return a difference in words."""
        subject = self.words.format(name)
        if self.acts is None:
            return _change(subject, _text(was), _text(now), redact)
        return f"{subject} {self.acts[0 if was is _MISSING else 1 if now is _MISSING else 2]}"


def _single(
    name: str,
    words: str,
    take: Callable[[], Any],
    put: Callable[[Any], object],
    acts: tuple[str, str, str] | None = None,
) -> _Part:
    """Return the row of what there is one of; its name is empty."""
    return _Part(name, words, lambda _: {"": take()}, lambda _, was: put(was), acts)


def _put_time_zone(was: Any) -> None:
    _put_item(os.environ, "TZ", was[0])
    time.tzset()


def _take_umask() -> str:
    mask = os.umask(0)
    os.umask(mask)
    return oct(mask)


def _put_filters(was: Any) -> None:
    warnings.filters[:] = was  # type: ignore[index]  # typeshed promises a sequence only
    with warnings.catch_warnings():  # its end tells Python that the filters have changed
        pass


# A logger as it is made. What is still like that is left out: loggers are made all the time.
_LOGGER: Final = {"level": 0, "disabled": False, "propagate": True, "handlers": [], "filters": []}


def _loggers() -> dict[str, Any]:
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    return {name: one for name, one in loggers.items() if issubclass(type(one), logging.Logger)}


def _take_logging(_: Path) -> Mapping[str, Any]:
    found: dict[str, Any] = {"disable": logging.root.manager.disable}
    for path, logger in _loggers().items():
        for name, default in _LOGGER.items():
            held = attribute_of(logger, name, default)
            if _text(held) != _text(default):
                found[f"{path}.{name}"] = list(held) if type(held) is list else held
    return found


def _put_logging(name: str, was: Any) -> None:
    path, _, attribute = name.rpartition(".")
    if path:
        held = _LOGGER[attribute] if was is _MISSING else was
        own_names_of(_loggers()[path])[attribute] = list(held) if type(held) is list else held
    # This makes loggers forget for which levels they were enabled, too.
    logging.disable(logging.root.manager.disable if path else was)


def _asyncio() -> tuple[Any, dict[str, Any]]:
    """Return asyncio's policy, if there is one yet, and its notes on the loop of this thread."""
    policy = attribute_of(sys.modules.get("asyncio.events"), "_event_loop_policy")
    return policy, _dict_of(attribute_of(policy, "_local"))


def _take_loop() -> tuple[Any, ...]:
    policy, names = _asyncio()
    # One of asyncio's own is made when it is asked for.
    is_own = module_of(type(policy)).startswith("asyncio.")
    loop = names.get("_loop")
    is_closed = attribute_of(loop, "_closed")
    return None if is_own else policy, loop, names.get("_set_called", False), is_closed


def _put_loop(was: Any) -> None:
    policy, loop, is_set, is_closed = was
    if policy is not _take_loop()[0]:
        own_names_of(sys.modules["asyncio.events"])["_event_loop_policy"] = policy
    if attribute_of(loop, "_closed") != is_closed:
        raise ValueError
    _asyncio()[1].update(_loop=loop, _set_called=is_set)


def _take_decimal() -> bytes:
    context = decimal.getcontext().copy()
    context.clear_flags()  # which every second calculation sets
    return pickle.dumps(context)


def _put_module(name: str, was: Any) -> None:
    _put_item(sys.modules, name, was)
    package, _, last = name.rpartition(".")
    names = own_names_of(sys.modules.get(package))
    if issubclass(type(names.get(last)), ModuleType):
        _put_item(names, last, was)


def _numpy_random() -> Any:
    return attribute_of(sys.modules.get("numpy.random.mtrand"), "_rand")


def _take_descriptors(_: Path) -> Mapping[str, Any]:
    found: dict[str, int] = {}
    folder = "/proc/self/fd"
    for number in os.listdir(folder) if os.path.isdir(folder) else ():
        with suppress(OSError):  # it was the one of this very listing
            target = os.readlink(f"{folder}/{number}")
            found[target] = found.get(target, 0) + 1
    return found


_CURRENT_TEST: Final = "PYTEST_CURRENT_TEST"
_ALL: Final = slice(None)
_set_locale: Final = functools.partial(locale.setlocale, locale.LC_ALL)
_CHANGED: Final = ("set", "removed", "changed")
_PARTS: Final = (
    _Part(
        "environment",
        "the environment variable {}",
        lambda _: {name: held for name, held in os.environ.items() if name != _CURRENT_TEST},
        lambda name, was: _put_item(os.environ, name, was),
        ("set", "removed", "changed"),
    ),
    _single("directory", "the working directory", os.getcwd, os.chdir),
    _single(
        "timezone",
        "the time zone",
        lambda: (os.environ.get("TZ", _MISSING), *time.tzname, time.timezone),
        _put_time_zone,
        _CHANGED,
    ),
    _single("locale", "the locale", _set_locale, _set_locale),
    _Part("logging", "the logging setting {}", _take_logging, _put_logging),
    _single("warnings", "warnings.filters", lambda: [*warnings.filters], _put_filters),
    _single("path", "sys.path", lambda: [*sys.path], lambda was: sys.path.__setitem__(_ALL, was)),
    _Part(
        "signal",
        "the handler of {}",
        lambda _: {getattr(n, "name", str(n)): signal.getsignal(n) for n in signal.valid_signals()},
        lambda name, was: signal.signal(getattr(signal, name, None) or int(name), was),
        _CHANGED,
    ),
    _single("loop", "asyncio's policy or its current event loop", _take_loop, _put_loop, _CHANGED),
    _Part(
        "contextvar",
        "the context variable {}",
        lambda _: {v.name: one for v, one in copy_context().items() if v.name != "decimal_context"},
        lambda name, was: next(var for var in copy_context() if var.name == name).set(was),
    ),
    _single(
        "decimal",
        "the decimal context",
        _take_decimal,
        lambda was: decimal.setcontext(pickle.loads(was)),  # noqa: S301 - our own bytes
        _CHANGED,
    ),
    _single("umask", "the umask", _take_umask, lambda was: os.umask(int(was, 8))),
    _single("recursion", "the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    _single("gc", "gc.isenabled()", gc.isenabled, lambda was: gc.enable() if was else gc.disable()),
    # From here on, tests leave something behind that seldom makes another one fail.
    _Part(
        "imported",
        "the module {}",
        lambda _: {
            name: one
            for name, one in list(sys.modules.items())
            if type(name) is str and not _is_of_runner(name)
        },
        _put_module,
        ("imported", "removed from sys.modules", "replaced in sys.modules"),
    ),
    _single("random", "the state of random", random.getstate, random.setstate, _CHANGED),
    _single(
        "numpy.random",
        "the state of numpy.random",
        lambda: (generator := _numpy_random()) and pickle.dumps(generator.get_state()),
        lambda was: _numpy_random().set_state(pickle.loads(was)),  # noqa: S301 - our own bytes
        _CHANGED,
    ),
    _Part(
        "thread",
        "the thread {}",
        lambda _: {str(attribute_of(one, "_name")): one for one in threading.enumerate()},
        None,
        ("running", "ended", "replaced"),
    ),
    _Part(
        "descriptor",
        "the descriptor of {}",
        _take_descriptors,
        None,
        ("open", "closed", "open more or less often"),
    ),
    _Part("file", "the file {}", take_files, None, ("added", "removed", "changed")),
)
_RANK_OF_LIBRARIES: Final = [part.name for part in _PARTS].index("imported") - 0.5

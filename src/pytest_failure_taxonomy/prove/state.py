"""Find what tests leave behind, and put it back.

A snapshot is taken in the process that runs the tests, before and after some of them. None of the
user's code runs meanwhile: objects are told apart by identity, and only what is made of Python's
own scalars and containers is compared by value and shown. Attributes are read as in
`recorder/inspection.py`. What a snapshot holds stays alive as long as the snapshot does, so an
identity is never used twice.

All state has a name in a source: an attribute in a module, class, instance or function, a variable
in the environment. `_LIKELY` and `_UNLIKELY` are the tables of the sources that are no objects.
"""

from __future__ import annotations

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
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.recorder import origin
from pytest_failure_taxonomy.recorder.inspection import (
    attribute_of,
    body_of,
    dotted_name_of,
    module_of,
    own_names_of,
)
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.taxonomy import packaged_table

# A test may have replaced functions in these modules; ours are to be the real ones.
locale, os, random, signal = map(isolate_module, (locale, os, random, signal))

_MISSING: Final = object()
_DEEPEST: Final = 6
"""Attributes of attributes, and containers in containers."""
_MOST_ELEMENTS: Final = 5_000
"""Elements of a container, and of those in it, that are compared; of the others the lengths are."""
_MOST_LOOKED_INTO: Final = 200
"""Elements of a container whose own attributes are compared."""
_MOST_OBJECTS: Final = 200_000
"""Attributes and elements of the project's that are looked at in all."""
_MOST_FILES: Final = 10_000
_MOST_SHOWN: Final = 80
"""Characters of a value."""
_MOST_SEARCHED: Final = 20_000
"""Characters of a value that are searched for secrets."""

_IGNORED: Final = frozenset(packaged_table("experiments")["no_state"]["names"])
_PLAIN: Final = frozenset(map(id, (str, int, float, bool, bytes, complex, type(None))))
"""The ids of types, for a metaclass may have a `__hash__` of its own."""
_CONTAINERS: Final[tuple[tuple[Any, Any], ...]] = (
    *((list, list.append), (deque, deque.append), (bytearray, bytearray.append), (set, set.add)),
    *((OrderedDict, OrderedDict.__setitem__), (dict, dict.__setitem__)),
    *((tuple, None), (frozenset, None)),
)
"""Types, subclasses first, each with what adds an element."""
_CACHE: Final = type(lru_cache(lambda: None))
_IDENTITY: Final = re.compile("\0[^\0]*\0")
"""Stands in a text of a value behind a name; it tells objects apart and isn't shown."""


class Difference(NamedTuple):
    """Something that is not as it was."""

    key: str
    """The same in every process."""
    text: str
    """For people, without secrets."""
    can_be_put_back: bool


class _Source(NamedTuple):
    """Where state is found by name."""

    key: str
    """The start of the keys of differences; of the project's objects `module:`, then their path."""
    words: str
    """The start of what is said of a difference."""
    take: Callable[[], Mapping[str, Any]]
    put: Callable[[str, Any], object] | None = None
    """Makes what has a name what it was, or removes it where that is `_MISSING`."""
    acts: tuple[str, str, str] | None = None
    """What happened where values are not shown: it was added, removed, changed."""


class Snapshot:
    """The state of this process at one moment.

    Attributes:
        sources: what there is by name in each, likely culprits first. They are known by the ids of
            objects, and by their keys.
        contents: of containers, which change without being replaced, by the ids of these.
    """

    def __init__(self, project: Path, modules: Iterable[ModuleType] = ()) -> None:
        """Look at everything.

        Args:
            project: pytest's root directory.
            modules: those of the project that may not be in `sys.modules`, such as a `conftest.py`.
        """
        self.sources: dict[int | str, tuple[_Source, Mapping[str, Any]]] = {}
        self.contents: dict[int, _Content] = {}
        self._own: set[str] = set()
        """The names of the project's modules."""
        self._seen: set[int] = set()
        self._objects_left = _MOST_OBJECTS
        own, libraries = self._find_modules(project, modules)
        for name, module in own:
            self._walk(name, module, origin.module_name_in(own_names_of(module)))
        for source in _LIKELY:
            self._add(source.key, source)
        for name, module in libraries:
            for inner, one in self._add_object("library", name, module).items():
                if issubclass(type(one), type) and body_of(one).get("__module__") == name:
                    self._add_object("library", f"{name}.{inner}", one)
        for source in (*_UNLIKELY, _files(project)):
            self._add(source.key, source)

    def content_of(self, one: Any) -> _Content:
        """Return what was in a container, or else what is known of a value at any moment."""
        return self.contents.get(id(one)) or _Content(one)

    def _find_modules(
        self, project: Path, others: Iterable[ModuleType]
    ) -> tuple[list[tuple[str, ModuleType]], list[tuple[str, ModuleType]]]:
        """Return the project's modules and the libraries', each with its name."""
        finder = origin.OriginFinder(project)
        own, libraries = [], []
        named: list[tuple[Any, Any]] = [*sys.modules.items(), *((None, one) for one in others)]
        for key, module in named:
            if not issubclass(type(module), ModuleType) or key == "__main__":
                continue
            names = own_names_of(module)
            file, owner, path = names.get("__file__"), origin.FOREIGN, "?"
            if type(file) is str:
                owner, path, _ = finder.file(file, names)
            name = key if type(key) is str else path.removesuffix(".py").replace("/", ".")
            if owner == origin.OWN:
                own.append((name, module))
                self._own.add(origin.module_name_in(names))
            elif owner == origin.FOREIGN and not _is_of_runner(name):
                libraries.append((name, module))
        # What several modules hold is reported where it was made rather than where it is imported.
        return sorted(own, key=lambda one: (_is_of_tests(one[0]), -one[0].count("."))), libraries

    def _add(self, place: int | str, source: _Source) -> Mapping[str, Any]:
        names: Mapping[str, Any] = {}
        with suppress(Exception):  # there is no `/proc` here, or a module is broken
            names = source.take()
        return self.sources.setdefault(place, (source, names))[1]

    def _add_object(self, sort: str, path: str, one: Any) -> Mapping[str, Any]:
        takes, puts = partial(_names_in, one), partial(_put_attribute, one)
        return self._add(id(one), _Source(f"{sort}:{path}.", f"{path}.", takes, puts))

    def _walk(
        self, path: str, one: Any, home: str, *, depth: int = 0, is_held: bool = False
    ) -> None:
        """Go on to what an object holds by name, and to what is in lists and dicts.

        Args:
            path: where it was found.
            one: the object.
            home: the module in which the walk began.
            depth: how many steps ago that was.
            is_held: whether a module or a class holds it by name.
        """
        self._objects_left -= 1
        if id(one) in self._seen or depth > _DEEPEST or self._objects_left < 0:
            return
        self._seen.add(id(one))
        inner = [(f"{path}{label}", held, False) for label, held in _elements_of(one)]
        if depth == 0 or self._is_looked_into(one, home, is_held=is_held):
            is_holder = issubclass(type(one), (type, ModuleType))
            for name, held in self._add_object("module", path, one).items():
                inner.append((f"{path}.{name}", _unwrapped(held), is_holder))
                if _base_of(type(held))[0] is not None and id(held) not in self.contents:
                    self.contents[id(held)] = _Content(held)
        for inner_path, held, is_held_by_name in inner:
            if id(type(held)) not in _PLAIN:
                self._walk(inner_path, held, home, depth=depth + 1, is_held=is_held_by_name)

    def _is_looked_into(self, one: Any, home: str, *, is_held: bool) -> bool:
        kind, module = type(one), module_of(type(one))
        if issubclass(kind, type):
            return module_of(one) == home
        if _is_function(kind):
            module = one.__module__
            return type(module) is str and module == home
        # Of others' instances, those that a module or a class holds: an application, a session.
        is_other = module == "builtins" or issubclass(kind, logging.Logger)
        return module in self._own or (is_held and not is_other and not _is_of_runner(module))


def differences(
    before: Snapshot, after: Snapshot, redact: Callable[[str], str]
) -> tuple[Difference, ...]:
    """Return what has changed between two snapshots of a process, likely culprits first.

    Args:
        before: taken earlier.
        after: taken later.
        redact: removes secrets from a text.
    """
    found = []
    reported: set[int] = set()
    for place, (source, old_names) in before.sources.items():
        _, names = after.sources.get(place, (source, old_names))
        for name in _names_of_both(old_names, names):
            was, now = old_names.get(name, _MISSING), names.get(name, _MISSING)
            is_same = was is now and (id(now) not in after.contents or id(now) in reported)
            if is_same or name in _IGNORED:
                continue
            old, new = before.content_of(was), after.content_of(now)
            # That a package got an attribute for a module is part of the import.
            is_import = was is _MISSING and issubclass(type(now), ModuleType) and not source.acts
            if old.text == new.text or is_import:
                continue
            reported.add(id(now))
            text = _say(source, name, old.text, new.text, redact)
            found.append(Difference(source.key + name, text, source.put is not None))
    return tuple(found)


def put_back(before: Snapshot, keys: Collection[str]) -> None:
    """Make things what they were, where that is possible."""
    sources = {source.key: (source, names) for source, names in before.sources.values()}
    for key in keys:
        with suppress(Exception):  # whatever the system says of it
            # Names may have dots as well: the longest start that is known is the source's.
            starts = (key[:end] for end in range(len(key), -1, -1))
            source, names = next(sources[start] for start in starts if start in sources)
            name = key.removeprefix(source.key)
            was = names.get(name, _MISSING)
            source.put(name, was)  # type: ignore[misc]  # those that have none are left out
            for container, elements in before.content_of(was).copies:
                base, add = _base_of(type(container))
                base.clear(container)
                for element in elements:
                    add(container, *element)


def changed_files(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return words for the files that were added, changed or removed, from two `take_files`."""
    return tuple(
        _say(_files(Path()), name, _Content(was).text, _Content(now).text, str)
        for name in _names_of_both(before, after)
        if (was := before.get(name, _MISSING)) != (now := after.get(name, _MISSING))
    )


def take_files(project: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the project's files, by their paths, without caches and the like."""
    found: dict[str, tuple[int, int]] = {}
    for folder, folders, files in os.walk(project):
        if "pyvenv.cfg" in files or len(found) >= _MOST_FILES:
            folders.clear()
            continue
        folders[:] = sorted(each for each in {*folders} - _NO_FOLDERS if each[0] != ".")
        for name in sorted(files):
            path = os.path.join(folder, name)
            with suppress(OSError):
                status = os.lstat(path)
                place = os.path.relpath(path, project).replace(os.sep, "/")
                found[place] = status.st_size, status.st_mtime_ns
    return found


_NO_FOLDERS: Final = origin.NOT_SOURCES | {"__pycache__", "node_modules"}


def _names_of_both(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    # Where only some files were read, others have not come or gone.
    is_cut = max(len(before), len(after)) >= _MOST_FILES
    return sorted(before.keys() & after.keys() if is_cut else before.keys() | after.keys())


# Attributes of modules, classes, instances and functions.


def _is_of_tests(module: str) -> bool:
    parts = module.split(".")
    return any(part in ("conftest", "test", "tests") or part.startswith("test_") for part in parts)


def _is_of_runner(module: str) -> bool:
    """Tell whether a module is pytest's or a plugin's, which keep what they know of each test."""
    # Hypothesis notes how long the garbage collector takes.
    package = module.partition(".")[0]
    return package in origin.RUNNERS or package == "hypothesis" or module.startswith("pytest_")


def _is_function(kind: type) -> bool:
    return kind is FunctionType or kind is _CACHE


def _unwrapped(one: Any) -> Any:
    """Return the function of a method in the body of a class, and any other object itself."""
    is_wrapper = type(one) is staticmethod or type(one) is classmethod
    return one.__func__ if is_wrapper else one


def _elements_of(one: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a list, tuple or dict holds, with where it is found."""
    base, _ = _base_of(type(one))
    pairs: Iterable[tuple[Any, Any]] = ()
    if base is list or base is tuple:
        pairs = enumerate(base.__iter__(one))
    elif base is dict or base is OrderedDict:
        pairs = dict.items(one)
    for number, (key, held) in enumerate([*islice(pairs, _MOST_LOOKED_INTO)]):
        is_named = id(type(key)) in _PLAIN or issubclass(type(key), type)
        yield f"[{_IDENTITY.sub('', _Content(key).text) if is_named else f'#{number}'}]", held


def _names_in(one: Any) -> dict[str, Any]:
    """Return what an object holds by name; of a function also what it keeps between calls."""
    kind = type(one)
    names = dict(body_of(one) if issubclass(kind, type) else _dict_of(one))
    if kind is FunctionType:
        names |= {"__defaults__": one.__defaults__, "__kwdefaults__": one.__kwdefaults__}
        for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=True):
            with suppress(ValueError):  # it is empty
                names[name] = cell.cell_contents
    elif kind is _CACHE:
        cached = _CACHE.cache_info(one)
        # Misses tell of results that have taken the place of others.
        names["cache_info()"] = {"currsize": cached.currsize, "misses": cached.misses}
    return {name: held for name, held in names.items() if type(name) is str}


def _put_attribute(one: Any, name: str, was: Any) -> None:
    kind = type(one)
    if kind is _CACHE and name == "cache_info()":
        _CACHE.cache_clear(one)
    elif kind is FunctionType and name in one.__code__.co_freevars:
        one.__closure__[one.__code__.co_freevars.index(name)].cell_contents = was
    elif kind is FunctionType or issubclass(kind, type):
        base: Any = object if kind is FunctionType else type
        base.__delattr__(one, name) if was is _MISSING else base.__setattr__(one, name, was)
    else:
        _put_item(_dict_of(one), name, was)


def _dict_of(one: Any) -> Any:
    # The first look of a thread at one of the user's own classes would call its `__init__`.
    kind = type(one)
    if issubclass(kind, threading.local) and module_of(kind) in ("_thread", "asyncio.events"):
        return threading.local.__getattribute__(one, "__dict__")
    return own_names_of(one)


def _put_item(items: Any, name: str, was: Any) -> None:
    if was is _MISSING:
        items.pop(name, None)
    else:
        items[name] = was


# What a value is compared and shown by.


class _Content:
    """What is known of a value at one moment.

    Attributes:
        text: the value in Python's words; of any other object its type and identity.
        copies: the containers in it that can be filled again, each with what it holds: tuples of
            an element, or of a key and its value.
    """

    def __init__(self, one: Any) -> None:
        self.copies: list[tuple[Any, Any]] = []
        self._elements_left = _MOST_ELEMENTS
        self.text = self._text(_unwrapped(one), 0)

    def _text(self, one: Any, depth: int) -> str:
        kind = type(one)
        if id(kind) in _PLAIN:
            is_large = kind is int and one.bit_length() > 10_000
            return hex(one) if is_large else repr(one)  # Python refuses to write so many digits
        base, add = _base_of(kind)
        if base is None:
            return f"{_name_of(one)}\0{id(one)}\0"
        name, length = dotted_name_of(kind).removeprefix("builtins."), base.__len__(one)
        self._elements_left -= length
        if depth > _DEEPEST or self._elements_left < 0:
            return f"{name} with {length} elements"
        pairs = list(dict.items(one)) if issubclass(base, dict) else [*zip(base.__iter__(one))]
        if add:
            self.copies.append((one, pairs))
        opening, closing = "()" if base is tuple else "{}" if issubclass(base, dict) else "[]"
        texts = [": ".join([self._text(inner, depth + 1) for inner in each]) for each in pairs]
        is_ordered = issubclass(base, (list, tuple, deque, bytearray))
        text = f"{opening}{', '.join(texts if is_ordered else sorted(texts))}{closing}"
        return text if kind in (list, dict, tuple) else f"{name}({text})"


def _name_of(one: Any) -> str:
    """Return how an object that isn't shown is called."""
    kind = type(one)
    if _is_function(kind) or kind is BuiltinFunctionType:
        module = one.__module__
        return f"the function {module if type(module) is str else '?'}.{one.__qualname__}"
    if issubclass(kind, type):
        return f"the class {dotted_name_of(one)}"
    if issubclass(kind, ModuleType):
        return f"the module {origin.module_name_in(own_names_of(one)) or '?'}"
    return f"an object of {dotted_name_of(kind)}"


def _base_of(kind: type) -> tuple[Any, Any]:
    return next((row for row in _CONTAINERS if issubclass(kind, row[0])), (None, None))


def _say(
    source: _Source, name: str, was_text: str, now_text: str, redact: Callable[[str], str]
) -> str:
    """Return what something is and what it was, to stand behind "the test leaves"."""
    subject = source.words + name
    added, removed = was_text == _NOTHING, now_text == _NOTHING
    if source.acts:
        return redact(f"{subject} {source.acts[0 if added else 1 if removed else 2]}")
    start = f"{subject} = "  # the name of a value may tell that it is a secret
    was, now = (
        redact(start + _IDENTITY.sub("", text)[:_MOST_SEARCHED]).removeprefix(start)
        for text in (was_text, now_text)
    )
    if removed:
        return f"{subject} removed (was {_shortened(was)})"
    if added:
        return f"{start}{_shortened(now)} (was not set)"
    if max(len(was), len(now)) > _MOST_SHOWN and was[0] == now[0] and was[0] in "[{(":
        was_items, now_items = (dict.fromkeys(text[1:-1].split(", ")) for text in (was, now))
        changes = {
            "added": [item for item in now_items if item not in was_items],
            "removed": [item for item in was_items if item not in now_items],
        }
        said = [f"{_shortened(', '.join(rest))} {act}" for act, rest in changes.items() if rest]
        if said:
            return f"{subject} with {' and '.join(said)}"
    was, now = _shortened(was), _shortened(now)
    if was == now:
        return f"{start}another {now.removeprefix('the ').removeprefix('an ')}"
    return f"{start}{now} (was {was})"


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


_NOTHING: Final = _Content(_MISSING).text


# Everything but attributes.


def _take_settings() -> dict[str, Any]:
    found = {}
    for name, (take, _) in _SETTINGS.items():
        with suppress(Exception):  # the working directory may have gone
            found[name] = take()
    return found


def _put_time_zone(was: Any) -> None:
    _put_item(os.environ, "TZ", was[0])
    time.tzset()


def _take_umask() -> str:
    mask = os.umask(0)
    os.umask(mask)
    return oct(mask)


def _put_filters(was: Any) -> None:
    warnings.resetwarnings()  # this tells Python that they have changed
    warnings.filters.extend(was)  # type: ignore[attr-defined]  # typeshed promises a sequence only


def _loops() -> Any:
    """Return asyncio's notes on the event loop of this thread, if it has any yet."""
    policy = attribute_of(sys.modules.get("asyncio.events"), "_event_loop_policy")
    return _dict_of(attribute_of(policy, "_local"))


def _take_loop() -> tuple[Any, ...]:
    return dict(_loops()), attribute_of(_loops().get("_loop"), "_closed")


def _put_loop(was: Any) -> None:
    _loops().clear()
    _loops().update(was[0])


_set_locale: Final = partial(locale.setlocale, locale.LC_ALL)
_SETTINGS: Final[dict[str, tuple[Callable[[], Any], Callable[[Any], object]]]] = {
    "the working directory": (os.getcwd, os.chdir),
    "the time zone": (lambda: (os.environ.get("TZ", _MISSING), *time.tzname), _put_time_zone),
    "the locale": (_set_locale, _set_locale),
    "warnings.filters": (lambda: [*warnings.filters], _put_filters),
    "sys.path": (lambda: [*sys.path], lambda was: sys.path.__setitem__(slice(None), was)),
    "asyncio's event loop": (_take_loop, _put_loop),
    "logging.disable": (lambda: logging.root.manager.disable, logging.disable),
    "the umask": (_take_umask, lambda was: os.umask(int(was, 8))),
}
"""What there is one of, each with what reads it and what puts it back."""

# A logger as it is made. What is still like that is left out: loggers are made all the time.
_LOGGER: Final = {"level": 0, "disabled": False, "propagate": True, "handlers": [], "filters": []}


def _loggers() -> dict[str, Any]:
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    return {name: one for name, one in loggers.items() if issubclass(type(one), logging.Logger)}


def _take_logging() -> dict[str, Any]:
    found = {}
    for path, logger in _loggers().items():
        for name, default in _LOGGER.items():
            held = attribute_of(logger, name, default)
            if _Content(held).text != _Content(default).text:
                found[f"{path}.{name}"] = list(held) if type(held) is list else held
    return found


def _put_logging(name: str, was: Any) -> None:
    path, _, attribute = name.rpartition(".")
    held = _LOGGER[attribute] if was is _MISSING else was
    own_names_of(_loggers()[path])[attribute] = list(held) if type(held) is list else held
    # This makes loggers forget for which levels they were enabled.
    logging.disable(logging.root.manager.disable)


def _put_variable(name: str, was: Any) -> None:
    if was is not _MISSING:  # one that has a value never loses it
        next(variable for variable in copy_context() if variable.name == name).set(was)


def _generators() -> dict[str, tuple[Callable[[], Any], Callable[[Any], object]]]:
    """Return how the states of the generators that all tests share are read and set."""
    found: dict[str, Any] = {"random": (random.getstate, random.setstate)}
    numpy = attribute_of(sys.modules.get("numpy.random.mtrand"), "_rand")
    if numpy is not None:
        found["numpy.random"] = numpy.get_state, numpy.set_state
    return found


def random_states() -> dict[str, bytes]:
    """Return the states of the generators that all tests share: Python's and NumPy's."""
    return {name: pickle.dumps(get()) for name, (get, _) in _generators().items()}


def _take_descriptors() -> dict[str, int]:
    found: dict[str, int] = {}
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # it was the one of this very listing
            target = os.readlink(f"/proc/self/fd/{number}")
            found[target] = found.get(target, 0) + 1
    return found


def _files(project: Path) -> _Source:
    acts = ("added", "removed", "changed")
    return _Source("file:", "the file ", partial(take_files, project), acts=acts)


_SET: Final = ("set", "removed", "changed")
_LIKELY: Final = (
    _Source(
        "environment:",
        "the environment variable ",
        lambda: dict(os.environ),
        partial(_put_item, os.environ),
        _SET,
    ),
    _Source("", "", _take_settings, lambda name, was: _SETTINGS[name][1](was)),
    _Source("logging:", "the logging setting ", _take_logging, _put_logging),
    _Source(
        "signal:",
        "the handler of ",
        lambda: {getattr(n, "name", str(n)): signal.getsignal(n) for n in signal.valid_signals()},
        lambda name, was: signal.signal(getattr(signal, name, None) or int(name), was),
        _SET,
    ),
    _Source(
        "contextvar:",
        "the context variable ",
        lambda: {variable.name: held for variable, held in copy_context().items()},
        _put_variable,
    ),
)
_UNLIKELY: Final = (
    _Source(
        "imported:",
        "the module ",
        lambda: {
            name: one
            for name, one in list(sys.modules.items())
            if type(name) is str and not _is_of_runner(name)
        },
        partial(_put_item, sys.modules),
        ("imported", "removed from sys.modules", "replaced in sys.modules"),
    ),
    _Source(
        "random:",
        "the state of ",
        random_states,
        lambda name, was: _generators()[name][1](pickle.loads(was)),  # noqa: S301 - our own bytes
        _SET,
    ),
    _Source(
        "thread:",
        "the thread ",
        lambda: {str(attribute_of(one, "_name")): one for one in threading.enumerate()},
        acts=("running", "ended", "replaced"),
    ),
    _Source(
        "descriptor:",
        "the descriptor of ",
        _take_descriptors,
        acts=("open", "closed", "open more or less often"),
    ),
)
"""Tests leave these behind, too, but they seldom make another one fail."""

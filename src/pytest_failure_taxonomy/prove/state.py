"""Find what tests leave behind, and put it back.

A snapshot is taken in the process that runs the tests, before and after some of them. None of the
user's code runs meanwhile: objects are told apart by identity, and only what is made of Python's
own scalars and containers is compared by value and shown. Attributes are read as in
`hooks/inspection.py`. What a snapshot holds stays alive as long as the snapshot does, so an
identity is never used twice.

All state has a name in a source: an attribute in a module, a class or an instance, a variable in
the environment. `_LIKELY` and `_UNLIKELY` are the tables of the sources that are no objects.
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
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice, takewhile
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.hooks import inspection, origin, tracebacks
from pytest_failure_taxonomy.survive import own_files
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.words import shortened

# A test may have replaced functions in these modules; ours are to be the real ones.
locale, os, random, signal = map(isolate_module, (locale, os, random, signal))


def _fill_ordered(one: OrderedDict[Any, Any], pairs: Iterable[tuple[Any, Any]]) -> None:
    for key, held in pairs:  # its `update` would call a `__setitem__` of the user's
        OrderedDict.__setitem__(one, key, held)


_MISSING: Final = object()
_NOT_SET: Final = "not set"
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
_MOST_SAME: Final = 20
"""Characters of two long values before they differ."""
_MOST_SEARCHED: Final = 20_000
"""Characters of a value that are searched for secrets."""

_IGNORED: Final = frozenset(packaged_table("experiments")["no_state"]["names"])
_PLAIN: Final = frozenset(map(id, (str, int, float, bool, bytes, complex, type(None))))
"""The ids of types, for a metaclass may have a `__hash__` of its own."""
_CONTAINERS: Final[tuple[tuple[Any, Any], ...]] = (
    *((list, list.extend), (deque, deque.extend), (bytearray, bytearray.extend)),
    *((set, set.update), (OrderedDict, _fill_ordered), (dict, dict.update)),
    *((tuple, None), (frozenset, None)),
)
"""Types, subclasses first, each with what fills an empty one."""
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

    start: str
    """Of what is said of a difference, and of its key; of objects their path."""
    take: Callable[[], Mapping[str, Any]]
    put: Callable[[str, Any], object] | None = None
    """Makes what has a name what it was, or removes it where that is `_MISSING`."""
    acts: tuple[str, str, str] | None = ("set", "removed", "changed")
    """What is said of values that are not shown."""


class Snapshot:
    """The state of this process at one moment.

    Attributes:
        sources: what there is by name in each, likely culprits first. They are known by the ids of
            objects, and by their keys.
        contents: of containers, which change without being replaced, by the ids of these.
    """

    def __init__(
        self,
        project: Path,
        modules: Iterable[ModuleType] = (),
        fixtures: SimpleNamespace | None = None,
    ) -> None:
        """Look at everything.

        Args:
            project: pytest's root directory.
            modules: those of the project that may not be in `sys.modules`, such as a `conftest.py`.
            fixtures: the same object for each snapshot; its attributes are values that tests share.
        """
        self.sources: dict[int | str, tuple[_Source, Mapping[str, Any]]] = {}
        self.contents: dict[int, _Content] = {}
        self._seen: set[int] = set()
        self._objects_left = _MOST_OBJECTS
        self._home = ""
        own, libraries = _modules(project, modules)
        self._own = {_name_in(module) for module in own.values()}
        # What several modules hold is reported where it was made rather than where it is imported.
        for name in sorted(
            own, key=lambda name: (_is_of_tests(name), -name.count("."))
        ):
            self._home = _name_in(own[name])
            self._walk(name, own[name])
        if fixtures is not None and vars(fixtures):
            self._walk("fixtures", fixtures)
        for source in _LIKELY:
            self._add(source.start, source)
        for name, module in libraries.items():
            for inner, one in self._add_object(name, module).items():
                is_class = issubclass(type(one), type)
                if is_class and inspection.body_of(one).get("__module__") == name:
                    self._add_object(f"{name}.{inner}", one)
        for source in (*_UNLIKELY, _FILES._replace(take=partial(take_files, project))):
            self._add(source.start, source)

    def add_new(self, later: Snapshot) -> None:
        """Take from a later snapshot what was not there yet, such as what a fixture has made."""
        known = {source.start for source, _ in self.sources.values()}
        for place, found in later.sources.items():
            if found[0].start not in known:
                self.sources.setdefault(place, found)
        self.contents = {**later.contents, **self.contents}

    def content_of(self, one: Any) -> _Content:
        """Return what was in a container, or else what is known of a value at any moment."""
        return self.contents.get(id(one)) or _Content(one)

    def _add(self, place: int | str, source: _Source) -> Mapping[str, Any]:
        names: Mapping[str, Any] = {}
        with suppress(Exception):  # there is no `/proc` here, or a module is broken
            names = source.take()
        return self.sources.setdefault(place, (source, names))[1]

    def _add_object(self, path: str, one: Any) -> Mapping[str, Any]:
        takes, puts = partial(_names_in, one), partial(_put_attribute, one)
        return self._add(id(one), _Source(f"{path}.", takes, puts, acts=None))

    def _walk(self, path: str, one: Any, depth: int = 0) -> None:
        """Go on to what an object holds by name, and to what is in lists and dicts.

        Args:
            path: where it was found.
            one: the object.
            depth: how many steps the module is away.
        """
        self._objects_left -= 1
        if id(one) in self._seen or depth > _DEEPEST or self._objects_left < 0:
            return
        found = [(f"{path}{label}", held) for label, held in _elements_of(one)]
        is_looked_into = self._is_looked_into(one, depth)
        if found or is_looked_into:  # any other may be met again where it was made
            self._seen.add(id(one))
        if is_looked_into:
            for name, held in self._add_object(path, one).items():
                found.append((f"{path}.{name}", held))
                if (
                    _base_of(type(held))[0] is not None
                    and id(held) not in self.contents
                ):
                    self.contents[id(held)] = _Content(held)
        for inner_path, held in found:
            if id(type(held)) not in _PLAIN:
                self._walk(inner_path, held, depth + 1)

    def _is_looked_into(self, one: Any, depth: int) -> bool:
        kind, module = type(one), inspection.module_of(type(one))
        if issubclass(kind, type):
            return inspection.module_of(one) == self._home
        if _is_function(kind):
            return bool(type(one.__module__) is str and one.__module__ == self._home)
        # Of others' instances those that a module holds: an application, a session.
        is_other = (
            module == "builtins"
            or issubclass(kind, logging.Logger)
            or _is_of_runner(module)
        )
        return depth == 0 or module in self._own or (depth == 1 and not is_other)


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
            is_same = was is now and (
                id(now) not in after.contents or id(now) in reported
            )
            if is_same or name in _IGNORED:
                continue
            old, new = before.content_of(was), after.content_of(now)
            # That a package got an attribute for a module is part of the import.
            is_import = (
                was is _MISSING
                and issubclass(type(now), ModuleType)
                and not source.acts
            )
            if old.text == new.text or is_import:
                continue
            reported.add(id(now))
            text = _say(source, name, old.text, new.text, redact)
            found.append(Difference(source.start + name, text, source.put is not None))
    return tuple(found)


def put_back(before: Snapshot, keys: Collection[str]) -> None:
    """Make things what they were, where that is possible."""
    sources = {
        source.start: (source, names) for source, names in before.sources.values()
    }
    for key in keys:
        with suppress(Exception):  # whatever the system says of it
            # Names may have dots as well: the longest start that is known is the source's.
            starts = (key[:end] for end in range(len(key), -1, -1))
            source, names = next(sources[start] for start in starts if start in sources)
            name = key.removeprefix(source.start)
            was = names.get(name, _MISSING)
            source.put(name, was)  # type: ignore[misc]  # those that have none are left out
            for container, copy in before.content_of(was).copies:
                base, fill = _base_of(type(container))
                base.clear(container)
                fill(container, copy)


def changed_files(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return words for the files that were added, changed or removed, from two `take_files`."""
    return tuple(
        _say(_FILES, name, _Content(was).text, _Content(now).text, str)
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


_NO_FOLDERS: Final = own_files.NOT_SOURCES | {"__pycache__", "node_modules"}


def _names_of_both(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    # Where only some files were read, others have not come or gone.
    is_cut = max(len(before), len(after)) >= _MOST_FILES
    return sorted(
        before.keys() & after.keys() if is_cut else before.keys() | after.keys()
    )


# Attributes of modules, classes, instances and functions.


def modules_now() -> dict[str, ModuleType]:
    """Return the modules of `sys.modules` by name: anything else may stand there, too."""
    return {
        name: module
        for name, module in [*sys.modules.items()]
        if type(name) is str and issubclass(type(module), ModuleType)
    }


def _modules(
    project: Path, others: Iterable[ModuleType]
) -> tuple[dict[str, ModuleType], dict[str, ModuleType]]:
    """Return the project's modules and the libraries', by their names."""
    finder = origin.OriginFinder(project)
    own, libraries = {}, {}
    unnamed = [("", module) for module in others]
    for key, module in [*modules_now().items(), *unnamed]:
        names = inspection.own_names_of(module)
        file = names.get("__file__")
        found = finder.file(file, names) if type(file) is str else None
        name = key or (
            found.path.removesuffix(".py").replace("/", ".") if found else "?"
        )
        if found and found.owner == tracebacks.OWN:
            own[name] = module
        elif not _is_of_runner(name):
            libraries[name] = module
    return own, libraries


def _name_in(module: ModuleType) -> str:
    return tracebacks.module_name_in(inspection.own_names_of(module))


def _is_of_tests(module: str) -> bool:
    parts = module.split(".")
    return any(
        part in ("conftest", "test", "tests") or part.startswith("test_")
        for part in parts
    )


def _is_compared(name: object) -> bool:
    return type(name) is str and not _is_of_runner(name)


def _is_of_runner(module: str) -> bool:
    """Tell whether a module is pytest's or a plugin's, which keep what they know of each test."""
    # Hypothesis notes how long the garbage collector takes.
    package = module.partition(".")[0]
    return (
        package in tracebacks.RUNNERS
        or package == "hypothesis"
        or module.startswith("pytest_")
    )


def _is_function(kind: type) -> bool:
    return kind is FunctionType or kind is _CACHE


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
        yield (
            f"[{_IDENTITY.sub('', _Content(key).text) if is_named else f'#{number}'}]",
            held,
        )


def _names_in(one: Any) -> dict[str, Any]:
    """Return what an object holds by name; of a function also what it keeps between calls."""
    kind = type(one)
    names = dict(inspection.body_of(one) if issubclass(kind, type) else _dict_of(one))
    if kind is FunctionType:
        names |= {
            "__defaults__": one.__defaults__,
            "__kwdefaults__": one.__kwdefaults__,
        }
    elif kind is _CACHE:
        cached = _CACHE.cache_info(one)
        # Misses tell of results that have taken the place of others.
        names["cache_info()"] = {"currsize": cached.currsize, "misses": cached.misses}
    return {name: held for name, held in names.items() if type(name) is str}


def _put_attribute(one: Any, name: str, was: Any) -> None:
    if name == "cache_info()":
        _CACHE.cache_clear(one)
    elif not issubclass(type(one), type):
        _put_item(_dict_of(one), name, was)
    elif was is _MISSING:
        type.__delattr__(one, name)
    else:
        type.__setattr__(one, name, was)


def _dict_of(one: Any) -> Any:
    # The first look of a thread at one of the user's own classes would call its `__init__`.
    is_pythons = inspection.module_of(type(one)) in ("_thread", "asyncio.events")
    if is_pythons and issubclass(type(one), threading.local):
        return threading.local.__getattribute__(one, "__dict__")
    return inspection.own_names_of(one)


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
        copies: the containers in it that can be filled again, each with a copy of what it holds.
    """

    def __init__(self, one: Any) -> None:
        self.copies: list[tuple[Any, Any]] = []
        self._elements_left = _MOST_ELEMENTS
        self.text = self._text(one, 0)

    def _text(self, one: Any, depth: int) -> str:
        kind = type(one)
        if one is _MISSING:
            return _NOT_SET
        if id(kind) in _PLAIN:
            # Python refuses to write so many digits.
            return hex(one) if kind is int and one.bit_length() > 10_000 else repr(one)
        base, fill = _base_of(kind)
        if base is None:
            return f"{_name_of(one)}\0{id(one)}\0"
        name, length = (
            inspection.dotted_name_of(kind).removeprefix("builtins."),
            base.__len__(one),
        )
        self._elements_left -= length
        if depth > _DEEPEST or self._elements_left < 0:
            return f"{name} with {length} elements"
        pairs = (
            list(dict.items(one))
            if issubclass(base, dict)
            else [*zip(base.__iter__(one))]
        )
        if fill and (copy := _copy_of(one, base)) is not None:
            self.copies.append((one, copy))
        opening, closing = (
            "()" if base is tuple else "{}" if issubclass(base, dict) else "[]"
        )
        texts = [
            ": ".join([self._text(inner, depth + 1) for inner in each])
            for each in pairs
        ]
        is_ordered = issubclass(base, (list, tuple, deque, bytearray))
        text = f"{opening}{', '.join(texts if is_ordered else sorted(texts))}{closing}"
        return text if kind in (list, dict, tuple) else f"{name}({text})"


def _copy_of(one: Any, base: Any) -> Any:
    """Return a copy of a container that fills it without a `__hash__` of the user's; else `None`.

    A dict and a set take the hashes from another one.
    """
    if base is set:
        return set(one)
    if not issubclass(base, dict):
        return [*base.__iter__(one)]
    if type(one) is dict or type(one) is defaultdict:
        return dict.copy(one)
    pairs = list(dict.items(one))
    return pairs if all(id(type(key)) in _PLAIN for key, _ in pairs) else None


def _name_of(one: Any) -> str:
    """Return how an object that isn't shown is called."""
    kind = type(one)
    if _is_function(kind) or kind is BuiltinFunctionType:
        module = one.__module__
        return (
            f"the function {module if type(module) is str else '?'}.{one.__qualname__}"
        )
    if issubclass(kind, type):
        return f"the class {inspection.dotted_name_of(one)}"
    if issubclass(kind, ModuleType):
        return f"the module {_name_in(one)}"
    return f"an object of {inspection.dotted_name_of(kind)}"


def _base_of(kind: type) -> tuple[Any, Any]:
    return next((row for row in _CONTAINERS if issubclass(kind, row[0])), (None, None))


def _say(
    source: _Source,
    name: str,
    was_text: str,
    now_text: str,
    redact: Callable[[str], str],
) -> str:
    """Return what something is and what it was, to stand behind "the test leaves"."""
    subject = source.start + name
    if source.acts:
        added, removed, changed = source.acts
        act = (
            added
            if was_text == _NOT_SET
            else removed
            if now_text == _NOT_SET
            else changed
        )
        return f"{redact(subject)} {act}"
    start = f"{subject} = "  # the name of a value may tell that it is a secret
    was, now = (
        redact(start + _IDENTITY.sub("", text)[:_MOST_SEARCHED]).removeprefix(start)
        for text in (was_text, now_text)
    )
    if was_text == _NOT_SET:
        return f"{start}{shortened(now, _MOST_SHOWN)} (was not set)"
    if now_text == _NOT_SET:
        return f"{subject} removed (was {shortened(was, _MOST_SHOWN)})"
    if was == now:
        other = shortened(now, _MOST_SHOWN).removeprefix("the ").removeprefix("an ")
        return f"{start}another {other}"
    # Of long values, from where they differ on.
    common = sum(
        1
        for _ in takewhile(lambda pair: pair[0] == pair[1], zip(was, now, strict=False))
    )
    same = max(was.rfind(", ", 0, common) + 2, common - _MOST_SAME)
    if same > 1 and max(len(was), len(now)) > _MOST_SHOWN:
        was, now = f"…{was[same:]}", f"…{now[same:]}"
    return f"{start}{shortened(now, _MOST_SHOWN)} (was {shortened(was, _MOST_SHOWN)})"


# Everything but attributes.


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
    policy = inspection.attribute_of(
        sys.modules.get("asyncio.events"), "_event_loop_policy"
    )
    return _dict_of(inspection.attribute_of(policy, "_local"))


def _take_loop() -> tuple[Any, ...]:
    return dict(_loops()), inspection.attribute_of(_loops().get("_loop"), "_closed")


def _put_loop(was: Any) -> None:
    _loops().clear()
    _loops().update(was[0])


def _take_settings() -> dict[str, Any]:
    found = {}
    for name, (take, _) in _SETTINGS.items():
        with suppress(Exception):  # the working directory may have gone
            found[name] = take()
    return found


_set_locale: Final = partial(locale.setlocale, locale.LC_ALL)
_SETTINGS: Final[dict[str, tuple[Callable[[], Any], Callable[[Any], object]]]] = {
    "working directory": (os.getcwd, os.chdir),
    "time zone": (
        lambda: (os.environ.get("TZ", _MISSING), *time.tzname),
        _put_time_zone,
    ),
    "locale": (_set_locale, _set_locale),
    "list warnings.filters": (lambda: [*warnings.filters], _put_filters),
    "list sys.path": (
        lambda: [*sys.path],
        lambda was: sys.path.__setitem__(slice(None), was),
    ),
    "event loop of asyncio": (_take_loop, _put_loop),
    "level of logging.disable": (lambda: logging.root.manager.disable, logging.disable),
    "umask": (_take_umask, lambda was: os.umask(int(was, 8))),
}
"""What there is one of, each with what reads it and what puts it back."""


def _loggers() -> dict[str, dict[str, Any]]:
    """Return what each logger holds by name."""
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    names = {name: inspection.own_names_of(one) for name, one in loggers.items()}
    return {
        name: held for name, held in names.items() if "handlers" in held
    }  # no placeholders


def _take_logging() -> dict[str, Any]:
    found = {}
    # What is still as it was made is left out: loggers are made all the time.
    fresh = inspection.own_names_of(logging.Logger(""))  # noqa: LOG001 - it is no logger of the tree
    for path, names in _loggers().items():
        for name in ("level", "disabled", "propagate", "handlers", "filters"):
            held = [*names[name]] if type(names[name]) is list else names[name]
            if _Content(held).text != _Content(fresh[name]).text:
                found[f"{path}.{name}"] = held
    return found


def _put_logging(name: str, was: Any) -> None:
    path, _, attribute = name.rpartition(".")
    fresh = inspection.own_names_of(logging.Logger(""))  # noqa: LOG001 - it is no logger of the tree
    _loggers()[path][attribute] = fresh[attribute] if was is _MISSING else was
    # This makes loggers forget for which levels they were enabled.
    logging.disable(logging.root.manager.disable)


def random_states() -> dict[str, bytes]:
    """Return the states of the generators that all tests share: Python's and NumPy's."""
    states = {"random": pickle.dumps(random.getstate())}
    if "numpy.random" in modules_now():
        states["numpy.random"] = pickle.dumps(sys.modules["numpy.random"].get_state())
    return states


def _put_random_state(name: str, was: Any) -> None:
    put = random.setstate if name == "random" else sys.modules[name].set_state
    put(pickle.loads(was))  # noqa: S301 - our own bytes


def _take_descriptors() -> dict[str, int]:
    found: dict[str, int] = {}
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # it was the one of this very listing
            target = os.readlink(f"/proc/self/fd/{number}")
            found[target] = found.get(target, 0) + 1
    return found


_LIKELY: Final = (
    _Source(
        "the environment variable ",
        lambda: dict(os.environ),
        partial(_put_item, os.environ),
    ),
    _Source(
        "the ", _take_settings, lambda name, was: _SETTINGS[name][1](was), acts=None
    ),
    _Source("the logging setting ", _take_logging, _put_logging, acts=None),
    _Source(
        "the handler of ",
        lambda: {number.name: signal.getsignal(number) for number in signal.Signals},
        lambda name, was: signal.signal(signal.Signals[name], was),
    ),
)
_UNLIKELY: Final = (
    _Source(
        "the module ",
        lambda: {
            name: module
            for name, module in [*sys.modules.items()]
            if _is_compared(name)
        },
        partial(_put_item, sys.modules),
        ("imported", "removed from sys.modules", "replaced in sys.modules"),
    ),
    _Source("the state of ", random_states, _put_random_state),
    _Source(
        "the thread ",
        lambda: {
            str(inspection.attribute_of(one, "_name")): one
            for one in threading.enumerate()
        },
        acts=("running", "ended", "replaced"),
    ),
    _Source(
        "the descriptor of ",
        _take_descriptors,
        acts=("open", "closed", "open more or less often"),
    ),
)
"""Tests leave these behind, too, but they seldom make another one fail."""
_FILES: Final = _Source("the file ", dict, acts=("added", "removed", "changed"))

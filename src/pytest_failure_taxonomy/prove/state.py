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
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice, takewhile
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.hooks import origin, tracebacks
from pytest_failure_taxonomy.hooks.inspection import (
    attribute_of,
    body_of,
    dotted_name_of,
    module_of,
    own_names_of,
)
from pytest_failure_taxonomy.system.interpreter import isolate_module
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.code_owners import NOT_SOURCES, RUNNERS
from pytest_failure_taxonomy.taxonomy.words import shortened

# A test may have replaced functions in these modules; ours are to be the real ones.
locale, os, random, signal = map(isolate_module, (locale, os, random, signal))


def _fill_ordered(
    ordered: OrderedDict[Any, Any],
    pairs: Iterable[tuple[Any, Any]],
) -> None:
    # Its `update` would call a `__setitem__` of the user's.
    for key, element in pairs:
        OrderedDict.__setitem__(ordered, key, element)


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
_MOST_BITS: Final = 10_000
"""Of an integer; Python refuses to write more digits in decimal."""

_IGNORED: Final = frozenset(packaged_table("experiments")["no_state"]["names"])
_PLAIN: Final = frozenset(map(id, (str, int, float, bool, bytes, complex, type(None))))
"""The ids of types, for a metaclass may have a `__hash__` of its own."""
_FILLERS: Final[dict[Any, Any]] = {
    list: list.extend,
    deque: deque.extend,
    bytearray: bytearray.extend,
    set: set.update,
    OrderedDict: _fill_ordered,
    dict: dict.update,
    tuple: None,
    frozenset: None,
}
"""Containers, subclasses first, each with what fills an empty one."""
_UNORDERED: Final = (set, frozenset, dict)
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
    """Begins the key and the words of each difference; of objects it is their path."""
    take: Callable[[], Mapping[str, object]]
    put: Callable[[str, Any], object] | None = None
    """Makes what has a name what it was, or removes it where that is `_MISSING`."""
    acts: tuple[str, str, str] | None = ("set", "removed", "changed")
    """The verbs for values that are not shown."""


class _Names(NamedTuple):
    """What a source had by name at the moment of a snapshot."""

    source: _Source
    values: Mapping[str, object]


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
        self.sources: dict[int | str, _Names] = {}
        self.contents: dict[int, _Content] = {}
        self._seen: set[int] = set()
        self._objects_left = _MOST_OBJECTS
        self._home = ""
        own, libraries = _modules(project, modules)
        self._own = set(map(_name_in, own.values()))
        # What several modules hold is reported where it was made rather than where it is imported.
        for name in sorted(own, key=_walking_order):
            self._home = _name_in(own[name])
            self._walk(name, own[name])
        if fixtures is not None and vars(fixtures):
            self._walk("fixtures", fixtures)
        for source in _LIKELY:
            self._add(source.start, source)
        for name, module in libraries.items():
            for inner, member in self._add_object(name, module).items():
                if _is_class_of(name, member):
                    self._add_object(f"{name}.{inner}", member)
        files = _FILES._replace(take=partial(take_files, project))
        for source in (*_UNLIKELY, files):
            self._add(source.start, source)

    def add_new(self, later: Snapshot) -> None:
        """Take from a later snapshot what was not there yet, such as what a fixture has made."""
        starts = {names.source.start for names in self.sources.values()}
        for place, names in later.sources.items():
            if names.source.start not in starts:
                self.sources.setdefault(place, names)
        self.contents = {**later.contents, **self.contents}

    def content_of(self, value: Any) -> _Content:
        """Return what was in a container, else what is known about a value at any moment."""
        return self.contents.get(id(value)) or _Content(value)

    def _add(self, place: int | str, source: _Source) -> Mapping[str, object]:
        values: Mapping[str, object] = {}
        # There may be no `/proc` here, or a module is broken.
        with suppress(Exception):
            values = source.take()
        return self.sources.setdefault(place, _Names(source, values)).values

    def _add_object(self, path: str, holder: Any) -> Mapping[str, object]:
        source = _Source(
            f"{path}.",
            partial(_names_in, holder),
            partial(_put_attribute, holder),
            acts=None,
        )
        return self._add(id(holder), source)

    def _walk(
        self,
        path: str,
        holder: Any,
        depth: int = 0,
    ) -> None:
        """Go on to what an object holds by name, and to what is in lists and dicts.

        Args:
            path: where it was found.
            holder: the object.
            depth: how many steps the module is away.
        """
        self._objects_left -= 1
        if depth > _DEEPEST or self._objects_left < 0 or id(holder) in self._seen:
            return
        parts = [*_elements_of(holder)]
        is_looked_into = self._is_looked_into(holder, depth)
        # Any other may be met again where it was made.
        if parts or is_looked_into:
            self._seen.add(id(holder))
        if is_looked_into:
            for name, attribute in self._add_object(path, holder).items():
                parts.append((f".{name}", attribute))
                self._note_content(attribute)
        for label, part in parts:
            if id(type(part)) not in _PLAIN:
                self._walk(
                    path + label,
                    part,
                    depth + 1,
                )

    def _note_content(self, attribute: Any) -> None:
        if _base_of(type(attribute)) and id(attribute) not in self.contents:
            self.contents[id(attribute)] = _Content(attribute)

    def _is_looked_into(self, holder: Any, depth: int) -> bool:
        kind = type(holder)
        module = module_of(kind)
        if issubclass(kind, type):
            return module_of(holder) == self._home
        if _is_function(kind):
            return bool(
                type(holder.__module__) is str and holder.__module__ == self._home
            )
        if depth == 0 or module in self._own:
            return True
        # Of others' instances those that a module holds: an application, a session.
        is_excluded = module == "builtins" or issubclass(kind, logging.Logger)
        return depth == 1 and not is_excluded and not _is_of_runner(module)


def differences(
    before: Snapshot,
    after: Snapshot,
    redact: Callable[[str], str],
) -> tuple[Difference, ...]:
    """Return what has changed between two snapshots of a process, likely culprits first.

    Args:
        before: taken earlier.
        after: taken later.
        redact: removes secrets from a text.
    """
    changes = []
    reported: set[int] = set()
    for place, (source, old_values) in before.sources.items():
        values = after.sources.get(place, before.sources[place]).values
        for name in _names_of_both(old_values, values):
            was = old_values.get(name, _MISSING)
            now = values.get(name, _MISSING)
            is_open = id(now) in after.contents and id(now) not in reported
            if (was is now and not is_open) or name in _IGNORED:
                continue
            old = before.content_of(was).text
            new = after.content_of(now).text
            # That a package got an attribute for a module is part of the import.
            is_new_module = was is _MISSING and issubclass(type(now), ModuleType)
            if old == new or (is_new_module and not source.acts):
                continue
            reported.add(id(now))
            change = Difference(
                source.start + name,
                _describe(source, name, old, new, redact),
                can_be_put_back=source.put is not None,
            )
            changes.append(change)
    return tuple(changes)


def put_back(before: Snapshot, keys: Collection[str]) -> None:
    """Make things what they were, where that is possible."""
    by_start = {names.source.start: names for names in before.sources.values()}
    for key in keys:
        # Whatever the system says of it.
        with suppress(Exception):
            # Names may have dots as well: the longest start that is known is the source's.
            lengths = range(
                len(key),
                -1,
                -1,
            )
            start = next(key[:end] for end in lengths if key[:end] in by_start)
            source, values = by_start[start]
            name = key.removeprefix(start)
            was = values.get(name, _MISSING)
            source.put(name, was)  # type: ignore[misc]  # those that have none are left out
            for container, copy in before.content_of(was).copies:
                base = _base_of(type(container))
                base.clear(container)
                _FILLERS[base](container, copy)


def changed_files(
    before: Mapping[str, object],
    after: Mapping[str, object],
) -> tuple[str, ...]:
    """Return words for the files that were added, changed or removed, from two `take_files`."""
    words = []
    for name in _names_of_both(before, after):
        was = before.get(name, _MISSING)
        now = after.get(name, _MISSING)
        if was != now:
            old, new = _Content(was).text, _Content(now).text
            words.append(_describe(_FILES, name, old, new, str))
    return tuple(words)


def take_files(project: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the project's files, by their paths, without caches and the like."""
    sizes_and_times: dict[str, tuple[int, int]] = {}
    for folder, folders, names in os.walk(project):
        if "pyvenv.cfg" in names or len(sizes_and_times) >= _MOST_FILES:
            folders.clear()
            continue
        sources = sorted(set(folders) - _NO_FOLDERS)
        folders[:] = [name for name in sources if not name.startswith(".")]
        for name in sorted(names):
            path = os.path.join(folder, name)
            with suppress(OSError):
                status = os.lstat(path)
                place = os.path.relpath(path, project).replace(os.sep, "/")
                sizes_and_times[place] = status.st_size, status.st_mtime_ns
    return sizes_and_times


_NO_FOLDERS: Final = NOT_SOURCES | {"__pycache__", "node_modules"}


def _names_of_both(
    before: Mapping[str, object], after: Mapping[str, object]
) -> list[str]:
    # Where only some files were read, others have not come or gone.
    if max(len(before), len(after)) >= _MOST_FILES:
        return sorted(before.keys() & after.keys())
    return sorted(before.keys() | after.keys())


# Attributes of modules, classes, instances and functions.


def modules_now() -> dict[str, ModuleType]:
    """Return the modules of `sys.modules` by name: anything else may stand there, too."""
    return {
        name: module
        for name, module in [*sys.modules.items()]
        if type(name) is str and issubclass(type(module), ModuleType)
    }


def _modules(
    project: Path,
    others: Iterable[ModuleType],
) -> tuple[dict[str, ModuleType], dict[str, ModuleType]]:
    """Return the project's modules and the libraries', by their names."""
    finder = origin.OriginFinder(project)
    own, libraries = {}, {}
    unnamed = [("", module) for module in others]
    for key, module in [*modules_now().items(), *unnamed]:
        names = own_names_of(module)
        file = names.get("__file__")
        place = None
        if type(file) is str:
            place = finder.file(file, names)
        name = key or "?"
        if place and not key:
            name = place.path.removesuffix(".py").replace("/", ".")
        if place and place.owner == tracebacks.OWN:
            own[name] = module
        elif not _is_of_runner(name):
            libraries[name] = module
    return own, libraries


def _name_in(module: ModuleType) -> str:
    return tracebacks.module_name_in(own_names_of(module))


def _walking_order(module: str) -> tuple[bool, int]:
    """Sort the modules of tests last, and packages behind what is in them."""
    parts = module.split(".")
    is_of_tests = any(map(_is_test_name, parts))
    return is_of_tests, -len(parts)


def _is_test_name(part: str) -> bool:
    return part in ("conftest", "test", "tests") or part.startswith("test_")


def _is_of_runner(module: str) -> bool:
    """Tell whether a module is pytest's or a plugin's, which keep what they know of each test."""
    package = module.partition(".")[0]
    # Hypothesis notes how long the garbage collector takes.
    is_plugin = package == "hypothesis" or module.startswith("pytest_")
    return is_plugin or package in RUNNERS


def _is_class_of(module: str, member: Any) -> bool:
    if not issubclass(type(member), type):
        return False
    return bool(body_of(member).get("__module__") == module)


def _is_function(kind: type) -> bool:
    return kind is FunctionType or kind is _CACHE


def _elements_of(container: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a list, tuple or dict holds, with where it is found."""
    base = _base_of(type(container))
    pairs: Iterable[tuple[Any, Any]] = ()
    if base is list or base is tuple:
        pairs = enumerate(base.__iter__(container))
    elif base is dict or base is OrderedDict:
        pairs = dict.items(container)
    for number, (key, element) in enumerate([*islice(pairs, _MOST_LOOKED_INTO)]):
        label = f"#{number}"
        if id(type(key)) in _PLAIN or issubclass(type(key), type):
            label = _IDENTITY.sub("", _Content(key).text)
        yield f"[{label}]", element


def _names_in(holder: Any) -> dict[str, object]:
    """Return what an object holds by name; of a function also what it keeps between calls."""
    kind = type(holder)
    is_class = issubclass(kind, type)
    names = dict(body_of(holder) if is_class else _dict_of(holder))
    if kind is FunctionType:
        names["__defaults__"] = holder.__defaults__
        names["__kwdefaults__"] = holder.__kwdefaults__
    elif kind is _CACHE:
        cached = _CACHE.cache_info(holder)
        # Misses tell of results that have taken the place of others.
        names["cache_info()"] = {"currsize": cached.currsize, "misses": cached.misses}
    return {name: value for name, value in names.items() if type(name) is str}


def _put_attribute(
    holder: Any,
    name: str,
    was: Any,
) -> None:
    if name == "cache_info()":
        _CACHE.cache_clear(holder)
    elif not issubclass(type(holder), type):
        _put_item(_dict_of(holder), name, was)
    elif was is _MISSING:
        type.__delattr__(holder, name)
    else:
        type.__setattr__(holder, name, was)


def _dict_of(holder: Any) -> Any:
    # The first look of a thread at one of the user's own classes would call its `__init__`.
    kind = type(holder)
    is_pythons = module_of(kind) in ("_thread", "asyncio.events")
    if is_pythons and issubclass(kind, threading.local):
        return threading.local.__getattribute__(holder, "__dict__")
    return own_names_of(holder)


def _put_item(
    items: Any,
    name: str,
    was: Any,
) -> None:
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

    def __init__(self, value: Any) -> None:
        self.copies: list[tuple[Any, Any]] = []
        self._elements_left = _MOST_ELEMENTS
        self.text = self._text(value, 0)

    def _text(self, value: Any, depth: int) -> str:
        kind = type(value)
        if value is _MISSING:
            return _NOT_SET
        if kind is int and value.bit_length() > _MOST_BITS:
            return hex(value)
        if id(kind) in _PLAIN:
            return repr(value)
        base = _base_of(kind)
        if base is None:
            return f"{_name_of(value)}\0{id(value)}\0"
        name = dotted_name_of(kind).removeprefix("builtins.")
        length = base.__len__(value)
        self._elements_left -= length
        if depth > _DEEPEST or self._elements_left < 0:
            return f"{name} with {length} elements"
        copy = _copy_of(value, base)
        if copy is not None:
            self.copies.append((value, copy))
        texts = self._texts_of_elements(value, base, depth + 1)
        if issubclass(base, _UNORDERED):
            texts.sort()
        text = f"[{', '.join(texts)}]"
        if base is tuple:
            text = f"({text[1:-1]})"
        elif issubclass(base, dict):
            text = f"{{{text[1:-1]}}}"
        return text if kind in (list, dict, tuple) else f"{name}({text})"

    def _texts_of_elements(
        self,
        container: Any,
        base: Any,
        depth: int,
    ) -> list[str]:
        if not issubclass(base, dict):
            return [
                self._text(element, depth) for element in [*base.__iter__(container)]
            ]
        texts = []
        for key, element in [*dict.items(container)]:
            text = self._text(key, depth)
            texts.append(f"{text}: {self._text(element, depth)}")
        return texts


def _copy_of(container: Any, base: Any) -> Any:
    """Return a copy of a container that fills it without a `__hash__` of the user's; else `None`.

    A dict and a set take the hashes from another one.
    """
    if _FILLERS[base] is None:
        return None
    if base is set:
        return set(container)
    if not issubclass(base, dict):
        return [*base.__iter__(container)]
    if type(container) is dict or type(container) is defaultdict:
        return dict.copy(container)
    pairs = [*dict.items(container)]
    for key, _ in pairs:
        if id(type(key)) not in _PLAIN:
            return None
    return pairs


def _name_of(value: Any) -> str:
    """Return how an object that isn't shown is called."""
    kind = type(value)
    if _is_function(kind) or kind is BuiltinFunctionType:
        module = value.__module__
        if type(module) is not str:
            module = "?"
        return f"the function {module}.{value.__qualname__}"
    if issubclass(kind, type):
        return f"the class {dotted_name_of(value)}"
    if issubclass(kind, ModuleType):
        return f"the module {_name_in(value)}"
    return f"an object of {dotted_name_of(kind)}"


def _base_of(kind: type) -> Any:
    """Return the container of Python's that a type is made from; `None` for any other type."""
    return next((base for base in _FILLERS if issubclass(kind, base)), None)


def _describe(
    source: _Source,
    name: str,
    was_text: str,
    now_text: str,
    redact: Callable[[str], str],
) -> str:
    """Return what something is and what it was, to follow "the test leaves"."""
    subject = source.start + name
    if source.acts:
        added, removed, act = source.acts
        if was_text == _NOT_SET:
            act = added
        elif now_text == _NOT_SET:
            act = removed
        return f"{redact(subject)} {act}"
    start = f"{subject} = "

    def redact_value(text: str) -> str:
        # The name of a value may tell that it is a secret.
        named = start + _IDENTITY.sub("", text)[:_MOST_SEARCHED]
        return redact(named).removeprefix(start)

    was, now = redact_value(was_text), redact_value(now_text)
    if now_text == _NOT_SET:
        return f"{subject} removed (was {shortened(was, _MOST_SHOWN)})"
    if was_text == _NOT_SET:
        was = _NOT_SET
    elif was == now:
        other = shortened(now, _MOST_SHOWN).removeprefix("the ").removeprefix("an ")
        return f"{start}another {other}"
    # Of long values, from where they differ on.
    pairs = zip(was, now, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    same = max(was.rfind(", ", 0, common) + 2, common - _MOST_SAME)
    if same > 1 and max(len(was), len(now)) > _MOST_SHOWN:
        was = f"…{was[same:]}"
        now = f"…{now[same:]}"
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
    events = sys.modules.get("asyncio.events")
    policy = attribute_of(events, "_event_loop_policy")
    return _dict_of(attribute_of(policy, "_local"))


def _take_loop() -> tuple[Any, ...]:
    loops = _loops()
    return dict(loops), attribute_of(loops.get("_loop"), "_closed")


def _put_loop(was: Any) -> None:
    loops = _loops()
    loops.clear()
    loops.update(was[0])


def _take_settings() -> dict[str, object]:
    settings = {}
    for name, (take, _) in _SETTINGS.items():
        # The working directory may have gone.
        with suppress(Exception):
            settings[name] = take()
    return settings


_set_locale: Final = partial(locale.setlocale, locale.LC_ALL)
_SETTINGS: Final[dict[str, tuple[Callable[[], Any], Callable[[Any], object]]]] = {
    "working directory": (os.getcwd, os.chdir),
    "time zone": (
        lambda: (os.environ.get("TZ", _MISSING), *time.tzname),
        _put_time_zone,
    ),
    "locale": (_set_locale, _set_locale),
    "list warnings.filters": (
        lambda: [*warnings.filters],
        _put_filters,
    ),
    "list sys.path": (
        lambda: [*sys.path],
        lambda was: sys.path.__setitem__(slice(None), was),
    ),
    "event loop of asyncio": (_take_loop, _put_loop),
    "level of logging.disable": (
        lambda: logging.root.manager.disable,
        logging.disable,
    ),
    "umask": (
        _take_umask,
        lambda was: os.umask(int(was, 8)),
    ),
}
"""What there is one of, each with what reads it and what puts it back."""


def _loggers() -> dict[str, dict[str, object]]:
    """Return what each logger holds by name, without placeholders."""
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    fields_by_path = {}
    for path, logger in loggers.items():
        fields = own_names_of(logger)
        if "handlers" in fields:
            fields_by_path[path] = fields
    return fields_by_path


def _fields_of_new_logger() -> dict[str, object]:
    return own_names_of(logging.Logger(""))  # noqa: LOG001 - it is no logger of the tree


def _take_logging() -> dict[str, object]:
    settings = {}
    # What is still as it was made is omitted: loggers are made all the time.
    fresh = _fields_of_new_logger()
    for path, fields in _loggers().items():
        for name in ("level", "disabled", "propagate", "handlers", "filters"):
            setting = fields[name]
            if type(setting) is list:
                setting = [*setting]
            if _Content(setting).text != _Content(fresh[name]).text:
                settings[f"{path}.{name}"] = setting
    return settings


def _put_logging(name: str, was: Any) -> None:
    path, _, attribute = name.rpartition(".")
    if was is _MISSING:
        was = _fields_of_new_logger()[attribute]
    _loggers()[path][attribute] = was
    # This makes loggers forget for which levels they were enabled.
    logging.disable(logging.root.manager.disable)


def random_states() -> dict[str, bytes]:
    """Return the states of the generators that all tests share: Python's and NumPy's."""
    states = {"random": pickle.dumps(random.getstate())}
    numpy_random = modules_now().get("numpy.random")
    if numpy_random is not None:
        states["numpy.random"] = pickle.dumps(numpy_random.get_state())
    return states


def _put_random_state(name: str, was: Any) -> None:
    put = random.setstate if name == "random" else sys.modules[name].set_state
    put(pickle.loads(was))  # noqa: S301 - our own bytes


def _take_descriptors() -> Counter[str]:
    targets: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        # One was that of this very listing.
        with suppress(OSError):
            targets[os.readlink(f"/proc/self/fd/{number}")] += 1
    return targets


def _take_handlers() -> dict[str, object]:
    return {number.name: signal.getsignal(number) for number in signal.Signals}


def _take_modules() -> dict[str, object]:
    return {
        name: module
        for name, module in [*sys.modules.items()]
        if type(name) is str and not _is_of_runner(name)
    }


def _take_threads() -> dict[str, object]:
    threads = threading.enumerate()
    return {str(attribute_of(one, "_name")): one for one in threads}


_LIKELY: Final = (
    _Source(
        "the environment variable ",
        lambda: dict(os.environ),
        partial(_put_item, os.environ),
    ),
    _Source(
        "the ",
        _take_settings,
        lambda name, was: _SETTINGS[name][1](was),
        acts=None,
    ),
    _Source(
        "the logging setting ",
        _take_logging,
        _put_logging,
        acts=None,
    ),
    _Source(
        "the handler of ",
        _take_handlers,
        lambda name, was: signal.signal(signal.Signals[name], was),
    ),
)
_UNLIKELY: Final = (
    _Source(
        "the module ",
        _take_modules,
        partial(_put_item, sys.modules),
        acts=("imported", "removed from sys.modules", "replaced in sys.modules"),
    ),
    _Source(
        "the state of ",
        random_states,
        _put_random_state,
    ),
    _Source(
        "the thread ",
        _take_threads,
        acts=("running", "ended", "replaced"),
    ),
    _Source(
        "the descriptor of ",
        _take_descriptors,
        acts=("open", "closed", "open more or less often"),
    ),
)
"""Tests leave these behind, too, but they seldom make another one fail."""
_FILES: Final = _Source(
    "the file ",
    dict,
    acts=("added", "removed", "changed"),
)

"""Find what was replaced of pytest, pluggy and unittest, which decide results.

What these modules and their classes have is kept at the start and compared later. A
function whose code is the user's is found even if it was there at the start: a
`sitecustomize` or an early plugin comes before this one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.hooks import inspection
from pytest_failure_taxonomy.survive import own_files
from pytest_failure_taxonomy.survive.statements import (
    find_statement,
    functions_in,
    last_line_of,
)
from pytest_failure_taxonomy.taxonomy.code_owners import LIBRARIES

_GUARDED: Final = frozenset({"_pytest", "pluggy", "pytest", "unittest"})
"""Packages that decide what a result is."""
_GUARDED_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "ast": ("parse",),
    "builtins": (
        *("AssertionError", "all", "any", "isinstance", "len", "max", "min"),
        *("sorted", "sum"),
    ),
    "datetime": ("date", "datetime"),
    "os": ("name",),
    "signal": ("alarm", "setitimer"),
    "sys": ("platform",),
    "time": ("monotonic", "perf_counter", "process_time", "time"),
}
"""Names of other modules with which a test can be made to pass or to be skipped."""
_SURROUNDINGS: Final = ("datetime.", "os.", "signal.", "sys.", "time.")
_ASSERTIONS: Final = (
    *("unittest.", "builtins.", "_pytest.assertion.", "_pytest.outcomes."),
    *("_pytest.python_api.", "_pytest.raises.", "pytest."),
)
"""How the names begin of what makes assertions."""
_ALWAYS_TRUE: Final = r"^return (True|isinstance\(\w+, object\))$"
_OF_EXECNET: Final = "__channelexec__"
"""The name of the module of a worker of xdist, which is no module that was loaded."""
_PLAIN: Final = (bool, bytes, dict, float, int, list, set, str, tuple, type(None))
"""Types of settings, such as `unittest.TestCase.maxDiff`."""
_MISSING: Final = object()
_SELF: Final = f"{os.sep}pytest_failure_taxonomy{os.sep}"


class Replacement(NamedTuple):
    """Something that was replaced."""

    name: str
    """With its module and class."""
    attribute: str
    """The last part of it."""
    path: str | None
    """The user's file with its code; `None` if it has none."""
    line: int
    """Where that code begins."""

    @property
    def kind(self) -> str:
        """The kind of the finding, without its family."""
        if self.attribute == "testsfailed" or ".ExitCode." in self.name:
            return "exit_status"
        if self.name.startswith(_SURROUNDINGS):
            return "environment_changed"
        if self.name.startswith(_ASSERTIONS):
            return "assertion_replaced"
        return "pytest_replaced"


class GuardedNames:
    """What the guarded modules and classes had at the start."""

    def __init__(self) -> None:
        self._before = {id(holder): names for _, holder, names in _iterate_guarded()}
        self._checked: set[int] = set()
        """Modules and classes whose functions have all been looked at."""
        self._files: set[str] = set()
        """Files that are not the user's."""

    def replacements(self) -> Iterator[Replacement]:
        """Yield what was replaced since, and once what had the user's code then."""
        for label, holder, names in _iterate_guarded():
            before = self._before.setdefault(id(holder), names)
            if id(holder) not in self._checked:
                self._checked.add(id(holder))
                yield from self._check(label, names)
            for name, value in names.items():
                old = before.get(name, _MISSING)
                if old is not value and _is_replaced(label, old, value):
                    path, line = place_of(value)
                    if path is not None and not is_users_file(path):
                        path = None
                    yield Replacement(f"{label}.{name}", name, path, line)

    def _check(self, label: str, names: Mapping[str, Any]) -> Iterator[Replacement]:
        """Yield functions that have the user's code in place of the module's own."""
        own: set[str] | None = None
        for name, value in names.items():
            if type(value) is FunctionType:
                path = value.__code__.co_filename
                if path in self._files:
                    continue
                if not is_users_file(path):
                    self._files.add(path)
                    continue
                if own is None:
                    own = _names_of_source(label)
                if name in own:
                    line = value.__code__.co_firstlineno
                    yield Replacement(f"{label}.{name}", name, path, line)


def _names_of_source(label: str) -> set[str]:
    """Return the functions that a module's own file defines, those of classes too."""
    module: object = None
    while label and module is None:
        module = sys.modules.get(label)
        label = label.rpartition(".")[0]
    path = file_of_module(module)
    exported = inspection.attribute_of(module, "__all__", ())
    names = {str(name) for name in exported}
    return names | {parts[-1] for parts in functions_in(path)} if path else names


def _is_replaced(label: str, old: object, value: object) -> bool:
    """Tell whether a new value counts: no setting, no new name but a property's."""
    if old is _MISSING:
        return type(value) is property
    return label in _GUARDED_NAMES or type(old) not in _PLAIN


def _iterate_guarded() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield guarded modules and classes: name, object, and what it has now."""
    for name, module in [*sys.modules.items()]:
        if name in _GUARDED_NAMES:
            names = vars(module)
            yield name, module, {key: names.get(key) for key in _GUARDED_NAMES[name]}
        elif name.partition(".")[0] in _GUARDED and type(module) is ModuleType:
            names = dict(vars(module))
            yield name, module, names
            for value in names.values():
                is_class = issubclass(type(value), type)
                if is_class and inspection.module_of(value) == name:
                    label = f"{name}.{inspection.name_of(value)}"
                    yield label, value, dict(inspection.body_of(value))


def shadowed_packages() -> Iterator[tuple[str, str]]:
    """Yield packages of pytest that were loaded from elsewhere, with their files."""
    for name in ("pytest", "_pytest", "pluggy"):
        path = file_of_module(sys.modules.get(name))
        if path is not None and LIBRARIES.isdisjoint(path.split(os.sep)):
            others = [entry for entry in sys.path if entry.endswith("-packages")]
            if any(os.path.exists(os.path.join(entry, name)) for entry in others):
                yield name, path


def equal_to_all(root: Path) -> dict[CodeType, tuple[str, int]]:
    """Return each `__eq__` of the project that is always true, with its place.

    Those of test files are left out: a test may expect anything.
    """
    always = {}
    for module in [*sys.modules.values()]:
        path = file_of_module(module)
        if path is None or not is_projects_code(path, root):
            continue
        for value in [*inspection.own_names_of(module).values()]:
            if not issubclass(type(value), type):
                continue
            function = inspection.function_in(
                inspection.body_of(value).get("__eq__")  # type: ignore[arg-type]
            )
            if function is None or function.__code__.co_filename != path:
                continue
            line = function.__code__.co_firstlineno
            lines = line + 1, last_line_of(path, line)
            returns = find_statement(path, [_ALWAYS_TRUE], lines)
            if returns is not None and returns == find_statement(path, [""], lines):
                always[function.__code__] = path, returns
    return always


def is_projects_code(path: str, root: Path) -> bool:
    """Tell whether a file is the user's, and no part of the tests."""
    relative = os.path.relpath(path, root).lower()
    return is_users_file(path) and "test" not in relative


def is_users_file(path: str) -> bool:
    """Tell whether a file is neither of Python nor of an installed distribution."""
    if path.startswith(("<", own_files.STANDARD_LIBRARY)) or _SELF in path:
        return False
    return LIBRARIES.isdisjoint(path.split(os.sep)) and own_files.is_of_the_user(path)


def is_users_function(function: FunctionType) -> bool:
    """Tell whether the code of a function is the user's.

    A function that was compiled from a text can name any file, but its names are not
    those of a module that was loaded.
    """
    if is_users_file(function.__code__.co_filename):
        return True
    name = function.__globals__.get("__name__")
    if name == _OF_EXECNET:
        return False
    module = sys.modules.get(name) if type(name) is str else None
    return module is None or vars(module) is not function.__globals__


def file_of_module(module: object) -> str | None:
    """Return the file of a module; `None` if it has none."""
    path = inspection.attribute_of(module, "__file__")
    return path if type(path) is str else None


def place_of(value: Any) -> tuple[str | None, int]:
    """Return the file and the line of a function's code, or of a class's module."""
    if type(value) in (staticmethod, classmethod):
        value = value.__func__
    if type(value) is property:
        value = value.fget
    function = inspection.function_in(value)
    code: CodeType | None = None if function is None else function.__code__
    if code is not None:
        return code.co_filename, code.co_firstlineno
    if not issubclass(type(value), type):
        return None, 1
    path = file_of_module(sys.modules.get(inspection.module_of(value)))
    methods = [place_of(method) for method in inspection.body_of(value).values()]
    lines = [line for file, line in methods if file == path]
    return path, min(lines, default=1)

"""Work with the interpreter as it was at the start, whatever tests have made of it.

A test may patch a function and never put it back, and a file beside it may have the name of a
library that this package imports at the end of a run.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Final

_ISOLATED: Final[dict[ModuleType, ModuleType]] = {}
_IMPORTED_LATE: Final = (
    "alembic",
    "defusedxml",
    "jinja2",
    "mako",
    "markupsafe",
    "pydantic",
    "pydantic_core",
    "regex",
    "sqlalchemy",
    "yaml",
)
"""The libraries that are imported when they are needed."""
_PLACES: Final = frozenset({"site-packages", "dist-packages"})
_PYTHON: Final = os.path.dirname(os.__file__)


def isolate_module(module: ModuleType) -> ModuleType:
    """Return a copy of a module that keeps what a test replaces in the module and never puts back.

    Write `os = isolate_module(os)` behind the imports of what is imported before any test runs.
    """
    if module not in _ISOLATED:
        _ISOLATED[module] = copy = ModuleType(module.__name__)
        vars(copy).update(vars(module))
    return _ISOLATED[module]


_RESTORED: Final = {module: isolate_module(module) for module in (builtins, os, os.path)}


@contextmanager
def interpreter_as_it_was() -> Iterator[None]:
    """Undo for a while what tests have patched, and import libraries past the tests' modules."""
    patched = {module: dict(vars(module)) for module in _RESTORED}
    for module, copy in _RESTORED.items():
        vars(module).update(vars(copy))
    path = sys.path[:]
    sys.path[:] = sorted(path, key=lambda entry: not _is_of_library(entry))
    hidden = {name: sys.modules.pop(name) for name in _IMPORTED_LATE if _is_hidden(name)}
    try:
        yield
    finally:
        sys.modules.update(hidden)
        sys.path[:] = path
        for module, names in patched.items():
            vars(module).update(names)


def _is_of_library(path: str | None) -> bool:
    """Tell whether a path is one of installed libraries, or of Python's own."""
    return path is not None and (
        not _PLACES.isdisjoint(str(path).split(os.sep)) or str(path).startswith(_PYTHON)
    )


def _is_hidden(name: str) -> bool:
    """Tell whether a module of the tests has the name of a library that is installed."""
    if name not in sys.modules:
        return False
    module = sys.modules[name]
    file = vars(module).get("__file__") if type(module) is ModuleType else None
    if _is_of_library(file):
        return False
    return (
        PathFinder.find_spec(name, [each for each in sys.path if _is_of_library(each)]) is not None
    )


def our_command(*words: str) -> str:
    """Return a command of ours as a shell of this machine takes it, from a checkout, too."""
    import shlex
    import shutil

    folders = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    program = ["failure-taxonomy"]
    if shutil.which(program[0], path=folders) is None:  # it is not installed, only importable
        program = [sys.executable, "-m", "pytest_failure_taxonomy"]
    return shlex.join([*program, *words])

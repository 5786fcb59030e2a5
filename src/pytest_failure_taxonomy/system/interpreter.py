"""Work with the interpreter as it was at the start, whatever tests have made of it.

A test may patch a function and never put it back, and a file beside it may have the
name of a library that this package imports at the end of a run.

What is written to stdout and stderr has no effect on the exit status. A stream may be
closed, on a full disk, or a pipe without a reader. Python keeps what it could not
write, tries again when it exits, and changes the exit status to 120. So the text goes
to the descriptor, past the buffer of the stream.
"""

from __future__ import annotations

import builtins
import errno
import os
import select
import sys
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import IO, Any, Final

_PACKAGE: Final = __name__.partition(".")[0]
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

_COPIED: Final = frozenset(
    {
        *(
            "builtins",
            "genericpath",
            "io",
            "json",
            "linecache",
            "ntpath",
            "os",
            "posixpath",
            "re",
        ),
        *("signal", "struct", "subprocess", "time", "tokenize", "tomllib", "traceback"),
    }
)
"""Modules of Python of which our modules get a copy. Their functions assign to no
global name, so those of a copy do the same."""
_SHARED: Final = frozenset(
    {
        "asyncio",
        "logging",
        "pdb",
        "signal",
        "sys",
        "threading",
        "warnings",
    }
)
"""Modules of Python in which others replace functions for good, or whose state threads
share."""
_REPLACEABLE: Final = frozenset(
    (
        BuiltinFunctionType,
        FunctionType,
        ModuleType,
        type,
    )
)
_BUILTINS: Final = {
    name: value for name, value in vars(builtins).items() if not name.startswith("_")
}

_ISOLATED: Final[dict[ModuleType, ModuleType]] = {}
_MODULES: Final[dict[str, ModuleType]] = {}
"""The modules of Python and of this package that were loaded before any test ran."""
_AT_START: Final[dict[ModuleType, dict[str, object]]] = {}
"""What those of Python had, by the names that a test may replace."""

WAIT_SECONDS: Final = 5.0
"""How long to wait for room in a non-blocking stream."""


def isolate_module(module: ModuleType) -> ModuleType:
    """Return a copy of a module that keeps what a test replaces in the module and never puts back.

    The functions of a copy call each other and those of other copies, never what a test
    has put in their place. Write `os = isolate_module(os)` behind the imports of a
    module that is not loaded when `isolate_package` is called.
    """
    if module in _ISOLATED:
        return _ISOLATED[module]
    copy = _ISOLATED[module] = ModuleType(module.__name__)
    names = vars(copy)
    names.update(vars(module))
    for name, value in vars(module).items():
        if type(value) is FunctionType and value.__globals__ is vars(module):
            names[name] = _copy_function(value, names)
    _isolate_names(names)
    # pyfakefs replaces all that has the name of a module, wherever it stands.
    copy.__name__ = f"{module.__name__} of {_PACKAGE}"
    return copy


def _copy_function(function: FunctionType, names: dict[str, object]) -> FunctionType:
    """Return a function that does the same with other global names."""
    copy = FunctionType(
        function.__code__,
        names,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _isolate_names(names: dict[str, object]) -> None:
    for name, value in [*names.items()]:
        if type(value) is ModuleType and value.__name__ in _COPIED:
            names[name] = isolate_module(value)


def isolate_package() -> None:
    """Isolate the loaded modules of this package from what tests are going to replace.

    They get copies of Python's modules, and all that Python's modules have is
    remembered.

    To be called before any test runs, and again when more modules are loaded.
    """
    for name, module in [*sys.modules.items()]:
        package = name.partition(".")[0]
        if name in _MODULES:
            continue
        names = getattr(module, "__dict__", None)
        if names is None:  # somebody has blocked the module
            continue
        if package == _PACKAGE:
            _isolate_names(names)
            # A global name is looked for here before it is looked for in `builtins`.
            names.update(_BUILTINS | names)
        elif package not in sys.stdlib_module_names:
            continue
        elif not (package in _SHARED or package.startswith("_")):
            _AT_START[module] = {
                name: value
                for name, value in names.items()
                if type(value) in _REPLACEABLE
            }
        _MODULES[name] = module


def is_patched(names: Collection[str] = _COPIED) -> bool:
    """Tell whether a test has replaced something in modules of Python, or has hidden a module.

    Args:
        names: of the modules.
    """
    holders = [holder for holder, _ in _find_replaced()]
    return bool(_find_hidden()) or any(_MODULES.get(name) in holders for name in names)


def _find_replaced() -> list[tuple[ModuleType, str]]:
    """Return the modules in which something is replaced by now, and its name."""
    return [
        (module, name)
        for module, names in _AT_START.items()
        for name, value in names.items()
        if vars(module).get(name, value) is not value
    ]


def _find_hidden() -> list[str]:
    """Return the names of modules that are no longer loaded, or are other ones."""
    modules = sys.modules
    return [
        name for name, module in _MODULES.items() if modules.get(name) is not module
    ]


@contextmanager
def interpreter_as_it_was() -> Iterator[None]:
    """Undo for a while what tests have patched, and import libraries past the tests' modules."""
    patches = [(module, name, vars(module)[name]) for module, name in _find_replaced()]
    for module, name, _ in patches:
        setattr(module, name, _AT_START[module][name])
    path = sys.path[:]
    libraries: list[str] = []
    others: list[str] = []
    for entry in path:
        (libraries if _is_of_library(entry) else others).append(entry)
    sys.path[:] = libraries + others
    modules = sys.modules
    hidden = [
        name for name in _IMPORTED_LATE if _is_hidden(name, libraries)
    ] + _find_hidden()
    theirs = {name: modules.pop(name, None) for name in hidden}
    modules.update(_MODULES)
    try:
        yield
    finally:
        for name, other in theirs.items():
            modules.pop(name, None)
            if other is not None:
                modules[name] = other
        sys.path[:] = path
        for module, name, patch in patches:
            setattr(module, name, patch)


def _is_of_library(path: str | None) -> bool:
    """Tell whether a path is one of installed libraries, or of Python's own."""
    return path is not None and (
        not _PLACES.isdisjoint(str(path).split(os.sep)) or str(path).startswith(_PYTHON)
    )


def _is_hidden(name: str, libraries: list[str]) -> bool:
    """Tell whether a module of the tests has the name of a library that is installed."""
    if name not in sys.modules:
        return False
    module = sys.modules[name]
    file = vars(module).get("__file__") if type(module) is ModuleType else None
    return (
        not _is_of_library(file) and PathFinder.find_spec(name, libraries) is not None
    )


def call_after_fork(*methods: Any, where: str = "after_in_child") -> None:
    """Call bound methods in each forked child of this process, as long as their objects exist.

    Args:
        methods: without arguments.
        where: `after_in_parent` to call them in this process instead.
    """
    if not hasattr(os, "register_at_fork"):
        return
    references = [weakref.WeakMethod(method) for method in methods]

    def call() -> None:
        for reference in references:
            method = reference()
            if method is not None:
                method()

    os.register_at_fork(**{where: call})


def our_command(*words: str) -> str:
    """Return a command of ours as a shell of this machine takes it, from a checkout, too."""
    import shlex
    import shutil

    folders = os.pathsep.join(
        [os.path.dirname(sys.executable), os.environ.get("PATH", "")]
    )
    program = ["failure-taxonomy"]
    if (
        shutil.which(program[0], path=folders) is None
    ):  # it is not installed, only importable
        program = [sys.executable, "-m", "pytest_failure_taxonomy"]
    return shlex.join([*program, *words])


def write_words(stream: IO[str] | None, text: str) -> OSError | None:
    """Write text at once, after what was written before.

    Args:
        stream: `sys.stdout` or `sys.stderr`, which is `None` if it was closed from the
            start.
        text: whole lines. Characters that the encoding lacks are written as escapes.

    Returns:
        The error if the text could not be written.
    """
    if stream is None:
        return OSError(errno.EBADF, "the stream is closed")
    try:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        content = text.encode(encoding, "backslashreplace")
        descriptor = _descriptor_of(stream)
        if descriptor is None:
            stream.write(content.decode(encoding))
        stream.flush()
        while descriptor is not None and content:
            try:
                content = content[os.write(descriptor, content) :]
            except BlockingIOError:
                if not select.select([], [descriptor], [], WAIT_SECONDS)[1]:
                    raise
    except OSError as error:
        return error
    except ValueError as error:  # the stream is closed
        return OSError(errno.EBADF, str(error))
    return None


def drop_unwritten(stream: IO[str] | None) -> None:
    """Flush a stream or, if that fails, discard what it still gets.

    For a process that is about to end.
    """
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            descriptor = stream.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def _descriptor_of(stream: IO[str]) -> int | None:
    """Return the descriptor to write to; `None` if the stream itself has to be used."""
    if (
        os.name == "nt"
    ):  # the stream converts line ends, and writes UTF-16 to the console
        return None
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # the object of a notebook, say
        return None

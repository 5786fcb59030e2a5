"""Work with the interpreter as it was at the start, whatever tests have made of it.

A test may patch a function and never put it back, and a file beside it may have the name of a
library that this package imports at the end of a run.

What is written to stdout and stderr has no effect on the exit status. A stream may be closed, on a
full disk, or a pipe without a reader. Python keeps what it could not write, tries again when it
exits, and changes the exit status to 120. So the text goes to the descriptor, past the buffer of
the stream.
"""

from __future__ import annotations

import builtins
import errno
import os
import select
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from types import ModuleType
from typing import IO, Any, Final

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

WAIT_SECONDS: Final = 5.0
"""How long to wait for room in a non-blocking stream."""


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
    libraries: list[str] = []
    others: list[str] = []
    for entry in path:
        (libraries if _is_of_library(entry) else others).append(entry)
    sys.path[:] = libraries + others
    hidden = {name: sys.modules.pop(name) for name in _IMPORTED_LATE if _is_hidden(name, libraries)}
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


def _is_hidden(name: str, libraries: list[str]) -> bool:
    """Tell whether a module of the tests has the name of a library that is installed."""
    if name not in sys.modules:
        return False
    module = sys.modules[name]
    file = vars(module).get("__file__") if type(module) is ModuleType else None
    return not _is_of_library(file) and PathFinder.find_spec(name, libraries) is not None


def call_after_fork(*methods: Any) -> None:
    """Call bound methods in each forked child of this process, as long as their objects exist."""
    if not hasattr(os, "register_at_fork"):
        return
    references = [weakref.WeakMethod(method) for method in methods]

    def call() -> None:
        for reference in references:
            method = reference()
            if method is not None:
                method()

    os.register_at_fork(after_in_child=call)


def our_command(*words: str) -> str:
    """Return a command of ours as a shell of this machine takes it, from a checkout, too."""
    import shlex
    import shutil

    folders = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    program = ["failure-taxonomy"]
    if shutil.which(program[0], path=folders) is None:  # it is not installed, only importable
        program = [sys.executable, "-m", "pytest_failure_taxonomy"]
    return shlex.join([*program, *words])


def write_words(stream: IO[str] | None, text: str) -> OSError | None:
    """Write text at once, after what was written before.

    Args:
        stream: `sys.stdout` or `sys.stderr`, which is `None` if it was closed from the start.
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
    if os.name == "nt":  # the stream converts line ends, and writes UTF-16 to the console
        return None
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # the object of a notebook, say
        return None

"""Tell which file, function and module an entry of a traceback belongs to."""

from __future__ import annotations

import os
from types import CodeType, FrameType, TracebackType
from typing import Final, NamedTuple

from pytest_failure_taxonomy.hooks.inspection import is_plain

MAX_FRAMES: Final = 2_000
"""Frames that are read; a longer traceback is a recursion."""

OWN: Final = 2
FOREIGN: Final = 1
RUNNER: Final = 0
"""The owner of a file: the user, a library, the test runner."""

PLUGGY: Final = f"{os.sep}pluggy{os.sep}"
_PASSED_ON: Final = frozenset({"_multicall", "get_result"})
"""Functions of pluggy through which a hook wrapper receives the exception of another
hook."""
# Since Python 3.12 a comprehension runs in the function around it.
_INLINED: Final = (
    ".<locals>.<listcomp>",
    ".<locals>.<dictcomp>",
    ".<locals>.<setcomp>",
)
_INLINED_AT_TOP: Final = ("<listcomp>", "<dictcomp>", "<setcomp>")


class FileFound(NamedTuple):
    """What a traceback's walk has to know of a file."""

    owner: int
    path: str
    """The same on every machine."""
    is_asked: bool
    """Whether its code can be what raised: not the standard library's."""


def passes_on(entry: TracebackType) -> bool:
    """Tell whether a hook wrapper receives another hook's exception here."""
    code = entry.tb_frame.f_code
    return is_relay(code.co_name, code.co_filename)


def is_relay(function: str, path: str) -> bool:
    """Tell the same of a function by its name and its file."""
    return function in _PASSED_ON and PLUGGY in path


def file_of_code(name: str, names: dict[str, object]) -> str | None:
    """Return the file of some code; for generated code, that of its module.

    A compiled module's functions name a file that need not be there.
    """
    if (
        name.startswith(os.sep)
        or os.path.isabs(name)
        or (not name.startswith("<") and os.path.isfile(name))
    ):
        return name
    file = names.get("__file__")
    if isinstance(file, str) and os.path.isabs(file):
        return file
    return name if name.startswith("<frozen ") else None


def file_of_frame(frame: FrameType) -> str | None:
    """Return the file that the code of a frame is from."""
    return file_of_code(frame.f_code.co_filename, frame.f_globals)


def function_of(code: CodeType) -> str:
    """Return the qualified name of a function, without the comprehension in it."""
    name = code.co_qualname
    if name.endswith("comp>"):
        for ending in _INLINED:
            name = name.removesuffix(ending)
    return "<module>" if name in _INLINED_AT_TOP else name


def is_hidden(frame: FrameType, code: CodeType) -> bool:
    """Tell whether a function asks pytest to hide it in tracebacks."""
    name = "__tracebackhide__"
    if name in code.co_varnames or name in code.co_cellvars:
        hidden = frame.f_locals.get(name)
    else:
        hidden = frame.f_globals.get(name)
    return is_plain(hidden) and bool(hidden)  # a callable hides some exceptions only


def module_of_frame(frame: FrameType) -> str:
    """Return the name of the module that a frame runs code of."""
    return module_name_in(frame.f_globals)


def module_name_in(names: dict[str, object]) -> str:
    """Return the name of the module that a frame's globals are of."""
    name: object = names.get("__name__")
    if type(name) is str:
        return name
    return ""

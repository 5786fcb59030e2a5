"""Name two distributions that don't fit: one asks the other for what it lacks.

A line of an installed distribution asks: it imports a name, reads an attribute, calls a
function. It is the innermost line of the traceback, that of the import system apart.
Whom it asks, the exception tells: by the name of a module, by an object, by the name of
a function. Where the user's own line asks, nothing is said here.

Nothing of the user's runs: see `inspection`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from inspect import CO_OPTIMIZED
from opcode import opmap
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.hooks import inspection, origin, tracebacks
from pytest_failure_taxonomy.hooks.owners import (
    Distribution,
    distribution_of,
    normal_name,
    requirements_of,
)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.hooks.origin import OriginFinder

_Pair = tuple[Distribution | None, Distribution | None]
"""Who asks, and who is asked."""
_DEPRECATIONS: Final = (
    DeprecationWarning,
    PendingDeprecationWarning,
    FutureWarning,
    SyntaxWarning,
)
_PYTHON: Final = Distribution("Python", "{}.{}".format(*sys.version_info), ())
_SIGNATURE: Final = (
    r"([\w.<>]{1,300})\(\) (?:got an unexpected keyword argument '(\w+)'"
    r"|got multiple values |missing \d|takes )"
)
_BUILT_FOR: Final = (
    r"(?i)^(\w+)\.[\w.]+ size changed, may indicate binary incompatibility"
    r"|compiled (?:using|against) (numpy)\b"
    r"|^module compiled against A[PB]I version \S+ but this version of (\w+) is"
    r"|^(numpy)\.core\.multiarray failed to import"
    r"|undefined symbol: _?(Py)"
)
"""How compiled code says that it was built for another version of a package."""
_PASSING_ON: Final = frozenset({"deprecated", "typing-extensions", "wrapt"})
"""Distributions that warn for the functions of others."""


def misfit_of(
    error: BaseException, message: str, origins: OriginFinder
) -> dict[str, str]:
    """Return the facts about two distributions; empty if no line of theirs asked.

    `caller` asks, `callee` is asked; each has a `_version`. Of a missing module nothing
    tells who should have it: there is no callee, but the version of `python`.
    `requirement` says which version of the callee the caller's own metadata ask for,
    where that is not the installed one.

    Args:
        error: has been raised.
        message: its text.
        origins: of the run.
    """
    file = origin.named_place(error)[0]
    if file:
        pair: _Pair = _distribution(file, {}, origins), _PYTHON
    elif issubclass(type(error), _DEPRECATIONS):
        pair = _find_deprecation_pair(error, origins)
    else:
        pair = _find_request_pair(error, message, origins)
    caller, callee = pair
    if caller is None or caller == _PYTHON:
        return {}
    facts = {"caller": caller.name, "caller_version": caller.version}
    if callee is None or callee == caller:
        if not issubclass(type(error), ModuleNotFoundError):
            return {}
        facts["python"] = _PYTHON.version
        return facts
    facts["callee"] = callee.name
    facts["callee_version"] = callee.version
    for specifier in _specifiers(caller, callee):
        if not specifier.contains(callee.version, prereleases=True):
            facts["requirement"] = f"{callee.name}{specifier}"
    return facts


def _find_deprecation_pair(error: BaseException, origins: OriginFinder) -> _Pair:
    """Return who called something deprecated, and who has deprecated it."""
    entries = inspection.entries_of(error)
    if not entries:
        return None, None
    last = entries[-1]
    warning = _distribution_at(last, origins)
    if "warn" not in _statement_at(last, origins):
        return warning, _PYTHON  # compiled code warned, which has no frame
    if warning is None or warning.name in _PASSING_ON:
        return None, None
    for entry in reversed(entries):
        caller = _distribution_at(entry, origins)
        if caller != warning:
            return caller, warning
    return None, warning


def _find_request_pair(
    error: BaseException, message: str, origins: OriginFinder
) -> _Pair:
    """Return who asked for something, and who hasn't got it."""
    entries = _entries_of(error)
    if not entries:
        return None, None
    asking = origins.skip_answering_frames(error, entries)
    last = asking[-1]
    if len(asking) < len(entries):
        answer = entries[len(asking)].tb_frame
        module = _find_answering_module(answer, last, origins)
    else:
        module = _find_asked_module(error, message, last)
    caller = _distribution_at(last, origins) if module else None
    if caller is None:  # nothing that is known of, or the user's own line
        return None, None
    callee = _find_distribution(module, origins)
    holder = inspection.holder_of(error)
    if holder is None or issubclass(type(holder), ModuleType) or callee is None:
        return caller, callee
    # The user may have passed any object. Who knows the other one requires it.
    is_plugin = caller.plugins and callee.name == "pytest"
    required = [*_specifiers(caller, callee), *_specifiers(callee, caller)]
    if is_plugin or required:
        return caller, callee
    return caller, None


def _entries_of(error: BaseException) -> list[TracebackType]:
    """Return the entries of a traceback, without those of the import system."""
    entries = []
    for entry in inspection.entries_of(error)[-tracebacks.MAX_FRAMES :]:
        module = tracebacks.module_of_frame(entry.tb_frame)
        if module.partition(".")[0] != "importlib":
            entries.append(entry)
    return entries


def _find_answering_module(
    answer: FrameType, asking: TracebackType, origins: OriginFinder
) -> str:
    """Return the module whose `__getattr__` a line asks; empty if that is unknown.

    That of an object may stand for the user's data, such as settings or columns. A line
    that calls what it asks for wants a method.
    """
    code = answer.f_code
    last_argument = code.co_varnames[code.co_argcount - 1]
    name = answer.f_locals.get(last_argument)
    if not _writes(asking.tb_frame.f_code, name):
        return ""
    is_of_object = code.co_qualname != "__getattr__"
    if is_of_object and f".{name}(" not in _statement_at(asking, origins):
        return ""
    return tracebacks.module_of_frame(answer)


def _statement_at(entry: TracebackType, origins: OriginFinder) -> str:
    frame = entry.tb_frame
    file = frame.f_code.co_filename
    return origins.statement(file, entry.tb_lineno, frame.f_globals)


def _find_asked_module(
    error: BaseException, message: str, asking: TracebackType
) -> str:
    """Return the module that lacks what a line asks for; empty if that isn't known.

    What the line's code doesn't write, it only passes on from its own caller.
    """
    code = asking.tb_frame.f_code
    built_for = re.search(_BUILT_FOR, message)
    if built_for is not None:
        module = next(filter(None, built_for.groups())).lower()
        return "builtins" if module == "py" else module
    if issubclass(type(error), ImportError):
        name = inspection.field_of(error, ImportError, "name")
        is_statement = message.startswith("cannot import name")
        is_asked = type(name) is str and (is_statement or _writes(code, name))
        return name if is_asked else ""
    holder = inspection.holder_of(error)
    if holder is not None:
        name = inspection.field_of(error, AttributeError, "name")
        if _writes(code, name):
            return _module_of(holder)
        return ""
    call = re.match(_SIGNATURE, message)
    if call is None:
        return ""
    return _find_called_module(asking, *call.groups())


def _module_of(holder: object) -> str:
    """Return the name of a module, or of the module of an object's class."""
    if issubclass(type(holder), ModuleType):
        return tracebacks.module_name_in(inspection.own_names_of(holder))
    return inspection.module_of(_classes_of(holder)[0])


def _find_called_module(
    asking: TracebackType, function: str, keyword: str | None
) -> str:
    code = asking.tb_frame.f_code
    is_written = code.co_code[asking.tb_lasti] != opmap["CALL_FUNCTION_EX"]
    if keyword:
        is_written = _writes(code, keyword)
    if is_written:
        return _find_module_holding(function, asking.tb_frame)
    return ""


def _writes(code: CodeType, name: object) -> bool:
    """Tell whether code has a name in it, or the last part of a module's name."""
    if type(name) is not str:
        return False
    last = name.rpartition(".")[2]
    words: list[object] = [*code.co_names, *code.co_consts]
    for constant in code.co_consts:
        if type(constant) is tuple:  # the keywords of a call
            words += constant
    return any(type(word) is str and last in word.split(".") for word in words)


def _find_module_holding(function: str, frame: FrameType) -> str:
    """Return the module of a function or of a method's class that a frame can name."""
    holder = function.rpartition(".")[0]
    for thing in _iterate_reachable(frame):
        plain = inspection.function_in(thing)
        if plain is not None and plain.__code__.co_qualname == function:
            return tracebacks.module_name_in(plain.__globals__)
        for base in _classes_of(thing):
            if inspection.name_of(base) == holder:
                return inspection.module_of(base)
    return ""


def _iterate_reachable(frame: FrameType) -> Iterator[object]:
    """Yield a frame's variables, and what they hold under the names in its code."""
    code = frame.f_code
    variables: list[object] = []
    if code.co_flags & CO_OPTIMIZED:  # of a function
        variables += frame.f_locals.values()
    for name in code.co_names:
        variables.append(frame.f_globals.get(name))
    yield from variables
    for variable in variables:
        for name in code.co_names:
            yield inspection.attribute_of(variable, name)


def _classes_of(thing: Any) -> tuple[type, ...]:
    kind = type(thing)
    return inspection.bases_of(thing if issubclass(kind, type) else kind)


def _distribution_at(
    entry: TracebackType, origins: OriginFinder
) -> Distribution | None:
    frame = entry.tb_frame
    file = tracebacks.file_of_frame(frame)
    if file is None:
        return None
    return _distribution(file, frame.f_globals, origins)


def _find_distribution(module: str, origins: OriginFinder) -> Distribution | None:
    """Return the distribution that a loaded module was imported from."""
    file = None
    while module and file is None:
        file = inspection.attribute_of(sys.modules.get(module), "__file__")
        top = module
        module = module.rpartition(".")[0]
    if type(file) is str:
        return _distribution(file, {"__name__": top}, origins)
    is_pythons = top in sys.modules and top in sys.stdlib_module_names
    return _PYTHON if is_pythons else None


def _distribution(
    file: str, names: dict[str, object], origins: OriginFinder
) -> Distribution | None:
    """Return the distribution of a file, or Python; `None` for the user's."""
    frame = origins.raising_frames.describe("", file, names, None)
    if frame is None:
        return None
    if frame.owner == "python":
        return _PYTHON
    if frame.package is None:
        return None
    return distribution_of(os.path.abspath(file))


def _specifiers(asking: Distribution, other: Distribution) -> Iterator[Any]:
    """Yield the versions of a distribution that another one's metadata ask for."""
    from packaging.requirements import InvalidRequirement, Requirement  # pytest's own

    for text in requirements_of(asking.info):
        with suppress(InvalidRequirement):
            requirement = Requirement(text)
            if normal_name(requirement.name) != normal_name(other.name):
                continue
            marker = requirement.marker
            if marker is None or "extra" in text or marker.evaluate():
                yield requirement.specifier

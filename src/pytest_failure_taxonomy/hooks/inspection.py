"""Read the user's exceptions without running the user's code.

An exception may have a `__str__` that exits, prints or counts its calls, properties in
place of attributes, and a metaclass with a `__name__`, `__eq__` or `__hash__` of its
own. So names are read by the descriptors of `type` itself, fields by those of Python's
own exceptions, types are compared by `is`, and a text is the one that pytest has
formatted already.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Mapping
from opcode import opmap
from types import (
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    TracebackType,
)
from typing import Any, Final, cast

from pytest_failure_taxonomy.system.interpreter import isolate_module

signal = isolate_module(signal)

_MODULE: Final = vars(type)["__module__"].__get__

name_of: Final = cast("Callable[[type], str]", vars(type)["__qualname__"].__get__)
"""Return the qualified name of a type."""
bases_of: Final = cast(
    "Callable[[type], tuple[type, ...]]", vars(type)["__mro__"].__get__
)
"""Return a type and its bases, in the order in which attributes are looked for."""
body_of: Final = cast(
    "Callable[[type], Mapping[str, object]]", vars(type)["__dict__"].__get__
)
"""Return the names in the body of a class."""
traceback_of: Final = cast(
    "Callable[[BaseException], TracebackType | None]",
    vars(BaseException)["__traceback__"].__get__,
)
"""Return the traceback of an exception."""
direct_cause_of: Final = cast(
    "Callable[[BaseException], BaseException | None]",
    vars(BaseException)["__cause__"].__get__,
)
"""Return the exception that an exception was raised from."""
_CONTEXT: Final = vars(BaseException)["__context__"].__get__
_IS_CONTEXT_SUPPRESSED: Final = vars(BaseException)["__suppress_context__"].__get__

# What `str()` of Python's own exceptions is made of; `args` is the tuple of all
# arguments.
_UNICODE: Final = ("encoding", "object", "reason")
_TEXT_FIELDS: Final[tuple[tuple[type[BaseException], tuple[str, ...]], ...]] = (
    (BaseException, ("args",)),
    (KeyError, ("args",)),
    (ImportError, ("args", "msg")),
    (OSError, ("args", "errno", "strerror", "filename", "filename2")),
    (SyntaxError, ("msg", "filename", "lineno")),
    (BaseExceptionGroup, ("message",)),
    (UnicodeEncodeError, _UNICODE),
    (UnicodeDecodeError, _UNICODE),
    (UnicodeTranslateError, _UNICODE[1:]),
)

_SIGNALS: Final = tuple(signal.valid_signals())
_RAISE: Final = opmap["RAISE_VARARGS"]


def module_of(kind: type) -> str:
    """Return the module of a type; `<unknown>` if code has assigned another value."""
    module: object = _MODULE(kind)
    if type(module) is str:
        return module
    return "<unknown>"


def dotted_name_of(kind: type) -> str:
    """Return module and qualified name of a type."""
    return f"{module_of(kind)}.{name_of(kind)}"


def names_of_bases(kind: type) -> tuple[str, ...]:
    """Return the dotted names of a type and its bases, without `object`."""
    return tuple([dotted_name_of(base) for base in bases_of(kind)[:-1]])


def cause_or_context_of(error: BaseException) -> tuple[BaseException | None, bool]:
    """Return the exception behind an exception, and whether it was raised `from` it."""
    cause = direct_cause_of(error)
    if cause is None and not _IS_CONTEXT_SUPPRESSED(error):
        return _CONTEXT(error), False
    return cause, True


def field_of(error: BaseException, owner: type[BaseException], name: str) -> Any:
    """Return a field of an exception that one of Python's own exceptions has."""
    return getattr(owner, name).__get__(error)


def holder_of(error: BaseException) -> Any:
    """Return the object that lacks the attribute of an `AttributeError`, or `None`."""
    is_attribute = issubclass(type(error), AttributeError)
    if is_attribute:
        return field_of(error, AttributeError, "obj")
    return None


def entries_of(error: BaseException) -> list[TracebackType]:
    """Return the entries of an exception's traceback, the outermost first."""
    entries = []
    traceback = traceback_of(error)
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries


def is_plain(value: object) -> bool:
    """Tell whether a value is of one of Python's simple types, not of a subclass."""
    kind = type(value)
    return (
        kind is str
        or value is None
        or kind is int
        or kind is bool
        or kind is float
        or kind is bytes
    )


def own_names_of(value: object) -> dict[str, object]:
    """Return the own attributes of an instance or a module; empty if it has none."""
    for base in bases_of(type(value)):
        holder = body_of(base).get("__dict__")
        if type(holder) is GetSetDescriptorType or type(holder) is MemberDescriptorType:
            names = holder.__get__(value)
            # A class has a mappingproxy, and is no instance that holds anything.
            return names if issubclass(type(names), dict) else {}
    return {}


def attribute_of(value: object, name: str, default: Any = None) -> Any:
    """Return an own attribute of an instance or a module, not one of its class."""
    return dict.get(own_names_of(value), name, default)


def function_in(value: object) -> FunctionType | None:
    """Return a Python function, or that of a method; `None` for any other object."""
    if type(value) is MethodType:
        value = value.__func__
    if type(value) is FunctionType:
        return value
    return None


def is_of_fixture_lookup(error: BaseException) -> bool:
    """Tell whether pytest has not found a fixture: then the asking code matters."""
    kind = type(error)
    return (
        name_of(kind) == "FixtureLookupError" and module_of(kind) == "_pytest.fixtures"
    )


def text_of(error: BaseException, formatted: str = "") -> str:
    """Return what `str()` of an exception returns.

    Where that could run code of the user's, it is taken from what pytest has formatted.
    Where nothing was formatted, because pytest could not start, Python formats it as
    for a traceback.

    Args:
        error: has been raised.
        formatted: type and text as in `pkg.Error: no such row`; empty where there is
            none.
    """
    if says_plainly(error):
        return str(error)
    kind = type(error)
    if not formatted:
        try:
            formatted = "".join(traceback.format_exception_only(error)).rstrip()
        except BaseException as failure:  # properties of the exception were read
            if came_from_signal(failure):
                raise
            return f"<message not available: {name_of(type(failure))}>"
    module = module_of(kind)
    head = name_of(kind) if module in ("builtins", "__main__") else dotted_name_of(kind)
    if formatted == head:
        return ""
    return formatted.removeprefix(f"{head}: ")


def says_plainly(error: BaseException) -> bool:
    """Tell whether `str()` runs Python's own code alone, on values of its own types."""
    if type(error) is AssertionError:  # as most are
        return all(map(is_plain, field_of(error, BaseException, "args")))
    owner = next(base for base in bases_of(type(error)) if "__str__" in body_of(base))
    fields = next((fields for kind, fields in _TEXT_FIELDS if kind is owner), None)
    if fields is None:
        return False
    try:
        values = [field_of(error, owner, name) for name in fields]
    except TypeError:  # its own `__init__` never called that of its base class
        return False
    if fields[0] == "args":
        values += values.pop(0)
    return all(map(is_plain, values))


def came_from_signal(error: BaseException) -> bool:
    """Tell whether a signal has raised an exception, rather than code that just ran.

    A signal handler in Python, such as pytest-timeout's, is a frame of the traceback.
    Without one Python raises `KeyboardInterrupt` between two instructions, of which
    none is a `raise`.
    """
    entries = entries_of(error)
    functions = [function_in(signal.getsignal(number)) for number in _SIGNALS]
    handlers = [function.__code__ for function in functions if function is not None]
    codes = [entry.tb_frame.f_code for entry in entries]
    if any(code is handler for code in codes for handler in handlers):
        return True
    if type(error) is not KeyboardInterrupt:
        return False
    return not entries or not is_raise_statement(entries[-1])


def is_raise_statement(entry: TracebackType) -> bool:
    """Tell whether the innermost entry of a traceback is at a `raise`, and at no call.

    Where it is at a call, compiled code raised the exception: that has no frame of its
    own.
    """
    return entry.tb_frame.f_code.co_code[entry.tb_lasti] == _RAISE

"""What is read of an exception without running its code, and what a signal has raised."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks.guard import Faults, guarded
from pytest_failure_taxonomy.hooks.inspection import (
    attribute_of,
    came_from_signal,
    dotted_name_of,
    function_in,
    text_of,
)


class OwnError(Exception):
    """Says something else than its arguments."""

    def __str__(self) -> str:
        """Return other words."""
        return f"own words of {self.args}"


class PlainError(OwnError):
    """Has no text of its own."""

    __str__ = Exception.__str__


class NeverBegunError(UnicodeDecodeError):
    """Does not call the `__init__` of its base class."""

    def __init__(self) -> None:
        pass


HERE: Final = __name__

TEXTS: Final = (
    (ValueError(), "", ""),
    (ValueError("a"), "ValueError: not asked", "a"),
    (ValueError("a", 1, None), "", "('a', 1, None)"),
    (KeyError("a"), "", "'a'"),
    (OSError(2, "No such file", "x.txt"), "", "[Errno 2] No such file: 'x.txt'"),
    (
        OSError(2, "No", PurePath("x")),
        "FileNotFoundError: [Errno 2] No: x",
        "[Errno 2] No: x",
    ),
    (ImportError("no module", name="x"), "", "no module"),
    (
        SyntaxError("bad", ("a.py", 3, 1, "x =")),
        "  File …\nSyntaxError: bad",
        "bad (a.py, line 3)",
    ),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "", None),
    (ExceptionGroup("two", [OwnError(), OwnError()]), "", "two (2 sub-exceptions)"),
    (OwnError(1), f"{HERE}.OwnError: own words of (1,)", "own words of (1,)"),
    (OwnError(1), f"{HERE}.OwnError", ""),
    (OwnError(1), "assert 1 == 2", "assert 1 == 2"),
    (OwnError(1), "", "own words of (1,)"),
    (PlainError(1), f"{HERE}.PlainError: 1", "1"),
    (ValueError(object), "ValueError: <class 'object'>", "<class 'object'>"),
    (NeverBegunError(), f"{HERE}.NeverBegunError", ""),
)


@pytest.mark.parametrize(("error", "formatted", "text"), TEXTS)
def test_the_text_of_an_exception(
    error: BaseException, formatted: str, text: str | None
) -> None:
    """It is what `str()` would say, from Python's own fields or from what pytest has formatted."""
    assert text_of(error, formatted) == (str(error) if text is None else text)


def test_attributes_are_read_past_the_class() -> None:
    """A property, `__getattr__` and a metaclass are not asked."""

    def leave(*_: object) -> object:
        sys.exit(3)

    meta = type(
        "Meta",
        (type,),
        {"__name__": property(leave), "__hash__": leave, "__eq__": leave},
    )
    body = {"said": property(leave), "__getattr__": leave, "__module__": "shop"}
    error = meta("Hostile", (Exception,), body)("x")
    vars(BaseException)["__dict__"].__get__(error)["kept"] = 1
    assert attribute_of(error, "kept") == 1
    assert attribute_of(error, "absent", 2) == 2
    assert (
        attribute_of(type(error), "said") is None
    )  # it is a class, and holds nothing itself
    assert dotted_name_of(type(error)) == "shop.Hostile"
    assert text_of(error) == "x"


def test_a_function_is_found_in_a_method() -> None:
    """Of other objects there is none, whatever attributes they have."""

    class Callable_:  # noqa: N801 - of the user's
        __code__ = property(lambda _: sys.exit(3))

        def method(self) -> None:
            pass

    one = Callable_()
    assert function_in(one.method) is Callable_.method
    assert (
        function_in(test_a_function_is_found_in_a_method)
        is test_a_function_is_found_in_a_method
    )
    assert function_in(one) is None
    assert function_in(print) is None


def interrupt_by_code() -> None:
    """Raise what Ctrl+C raises."""
    raise KeyboardInterrupt


def interrupt_by_signal() -> None:
    """Have Python raise it."""
    os.kill(os.getpid(), signal.SIGINT)
    sum(range(100_000))


def fail_by_signal() -> None:
    """Fail as pytest-timeout does: by a handler in Python."""

    def handler(*_: object) -> None:
        pytest.fail("Timeout")

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        os.kill(os.getpid(), signal.SIGUSR2)
        sum(range(100_000))
    except BaseException as error:
        error.is_told = came_from_signal(error)  # type: ignore[attr-defined]  # for the test below
        raise
    finally:
        signal.signal(signal.SIGUSR2, before)


def cancel() -> None:
    """Raise what ends a task of asyncio."""
    raise asyncio.CancelledError


HELD: Final[dict[str, Callable[[], object]]] = {
    "interrupt": interrupt_by_code,
    "exit": lambda: sys.exit(3),
    "skip": lambda: pytest.skip("not today"),
    "fail": lambda: pytest.fail("no"),
    "pytest-exit": lambda: pytest.exit("enough"),
    "cancelled": cancel,
    "error": lambda: int("x"),
}


class _Hooks:
    def __init__(self, faults: Faults) -> None:
        self.faults = faults

    @guarded
    def hook(self, act: Callable[[], Any]) -> None:
        """Act."""
        act()


@pytest.mark.parametrize("act", HELD.values(), ids=HELD)
def test_what_is_raised_in_a_hook_is_held(
    act: Callable[[], object], pytestconfig: pytest.Config
) -> None:
    """Whatever it is, it becomes a fault."""
    faults = Faults(pytestconfig, is_worker=True)
    _Hooks(faults).hook(act)
    assert len(faults.messages) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_what_a_signal_has_raised_is_let_through(pytestconfig: pytest.Config) -> None:
    """Ctrl+C and a time limit end a test in the middle of our hooks, too."""
    faults = Faults(pytestconfig, is_worker=True)
    with pytest.raises(KeyboardInterrupt):
        _Hooks(faults).hook(interrupt_by_signal)
    with pytest.raises(pytest.fail.Exception) as failed:
        fail_by_signal()
    assert failed.value.is_told  # type: ignore[attr-defined]  # set above
    assert faults.messages == []

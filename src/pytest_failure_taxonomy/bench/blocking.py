"""See who keeps the event loop to itself, by timing each step of each call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, Final

from pytest_failure_taxonomy.bench.threads import Raised

BLOCKING_STEP_SECONDS: Final = 0.05
"""A step this long keeps others from what they were waiting for; shorter ones are not counted."""

_never_closed: list[object] = []
"""Coroutines that refuse to end, kept, as Python would complain of each when it is dropped."""


class StepLedger:
    """Who makes a step just now, and for how long others have blocked the loop."""

    __slots__ = ("blocked_seconds", "current")

    def __init__(self) -> None:
        self.blocked_seconds = 0.0
        """All blocking steps of all calls together."""
        self.current: tuple[str, float] | None = None
        """The case whose step is running, and since when on `time.perf_counter`."""


class TimedCall(Coroutine[Any, Any, None]):
    """A coroutine that runs another, times its steps, and keeps what comes of it as a value.

    It raises nothing: a `KeyboardInterrupt` that leaves a task ends the whole event loop.
    """

    def __init__(
        self,
        case_id: str,
        inner: Coroutine[Any, Any, Any],
        ledger: StepLedger,
        on_end: Callable[[], None],
    ) -> None:
        self.case_id = case_id
        self.held_seconds = 0.0
        """All its own steps together."""
        self.value: Any = None
        self.error: BaseException | None = None
        self._blocked_seconds = 0.0
        self._blocked_before = ledger.blocked_seconds
        self._inner = inner
        self._ledger = ledger
        self._on_end = on_end
        self._is_to_end = False

    @property
    def lost_seconds(self) -> float:
        """How long others have blocked the loop since this call was made."""
        return self._ledger.blocked_seconds - self._blocked_before - self._blocked_seconds

    def end_at_next_step(self) -> None:
        """Never give the other coroutine another step but the one in which it is closed."""
        self._is_to_end = True

    def send(self, value: Any, /) -> Any:
        """Make a step."""
        return self._step(self._inner.send, value)

    def throw(self, typ: Any, val: Any = None, tb: Any = None, /) -> Any:
        """Make a step that begins with an exception."""
        del tb
        return self._step(self._inner.throw, typ if val is None else val)

    def close(self) -> None:
        """Close the other coroutine."""
        self._inner.close()

    def __await__(self) -> Any:
        raise TypeError("a timed call is for a task of its own")

    def _step(self, step: Callable[[Any], Any], argument: Any) -> Any:
        if self._is_to_end:
            self._end_now()
            raise StopIteration
        ledger = self._ledger
        began = perf_counter()
        ledger.current = (self.case_id, began)
        try:
            return step(argument)
        except StopIteration as stop:
            self._take(stop.value)
        except BaseException as error:  # noqa: BLE001 - whoever waits for it decides
            self.error = error
        finally:
            ledger.current = None
            took = perf_counter() - began
            self.held_seconds += took
            if took >= BLOCKING_STEP_SECONDS:
                self._blocked_seconds += took
                ledger.blocked_seconds += took
        self._on_end()
        raise StopIteration

    def _take(self, value: Any) -> None:
        if type(value) is Raised:
            self.error = value.error
        else:
            self.value = value

    def _end_now(self) -> None:
        chain = _awaited_chain(self._inner)
        try:
            self._inner.close()
        except BaseException:  # noqa: BLE001 - it is given up; what it says has no one to hear it
            _never_closed.extend(chain)
        self.error = asyncio.CancelledError()
        self._on_end()


def _awaited_chain(coroutine: object) -> list[object]:
    """Return a coroutine and what it awaits, and what that awaits, and so on."""
    chain = [coroutine]
    while (coroutine := getattr(coroutine, "cr_await", None)) is not None:
        chain.append(coroutine)
    return chain

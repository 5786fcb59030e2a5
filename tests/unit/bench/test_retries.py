"""Kinds of exceptions, pauses that servers ask for, and causes that are the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from pytest_failure_taxonomy.bench.models import RetrySettings
from pytest_failure_taxonomy.bench.user_code import (
    LONGEST_PAUSE_SECONDS,
    is_infrastructure,
    kind_of,
    pause_seconds,
    retry_after_seconds,
    told,
)


def make_error(
    name: str, module: str = "openai", message: str = "no", **fields: Any
) -> Exception:
    """Return an exception of a class that says it is from a library."""
    error: Exception = type(name, (Exception,), {"__module__": module})(message)
    for field, value in fields.items():
        setattr(error, field, value)
    return error


def response(**headers: str) -> Any:
    """Return an answer of a server with headers."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return type("Response", (), {"headers": names})()


def test_kinds() -> None:
    """A library's class, one's own attribute and the cause of an exception name a kind."""
    limited = make_error("RateLimitError")
    assert kind_of(limited) == "llm.rate_limited"
    assert kind_of(ValueError("no")) is None
    assert (
        kind_of(make_error("Mine", "mine", failure_kind="sandbox.docker"))
        == "sandbox.docker"
    )
    wrapped = RuntimeError("could not answer")
    wrapped.__cause__ = limited
    assert kind_of(wrapped) == "llm.rate_limited"
    kinds = ("llm.timeout", "sandbox.docker", "tool.git", None)
    assert [is_infrastructure(each) for each in kinds] == [True, True, False, False]


def test_a_cause_that_is_its_own_ends() -> None:
    """A chain of causes may have a ring."""
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__context__, two.__context__ = two, one
    assert kind_of(one) is None


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (make_error("E", retry_after=3), 3.0),
        (make_error("E", retry_after="soon"), None),
        (make_error("E", retry_after=-5), 0.0),
        (make_error("E", retry_after=float("inf")), None),
        (make_error("E", response=response(retry_after="7")), 7.0),
        (make_error("E", response=response(retry_after_ms="250")), 0.25),
        (make_error("E", response=response()), None),
        (make_error("E", response="none"), None),
        (make_error("E"), None),
    ],
)
def test_the_pause_that_a_server_asks_for(
    error: Exception, seconds: float | None
) -> None:
    """Numbers of seconds in the places where libraries have them; anything else asks for none."""
    assert retry_after_seconds(error) == seconds


def test_a_date_asks_for_a_pause_until_then() -> None:
    """`Retry-After` may be a date."""
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    seconds = retry_after_seconds(make_error("E", response=response(retry_after=then)))
    assert seconds is not None
    assert 50 < seconds <= 60


def test_pauses_double_and_end() -> None:
    """A kind that is not listed, and the last attempt, have none."""
    retry = RetrySettings(on=("llm.*",), attempts=4, backoff_seconds=2)
    error = told(make_error("RateLimitError"))
    pauses = [pause_seconds(retry, number, error) for number in (1, 2, 3, 4)]
    for number, pause in enumerate(pauses[:3]):
        assert pause is not None
        assert 2 * 2**number * 0.75 <= pause <= 2 * 2**number * 1.25
    assert pauses[3] is None
    assert pause_seconds(RetrySettings(on=("sandbox.*",)), 1, error) is None
    assert pause_seconds(retry, 1, told(ValueError("no kind"))) is None
    assert pause_seconds(None, 1, error) is None
    patient = told(make_error("RateLimitError", retry_after=10_000))
    assert pause_seconds(retry, 1, patient) == LONGEST_PAUSE_SECONDS


def test_one_cause_has_one_fingerprint() -> None:
    """Numbers, ids and paths in a message don't count; type and words do."""

    def fingerprint(error: Exception) -> str:
        return told(error).fingerprint("sut.exception")

    one = fingerprint(RuntimeError("no key for request 17 in /tmp/a/b.py"))
    assert one == fingerprint(RuntimeError("no key for request 3004 in /tmp/c/b.py"))
    assert one != fingerprint(RuntimeError("no such model"))
    assert one != fingerprint(ValueError("no key for request 17 in /tmp/a/b.py"))

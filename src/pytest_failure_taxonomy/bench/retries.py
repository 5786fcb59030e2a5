"""Which kind of failure an exception of a system is, and whether and when to try again."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, Final

from pytest_failure_taxonomy.bench.models import RetrySettings
from pytest_failure_taxonomy.bench.user_errors import attribute_of
from pytest_failure_taxonomy.taxonomy.evidence import RaisedException
from pytest_failure_taxonomy.taxonomy.fingerprints import normalize_message
from pytest_failure_taxonomy.taxonomy.libraries import classify_exception

LONGEST_PAUSE_SECONDS: Final = 120.0
"""A server that asks for a longer pause is asked again after this one."""
_MAX_MESSAGE: Final = 2_000
_MAX_KIND: Final = 100
_INFRASTRUCTURE: Final = ("llm.", "sandbox.")
_JITTER: Final = 0.25
"""The share by which a pause is longer or shorter, so that cases don't all come back at once."""


def kind_of(error: BaseException) -> str | None:
    """Return the kind of a well-known library's exception, such as `llm.rate_limited`.

    An exception can also name its kind in an attribute `failure_kind`; that of another process
    does, or has the names of its classes in an attribute `bases`. An exception without a kind of
    its own has that of its cause.
    """
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        kind = _own_kind(each)
        if kind is not None:
            return kind
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return None


def _own_kind(error: BaseException) -> str | None:
    named = attribute_of(error, "failure_kind")
    if isinstance(named, str):
        return named if len(named) <= _MAX_KIND and named.isprintable() else None
    bases = names_of_classes(error)
    module, _, name = bases[0].rpartition(".") if bases else ("", "", "")
    raised = RaisedException(type=name, module=module, message=_message_of(error), bases=bases)
    found = classify_exception(raised)
    return None if found is None else found[1]


def names_of_classes(error: BaseException) -> tuple[str, ...]:
    """Return the names of an exception's classes, with their modules, the most derived one first.

    Those of an exception of another process are in its attribute `bases`.
    """
    bases = attribute_of(error, "bases")
    if isinstance(bases, tuple) and all(isinstance(each, str) for each in bases):
        return bases
    return tuple(f"{each.__module__}.{each.__qualname__}" for each in type(error).__mro__[:-1])


def _message_of(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_MESSAGE]
    except Exception:  # noqa: BLE001 - `__str__` may raise anything
        return ""


def is_infrastructure(kind: str | None) -> bool:
    """Return whether a kind says that the provider failed and not the system."""
    return kind is not None and kind.startswith(_INFRASTRUCTURE)


def fingerprint_of_error(code: str, error: BaseException) -> str:
    """Return 16 hexadecimal digits that are the same for exceptions with one cause.

    Numbers, paths, quoted texts and the like in the message don't count. An exception whose
    attribute `is_systemic` is false has no cause that others could have, too; that is ''.
    """
    if attribute_of(error, "is_systemic") is False:
        return ""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    return fingerprint_of_words(code, _message_of(error), name)


def fingerprint_of_words(code: str, words: str, name: str = "") -> str:
    """Return 16 hexadecimal digits as `fingerprint_of_error`, of what a failure's detail says."""
    told = f"{code}\0{name}\0{normalize_message(words)}".encode("utf-8", "replace")
    return blake2b(told, digest_size=8).hexdigest()


def pause_seconds(
    retry: RetrySettings | None, number: int, kind: str | None, error: BaseException
) -> float | None:
    """Return how long to wait before a case's system is called again.

    The pause doubles with each call. A pause that the server asked for is kept if it is longer.

    Args:
        retry: When to try again.
        number: How many calls there were.
        kind: The kind of the exception that ended the last one.
        error: This exception.

    Returns:
        `None` if the system is not to be called again.
    """
    if retry is None or kind is None or number >= retry.attempts:
        return None
    if not any(fnmatchcase(kind, pattern) for pattern in retry.on):
        return None
    jitter = 1 + random.uniform(-_JITTER, _JITTER)  # noqa: S311 - nobody gains by guessing it
    # Ten doublings exceed the longest pause already; more would overflow.
    pause = retry.backoff_seconds * 2.0 ** min(number - 1, 10) * jitter
    asked = retry_after_seconds(error)
    if asked is not None:
        pause = max(pause, asked)
    return min(pause, LONGEST_PAUSE_SECONDS)


def retry_after_seconds(error: BaseException) -> float | None:
    """Return the pause that a server asked for, in seconds, if an exception holds its answer.

    That is an attribute `retry_after`, or the header `Retry-After` of a `response`: a number of
    seconds or a date (RFC 9110, section 10.2.3).
    """
    with suppress(Exception):  # the attributes may be anything
        asked = attribute_of(error, "retry_after")
        if asked is None:
            asked = _header(getattr(error, "response", None))
        return _seconds(asked)
    return None


def _header(response: Any) -> Any:
    headers = getattr(response, "headers", None)
    if headers is None:
        return None
    exact = headers.get("retry-after-ms")
    if exact is not None:
        return float(exact) / 1000
    return headers.get("retry-after", headers.get("Retry-After"))


def _seconds(asked: Any) -> float | None:
    if asked is None or isinstance(asked, bool):
        return None
    try:
        seconds = float(asked)
    except ValueError:
        when = parsedate_to_datetime(asked)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        seconds = (when - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None

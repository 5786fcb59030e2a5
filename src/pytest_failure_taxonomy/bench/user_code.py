"""Import the user's code, and describe what it raises.

A system under test raises in this process or in another one. An exception is described,
told by its kind, and decides whether and when the system is called again. It may
misbehave itself.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import math
import opcode
import os
import random
import sys
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.charges import charge_of
from pytest_failure_taxonomy.taxonomy.classification import classify_exception
from pytest_failure_taxonomy.taxonomy.evidence import RaisedException
from pytest_failure_taxonomy.taxonomy.fingerprints import normalize_message
from pytest_failure_taxonomy.taxonomy.judgement import (
    FailureReason,
    Stage,
    known_kinds,
)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import RetrySettings


def import_callable(target: str) -> Callable[..., Any]:
    """Import a callable: `package.module:callable`, with dots after the colon, too.

    Raises:
        BenchError: It can't be imported, or is not callable.
    """
    name, _, path = target.partition(":")
    if not name or not path:
        raise BenchError(f"{target!r} names no callable; write package.module:callable")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise BenchError(
            f"there is no module {error.name!r} (for {target!r}); install it, or add its"
            " folder to pytest's `pythonpath`"
        ) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise BenchError(
            f"{name} can't be imported ({describe(error)}); fix the module"
        ) from error
    try:
        found: Any = attrgetter(path)(module)
    except AttributeError:
        raise BenchError(f"{name} has no {path!r}; name one of its callables") from None
    if not callable(found):
        raise BenchError(f"{target!r} is {type(found).__name__} and can't be called")
    return found  # type: ignore[no-any-return]  # callable() says no more of it


Grade = Callable[[dict[str, object], object], object]
"""The function `grade` of a rubric: takes the fields of a case and an output.

It may be `async def`, too.
"""


def load_rubric(path: Path, name: str) -> Grade:
    """Return the function `grade` of a rubric, loaded into this process.

    The rubric is not isolated here, and is loaded again at each call.

    Args:
        path: The rubric's file.
        name: What its module is called.

    Raises:
        BenchError: The rubric has no function `grade`.
    """
    folder = str(path.parent)
    sys.path.insert(0, folder)  # a rubric may import modules from its folder
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise BenchError(f"{path}: can't be imported; give it the suffix .py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    grade = getattr(module, "grade", None)
    if not callable(grade):
        raise BenchError(
            f"{path}: has no function `grade`; only such a function can be tested here"
        )
    return grade  # type: ignore[no-any-return]  # the author's function


def wait_for(answer: object) -> object:
    """Return what a function has returned; of an `async def`, its result.

    It is awaited in another thread, because this one may have a running event loop.
    """
    if not isinstance(answer, Awaitable):
        return answer

    async def result() -> object:
        return await answer

    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(asyncio.run, result()).result()


MAX_MESSAGE: Final = 200
"""Characters of a message in the detail of a score."""
MAX_TRACEBACK: Final = 8_000
"""Characters of a traceback that are kept."""

_ENDS_A_RUN: Final = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)
_MARK: Final = "\n... [{count} characters omitted] ...\n"


def ends_run(error: BaseException, *, is_cancelled_by_us: bool = False) -> bool:
    """Return whether an exception must end the whole run instead of becoming a score.

    These are `KeyboardInterrupt`, `SystemExit`, `CancelledError`, the `Exit` of
    `pytest.exit`, and groups that contain one of them.

    Args:
        error: The exception.
        is_cancelled_by_us: Whether we cancelled the call, so that `CancelledError` is
            expected.
    """
    # Code that raises it has loaded pytest; otherwise pytest must not be loaded here.
    outcomes = sys.modules.get("_pytest.outcomes")
    ends = _ENDS_A_RUN if outcomes is None else (*_ENDS_A_RUN, outcomes.Exit)
    pending = [error]
    while pending:
        part = pending.pop()
        kind = type(part)  # `isinstance` would ask the exception
        if issubclass(kind, BaseExceptionGroup):
            pending.extend(BaseExceptionGroup.exceptions.__get__(part))
        elif issubclass(kind, asyncio.CancelledError) and is_cancelled_by_us:
            continue
        elif issubclass(kind, ends):
            return True
    return False


def attribute_of(error: BaseException, name: str) -> object:
    """Return an attribute of an exception; `None` if reading it raises."""
    try:
        return getattr(error, name, None)
    except BaseException:  # noqa: BLE001 - a property may raise anything
        return None


def describe(error: BaseException) -> str:
    """Return the type of an exception and the beginning of its message."""
    return safe(f"{type(error).__name__}: {_message_of(error)[:MAX_MESSAGE]}")


def safe(text: str) -> str:
    """Return a text in which surrogates and NUL characters are escaped."""
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class Traceback:
    """A traceback that is taken where it is raised, and written where it is read.

    Python 3.11 parses source code while it writes a traceback, and fails if two threads
    do so at once (`SystemError: AST constructor recursion depth mismatch`). So the
    threads that run the cases write none.
    """

    def __init__(self, taken: str | traceback.TracebackException = "") -> None:
        """Keep a text, or what one is to be made of."""
        self._taken = taken

    @classmethod
    def of(cls, error: BaseException) -> Traceback:
        """Take the traceback without our own frames; no frame is kept alive."""
        with suppress(BaseException):  # methods of the exception are called
            begin = error.__traceback__
            while (
                begin is not None
                and begin.tb_frame.f_globals.get("__name__", "") in _OURS
            ):
                begin = begin.tb_next
            taken = traceback.TracebackException(type(error), error, begin)
            if type(error).__module__.startswith(f"{_PACKAGE}."):
                # It is for the user, who can't change our code.
                while taken.stack and taken.stack[-1].filename.startswith(_FOLDER):
                    taken.stack.pop()
                if not taken.stack:
                    return cls()
            return cls(taken)
        return cls()

    def __bool__(self) -> bool:
        return self._taken != ""

    def text(self) -> str:
        """Return the text, shortened in the middle; empty where there is none."""
        if isinstance(self._taken, traceback.TracebackException):
            try:
                self._taken = "".join(self._taken.format())
            except Exception:  # noqa: BLE001 - it was made of what the exception said
                self._taken = ""
        return cap(safe(self._taken), MAX_TRACEBACK)


_BENCH: Final = __name__.rpartition(".")[0]
_PACKAGE: Final = __name__.partition(".")[0]
_FOLDER: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
_OURS: Final = frozenset({f"{_BENCH}.run.calls", f"{_BENCH}.answers"})


def cap(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, cut out in the middle."""
    if len(text) <= limit:
        return text
    half = (limit - 50) // 2
    return text[:half] + _MARK.format(count=len(text) - 2 * half) + text[-half:]


LONGEST_PAUSE_SECONDS: Final = 120.0
"""A server that asks for a longer pause is asked again after this one."""
_MAX_KIND: Final = 100
_MAX_MESSAGE_READ: Final = 2_000
_INFRASTRUCTURE: Final = ("llm.", "sandbox.")
_JITTER: Final = 0.25
"""The share by which a pause is longer or shorter, so that cases don't all come back at
once."""


def kind_of(error: BaseException, *, asks_raiser: bool = False) -> str | None:
    """Return the kind of a well-known library's exception, such as `llm.rate_limited`.

    An exception can also name its kind in an attribute `failure_kind`. An exception
    without a kind of its own has that of its cause.

    Args:
        error: The exception.
        asks_raiser: Whether an exception that others than its library raise has no kind.
    """
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        named = attribute_of(each, "failure_kind")
        if type(named) is str:
            if len(named) <= _MAX_KIND and named.isprintable():
                return named
        else:
            bases = tuple(
                f"{one.__module__}.{one.__qualname__}"
                for one in type(each).__mro__[:-1]
            )
            module, _, name = bases[0].rpartition(".")
            found = classify_exception(
                RaisedException(
                    type=name,
                    module=module,
                    message=_message_of(each),
                    bases=bases,
                    raiser=_raiser_of(each) if asks_raiser else None,
                )
            )
            if found is not None:
                return found[1]
        each = each.__cause__ or (
            None if each.__suppress_context__ else each.__context__
        )
    return None


def _message_of(error: BaseException) -> str:
    try:
        # Of a subclass of `str`, this is an ordinary text.
        return str.__getitem__(str(error), slice(_MAX_MESSAGE_READ))
    except BaseException as problem:  # noqa: BLE001 - `__str__` may raise anything
        return f"<no message: {type(problem).__name__} in __str__>"


def is_infrastructure(kind: str | None) -> bool:
    """Return whether a kind says that the provider failed and not the system."""
    return kind is not None and kind.startswith(_INFRASTRUCTURE)


def fingerprint(code: str, words: str, name: str = "") -> str:
    """Return 16 hexadecimal digits that are the same for failures with one cause.

    Numbers, paths, quoted texts and the like don't count.

    Args:
        code: The failure's.
        words: The message of an exception, or the detail of another failure.
        name: The exception's type, with its module.
    """
    told = f"{code}\0{name}\0{normalize_message(words)}".encode("utf-8", "replace")
    return blake2b(told, digest_size=8).hexdigest()


def pause_seconds(
    retry: RetrySettings | None, number: int, error: ToldError
) -> float | None:
    """Return how long to wait before a case's system is called again.

    The pause doubles with each call. A pause that the server asked for is kept if it is
    longer.

    Args:
        retry: When to try again.
        number: How many calls there were.
        error: What the last one raised.

    Returns:
        `None` if the system is not to be called again.
    """
    kind = error.failure_kind
    if retry is None or kind is None or number >= retry.attempts:
        return None
    if not any(fnmatchcase(kind, pattern) for pattern in retry.on):
        return None
    jitter = 1 + random.uniform(-_JITTER, _JITTER)  # noqa: S311 - nobody gains by guessing it
    # Ten doublings exceed the longest pause already; more would overflow.
    pause = retry.backoff_seconds * 2.0 ** min(number - 1, 10) * jitter
    return min(max(pause, error.retry_after or 0.0), LONGEST_PAUSE_SECONDS)


class StageFailedError(Exception):
    """A stage of a case failed, and that is charged to the environment."""

    charge_to = "environment"

    def __init__(self, message: str, failure_kind: str) -> None:
        super().__init__(message)
        self.failure_kind = failure_kind


def charge_of_error(error: BaseException) -> str | None:
    """Return whom an exception of a system is charged to; `None` if its kind is not known.

    An exception can also say it in an attribute `charge_to`. What the system's own code raises
    of a library's classes is not the environment's.
    """
    named = attribute_of(error, "charge_to")
    if type(named) is str:
        return named
    kind = kind_of(error, asks_raiser=True)
    if kind is None:
        return None
    known = known_kinds().get(kind)
    reason = (known and known.reason) or FailureReason.UNKNOWN
    name = type(error).__name__
    return charge_of(kind, reason, Stage.AGENT_RUN, None, name)


def _raiser_of(error: BaseException) -> str | None:
    """Return the module whose `raise` raised an exception; `None` if that was Python itself."""
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    if entry is None or entry.tb_frame.f_code.co_code[entry.tb_lasti] != _RAISE:
        return None  # compiled code has no frame
    module = str(entry.tb_frame.f_globals.get("__name__", ""))
    is_pythons = module.partition(".")[0] in sys.stdlib_module_names
    return None if is_pythons and not module.startswith("unittest.mock") else module


_RAISE: Final = opcode.opmap["RAISE_VARARGS"]


def retry_after_seconds(error: BaseException) -> float | None:
    """Return the pause that a server's answer in an exception asks for, in seconds.

    That is an attribute `retry_after`, or the header `Retry-After` of a `response`: a
    number of seconds or a date (RFC 9110, section 10.2.3).
    """
    with suppress(BaseException):  # the attributes may be anything
        asked: Any = attribute_of(error, "retry_after")
        if asked is None:
            headers = getattr(getattr(error, "response", None), "headers", None)
            if headers is None:
                return None
            exact = headers.get("retry-after-ms")
            asked = headers.get("retry-after", headers.get("Retry-After"))
            if exact is not None:
                asked = float(exact) / 1000
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
    return None


class ToldError(Exception):
    """What is known of an exception, as plain data: reading it runs no code.

    Of an exception that a system under test or a rubric has raised, in this process or
    another, this is a subclass with the name of the original's type.
    """

    failure_kind: str | None = None
    """The kind of failure, such as `llm.rate_limited`, if it is known; maybe its
    cause's."""
    retry_after: float | None = None
    """The pause that the server of a provider asked for, in seconds."""
    is_systemic = True
    """Whether other cases can fail by the same cause."""
    is_lost = False
    """Whether the case did not do it itself, as far as is known: it has no score
    then."""
    full_name = ""
    """The name of the original's type, with its module."""
    charge_to: str | None = None
    """Whom the failure is charged to, if it is of a known kind."""

    def __init__(
        self,
        message: str,
        *,
        traceback: Traceback | str = "",
        printed: str = "",
    ) -> None:
        super().__init__(message)
        self.traceback = (
            Traceback(traceback) if isinstance(traceback, str) else traceback
        )
        self.printed = printed

    @property
    def words(self) -> str:
        """The type and the beginning of the message."""
        return describe(self)

    def fingerprint(self, code: str) -> str:
        """Return its fingerprint; '' if no other case can fail by the same cause."""
        if not self.is_systemic:
            return ""
        return fingerprint(code, str(self), self.full_name or type(self).__name__)

    def facts(self) -> ErrorFacts:
        """Return what `raised_elsewhere` makes an equal exception of."""
        return {
            "type": type(self).__name__,
            "message": str(self),
            "traceback": self.traceback.text(),
            **{name: getattr(self, name) for name in _FACTS},  # type: ignore[typeddict-item]
        }


class ErrorFacts(TypedDict, total=False):
    """What is known of an exception, as it goes from one process to another."""

    type: str
    message: str
    traceback: str | Traceback
    full_name: str
    failure_kind: str | None
    retry_after: float | None
    is_systemic: bool
    is_lost: bool
    charge_to: str | None


_FACTS: Final = frozenset(ErrorFacts.__annotations__) - {"type", "message", "traceback"}


def facts_of(error: BaseException) -> ErrorFacts:
    """Return what is known of an exception besides its text and traceback."""
    kind: type[BaseException] = type(error)
    return {
        "full_name": f"{kind.__module__}.{kind.__qualname__}",
        "failure_kind": kind_of(error),
        "retry_after": retry_after_seconds(error),
        "is_systemic": attribute_of(error, "is_systemic") is not False,
        "charge_to": charge_of_error(error),
    }


def told(error: BaseException) -> ToldError:
    """Return an exception as plain data; its own methods are called for that."""
    if issubclass(type(error), ToldError):  # `isinstance` would ask the exception
        known: ToldError = error.with_traceback(None)  # type: ignore[assignment]
        return known
    name = type.__dict__["__name__"].__get__(
        type(error)
    )  # past a metaclass that has its own
    facts: ErrorFacts = {"type": name, "message": _message_of(error)}
    with suppress(BaseException):
        facts |= facts_of(error)
    facts["traceback"] = Traceback.of(error)
    return raised_elsewhere(facts)


def raised_elsewhere(facts: ErrorFacts, printed: str = "") -> ToldError:
    """Return what is known of an exception that was raised elsewhere.

    Args:
        facts: Its `type`, `message` and `traceback`, and maybe its `facts_of`.
        printed: What its process printed.
    """
    kind = type(facts["type"], (ToldError,), {"__module__": __name__})
    error: ToldError = kind(
        facts["message"], traceback=facts["traceback"], printed=printed
    )
    known = {name: fact for name, fact in facts.items() if name in _FACTS}
    vars(error).update(known)
    return error

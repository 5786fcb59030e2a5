"""Say of what type a failure is: by its exception's type, and by its text where none is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from pytest_failure_taxonomy.taxonomy.recovery import FailureType

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.text_search import Searched
    from pytest_failure_taxonomy.taxonomy.traceback_heads import Head

MAX_WIDER_TEXT: Final = 200_000
"""Characters at the start, and as many at the end, in which our own patterns are looked for."""

_ERRNO: Final = "[Errno "
_SIGNATURES: Final = (
    ("LINTS", FailureType.VERIFICATION_FAILED),
    ("DIAGNOSTICS", FailureType.BROKEN_BUILD),
    ("REFUSALS", FailureType.BROKEN_BUILD),
    ("VERDICTS", FailureType.VERIFICATION_FAILED),
)
"""Diagnostics that name their kind, as tables of `text_search`, in the order they are asked."""
_PARTS_OF_PHRASES: Final = (
    " error",
    "module",
    "token",
    " failed",
    "expected",
    "assertion",
    "status code",
    "context",
    "maximum length",
)
"""One of these is in each promised phrase: most texts need nine looks and not sixteen."""
_BEFORE_ENVIRONMENT: Final = 2
"""How many of them say more than an exception that speaks of the machine or the network."""


class EarlierAttempt(Protocol):
    """What the history knows of an attempt; anything with these two attributes will do."""

    @property
    def subtask_id(self) -> str:
        """The subtask that it tried to do."""

    @property
    def approach(self) -> str:
        """What it tried, in words."""


History = Sequence[str] | Sequence[EarlierAttempt]


def classify_failure(
    error: str,
    subtask_id: str,
    *,
    history: History | None = None,
    approach: str | None = None,
) -> FailureType:
    """Say of what type a failure is that only its text tells of.

    The type at the head of a traceback's line decides first, the last of a chain. After it come
    diagnostics that name their kind, the promised phrases in their order, the wider ones, and then
    the earlier attempts.

    Args:
        error: What was printed: a message, a traceback, a compiler's or a test runner's output.
        subtask_id: Whose failure it is.
        history: Earlier attempts, the oldest first: their approaches as strings, all of this
            subtask, or objects with `subtask_id` and `approach`, of which those of other
            subtasks are passed over.
        approach: What this attempt tried; without it no repetition can be seen.

    Raises:
        TypeError: The error is no text, or the history is one.
    """
    if not isinstance(error, str):
        raise TypeError(f"error: {error!r} is no text; give what was printed")
    if isinstance(history, str):
        raise TypeError("history: a text is given; give a list of texts or of attempts")
    found = _by_text(error)
    if found is not FailureType.UNKNOWN or not history or approach is None:
        return found
    from pytest_failure_taxonomy.taxonomy.recovery import is_circular_fix

    is_circular = is_circular_fix(approach, _approaches(history, subtask_id))
    return FailureType.CIRCULAR_FIX if is_circular else FailureType.UNKNOWN


def failure_type_of(
    exception_type: str,
    module: str,
    bases: Sequence[str],
    text: str,
    *,
    collecting: bool = False,
) -> FailureType:
    """Say of what type an exception in a report is.

    A listed exception decides, itself or by its nearest listed base. Any other failed a test,
    whatever its message says: the code runs and does not pass. While pytest was collecting, the
    same means that the code can't even be loaded. The text is only asked for the types at the heads
    of its tracebacks, where the exception wraps another one.

    Args:
        exception_type: The class's qualified name.
        module: The module that the class says it is from.
        bases: Dotted names of its classes, itself first; may be empty.
        text: The message or the traceback.
        collecting: The failure is a collection error, not a test's.
    """
    from pytest_failure_taxonomy.taxonomy import failure_phrases as known

    otherwise = FailureType.BROKEN_BUILD if collecting else FailureType.VERIFICATION_FAILED
    names = tuple(bases) or (f"{module}.{exception_type}",)
    for name in names:
        if name in known.EXCEPTIONS:
            return known.EXCEPTIONS[name]
        if name in known.ENVIRONMENT_EXCEPTIONS:
            return FailureType.UNKNOWN
        if name in known.WRAPPERS:
            return failure_type_at_head(text) or otherwise
    if "builtins.OSError" in names and _errno_of(text) in known.ENVIRONMENT_ERRNOS:
        return FailureType.UNKNOWN
    return otherwise


def failure_type_at_head(text: str) -> FailureType | None:
    """Return what the listed exceptions at the heads of a text's tracebacks say, if there are any.

    The words of a message are not asked: they are pytest's, or anybody's.
    """
    return _most_telling(_heads_of(text))


def _errno_of(text: str) -> int | None:
    _, _, rest = text.partition(_ERRNO)
    digits, bracket, _ = rest[:6].partition("]")
    return int(digits) if bracket and digits.isascii() and digits.isdigit() else None


def _by_text(text: str) -> FailureType:
    heads = _heads_of(text)
    typed = _most_telling(heads)
    if typed is not None and typed is not FailureType.UNKNOWN:
        return typed
    from pytest_failure_taxonomy.taxonomy.text_search import Searched

    excerpt = Searched(_ends_of(text))
    tables = _SIGNATURES if typed is None else _SIGNATURES[:_BEFORE_ENVIRONMENT]
    for table, failure_type in tables:
        if excerpt.has(table):
            return failure_type
    return typed or _by_phrases(text.lower(), excerpt, heads)


def _by_phrases(lowered: str, excerpt: Searched, heads: tuple[Head, ...]) -> FailureType:
    """Ask the promised phrases in their order, and ours between and after them."""
    promised = _promised(lowered)
    if promised is FailureType.BROKEN_BUILD:
        return promised
    if excerpt.has("TALLIES"):
        return FailureType.VERIFICATION_FAILED
    is_limited = excerpt.has("RATE_LIMITS")
    if not is_limited and excerpt.has("OVERFLOWS"):
        return FailureType.CONTEXT_EXHAUSTED
    passed_over = FailureType.CONTEXT_EXHAUSTED if is_limited else None
    if promised not in (None, passed_over) and not _is_crash(heads, excerpt):
        return promised
    found = excerpt.wider()
    return FailureType.UNKNOWN if found is passed_over else found


def _promised(lowered: str) -> FailureType | None:
    from pytest_failure_taxonomy.taxonomy.failure_phrases import PHRASES

    if not any(part in lowered for part in _PARTS_OF_PHRASES):
        return None
    if not any(phrase in lowered for _, each in PHRASES for phrase in each):
        return None
    from pytest_failure_taxonomy.taxonomy.text_search import without_false_friends

    meant = without_false_friends(lowered)
    return next((kind for kind, each in PHRASES if any(one in meant for one in each)), None)


def _is_crash(heads: tuple[Head, ...], excerpt: Searched) -> bool:
    from pytest_failure_taxonomy.taxonomy.false_friends import CRASHES

    return (heads != () and CRASHES.issuperset(heads)) or excerpt.has("CRASH_REPORTS")


def _heads_of(text: str) -> tuple[Head, ...]:
    from pytest_failure_taxonomy.taxonomy.traceback_heads import deciding_heads

    return deciding_heads(text)


def _most_telling(heads: Iterable[Head]) -> FailureType | None:
    """Return the type that is asked for first among failures that stand side by side.

    It is `None` where none of the exceptions is listed.
    """
    from pytest_failure_taxonomy.taxonomy.failure_phrases import NAMES_IN_TEXT

    found = {NAMES_IN_TEXT.get(head) for head in heads}
    for failure_type in (FailureType.BROKEN_BUILD, FailureType.VERIFICATION_FAILED):
        if failure_type in found:
            return failure_type
    return FailureType.UNKNOWN if found == {FailureType.UNKNOWN} else None


def _ends_of(text: str) -> str:
    if len(text) <= 2 * MAX_WIDER_TEXT:
        return text
    return f"{text[:MAX_WIDER_TEXT]}\n{text[-MAX_WIDER_TEXT:]}"


def _approaches(history: History, subtask_id: str) -> list[str]:
    return [
        each if isinstance(each, str) else each.approach
        for each in history
        if isinstance(each, str) or each.subtask_id == subtask_id
    ]

"""The failure types of exceptions, by class and by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pytest_failure_taxonomy.taxonomy.recovery import FailureType

_BUILD: Final = FailureType.BROKEN_BUILD
_CHECK: Final = FailureType.VERIFICATION_FAILED
_UNKNOWN: Final = FailureType.UNKNOWN

EXCEPTIONS: Final[Mapping[str, FailureType]] = MappingProxyType(
    {
        "builtins.SyntaxError": _BUILD,
        "builtins.ImportError": _BUILD,
        "_pytest.fixtures.FixtureLookupError": _BUILD,  # ours: a test asks for what isn't there
        "builtins.AssertionError": _CHECK,
        "builtins.Failed": _CHECK,  # as pytest's own outcome calls itself
        "_pytest.outcomes.Failed": _CHECK,
        "urllib.error.HTTPError": _CHECK,  # ours: a server answered, with another status
    }
)
"""The failure types of exception classes and their subclasses."""

ENVIRONMENT_EXCEPTIONS: Final = frozenset(
    {
        "builtins.ConnectionError",
        "builtins.KeyboardInterrupt",
        "builtins.MemoryError",
        "builtins.PermissionError",
        "builtins.TimeoutError",
        "socket.gaierror",
        "socket.timeout",
        "subprocess.TimeoutExpired",
        "ssl.SSLError",
        "aiohttp.client_exceptions.ClientConnectionError",
        "http.client.RemoteDisconnected",
        "httpx.TransportError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "urllib.error.URLError",
        "urllib3.exceptions.MaxRetryError",
        "urllib3.exceptions.NewConnectionError",
    }
)
"""Classes that stand for a fault of the machine or the network, whatever their message: `UNKNOWN`.

Another approach to the code does not help; running it again may, or a human.
"""

ENVIRONMENT_ERRNOS: Final = frozenset({12, 23, 24, 28, 30, 122})
"""No memory, too many open files, a full or read-only disk, an exhausted quota; Linux's numbers."""

WRAPPERS: Final = frozenset({"_pytest.nodes.CollectError", "_pytest.nodes.Collector.CollectError"})
"""Classes that only wrap another failure, which their text names."""

_ERRNO: Final = "[Errno "


def failure_type_of(
    exception_type: str,
    module: str,
    bases: Sequence[str],
    text: str,
    *,
    collecting: bool = False,
) -> FailureType:
    """Return the failure type of an exception in a report.

    The first of its classes that is listed decides. Any other exception failed a test, whatever its
    message says: the code runs and does not pass. During collection it means that the code can't
    even be loaded. The text is read only if the exception wraps another one, and then only for the
    exceptions that its tracebacks name.

    Args:
        exception_type: The class's qualified name.
        module: The module that the class says it is from.
        bases: Dotted names of its classes, itself first; may be empty.
        text: The message or the traceback.
        collecting: The failure is a collection error, not a test's.
    """
    otherwise = _BUILD if collecting else _CHECK
    names = tuple(bases) or (f"{module}.{exception_type}",)
    for name in names:
        if name in EXCEPTIONS:
            return EXCEPTIONS[name]
        if name in ENVIRONMENT_EXCEPTIONS:
            return _UNKNOWN
        if name in WRAPPERS:
            return failure_type_at_head(text) or otherwise
    if "builtins.OSError" in names and _errno_of(text) in ENVIRONMENT_ERRNOS:
        return _UNKNOWN
    return otherwise


def failure_type_at_head(text: str) -> FailureType | None:
    """Return the failure type of the exceptions that a text's tracebacks name.

    It is `None` if none of them is listed. Phrases are not searched for: the words of a message are
    pytest's, or anybody's.
    """
    from pytest_failure_taxonomy.taxonomy.failure_text.heads import deciding_heads

    return failure_type_of_heads(deciding_heads(text))


def failure_type_of_heads(heads: tuple[str, ...]) -> FailureType | None:
    """Return the failure type of exceptions that stand side by side, given by their last names.

    A broken build comes before a failed check; `None` means that no exception is listed.
    """
    if not heads:
        return None
    from pytest_failure_taxonomy.taxonomy.failure_text.phrases import NAMES_IN_TEXT

    found = {NAMES_IN_TEXT.get(head) for head in heads}
    for failure_type in (_BUILD, _CHECK):
        if failure_type in found:
            return failure_type
    return _UNKNOWN if found == {_UNKNOWN} else None


def _errno_of(text: str) -> int | None:
    _, _, rest = text.partition(_ERRNO)
    digits, bracket, _ = rest[:6].partition("]")
    return int(digits) if bracket and digits.isascii() and digits.isdigit() else None

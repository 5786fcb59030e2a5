"""What the words and exception types of a failure stand for, as tables.

The tables of types and phrases are the promised ones; ours are in `wider_phrases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pytest_failure_taxonomy.taxonomy.recovery import FailureType

_BUILD: Final = FailureType.BROKEN_BUILD
_CHECK: Final = FailureType.VERIFICATION_FAILED
_CONTEXT: Final = FailureType.CONTEXT_EXHAUSTED
_UNKNOWN: Final = FailureType.UNKNOWN

PHRASES: Final[tuple[tuple[FailureType, tuple[str, ...]], ...]] = (
    (
        _BUILD,
        (
            "syntax error",
            "compilation error",
            "module not found",
            "import error",
            "cannot find module",
            "unexpected token",
            "indentation error",
            "parse error",
        ),
    ),
    (
        _CHECK,
        ("verification failed", "expected", "assertion", "test failed", "status code"),
    ),
    (_CONTEXT, ("context", "token limit", "maximum length")),
)
"""Types in the order in which they are asked, with the phrases that give each; lower-case."""

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
"""Exception types that decide alone, themselves or as a base."""

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
"""Types that speak of the machine or the network, whatever their message says: `UNKNOWN`.

Another approach to the code does not mend them; one more try, and then a human, may.
"""

ENVIRONMENT_ERRNOS: Final = frozenset({12, 23, 24, 28, 30, 122})
"""No memory, too many open files, a full or read-only disk, a used up quota, as Linux counts."""

WRAPPERS: Final = frozenset({"_pytest.nodes.CollectError", "_pytest.nodes.Collector.CollectError"})
"""Types that only say that something else went wrong; the text says what."""

NAMES_IN_TEXT: Final[Mapping[str, FailureType]] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "SyntaxError",
                "IndentationError",
                "TabError",
                "_IncompleteInputError",
                "ImportError",
                "ModuleNotFoundError",
                "ZipImportError",
                "CollectError",
                "FixtureLookupError",
            ),
            _BUILD,
        ),
        **dict.fromkeys(("AssertionError", "Failed", "assert"), _CHECK),
        **dict.fromkeys(
            (
                "BrokenPipeError",
                "ConnectionAbortedError",
                "ConnectionError",
                "ConnectionRefusedError",
                "ConnectionResetError",
                "ConnectTimeout",
                "KeyboardInterrupt",
                "MaxRetryError",
                "MemoryError",
                "NewConnectionError",
                "PermissionError",
                "ReadTimeout",
                "RemoteDisconnected",
                "SSLCertVerificationError",
                "SSLEOFError",
                "SSLError",
                "TimeoutError",
                "TimeoutExpired",
                "URLError",
                "gaierror",
            ),
            _UNKNOWN,
        ),
    }
)
"""The same types by the last part of their names, as the head of a traceback's line has them.

Text says nothing of bases, so the children of Python's own types are listed. `assert` is how pytest
words an AssertionError that has no message of its own, and `CollectError` stands for its lines
`ERROR test_a.py` that name no type: it leaves that out where an import or the parser failed.
"""

"""What the exceptions of well-known libraries mean, without importing those libraries.

An exception is known by the dotted names of its class and of its bases. The names are those that
the classes give themselves (`__module__` and `__qualname__`), which are not always those that they
are imported by; a test compares them with the libraries' own where these are installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from pytest_failure_taxonomy.taxonomy.evidence import RaisedException
from pytest_failure_taxonomy.taxonomy.findings import reason_of
from pytest_failure_taxonomy.taxonomy.git_commands import git_subcommand
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason

_REQUESTS: Final = (
    ("llm.authentication", ("AuthenticationError", "PermissionDeniedError")),
    ("llm.bad_request", ("BadRequestError", "NotFoundError", "UnprocessableEntityError")),
    ("llm.rate_limited", ("RateLimitError",)),
    ("llm.unavailable", ("APIConnectionError", "InternalServerError")),
)
"""What the clients of OpenAI and Anthropic, which one generator made, share with LiteLLM."""

_OPENAI_0: Final = (
    ("llm.authentication", ("AuthenticationError", "PermissionError")),
    ("llm.bad_request", ("InvalidRequestError",)),
    ("llm.rate_limited", ("RateLimitError",)),
    ("llm.timeout", ("Timeout",)),
    ("llm.unavailable", ("APIConnectionError", "ServiceUnavailableError", "TryAgain")),
)
_OPENAI: Final = (
    *_REQUESTS,
    ("llm.authentication", ("OAuthError",)),
    ("llm.bad_request", ("ConflictError", "ContentFilterFinishReasonError")),
    ("llm.context_exceeded", ("LengthFinishReasonError",)),
    ("llm.timeout", ("APITimeoutError",)),
    ("llm.unavailable", ("WebSocketConnectionClosedError",)),
)
_ANTHROPIC: Final = (
    *_REQUESTS,
    ("llm.authentication", ("CredentialsError",)),
    ("llm.bad_request", ("ConflictError",)),
    ("llm.context_exceeded", ("ContentTooLargeError", "RequestTooLargeError")),
    ("llm.quota_exceeded", ("ContractSpendLimitReachedError", "EnforcedSpendLimitReachedError")),
    ("llm.quota_exceeded", ("PaymentRequiredError",)),
    ("llm.timeout", ("APITimeoutError", "DeadlineExceededError", "GatewayTimeoutError")),
    ("llm.timeout", ("RequestTimeoutError",)),
    ("llm.unavailable", ("OverloadedError", "ServiceUnavailableError")),
)
_LITELLM: Final = (
    *_REQUESTS,
    ("llm.bad_request", ("ContentPolicyViolationError", "ImageFetchError", "InvalidRequestError")),
    ("llm.bad_request", ("UnsupportedParamsError", "LiteLLMUnknownProvider")),
    ("llm.context_exceeded", ("ContextWindowExceededError",)),
    ("llm.quota_exceeded", ("BudgetExceededError", "PaymentRequiredError")),
    ("llm.timeout", ("Timeout",)),
    ("llm.unavailable", ("BadGatewayError", "MidStreamFallbackError", "ServiceUnavailableError")),
)
_GOOGLE_API: Final = (
    ("llm.authentication", ("Forbidden", "PermissionDenied", "Unauthenticated", "Unauthorized")),
    ("llm.bad_request", ("BadRequest", "InvalidArgument", "NotFound", "FailedPrecondition")),
    ("llm.rate_limited", ("ResourceExhausted", "TooManyRequests")),
    ("llm.timeout", ("DeadlineExceeded", "GatewayTimeout", "RetryError")),
    ("llm.unavailable", ("BadGateway", "InternalServerError", "ServerError")),
    ("llm.unavailable", ("ServiceUnavailable",)),
)
_GOOGLE_CALL: Final = (
    ("llm.bad_request", ("BlockedPromptException",)),
    ("llm.error", ("BrokenResponseError", "IncompleteIterationError", "StopCandidateException")),
)

_BY_MODULE: Final = (
    ("openai", _OPENAI),
    ("openai.error", _OPENAI_0),  # before 1.0
    ("anthropic", _ANTHROPIC),
    ("litellm.exceptions", _LITELLM),
    ("google.api_core.exceptions", _GOOGLE_API),
    ("google.generativeai.types.generation_types", _GOOGLE_CALL),
    ("git.exc", (("git.checkout_failed", ("CheckoutError",)),)),
)

EXCEPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"{module}.{name}": kind
        for module, rows in _BY_MODULE
        for kind, names in rows
        for name in names
    }
)
"""The kind of single exceptions, by their dotted names."""

MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "docker.errors": "sandbox.docker",
        "aiodocker.exceptions": "sandbox.docker",
        "kubernetes.client.exceptions": "sandbox.kubernetes",
        "kubernetes.client.rest": "sandbox.kubernetes",  # before 12.0
        "kubernetes.config.config_exception": "sandbox.kubernetes",
        "kubernetes.dynamic.exceptions": "sandbox.kubernetes",
        "kubernetes_asyncio.client.exceptions": "sandbox.kubernetes",
        "kubernetes_asyncio.config.config_exception": "sandbox.kubernetes",
        "podman.errors": "sandbox.podman",
        "podman.errors.exceptions": "sandbox.podman",
        "testcontainers.core.exceptions": "sandbox.testcontainers",
        "openai": "llm.error",
        "openai.error": "llm.error",
        "anthropic": "llm.error",
        "litellm.exceptions": "llm.error",
        "google.genai.errors": "llm.error",
        "google.api_core.exceptions": "llm.error",
        "git.exc": "tool.git",
        "gitdb.exc": "tool.git",
    }
)
"""The kind of every other exception that is defined in a module."""

_GENERATIVE: Final = (
    "/google/generativeai/",
    "/google/ai/generativelanguage",
    "/vertexai/",
    "generativelanguage.googleapis.com",
    "aiplatform.googleapis.com",
)
ONLY_WITHIN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"google.api_core.exceptions": _GENERATIVE}
)
"""Modules that serve other libraries, too: one of the texts has to be in the message or in the
traceback, whose paths have forward slashes."""

GIT_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "clone": "git.clone_failed",
        "checkout": "git.checkout_failed",
        "switch": "git.checkout_failed",
    }
)
"""The kind of a git command by its sub-command; every other one is `tool.git`."""

_SUBPROCESS_COMMAND: Final = "subprocess.CalledProcessError"
_GITPYTHON_COMMANDS: Final = frozenset(
    {"git.exc.CommandError", "git.exc.GitCommandError", "git.exc.GitCommandNotFound"}
)

HTTP_KINDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        400: "llm.bad_request",
        401: "llm.authentication",
        402: "llm.quota_exceeded",
        403: "llm.authentication",
        404: "llm.bad_request",
        408: "llm.timeout",
        413: "llm.context_exceeded",
        422: "llm.bad_request",
        429: "llm.rate_limited",
        500: "llm.unavailable",
        502: "llm.unavailable",
        503: "llm.unavailable",
        504: "llm.timeout",
        529: "llm.unavailable",  # Anthropic: overloaded
    }
)
"""The kind by HTTP status, where a client's exception says no more than that."""

PHRASES: Final = (
    ("insufficient_quota", "llm.quota_exceeded"),  # OpenAI: type and code of a 429
    ("credit balance is too low", "llm.quota_exceeded"),  # Anthropic: a 400
    ("context_length_exceeded", "llm.context_exceeded"),  # OpenAI: code of a 400
    ("prompt is too long", "llm.context_exceeded"),  # Anthropic: a 400
    ("api key not valid", "llm.authentication"),  # Google: a 400
    ("must be set either by passing", "llm.authentication"),  # OpenAI: no key given
    ("missing credentials. please pass", "llm.authentication"),  # OpenAI, the same, from 3.0
)
"""Words of a language model's service that say more than the type; lower-case, first one wins."""

_WORTH_A_PHRASE: Final = frozenset({"llm.bad_request", "llm.rate_limited", "llm.error"})
_STATUS: Final = re.compile(r"(?:Error code: )?([1-5][0-9]{2})\b")
_PRIVATE: Final = re.compile(r"\._[a-z]\w*(?=\.)")


def classify_exception(
    raised: RaisedException, traceback: str | None = None
) -> tuple[FailureReason, str] | None:
    """Return reason and kind of a well-known library's exception.

    The most special class that the table knows decides. A class of the user's own counts as the
    library's class that it is derived from.

    Args:
        raised: the exception; where its bases are not known, its own name has to do.
        traceback: as pytest printed it, where it did; it tells whose a shared class is.

    Returns:
        `None` for every other exception.
    """
    kind = _kind_of(raised, traceback or "")
    return None if kind is None else (reason_of(kind), kind)


def dotted_names(raised: RaisedException) -> tuple[str, ...]:
    """Return the dotted names of an exception's classes, itself first."""
    return raised.bases or (f"{raised.module}.{raised.type}",)


def _kind_of(raised: RaisedException, traceback: str) -> str | None:
    names = [_public(name) for name in dotted_names(raised) if not name.startswith("builtins.")]
    if not names:
        return None
    if not _GITPYTHON_COMMANDS.isdisjoint(names):
        return _kind_of_command(git_subcommand(raised.message) or "")
    if _SUBPROCESS_COMMAND in names:
        subcommand = git_subcommand(raised.message)
        return None if subcommand is None else _kind_of_command(subcommand)
    known = next(_known(names, raised.message, traceback), None)
    if known == "llm.error":
        known = _kind_of_status(raised.message) or known
    if known in _WORTH_A_PHRASE:
        said = raised.message.lower()
        return next((kind for phrase, kind in PHRASES if phrase in said), known)
    return known


def _known(names: list[str], message: str, traceback: str) -> Iterator[str]:
    for table, part in ((EXCEPTIONS, 0), (MODULES, 1)):
        for name in names:
            module = name.rpartition(".")[0]
            kind = table.get((name, module)[part])
            if kind is not None and _is_within(module, message, traceback):
                yield kind


def _is_within(module: str, message: str, traceback: str) -> bool:
    texts = ONLY_WITHIN.get(module)
    if texts is None:
        return True
    seen = message + traceback.replace("\\", "/")
    return any(text in seen for text in texts)


def _kind_of_command(subcommand: str) -> str:
    return GIT_KINDS.get(subcommand, "tool.git")


def _kind_of_status(message: str) -> str | None:
    found = _STATUS.match(message)
    return HTTP_KINDS.get(int(found[1])) if found is not None else None


def _public(name: str) -> str:
    """Return the name without private modules, in which some versions keep a class."""
    return _PRIVATE.sub("", name)

"""The meaning of exceptions of well-known libraries, without importing these libraries.

An exception is recognised by the dotted names of its class and base classes, which are made of
`__module__` and `__qualname__`; a class is not always imported by that name. A test compares the
tables with the libraries that are installed.
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
"""What LiteLLM and the clients of OpenAI and Anthropic, made by one generator, have in common."""

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
"""The kinds of single exceptions, by their dotted names."""

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
"""The kinds of all other exceptions, by the module that defines them."""

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
"""Texts for modules that other libraries use, too; one must be in the message or the traceback.

The paths of the traceback are searched with forward slashes.
"""

GIT_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "clone": "git.clone_failed",
        "checkout": "git.checkout_failed",
        "switch": "git.checkout_failed",
    }
)
"""The kinds of git commands by subcommand; all others are `tool.git`."""

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
"""Kinds by HTTP status, for exceptions that say nothing more specific."""

PHRASES: Final = (
    ("insufficient_quota", "llm.quota_exceeded"),  # OpenAI: type and code of a 429
    ("credit balance is too low", "llm.quota_exceeded"),  # Anthropic: a 400
    ("context_length_exceeded", "llm.context_exceeded"),  # OpenAI: code of a 400
    ("prompt is too long", "llm.context_exceeded"),  # Anthropic: a 400
    ("api key not valid", "llm.authentication"),  # Google: a 400
    ("must be set either by passing", "llm.authentication"),  # OpenAI: no key given
    ("missing credentials. please pass", "llm.authentication"),  # OpenAI, the same, from 3.0
)
"""Phrases of language model services, in lower case, that say more than the exception's type.

The first match decides.
"""

_WORTH_A_PHRASE: Final = frozenset({"llm.bad_request", "llm.rate_limited", "llm.error"})
_STATUS: Final = re.compile(r"(?:Error code: )?([1-5][0-9]{2})\b")
_PRIVATE: Final = re.compile(r"\._[a-z]\w*(?=\.)")


def classify_exception(
    raised: RaisedException, traceback: str | None = None
) -> tuple[FailureReason, str] | None:
    """Return the reason and kind of a well-known library's exception.

    The most derived class in the tables decides. A user's own class counts as the library's class
    that it is derived from.

    Args:
        raised: The exception. If its base classes are unknown, only its own name is looked up.
        traceback: The traceback that pytest printed, if any; it shows which library raised an
            exception of a shared module.

    Returns:
        `None` for any other exception.
    """
    kind = _kind_of(raised, traceback or "")
    return None if kind is None else (reason_of(kind), kind)


def dotted_names(raised: RaisedException) -> tuple[str, ...]:
    """Return the dotted names of an exception's class and base classes, its own first."""
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
    """Return a name without private modules, which some versions of a library have in it."""
    return _PRIVATE.sub("", name)

"""The meaning of exceptions of well-known libraries, without importing these libraries.

An exception is recognised by the dotted names of its class and base classes, which are made of
`__module__` and `__qualname__`; a class is not always imported by that name. A test compares the
tables with the libraries that are installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from pytest_failure_taxonomy.taxonomy.evidence import RaisedException
from pytest_failure_taxonomy.taxonomy.kinds import reason_of
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
    ("distributed.scheduler", (("sandbox.worker_lost", ("KilledWorker",)),)),
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


_MAX_COMMAND: Final = 2_000
"""Characters of a command that are looked at; the sub-command stands near its beginning."""
_MAX_SHELLS: Final = 3
"""How deep a shell may be started within a shell."""

_PROGRAMS: Final = frozenset({"git", "git.exe"})
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
_PREFIXES: Final = frozenset({"sudo", "env", "exec", "command", "nice", "nohup", "time"})
"""Programs that start another one, in the form without options of their own."""
_WITHOUT_WORK: Final = frozenset({"cd", "set", "export", "mkdir", "true", "echo", "umask"})
"""Commands of a shell's line that hardly fail, so that the git beside them was the one that did."""
_OPTIONS_WITH_A_VALUE: Final = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix"}
)
"""git's own options whose value is the next word, as `git help git` lists them."""

_SUBPROCESS: Final = "Command '"
_GITPYTHON: Final = "cmdline: "
_ELEMENT: Final = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_WORD: Final = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NEXT_COMMAND: Final = re.compile(r"&&|\|\||[;|\n]")


def git_subcommand(message: str) -> str | None:
    """Return the sub-command of the git that a message says has failed, such as `clone`.

    Args:
        message: of a `subprocess.CalledProcessError` or a `git.exc.CommandError`.

    Returns:
        An empty text for a git without a sub-command, `None` where it was no git, or where a
        shell's line has several commands and the message doesn't say which of them failed.
    """
    return _of_words(_words_of(message), _MAX_SHELLS)


def _words_of(message: str) -> list[str]:
    if message.startswith(_SUBPROCESS):
        command = message[len(_SUBPROCESS) :].rpartition("' ")[0] or message[len(_SUBPROCESS) :]
        if command.startswith(("[", "(")):
            return [
                (found[1] or found[2] or "").replace("\\\\", "\\").replace("\\n", "\n")
                for found in _ELEMENT.finditer(command[:_MAX_COMMAND])
            ]
        return ["sh", "-c", command.strip("'")]
    _, found, rest = message.partition(_GITPYTHON)
    return rest.partition("\n")[0][:_MAX_COMMAND].split() if found else []


def _of_words(words: Sequence[str], shells_left: int) -> str | None:
    words = _without_prefixes(words)
    if not words:
        return None
    program = _name(words[0])
    if program in _PROGRAMS:
        return next(_subcommands(words[1:]), "")
    if program in _SHELLS and shells_left:
        line = _line_of_shell(words[1:])
        return None if line is None else _of_line(line, shells_left - 1)
    return None


def _of_line(line: str, shells_left: int) -> str | None:
    commands = [
        words
        for part in _NEXT_COMMAND.split(line[:_MAX_COMMAND])
        if (words := [word.strip("'\"") for word in _WORD.findall(part)])
        and words[0] not in _WITHOUT_WORK
    ]
    return _of_words(commands[0], shells_left) if len(commands) == 1 else None


def _line_of_shell(words: Sequence[str]) -> str | None:
    for option, line in pairwise(words):
        if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
            return line
    return None


def _without_prefixes(words: Sequence[str]) -> Sequence[str]:
    for number, word in enumerate(words):
        if word not in _PREFIXES and not _ASSIGNMENT.match(word):
            return words[number:]
    return ()


def _subcommands(words: Sequence[str]) -> Iterator[str]:
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in _OPTIONS_WITH_A_VALUE
        else:
            yield word


def _name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]

"""The exceptions of well-known libraries, by name; and by the real classes where installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.classification import (
    classify_exception,
    git_subcommand,
    kinds_by_exception,
)
from pytest_failure_taxonomy.taxonomy.evidence import RaisedException
from pytest_failure_taxonomy.taxonomy.judgement import known_kinds
from pytest_failure_taxonomy.taxonomy.services import answers

WITHIN_GENAI: Final = (
    "lib/site-packages/google/generativeai/generative_models.py:331: in generate"
)


def raised(name: str, message: str = "", *bases: str) -> RaisedException:
    """Return an exception, given by its dotted name."""
    module, _, kind = name.rpartition(".")
    ends = ("builtins.Exception", "builtins.BaseException")
    return RaisedException(
        type=kind,
        module=module,
        message=message,
        bases=(name, *bases, *ends) if bases else (),
    )


def kind_of(exception: RaisedException, traceback: str | None = None) -> str | None:
    """Return the kind of an exception, after a look at its reason."""
    found = classify_exception(exception, traceback)
    if found is None:
        return None
    reason, kind = found
    assert known_kinds()[kind].reason is reason
    return kind


@pytest.mark.parametrize(
    ("name", "message", "kind"),
    [
        ("docker.errors.DockerException", "Error while fetching", "sandbox.docker"),
        ("docker.errors.ImageNotFound", "404 Client Error", "sandbox.docker"),
        ("aiodocker.exceptions.DockerError", "no", "sandbox.docker"),
        (
            "kubernetes.client.exceptions.ApiException",
            "(503)\nReason: x",
            "sandbox.kubernetes",
        ),
        (
            "kubernetes.config.config_exception.ConfigException",
            "",
            "sandbox.kubernetes",
        ),
        ("kubernetes_asyncio.client.exceptions.ApiException", "", "sandbox.kubernetes"),
        ("podman.errors.exceptions.APIError", "", "sandbox.podman"),
        (
            "testcontainers.core.exceptions.ContainerStartException",
            "",
            "sandbox.testcontainers",
        ),
        ("openai.RateLimitError", "Error code: 429 - {}", "llm.rate_limited"),
        (
            "openai.RateLimitError",
            "Error code: 429 - {'error': {'type': 'insufficient_quota'}}",
            "llm.quota_exceeded",
        ),
        ("openai.APITimeoutError", "Request timed out.", "llm.timeout"),
        ("openai.APIConnectionError", "Connection error.", "llm.unavailable"),
        ("openai.AuthenticationError", "Error code: 401 - {}", "llm.authentication"),
        ("openai.BadRequestError", "Error code: 400 - {}", "llm.bad_request"),
        (
            "openai.BadRequestError",
            "Error code: 400 - {'error': {'code': 'context_length_exceeded'}}",
            "llm.context_exceeded",
        ),
        (
            "openai.OpenAIError",
            "Missing credentials. Please pass an",
            "llm.authentication",
        ),
        ("openai.APIStatusError", "Error code: 503 - {}", "llm.unavailable"),
        ("openai.APIStatusError", "Error code: 418 - {}", "llm.error"),
        ("openai.APIError", "An error occurred", "llm.error"),
        ("openai.error.Timeout", "", "llm.timeout"),
        ("openai.error.APIError", "", "llm.error"),
        ("anthropic.RateLimitError", "Error code: 429 - {}", "llm.rate_limited"),
        ("anthropic.InternalServerError", "Error code: 500 - {}", "llm.unavailable"),
        (
            "anthropic._exceptions.OverloadedError",
            "Error code: 529 - {}",
            "llm.unavailable",
        ),
        (
            "anthropic.BadRequestError",
            "Error code: 400 - {'error': {'message': 'Your credit balance is too low to'}}",
            "llm.quota_exceeded",
        ),
        (
            "litellm.exceptions.RateLimitError",
            "litellm.RateLimitError: x",
            "llm.rate_limited",
        ),
        ("litellm.exceptions.ContextWindowExceededError", "", "llm.context_exceeded"),
        ("litellm.exceptions.BudgetExceededError", "", "llm.quota_exceeded"),
        ("litellm.exceptions.GuardrailRaisedException", "", "llm.error"),
        (
            "google.genai.errors.ClientError",
            "429 RESOURCE_EXHAUSTED. {}",
            "llm.rate_limited",
        ),
        ("google.genai.errors.ServerError", "503 UNAVAILABLE. {}", "llm.unavailable"),
        (
            "google.genai.errors.ClientError",
            "400 INVALID_ARGUMENT. {'error': {'message': 'API key not valid. Please'}}",
            "llm.authentication",
        ),
        ("google.genai.errors.UnknownApiResponseError", "", "llm.error"),
        ("git.exc.CheckoutError", "", "git.checkout_failed"),
        ("git.exc.InvalidGitRepositoryError", "/srv", "tool.git"),
        ("gitdb.exc.BadName", "Ref 'x' did not resolve to an object", "tool.git"),
        ("git.exc.GitError", "", "tool.git"),
        ("openai.types.chat.Nothing", "", None),
        ("docker.Mine", "", None),
        ("mine.RateLimitError", "", None),
        ("builtins.ValueError", "openai.RateLimitError: docker.errors.APIError", None),
    ],
)
def test_an_exception_is_known_by_its_name(
    name: str, message: str, kind: str | None
) -> None:
    """The dotted name of the class alone is enough, as it is all that a log shows."""
    assert kind_of(raised(name, message)) == kind


@pytest.mark.parametrize(
    ("bases", "kind"),
    [
        (("docker.errors.APIError", "docker.errors.DockerException"), "sandbox.docker"),
        (("openai.RateLimitError", "openai.APIStatusError"), "llm.rate_limited"),
        (("litellm.exceptions.NewError", "openai.APITimeoutError"), "llm.timeout"),
        (("anthropic.NewError", "anthropic.InternalServerError"), "llm.unavailable"),
        (("requests.exceptions.HTTPError",), None),
    ],
)
def test_a_derived_class_counts_as_its_base(
    bases: tuple[str, ...], kind: str | None
) -> None:
    """A class of the user's own, or one that the table has no row for, is what its bases are."""
    assert kind_of(raised("mine.Error", "", *bases)) == kind


def test_googles_shared_exceptions_need_a_sign_of_the_model() -> None:
    """The same classes come from Google's storage; message or traceback tell them apart."""
    exhausted = raised(
        "google.api_core.exceptions.ResourceExhausted", "429 Quota exceeded"
    )
    assert kind_of(exhausted) is None
    assert (
        kind_of(exhausted, "lib/site-packages/google/cloud/storage/blob.py:1: in get")
        is None
    )
    assert kind_of(exhausted, WITHIN_GENAI) == "llm.rate_limited"
    assert kind_of(exhausted, WITHIN_GENAI.replace("/", "\\")) == "llm.rate_limited"
    told = "429 Quota exceeded for service 'generativelanguage.googleapis.com'"
    assert (
        kind_of(raised(f"{exhausted.module}.{exhausted.type}", told))
        == "llm.rate_limited"
    )


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (["git", "clone", "https://x/y.git"], "git.clone_failed"),
        (
            [
                "/usr/bin/git",
                "-C",
                "/a b",
                "-c",
                "a.b=c",
                "--no-pager",
                "checkout",
                "v1",
            ],
            "checkout",
        ),
        (["git", "--git-dir=/x/.git", "switch", "main"], "checkout"),
        (["git.exe", "clone", "C:\\a\\b"], "git.clone_failed"),
        (["C:\\Program Files\\Git\\bin\\git.exe", "clone"], "git.clone_failed"),
        (["git", "apply", "fix.patch"], "tool.git"),
        (["git", "commit", "-m", "checkout of 'clone'"], "tool.git"),
        (["git"], "tool.git"),
        (["git", "clone", "--branch", 'it"s', "it's"], "git.clone_failed"),
        ([b"git", b"clone", "x"], "git.clone_failed"),
        ([Path("/usr/bin/git"), "clone"], "git.clone_failed"),
        (("git", "clone"), "git.clone_failed"),
        ("git clone https://x/y.git", "git.clone_failed"),
        ("GIT_SSH_COMMAND='ssh -i key' sudo git checkout main", "checkout"),
        ("cd repo && git checkout abc123", "checkout"),
        ("set -e; mkdir -p x; cd x; git clone y", "git.clone_failed"),
        (["bash", "-lc", "cd repo && git checkout abc123"], "checkout"),
        (["sh", "-c", "git clone x && make"], None),
        ("git clone x && git checkout y", None),
        ("make test", None),
        (["echo", "git", "clone"], None),
        (["docker", "run", "x", "git", "clone"], None),
        (["bash", "clone.sh"], None),
        ("", None),
        ([], None),
    ],
)
def test_a_failed_git_is_known_by_its_command(command: Any, kind: str | None) -> None:
    """`subprocess` names the command in the message; its sub-command tells what failed."""
    expected = "git.checkout_failed" if kind == "checkout" else kind
    for code in (128, -9, 200):
        message = str(subprocess.CalledProcessError(code, command))
        assert kind_of(raised("subprocess.CalledProcessError", message)) == expected


@pytest.mark.parametrize(
    ("message", "subcommand"),
    [
        (
            "Cmd('git') failed due to: exit code(128)\n  cmdline: git clone -v -- a b",
            "clone",
        ),
        ("Cmd('git') failed\n  cmdline: git checkout nope\n  stderr: 'x'", "checkout"),
        ("Cmd('/a/git') not found due to: x\n  cmdline: /a/git -C x status", "status"),
        ("Cmd('git') failed\n  cmdline: git", ""),
        ("Command '['git', 'clone', 'cut off here", "clone"),
        ("Command '" + "[" * 50_000, None),
        ("Command 'bash -c " * 5_000, None),
        ("cmdline: ", None),
        ("", None),
    ],
)
def test_a_message_names_the_sub_command(message: str, subcommand: str | None) -> None:
    """GitPython's wording is understood, too, and a message that is cut or odd does no harm."""
    assert git_subcommand(message) == subcommand


def test_gitpythons_command_error() -> None:
    """A git of GitPython without a known sub-command is still a git."""
    for name in ("git.exc.GitCommandError", "git.exc.GitCommandNotFound"):
        bases = ("git.exc.CommandError", "git.exc.GitError")
        line = "Cmd('git') failed due to: exit code(128)\n  cmdline: git {} x"
        assert kind_of(raised(name, line.format("clone"), *bases)) == "git.clone_failed"
        assert kind_of(raised(name, line.format("push"), *bases)) == "tool.git"
        assert kind_of(raised(name, "odd", *bases)) == "tool.git"
        assert kind_of(raised(name, line.format("clone"))) == "git.clone_failed"


def test_every_kind_of_the_tables_is_one_of_ours() -> None:
    """No table names a kind that is not published, and each published one can be given.

    Want of memory is known by the limit that was used up, and not by an exception's name alone.
    """
    table = packaged_table("libraries")
    given = {
        *kinds_by_exception().values(),
        *(kind for part in ("modules", "git", "http") for kind in table[part].values()),
        *(answer.kind for answer in answers()),
        "sandbox.memory",  # given by how near a limit of memory was
    }
    given |= {means["kind"] for means in packaged_table("tools")["causes"].values()} & {
        *known_kinds()
    }
    prefixes = ("sandbox.", "llm.", "git.", "tool.", "bench.lost")
    of_any_command = ("process.", "interrupt.")
    assert {each for each in given if not each.startswith(of_any_command)} == {
        kind for kind in known_kinds() if kind.startswith(prefixes)
    }
    assert set(table["only_within"]) <= set(table["modules"])


def test_no_library_is_imported() -> None:
    """The table knows names alone: classifying imports nothing but the standard library."""
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"  # an installed namespace package is loaded by then
        "from pytest_failure_taxonomy.taxonomy.classification import classify_exception\n"
        "from pytest_failure_taxonomy.taxonomy import packaged_table\n"
        "from pytest_failure_taxonomy.taxonomy.evidence import RaisedException as R\n"
        "MODULES = packaged_table('libraries')['modules']\n"
        "for m in MODULES: classify_exception(R(type='X', module=m, message=''))\n"
        "names = {m.partition('.')[0] for m in MODULES} | {'yaml', 'pydantic', 'pytest'}\n"
        "sys.exit(str(sorted(names & (set(sys.modules) - before))).strip('[]') or 0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# The real classes, where the library is installed.

DISTRIBUTIONS: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    ("docker.errors", "DockerException", {}),
    ("aiodocker.exceptions", "DockerError", {}),
    ("kubernetes.client.exceptions", "ApiException", {}),
    ("kubernetes.config.config_exception", "ConfigException", {}),
    ("kubernetes_asyncio.client.exceptions", "ApiException", {}),
    ("podman.errors", "PodmanError", {}),
    ("testcontainers.core.exceptions", "ContainerStartException", {}),
    ("openai", "OpenAIError", {"RateLimitError": "llm.rate_limited"}),
    ("anthropic", "AnthropicError", {"APITimeoutError": "llm.timeout"}),
    ("litellm.exceptions", "OpenAIError", {"Timeout": "llm.timeout"}),
    ("google.genai.errors", "APIError", {}),
    (
        "google.api_core.exceptions",
        "GoogleAPIError",
        {"DeadlineExceeded": "llm.timeout"},
    ),
    ("google.generativeai.types.generation_types", "BlockedPromptException", {}),
    ("git.exc", "GitError", {"CheckoutError": "git.checkout_failed"}),
    ("gitdb.exc", "ODBError", {}),
)


@pytest.mark.filterwarnings("ignore")  # what those libraries warn of at import
@pytest.mark.parametrize(("module", "base", "kinds"), DISTRIBUTIONS)
def test_the_table_has_the_names_that_the_real_classes_have(
    module: str, base: str, kinds: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every exception of an installed library is known, by its own name and by its bases."""
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        pytest.skip(f"{module} is not installed")
    monkeypatch.setenv(
        "LITELLM_LOCAL_MODEL_COST_MAP", "True"
    )  # else its import asks the network
    real = pytest.importorskip(module)
    top = module.partition(".")[0]
    classes = [
        each
        for each in list(vars(real).values())  # a look at some of them loads more
        if isinstance(each, type)
        and issubclass(each, getattr(real, base))
        and each.__module__.startswith(top)
    ]
    assert classes
    for each in classes:
        described = RaisedException(
            type=each.__qualname__,
            module=each.__module__,
            message="odd",
            bases=tuple(
                f"{one.__module__}.{one.__qualname__}" for one in each.__mro__[:-1]
            ),
        )
        kind = kind_of(described, WITHIN_GENAI)
        assert kind is not None, each
        assert kind == kinds.get(each.__name__, kind), each
        if each.__module__ == module:
            by_name = raised(f"{module}.{each.__qualname__}", "odd")
            assert kind_of(by_name, WITHIN_GENAI) is not None, each
    listed = [
        name for name in kinds_by_exception() if name.rpartition(".")[0] == module
    ]
    missing = [name for name in listed if not hasattr(real, name.rpartition(".")[2])]
    assert set(missing) <= LEFT_OR_PRIVATE


LEFT_OR_PRIVATE: Final = {
    "anthropic.DeadlineExceededError",
    "anthropic.OverloadedError",
    "anthropic.RequestTooLargeError",
    "anthropic.ServiceUnavailableError",
}
"""Names of the table that not all versions of the library offer at the same place."""

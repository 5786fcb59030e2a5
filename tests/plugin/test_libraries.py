"""Exceptions of well-known libraries, raised by modules of the same names: reason and kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.helpers.runs import PytestRuns

QUOTA: Final = "Error code: 429 - {'error': {'code': 'insufficient_quota'}}"
LONG: Final = "Error code: 400 - prompt is too long: 200001 tokens > 200000 maximum"
GIT: Final = (
    "Cmd('git') failed due to: exit code(128)\n  cmdline: git {}\n  stderr: 'fatal'"
)

# module, exception, message, reason, kind
RAISED: Final = (
    (
        "docker.errors",
        "APIError",
        "409 Client Error: Conflict",
        "SANDBOX_ERROR",
        "sandbox.docker",
    ),
    ("docker.errors", "ImageNotFound", "404", "SANDBOX_ERROR", "sandbox.docker"),
    ("aiodocker.exceptions", "DockerError", "gone", "SANDBOX_ERROR", "sandbox.docker"),
    (
        "kubernetes.client.exceptions",
        "ApiException",
        "(403) Reason: Forbidden",
        "SANDBOX_ERROR",
        "sandbox.kubernetes",
    ),
    (
        "kubernetes.config.config_exception",
        "ConfigException",
        "no configuration",
        "SANDBOX_ERROR",
        "sandbox.kubernetes",
    ),
    (
        "kubernetes_asyncio.client.exceptions",
        "ApiException",
        "(500)",
        "SANDBOX_ERROR",
        "sandbox.kubernetes",
    ),
    (
        "podman.errors.exceptions",
        "ContainerError",
        "exit 1",
        "SANDBOX_ERROR",
        "sandbox.podman",
    ),
    (
        "testcontainers.core.exceptions",
        "ContainerStartException",
        "Port not found",
        "SANDBOX_ERROR",
        "sandbox.testcontainers",
    ),
    ("openai", "RateLimitError", "slow down", "LLM_ERROR", "llm.rate_limited"),
    ("openai", "RateLimitError", QUOTA, "LLM_ERROR", "llm.quota_exceeded"),
    ("openai", "APITimeoutError", "Request timed out.", "LLM_ERROR", "llm.timeout"),
    (
        "openai",
        "APIConnectionError",
        "Connection error.",
        "LLM_ERROR",
        "llm.unavailable",
    ),
    ("openai", "OpenAIError", "something else", "LLM_ERROR", "llm.error"),
    (
        "anthropic",
        "AuthenticationError",
        "invalid key",
        "LLM_ERROR",
        "llm.authentication",
    ),
    ("anthropic", "BadRequestError", LONG, "LLM_ERROR", "llm.context_exceeded"),
    ("anthropic", "OverloadedError", "Overloaded", "LLM_ERROR", "llm.unavailable"),
    (
        "litellm.exceptions",
        "BadRequestError",
        "no such field",
        "LLM_ERROR",
        "llm.bad_request",
    ),
    (
        "litellm.exceptions",
        "ContextWindowExceededError",
        "too long",
        "LLM_ERROR",
        "llm.context_exceeded",
    ),
    (
        "google.genai.errors",
        "ClientError",
        "429 RESOURCE_EXHAUSTED",
        "LLM_ERROR",
        "llm.rate_limited",
    ),
    (
        "google.genai.errors",
        "ServerError",
        "503 UNAVAILABLE",
        "LLM_ERROR",
        "llm.unavailable",
    ),
    (
        "google.api_core.exceptions",
        "ResourceExhausted",
        "429 generativelanguage.googleapis.com",
        "LLM_ERROR",
        "llm.rate_limited",
    ),
    (
        "git.exc",
        "GitCommandError",
        GIT.format("clone -v -- u d"),
        "GIT_CLONE_FAILED",
        "git.clone_failed",
    ),
    (
        "git.exc",
        "GitCommandError",
        GIT.format("checkout main"),
        "GIT_CHECKOUT_FAILED",
        "git.checkout_failed",
    ),
    (
        "git.exc",
        "GitCommandError",
        GIT.format("fetch origin"),
        "TOOL_ERROR",
        "tool.git",
    ),
    ("git.exc", "InvalidGitRepositoryError", "/tmp/x", "TOOL_ERROR", "tool.git"),  # noqa: S108 - no file
    ("gitdb.exc", "BadObject", "BadObject: b'01'", "TOOL_ERROR", "tool.git"),
    # What only looks like one.
    (
        "mydocker.errors",
        "APIError",
        "409 Client Error: Conflict",
        "TESTS_FAILED",
        "test.failed",
    ),
    (
        "google.api_core.exceptions",
        "NotFound",
        "404 a bucket",
        "TESTS_FAILED",
        "test.failed",
    ),
)
COMMANDS: Final = (
    (["git", "clone", "u", "d"], "GIT_CLONE_FAILED", "git.clone_failed"),
    (
        ["git", "-C", "d", "switch", "main"],
        "GIT_CHECKOUT_FAILED",
        "git.checkout_failed",
    ),
    (["git", "push"], "TOOL_ERROR", "tool.git"),
    (["make", "clone"], "TESTS_FAILED", "test.failed"),
)


def modules() -> Iterator[tuple[str, str]]:
    """Yield files that stand for the libraries: modules of their names, with their exceptions."""
    names = dict.fromkeys((module, name) for module, name, *_ in RAISED)
    defined: dict[str, str] = {}
    for module, name in names:
        *packages, _ = module.split(".")
        for depth in range(1, len(packages) + 1):
            defined.setdefault(f"{'/'.join(packages[:depth])}/__init__.py", "")
        path = f"{module.replace('.', '/')}.py"
        defined[path] = defined.get(path, "") + f"class {name}(Exception): pass\n"
    # Only what a library itself raises is believed.
    fail = "def fail(kind, text): raise kind(text)\n"
    for path, lines in defined.items():
        yield path, lines + fail if lines else ""


def suite() -> Iterator[str]:
    """Yield a test for each row; every third one raises a class of the user's own below it."""
    yield "import importlib, subprocess\n"
    for number, (module, name, message, *_) in enumerate(RAISED):
        library = f"importlib.import_module({module!r})"
        found = f"{library}.{name}"
        if number % 3 == 0:
            found = f"type('Ours', ({found},), {{}})"
        yield f"def test_{number}(): {library}.fail({found}, {message!r})\n"
    for number, (command, *_) in enumerate(COMMANDS, len(RAISED)):
        run = f"subprocess.CompletedProcess({command!r}, 128)"
        yield f"def test_{number}(): {run}.check_returncode()\n"


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["serial", "xdist"])
def test_libraries_are_known(runs: PytestRuns, workers: list[str]) -> None:
    """Each exception has the reason and kind of its library; none is that of half of the run."""
    runs.write({**dict(modules()), "test_it.py": "".join(suite())})
    run = runs.run(*workers, plugins=["xdist"] if workers else [])
    rows = [
        *((row[-2], row[-1]) for row in RAISED),
        *((row[-2], row[-1]) for row in COMMANDS),
    ]
    found = {
        each["nodeid"]: (each["reason"], each["kind"])
        for each in run.report["failures"]
    }
    assert found == {
        f"test_it.py::test_{number}": row for number, row in enumerate(rows)
    }
    held = [
        (each["reason"], each["kind"], each["count"]) for each in run.report["reasons"]
    ]
    assert sorted(held) == sorted((*row, count) for row, count in Counter(rows).items())
    assert run.verdict == ("TESTS_FAILED", "test.failed")


@pytest.mark.slow
@pytest.mark.parametrize(
    "row",
    [
        row
        for number, row in enumerate(RAISED)
        if number in (0, 3, 6, 7, 8, 13, 16, 18, 22, 23)
    ],
    ids=lambda row: f"{row[0]}-{row[4]}",
)
def test_a_library_alone(runs: PytestRuns, row: tuple[str, str, str, str, str]) -> None:
    """Where it is all that went wrong, it is the verdict, and no test counts as wrong."""
    module, name, message, reason, kind = row
    body = (
        f"from {module} import {name}, fail\ndef test_it(): fail({name}, {message!r})\n"
    )
    runs.write({**dict(modules()), "test_it.py": body})
    run = runs.run()
    assert run.exit_status == 1
    assert run.verdict == (reason, kind)
    assert run.kinds == [kind]


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["serial", "xdist"])
def test_the_marker_of_a_test_failure(runs: PytestRuns, workers: list[str]) -> None:
    """An agent's word stands among the reasons, after what was seen."""
    body = (
        "from docker.errors import APIError, fail\n"
        "def test_it():\n    print('[GZA_FAILURE:TEST_FAILURE]')\n    fail(APIError, '409')\n"
    )
    runs.write({**dict(modules()), "test_it.py": body})
    run = runs.run(*workers, plugins=["xdist"] if workers else [])
    held = [(each["reason"], each["kind"]) for each in run.report["reasons"]]
    assert held == [
        ("SANDBOX_ERROR", "sandbox.docker"),
        ("TESTS_FAILED", "marker.test_failure"),
    ]
    assert [each["marker"] for each in run.report["failures"]] == ["TEST_FAILURE"]
    assert run.verdict == ("SANDBOX_ERROR", "sandbox.docker")

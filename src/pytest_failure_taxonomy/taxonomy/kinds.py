"""The kinds that refine a reason: one row each, published, never given another meaning later."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from pytest_failure_taxonomy.taxonomy.reasons import FailureReason, Stage

KIND_PATTERN: Final = r"^[a-z0-9_]+(\.[a-z0-9_]+)+$"
"""What a kind's name looks like, whoever gives it."""


class Kind(NamedTuple):
    """Describe one kind of failure."""

    name: str
    """Lower-case and dotted, as it stands in the report."""
    reason: FailureReason | None
    """The reason it refines; `None` where the exit table or the stage decides."""
    retryable: bool | None
    """Whether running the same thing again could end differently; `None` if nothing speaks
    either way."""
    one: str
    """What happened, in words, when it happened to one test."""
    many: str
    """The same with `{count}`; equal to `one` for what can happen only once a run."""

    def phrase(self, count: int) -> str:
        """Say in words that this happened to `count` tests, or `count` times."""
        return self.one if count == 1 else self.many.replace("{count}", f"{count:,}")


_TESTS = FailureReason.TESTS_FAILED
_INTERNAL = FailureReason.INTERNAL_ERROR
_SANDBOX = FailureReason.SANDBOX_ERROR
_TIMEOUT = FailureReason.TIMEOUT
_LLM = FailureReason.LLM_ERROR
_NONE = FailureReason.NO_TESTS_COLLECTED
_STOPPED = FailureReason.INTERRUPTED
_UNKNOWN = FailureReason.UNKNOWN

_OWN: Final[tuple[tuple[str, FailureReason | None, bool | None, tuple[str, ...]], ...]] = (
    ("test.failed", _TESTS, None, ("1 test failed", "{count} tests failed")),
    (
        "test.setup_error",
        _TESTS,
        None,
        ("the setup of 1 test failed", "the setup of {count} tests failed"),
    ),
    (
        "test.teardown_error",
        _TESTS,
        None,
        ("the teardown of 1 test failed", "the teardown of {count} tests failed"),
    ),
    (
        "test.xpass_strict",
        _TESTS,
        False,
        (
            "1 test marked as failing passed (strict xfail)",
            "{count} tests marked as failing passed (strict xfail)",
        ),
    ),
    (
        "test.timeout",
        _TIMEOUT,
        True,
        ("1 test used up its time limit", "{count} tests used up their time limit"),
    ),
    ("session.timeout", _TIMEOUT, True, ("the session's time limit was used up",)),
    ("test.stalled", _TIMEOUT, True, ("1 test was stalled", "{count} tests were stalled")),
    ("collection.stalled", _TIMEOUT, True, ("the collection was stalled",)),
    ("session.stalled", _TIMEOUT, True, ("the end of the session was stalled",)),
    ("shutdown.stalled", _TIMEOUT, True, ("the interpreter did not end after the session",)),
    (
        "test.crashed",
        _TESTS,
        None,
        (
            "1 test crashed the process that was forked for it",
            "{count} tests crashed the processes that were forked for them",
        ),
    ),
    ("coverage.failed", _TESTS, False, ("coverage is below the required threshold",)),
    ("collection.mismatch", _INTERNAL, False, ("the xdist workers collected different tests",)),
    ("process.timeout", _TIMEOUT, True, ("the run used up its time limit",)),
    (
        "process.killed",
        _TIMEOUT,
        True,
        ("pytest was killed (SIGKILL): memory or a time limit, nothing says which",),
    ),
    ("process.oom", _SANDBOX, True, ("pytest was killed because the memory ran out",)),
    (
        "sandbox.memory",
        _SANDBOX,
        None,
        (
            "1 test ran out of the memory that it may use",
            "{count} tests ran out of the memory that they may use",
        ),
    ),
    ("process.terminated", _STOPPED, True, ("pytest was told to end by a signal",)),
    ("process.crashed", _UNKNOWN, None, ("the pytest process crashed",)),
    ("process.exited", _UNKNOWN, False, ("the process left before pytest had finished",)),
    ("process.vanished", _UNKNOWN, None, ("pytest is still running, or died without a word",)),
    ("worker.crashed", _TESTS, None, ("1 xdist worker died", "{count} xdist workers died")),
    (
        "collection.error",
        _INTERNAL,
        False,
        ("1 file or node could not be collected", "{count} files or nodes could not be collected"),
    ),
    ("conftest.error", _INTERNAL, False, ("a conftest.py could not be loaded",)),
    ("usage.error", _INTERNAL, False, ("pytest was called in a way that it refused",)),
    (
        "plugin.error",
        _INTERNAL,
        False,
        (
            "a plugin could not be loaded, or failed outside of any test",
            "{count} times a plugin could not be loaded, or failed outside of any test",
        ),
    ),
    (
        "internal.error",
        _INTERNAL,
        False,
        ("pytest met an internal error", "pytest met {count} internal errors"),
    ),
    ("tests.none_collected", _NONE, False, ("no test was found",)),
    ("tests.all_deselected", _NONE, False, ("every test found was deselected",)),
    ("interrupt.keyboard", _STOPPED, True, ("the run was interrupted from the keyboard",)),
    ("interrupt.exit", _STOPPED, None, ("the run was ended by pytest.exit",)),
    ("interrupt.stopped", _STOPPED, None, ("the run was stopped before its end",)),
    ("warnings.exceeded", _UNKNOWN, False, ("more warnings than allowed",)),
    ("exit_status.changed", None, None, ("no test failed, but a plugin changed the exit status",)),
    ("command.failed", None, None, ("the command failed",)),
    ("shard.missing", _UNKNOWN, None, ("a shard is missing", "{count} shards are missing")),
)
"""Kinds that the run itself gives; those without words for several can happen only once a run."""

_BY_LIBRARY: Final = (
    ("sandbox.docker", _SANDBOX, None, "call", "of Docker failed"),
    ("sandbox.kubernetes", _SANDBOX, None, "call", "of Kubernetes failed"),
    ("sandbox.podman", _SANDBOX, None, "call", "of Podman failed"),
    ("sandbox.testcontainers", _SANDBOX, None, "use", "of a test container failed"),
    ("sandbox.worker_lost", _SANDBOX, True, "call", "on a cluster failed: its worker was lost"),
    ("llm.rate_limited", _LLM, True, "call", "of a language model failed: over the rate limit"),
    ("llm.quota_exceeded", _LLM, False, "call", "of a language model failed: quota used up"),
    ("llm.timeout", _LLM, True, "call", "of a language model failed: no answer in time"),
    ("llm.unavailable", _LLM, True, "call", "of a language model failed: no service"),
    ("llm.authentication", _LLM, False, "call", "of a language model failed: not allowed"),
    ("llm.context_exceeded", _LLM, False, "call", "of a language model failed: too long for it"),
    ("llm.bad_request", _LLM, False, "call", "of a language model failed: a wrong request"),
    ("llm.error", _LLM, None, "call", "of a language model failed"),
    ("git.clone_failed", FailureReason.GIT_CLONE_FAILED, True, "git clone", "failed"),
    ("git.checkout_failed", FailureReason.GIT_CHECKOUT_FAILED, False, "git checkout", "failed"),
    ("tool.git", FailureReason.TOOL_ERROR, None, "git command", "failed"),
)
"""Kinds that the exceptions of well-known libraries give: what failed, to be counted, and how."""

_BY_STAGE: Final = (
    ("stage.git_clone_failed", True, "the clone failed"),
    ("stage.git_checkout_failed", False, "the checkout failed"),
    ("stage.setup_failed", False, "the setup failed"),
    ("stage.setup_timeout", True, "the setup used up its time limit"),
    ("stage.baseline_not_failing", False, "the tests pass before the fix"),
    ("stage.timeout", True, "the stage used up its time limit"),
)
"""Kinds that a stage's exit code gives."""

_BY_MARKER: Final = (
    ("marker.max_turns", FailureReason.AGENT_GAVE_UP, "an agent says that its turns are used up"),
    ("marker.test_failure", _TESTS, "an agent says that it could not repair what tests found"),
    ("marker.unknown", _UNKNOWN, "an agent says that it failed, and not why"),
)
"""Kinds that the usual markers give, each told once, however many tests printed it."""

KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {name: Kind(name, reason, retry, words[0], words[-1]) for name, reason, retry, words in _OWN}
    | {
        name: Kind(name, reason, retry, f"1 {what} {how}", f"{{count}} {what}s {how}")
        for name, reason, retry, what, how in _BY_LIBRARY
    }
    | {name: Kind(name, None, retry, words, words) for name, retry, words in _BY_STAGE}
    | {name: Kind(name, reason, None, words, words) for name, reason, words in _BY_MARKER}
)
"""Every kind that this version itself gives, by name, in the order of the published table. Rules
and plugins may name others."""

_RANKS: Final[Mapping[str, int]] = MappingProxyType({name: rank for rank, name in enumerate(KINDS)})


def rank_of(kind: str) -> tuple[int, str]:
    """Return where a kind stands among others of one reason that hold as often.

    That is the order of the table; kinds that are not in it follow by name.
    """
    return _RANKS.get(kind, len(_RANKS)), kind


def reason_of(kind: str) -> FailureReason:
    """Return the reason that a kind of ours refines.

    Raises:
        ValueError: it has none of its own; the exit table or the stage decides.
    """
    reason = KINDS[kind].reason
    if reason is None:
        raise ValueError(f"the kind {kind} has no reason of its own")
    return reason


STAGE_KINDS: Final[Mapping[FailureReason, str]] = MappingProxyType(
    {
        FailureReason.GIT_CLONE_FAILED: "stage.git_clone_failed",
        FailureReason.GIT_CHECKOUT_FAILED: "stage.git_checkout_failed",
        FailureReason.SETUP_FAILED: "stage.setup_failed",
        FailureReason.SETUP_TIMEOUT: "stage.setup_timeout",
        FailureReason.BASELINE_NOT_FAILING: "stage.baseline_not_failing",
        FailureReason.TIMEOUT: "stage.timeout",
    }
)
"""The kind of a reason that `FailureReason.from_stage` gave."""

PHASE_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "setup": "test.setup_error",
        "call": "test.failed",
        "teardown": "test.teardown_error",
    }
)
"""The kind of a failed test by the phase that failed."""

STAGES_WITH_A_FAILURE_OF_THEIR_OWN: Final = frozenset(
    {Stage.GIT_CLONE, Stage.GIT_CHECKOUT, Stage.SETUP}
)


def describe_kind(name: str, reason: FailureReason) -> Kind:
    """Return the row of a kind; a kind that is not ours is described by its name."""
    known = KINDS.get(name)
    if known is not None:
        return known
    return Kind(
        name,
        reason,
        None,
        f"1 failure of the kind {name}",
        f"{{count}} failures of the kind {name}",
    )

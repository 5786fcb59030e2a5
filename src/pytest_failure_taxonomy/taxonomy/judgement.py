"""The parts of a judgement: stages, reasons, kinds, failure types, advice, findings.

With the tables from stages, exit codes and markers to reasons.

What is recommended is advice only: nothing here runs git, reruns a test or notifies
anybody.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, get_args

from pytest_failure_taxonomy.taxonomy import packaged_table, read_packaged
from pytest_failure_taxonomy.taxonomy.values import (
    Bounds,
    Count,
    Pattern,
    Positive,
    Share,
    Time,
    value,
)
from pytest_failure_taxonomy.taxonomy.words import counted

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy import evidence


class Stage(StrEnum):
    """Name the step of an attempt that a command belongs to.

    The value is what users write on the command line and find in the report. A plain
    test run is the `final_test` of its attempt.
    """

    GIT_CLONE = "git_clone"
    GIT_CHECKOUT = "git_checkout"
    SETUP = "setup"
    BASELINE_RUN = "baseline_run"
    AGENT_RUN = "agent_run"
    FINAL_TEST = "final_test"


class FailureReason(StrEnum):
    """Say why an attempt failed; success is `None`, never a member.

    Members stand in order of precedence: where several reasons hold, the earliest is
    the primary one, because a failure of an earlier stage explains those of the later
    ones.
    """

    GIT_CLONE_FAILED = "GIT_CLONE_FAILED"
    GIT_CHECKOUT_FAILED = "GIT_CHECKOUT_FAILED"
    SETUP_TIMEOUT = "SETUP_TIMEOUT"
    SETUP_FAILED = "SETUP_FAILED"
    BASELINE_NOT_FAILING = "BASELINE_NOT_FAILING"
    SANDBOX_ERROR = "SANDBOX_ERROR"
    LLM_ERROR = "LLM_ERROR"
    TOOL_ERROR = "TOOL_ERROR"
    TIMEOUT = "TIMEOUT"
    AGENT_GAVE_UP = "AGENT_GAVE_UP"
    TESTS_FAILED = "TESTS_FAILED"
    NO_TESTS_COLLECTED = "NO_TESTS_COLLECTED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    INTERRUPTED = "INTERRUPTED"
    UNKNOWN = "UNKNOWN"

    @property
    def precedence(self) -> int:
        """Rank among the reasons, 1 (most telling) to 15 (catch-all)."""
        return [*FailureReason].index(self) + 1

    @classmethod
    def from_pytest_exit_code(cls, exit_code: int) -> FailureReason | None:
        """Return the reason that pytest's exit code alone stands for.

        Pass a negative return code of `subprocess` through `exit_code_from_returncode`
        first.

        Args:
            exit_code: the status a shell would show, 0 to 255.

        Returns:
            `None` for 0, `UNKNOWN` for a code that the table does not list.
        """
        return PYTEST_EXIT_CODES.get(exit_code, (None, cls.UNKNOWN))[1]

    @classmethod
    def from_stage(
        cls,
        stage: str,
        exit_code: int,
        exception: BaseException | type[BaseException] | None = None,
    ) -> FailureReason | None:
        """Return the reason for the end of one stage of an attempt.

        An exception decides first, then the exit codes of a time limit (124 and 137),
        then the stage's own table.

        Args:
            stage: a `Stage` or its name.
            exit_code: the exit code of the stage's command.
            exception: what ended the stage in the harness itself, as an instance or a
                type.

        Returns:
            `None` for success; also for a baseline whose tests fail, as they should.

        Raises:
            ValueError: the stage is unknown.
        """
        try:
            parsed_stage = Stage(stage)
        except ValueError:
            stages = ", ".join(Stage)
            raise ValueError(f"unknown stage {stage!r}; one of {stages}") from None
        if exception is not None:
            kind = exception if isinstance(exception, type) else type(exception)
            return (
                cls.INTERRUPTED if issubclass(kind, KeyboardInterrupt) else cls.UNKNOWN
            )
        if exit_code in TIME_LIMIT_EXIT_CODES:
            return cls.SETUP_TIMEOUT if parsed_stage is Stage.SETUP else cls.TIMEOUT
        if parsed_stage is Stage.BASELINE_RUN:
            return cls.BASELINE_NOT_FAILING if exit_code == 0 else None
        if parsed_stage in STAGE_FAILURE_REASONS:
            return None if exit_code == 0 else STAGE_FAILURE_REASONS[parsed_stage]
        return cls.from_pytest_exit_code(exit_code)


PYTEST_EXIT_CODES: Final[Mapping[int, tuple[str | None, FailureReason | None]]] = (
    MappingProxyType(
        {
            0: ("OK", None),
            1: ("TESTS_FAILED", FailureReason.TESTS_FAILED),
            2: ("INTERRUPTED", FailureReason.INTERRUPTED),
            3: ("INTERNAL_ERROR", FailureReason.INTERNAL_ERROR),
            4: ("USAGE_ERROR", FailureReason.INTERNAL_ERROR),
            5: ("NO_TESTS_COLLECTED", FailureReason.NO_TESTS_COLLECTED),
            6: ("MAX_WARNINGS_ERROR", FailureReason.UNKNOWN),
            124: (None, FailureReason.TIMEOUT),
            137: (None, FailureReason.TIMEOUT),
        }
    )
)
"""What pytest's exit code alone says: the name in `pytest.ExitCode`, where 6 exists
from pytest 9.1 on, and the reason. 124 is GNU `timeout`'s own, 137 is 128 + SIGKILL."""

TIMEOUT_EXIT_CODE: Final = 124
"""GNU `timeout`'s own, when the time was up."""
TIME_LIMIT_EXIT_CODES: Final = frozenset({TIMEOUT_EXIT_CODE, 137})

STAGE_FAILURE_REASONS: Final[Mapping[Stage, FailureReason]] = MappingProxyType(
    {
        Stage.GIT_CLONE: FailureReason.GIT_CLONE_FAILED,
        Stage.GIT_CHECKOUT: FailureReason.GIT_CHECKOUT_FAILED,
        Stage.SETUP: FailureReason.SETUP_FAILED,
    }
)
"""Stages where any exit code but 0 has one meaning."""


def exit_code_from_returncode(returncode: int) -> int:
    """Turn a return code of `subprocess` into the exit code that a shell shows.

    `subprocess` says -9 where a shell says 137 for a process that SIGKILL ended.
    """
    return 128 - returncode if returncode < 0 else returncode


def primary_reason(reasons: Iterable[FailureReason | None]) -> FailureReason | None:
    """Return the reason of the lowest precedence number, or `None` if there is none.

    `None` among the reasons stands for a stage that succeeded and counts for nothing.
    """
    observed = [reason for reason in reasons if reason is not None]
    return min(
        observed,
        key=lambda reason: reason.precedence,
        default=None,
    )


CRASH_SIGNALS: Final = frozenset(
    {
        "SIGSEGV",
        "SIGABRT",
        "SIGBUS",
        "SIGILL",
        "SIGFPE",
    }
)
"""Signals that a process earns by its own fault; others come from outside."""


def signal_name(number: int) -> str:
    """Return the name of a signal, `SIG<number>` for one unknown to this system."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def signal_of_exit_code(code: int) -> str | None:
    """Return the name of the signal that a shell's exit code above 128 stands for."""
    name = signal_name(code - 128) if code > 128 else ""
    return name if name in signal.Signals.__members__ else None


MARKER_START: Final = "[GZA_FAILURE:"
"""How the line begins by which an agent says in its output that it has given up, and
why.

A marker is a line of its own: `[GZA_FAILURE:REASON]`. It is one more reason beside what
was observed, and never takes the place of an exit code, a time limit or a crash.
"""
MARKER_BLANKS: Final = " \t\r"
"""What may stand on a marker's line beside it."""
MARKER_COLOUR: Final = r"\x1b\[[0-9;:]*+m"
"""How a terminal is told a colour, as a pattern: no more than a blank beside a
marker."""

UNKNOWN_MARKER: Final = "UNKNOWN"

MARKER_REASONS: Final[Mapping[str, FailureReason]] = MappingProxyType(
    {
        "MAX_TURNS": FailureReason.AGENT_GAVE_UP,
        "TEST_FAILURE": FailureReason.TESTS_FAILED,
        UNKNOWN_MARKER: FailureReason.UNKNOWN,
    }
)
"""The markers that every configuration knows. One that a user adds stands for
`UNKNOWN`."""


def marker_on_line(line: str) -> str | None:
    """Return the marker's word on a line, known or not; `None` if it has no marker."""
    if MARKER_START not in line:
        return None
    text = (re.sub(MARKER_COLOUR, " ", line) if "\x1b" in line else line).strip(
        MARKER_BLANKS + "\n"
    )
    if not text.startswith(MARKER_START) or not text.endswith("]"):
        return None
    name = text[len(MARKER_START) : -1]
    is_word = name.isascii() and name.replace("_", "a").isalnum()
    return name if is_word else None


def validate_marker(name: str, valid: Iterable[str] = ()) -> str:
    """Return the marker's word where it is a known one, else `UNKNOWN`.

    Args:
        name: as it was written; case matters.
        valid: words that are valid beside the three of `MARKER_REASONS`.
    """
    return name if name in MARKER_REASONS or name in set(valid) else UNKNOWN_MARKER


KIND_PATTERN: Final = r"^[a-z0-9_]+(\.[a-z0-9_]+)+$"
"""What a kind's name looks like, whoever gives it."""
KindName = Annotated[str, Pattern(KIND_PATTERN)]

COMMAND_FAILED: Final = "command.failed"
"""The kind of a command of which nothing is known but its exit code and its output."""

KIND_FAMILIES: Final[Mapping[str, tuple[FailureReason, ...]]] = MappingProxyType(
    {
        "sandbox": (FailureReason.SANDBOX_ERROR,),
        "llm": (FailureReason.LLM_ERROR,),
        "tool": (FailureReason.TOOL_ERROR,),
        "git": (FailureReason.GIT_CLONE_FAILED, FailureReason.GIT_CHECKOUT_FAILED),
    }
)
"""The services and tools that a run needs, by the first word of the kinds that stand
for their failures, and the reasons that such kinds may refine."""


class Kind(NamedTuple):
    """Describe one kind of failure."""

    name: str
    """Lower-case and dotted, as it stands in the report."""
    reason: FailureReason | None
    """The reason it refines; `None` where the exit table or the stage decides."""
    retryable: bool | None
    """Whether running the same thing again could end differently; `None` if nothing
    speaks either way."""
    one: str
    """What happened, in words, when it happened to one test."""
    many: str
    """The same with `{count}`; equal to `one` for what can happen only once a run."""

    def phrase(self, count: int) -> str:
        """Say in words that this happened to `count` tests, or `count` times."""
        return self.one if count == 1 else self.many.replace("{count}", f"{count:,}")


@cache
def known_kinds() -> Mapping[str, Kind]:
    """Return every kind that this version gives, by name, in the published order.

    Rules and plugins may name others. The table is `data/kinds.json`: to each name the
    reason, whether a retry may help, and the words for one and, where a run can have
    several, for those.
    """
    kinds = {}
    for name, (reason, retryable, phrase, *many) in json.loads(
        read_packaged("kinds.json")
    ).items():
        refined = None if reason is None else FailureReason(reason)
        kinds[name] = Kind(
            name, refined, retryable, phrase, many[0] if many else phrase
        )
    return MappingProxyType(kinds)


def reason_of(kind: str) -> FailureReason:
    """Return the reason that a kind of ours refines.

    Raises:
        ValueError: it has none of its own; the exit table or the stage decides.
    """
    reason = known_kinds()[kind].reason
    if reason is None:
        raise ValueError(f"the kind {kind} has no reason of its own")
    return reason


PHASE_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "setup": "test.setup_error",
        "call": "test.failed",
        "teardown": "test.teardown_error",
    }
)
"""The kind of a failed test by the phase that failed."""


def kind_of_stage(reason: FailureReason) -> str:
    """Return the kind of a reason that `FailureReason.from_stage` gave."""
    return f"stage.{reason.lower()}"


def describe_kind(name: str, reason: FailureReason) -> Kind:
    """Return the row of a kind; a kind that is not ours is described by its name."""
    row = known_kinds().get(name)
    if row is not None:
        return row
    words = f"1 failure of the kind {name}", f"{{count}} failures of the kind {name}"
    return Kind(name, reason, None, *words)


class FailureType(StrEnum):
    """Classify a failure by what it takes to recover from it."""

    BROKEN_BUILD = "BROKEN_BUILD"
    VERIFICATION_FAILED = "VERIFICATION_FAILED"
    CIRCULAR_FIX = "CIRCULAR_FIX"
    CONTEXT_EXHAUSTED = "CONTEXT_EXHAUSTED"
    UNKNOWN = "UNKNOWN"


def type_of_kind(kind: str) -> FailureType:
    """Return the failure type that a kind stands for, where no exception tells it."""
    return _KIND_TYPES.get(kind, FailureType.UNKNOWN)


_KIND_TYPES: Final[Mapping[str, FailureType]] = MappingProxyType(
    {
        "test.failed": FailureType.VERIFICATION_FAILED,
        "test.xpass_strict": FailureType.VERIFICATION_FAILED,
        "llm.context_exceeded": FailureType.CONTEXT_EXHAUSTED,
        "tool.install_failed": FailureType.BROKEN_BUILD,
        "tool.syntax": FailureType.BROKEN_BUILD,
    }
)


class RecoveryAction(StrEnum):
    """Recommend the next step after a failure; nothing here is ever done by the product itself."""

    ROLLBACK = "rollback"
    RETRY = "retry"
    SKIP = "skip"
    CONTINUE = "continue"
    ESCALATE = "escalate"


EARLIER_ATTEMPTS_COMPARED: Final = 3
SIMILAR_ATTEMPTS_OF_A_CIRCLE: Final = 2
ATTEMPTS_AT_VERIFICATION: Final = 3
"""Attempts at one subtask, the first included, before it is skipped."""
ATTEMPTS_AT_UNKNOWN: Final = 2
"""The first attempt and one retry."""


@value
class Advice:
    """A recovery action, explained for people."""

    action: RecoveryAction
    reason: str
    """Why, in one sentence."""
    steps: tuple[str, ...]
    """What to do, one after another, in words that may stand behind others."""

    @property
    def hints(self) -> tuple[str, ...]:
        """The steps as sentences."""
        return tuple(f"{step[0].upper()}{step[1:]}." for step in self.steps)


def is_circular_fix(approach: str, earlier_approaches: Sequence[str]) -> bool:
    """Tell whether an approach was tried before, in two of the last three attempts.

    Two approaches are similar if more than 30 % of all their words are in both. Words
    are runs of letters, digits and underscores, without the stop words.

    Args:
        approach: The approach of this attempt, in words.
        earlier_approaches: The approaches of earlier attempts at the same subtask, the
            oldest first.

    Raises:
        TypeError: `approach` is not a string, or `earlier_approaches` is one.
    """
    if not isinstance(approach, str):
        raise TypeError(
            f"approach: {approach!r} is not a string; say in words what is tried"
        )
    if isinstance(earlier_approaches, str):
        raise TypeError("earlier_approaches: got a string; give a list of strings")
    words = _keywords(approach)
    window = earlier_approaches[-EARLIER_ATTEMPTS_COMPARED:]
    # Whole numbers: a share of exactly 0.3 must not depend on how a float rounds.
    similar = sum(
        10 * len(words & earlier) > 3 * len(words | earlier)
        for earlier in map(_keywords, window)
    )
    return similar >= SIMILAR_ATTEMPTS_OF_A_CIRCLE


def recommend_recovery(
    failure_type: FailureType | str,
    *,
    attempt_count: int,
    last_good_commit: str | None = None,
) -> RecoveryAction:
    """Recommend the next step after a failure.

    Args:
        failure_type: The type of the failure, or its name.
        attempt_count: Attempts made so far at this subtask, including this one; 1 or
            more.
        last_good_commit: The commit to roll back to, if one is known.

    Raises:
        ValueError: There is no such type, or `attempt_count` is not a positive integer.
    """
    try:
        parsed_type = FailureType(failure_type)
    except ValueError:
        names = ", ".join(FailureType)
        raise ValueError(
            f"failure_type: {failure_type!r} is not a failure type; give one of {names}"
        ) from None
    is_whole = isinstance(attempt_count, int) and not isinstance(attempt_count, bool)
    if not is_whole or attempt_count < 1:
        raise ValueError(
            f"attempt_count: {attempt_count!r} is not a number of attempts;"
            " give 1 or more, including this attempt"
        )
    if parsed_type is FailureType.BROKEN_BUILD:
        return RecoveryAction.ROLLBACK if last_good_commit else RecoveryAction.ESCALATE
    if parsed_type is FailureType.VERIFICATION_FAILED:
        may_try = attempt_count < ATTEMPTS_AT_VERIFICATION
        return RecoveryAction.RETRY if may_try else RecoveryAction.SKIP
    if parsed_type is FailureType.UNKNOWN:
        may_try = attempt_count < ATTEMPTS_AT_UNKNOWN
        return RecoveryAction.RETRY if may_try else RecoveryAction.ESCALATE
    is_circular = parsed_type is FailureType.CIRCULAR_FIX
    return RecoveryAction.SKIP if is_circular else RecoveryAction.CONTINUE


def recovery_of_failure(
    failure_type: FailureType,
    retryable: bool | None,  # noqa: FBT001 - the second half of a pair
    last_good_commit: str | None = None,
    *,
    kind: str = "",
) -> RecoveryAction:
    """Recommend the next step after a failure in a report, as its `retryable` allows.

    A retry is never recommended if it can't help, and comes first if it can. If that
    isn't known, the type alone decides; if a command failed for an unknown reason,
    somebody has to read what it printed.

    Args:
        failure_type: The type of the failure.
        retryable: Whether running the same again could end differently; `None` if
            unknown.
        last_good_commit: The commit to roll back to, if one is known.
        kind: The kind of the failure.
    """
    if kind == COMMAND_FAILED and retryable is None:
        return RecoveryAction.ESCALATE
    action = recommend_recovery(
        failure_type,
        attempt_count=1,
        last_good_commit=last_good_commit,
    )
    if retryable is None:
        return action
    again = (RecoveryAction.RETRY, RecoveryAction.CONTINUE)
    if retryable:
        return action if action in again else RecoveryAction.RETRY
    return RecoveryAction.ESCALATE if action in again else action


def _prevent_blind_retry(
    action: RecoveryAction,
    retryable: bool | None,  # noqa: FBT001 - as above
    kind: str | None,
) -> RecoveryAction:
    """Return an action, but no retry of a command whose output nobody understood."""
    is_unread = retryable is None and kind == COMMAND_FAILED
    if is_unread and action is RecoveryAction.RETRY:
        return RecoveryAction.ESCALATE
    return action


@value
class FailureTraits:
    """What decides on the words of a next step, beside the type and the attempts."""

    reason: str | None = None
    """Of the verdict, one of the fifteen."""
    kind: str | None = None
    """Of the verdict."""
    retryable: bool | None = None
    fixers: Literal["code", "environment", "both"] = "code"
    """Who has to fix it; `both` where causes differ."""
    fix: str | None = None
    """A command or an edit, where there is one cause."""


def explain_recovery(
    failure_type: FailureType | str,
    *,
    attempt_count: int,
    last_good_commit: str | None = None,
    traits: FailureTraits | None = None,
) -> Advice:
    """Recommend the next step, and explain it for people and for agents.

    Takes and raises the same as `recommend_recovery`. The action goes by the type and
    the attempts alone, but that a command that failed is not retried before somebody
    has read what it printed. The words go by the traits as well.
    """
    action = recommend_recovery(
        failure_type,
        attempt_count=attempt_count,
        last_good_commit=last_good_commit,
    )
    traits = traits or FailureTraits()
    action = _prevent_blind_retry(action, traits.retryable, traits.kind)
    asked = {
        "reasons": traits.reason,
        "kinds": traits.kind,
        "types": str(failure_type),
        "actions": str(action),
        "retryable": _RETRYABLE[traits.retryable],
        "fixers": traits.fixers,
        "has_fix": traits.fix is not None,
        "is_repeated": attempt_count > 1,
    }
    row = next(
        row
        for row in packaged_table("recovery_words")["rows"]
        if all(asked[name] in allowed for name, allowed in row["when"].items())
    )
    names = {
        "attempt": attempt_count,
        "attempts": counted(attempt_count, "attempt"),
        "limit": ATTEMPTS_AT_VERIFICATION,
        "commit": last_good_commit,
        "fix": traits.fix,
    }
    return Advice(
        action=action,
        reason=row["why"].format_map(names),
        steps=tuple(step.format_map(names) for step in row["steps"]),
    )


_RETRYABLE: Final = {
    True: "yes",
    False: "no",
    None: "unknown",
}


def _keywords(approach: str) -> frozenset[str]:
    words = frozenset(re.findall("[a-z0-9_]+", approach.lower()))
    return words.difference(packaged_table("recovery_words")["stop_words"])


CodeOwner = Literal[
    "test", "conftest", "project", "dependency", "pytest", "plugin", "python"
]
"""Whose code a file is."""
Confidence = Literal["certain", "likely"]
ProofType = Literal[
    "reproducible",
    "flaky",
    "order.polluted",
    "order.brittle",
    "collection.polluted",
    "leftover.files",
    "axis.hash_seed",
    "axis.random_seed",
    "axis.time",
    "axis.time_zone",
    "axis.network",
    "axis.load",
    "axis.memory",
    "axis.parallel",
    "axis.home",
    "commit",
    "environment",
]
"""What an experiment can say of a cause; `data/proofs.toml` has the words for each."""

MAX_EVIDENCE: Final = 10
"""How many pieces of evidence a verdict quotes; all of them stand in the rest of the
report."""
PRINTED: Final = "printed"
"""The source of a piece of evidence that is a line of the output."""
MAX_LINES: Final = 20
"""How many lines of a log are quoted."""


@value
class FailureJudgement:
    """What one failure is: of a test, of a collector, or outside of both."""

    reason: FailureReason
    kind: str
    failure_type: FailureType
    retryable: bool | None = None
    """Whether it could pass if it ran again; `None` where its kind decides."""
    rule: str | None = None
    """The rule that matched it."""
    timed_out: bool = False
    """A time limit of the test's own ended it, whatever its kind is."""
    fingerprint: str = ""
    """Equal for failures that are one and the same; empty for an error outside of the
    tests."""


@value
class GroupHistory:
    """What earlier runs say about a group of failures, or about a cause."""

    state: Literal["new", "came_back", "known", "flaky"]
    """`new` if no earlier run had it, `came_back` if it was gone in a run between,
    `known` if the last run had it, `flaky` if its tests pass and fail on one commit or
    often change between the two."""
    first_seen: Time | None
    """The start of the first run that had it; `None` for a new one."""
    runs: Count
    """How many earlier runs had it."""
    last_passed_commit: str | None
    """The last commit at which its tests passed; `None` if that is not known."""
    distributions_changed: tuple[str, ...] | None = None
    """What is installed in other versions than then: `numpy 2.3.1 -> 2.4.0`, `+ new
    1.0`, `- old 1.0`; the first four and how many more. `None` if that is not known."""
    first_commit: str | None = None
    """The commit of the first run that had it; `None` if that is not known."""
    flaky_failures: Count = 0
    """In how many of `flaky_runs` the flakiest of its tests failed."""
    flaky_runs: Count = 0
    """In how many runs the outcome of that test is known."""


@value
class Interval:
    """Bounds of a share, of 0 to 1."""

    low: Share
    """The lower bound."""
    high: Share
    """The upper bound."""


@value
class Counterfactual:
    """The same experiment without what the proof names, which shows that nothing else decides."""

    runs: Count
    """How many runs it took."""
    failed: Count
    """How many of them failed with the same fingerprint."""
    state: str | None
    """What was different, such as the other hash seed; `None` where the type says
    it."""


@value
class Proof:
    """What an experiment says about a cause."""

    type: ProofType
    """What was tried."""
    status: Literal["proven", "refuted", "suspected", "undecided"]
    """The result."""
    nodeids: tuple[str, ...]
    """Node ids of the tests that it names besides the one that fails: those that leave
    something behind, or that set up what it needs; in their order."""
    state: str | None
    """The condition under which it fails, or the commit since which it fails; if
    nothing was decided, the reason; `None` where there is no more to say."""
    runs: Count
    """How many runs it took under the conditions in which it fails."""
    failed: Count
    """How many of them failed with the same fingerprint."""
    without: Counterfactual | None
    """The same where it passes; `None` where that was not tried."""
    interval: Interval | None
    """The exact 95 % interval of the share of `runs` that fails; `None` without a
    share."""
    command: str | None
    """The command that runs it again; `None` if there is none."""
    suspicions: tuple[str, ...]
    """What was also seen and is not proven, in words, in the order in which it was
    tried."""
    commit: str | None = None
    """The commit since which it fails in this way, in words, if that was proven as
    well; else `None`."""
    known_since: Time | None
    """When an earlier run's experiment said it; `None` if one on this run did."""


@value
class BaseComparison:
    """How a test of a cause ends at another revision, such as the branch it goes to."""

    revision: str
    """As it was asked for, such as `origin/main`."""
    commit: str
    """The commit that this was."""
    status: Literal["new", "also", "undecided"]
    """`new` if it does not fail there, `also` if it does."""
    lacks_test: bool
    """Whether it is new because its test does not exist there."""
    runs: Count
    """How many runs at that revision passed, or failed with the same fingerprint."""
    failed: Count
    """How many of them failed."""
    interval: Interval | None
    """The exact 95 % interval of the share of `runs` that fails; `None` without a
    run."""
    here_runs: Count
    """How many runs of the failing code were made beside them; 0 where a proof says
    that it always fails."""
    here_failed: Count
    """How many of those failed with the same fingerprint."""
    state: str | None
    """Why nothing was decided, in words; `None` where it was."""


@value
class Group:
    """Failures that are the same, as far as that is known."""

    fingerprint: str
    """What its failures have in common."""
    reason: FailureReason
    """The reason of its failures."""
    kind: KindName
    """What refines the reason."""
    title: str
    """What failed, in one line."""
    count: Positive
    """How many failures it has."""
    nodeids: tuple[str, ...]
    """Node ids of its tests, each once, in order of occurrence."""
    owner: CodeOwner | None = None
    """Whose code most of its failures were raised in; `None` if that is not known."""
    history: GroupHistory | None = None
    """What earlier runs say about it; `None` if the run has no history."""


@value
class Finding:
    """One rule's conclusion from one piece of evidence."""

    reason: FailureReason
    kind: str
    source: str
    detail: str
    nodeid: str | None = None
    count: int = 1
    """How often that was seen, where nothing more is known of each time."""
    confidence: Confidence = "certain"
    ambiguous: tuple[str, ...] = ()
    """Kinds that it could be, where the evidence can't tell."""
    headline: str | None = None
    """What the verdict says in place of the kind's own words, where it is found on one
    test."""
    retryable: bool | None = None
    """What a rule says of it; `None` where the kind decides."""
    failure_type: FailureType | None = None
    """`None` where nothing is known of the code that failed."""
    words: tuple[str, ...] = ()
    """What names the thing that it is about, each in one line for the verdict's
    message."""
    is_hearsay: bool = False
    """It was only said, as by a marker; it is not the verdict where anything was
    seen."""
    failure: evidence.Failure | None = None
    """What it was found on, where that has a place and an exception."""
    fingerprint: str = ""
    """Of that failure."""
    explains: tuple[str, ...] = ()
    """Fingerprints of failures that it is the end of, and that are no findings of their
    own."""


def make_finding(
    kind: str,
    source: str,
    detail: str,
    *,
    reason: FailureReason | None = None,
    **fields: Any,
) -> Finding:
    """Return a finding of one kind.

    Args:
        kind: one of `known_kinds`.
        source: where it was seen.
        detail: what was seen.
        reason: needed where the kind has none of its own.
        **fields: further ones of `Finding`.
    """
    return Finding(
        reason=reason or reason_of(kind),
        kind=kind,
        source=source,
        detail=detail,
        **fields,
    )


def make_marker_finding(
    name: str,
    reason: FailureReason,
    nodeid: str | None = None,
    *,
    is_hearsay: bool = True,
) -> Finding:
    """Return the finding that a marker is: what somebody said, not what was seen."""
    kind, detail = f"marker.{name.lower()}", f"[GZA_FAILURE:{name}]"
    return make_finding(
        kind,
        "marker",
        detail,
        reason=reason,
        nodeid=nodeid,
        is_hearsay=is_hearsay,
    )


@value
class Evidence:
    """Quote one thing that was seen, and where."""

    source: str
    """Where it was seen, such as `test report`."""
    detail: str
    """What was seen, in words."""


@value
class HeldReason:
    """A reason that holds, with all findings of one kind."""

    reason: FailureReason
    """The reason."""
    kind: KindName
    """What refines the reason."""
    findings: tuple[Finding, ...] = ()
    """In the order of the evidence."""
    nodeids: tuple[str, ...]
    """Node ids that it was found on, each once, in order of occurrence."""
    count: Positive
    """How often it was found."""


CauseOwner = Literal[CodeOwner, "environment"]
"""Who has to fix a cause: whose code raised it, or who runs the machine and its
services."""
ChargedTo = Literal["subject", "environment", "verifier", "ambiguous"]
"""Whom a score charges a failure to: what is judged, the machine and its services, the
tests and their harness, or nobody can tell."""


@value
class Cause:
    """Failures and endings that one change fixes."""

    key: str
    """The same in any run that has this cause; 16 hexadecimal digits."""
    what: str
    """What is wrong and with what, in one line."""
    fix: str | None
    """A command or an edit that fixes it; `None` where none is known for sure."""
    reason: FailureReason
    """The reason of most of it."""
    kind: KindName
    """What refines the reason."""
    owner: CauseOwner | None
    """Who has to fix it: the owner of the code that raised most of it, or `environment`
    for the machine and its services; `None` if that is not known."""
    retryable: bool | None
    """Whether the same run again could end differently; `None` if nothing speaks either
    way."""
    failure_type: FailureType = FailureType.UNKNOWN
    """The sort of recovery that it needs."""
    count: Positive
    """How many failures and endings it has."""
    nodeids: tuple[str, ...]
    """Node ids of its tests and collectors, each once, in order of occurrence."""
    tests: tuple[str, ...] = ()
    """Node ids of the tests that failed, in order of occurrence."""
    files: tuple[str, ...] = ()
    """Node ids of what could not be collected, in order of occurrence; empty where
    there is none."""
    fingerprints: tuple[str, ...]
    """The fingerprints of its failures, each once, in order of occurrence."""
    unnamed: Count = 0
    """How many more tests failed whose node ids are not known, or not listed."""
    charge_to: ChargedTo | None = None
    """Whom a score of a harness charges it to: what is judged, the environment, or what
    verifies; `None` where that was not asked."""
    history: GroupHistory | None = None
    """What earlier runs say about it; `None` if the run has no history."""
    proof: Proof | None = None
    """What an experiment says about it; `None` without one."""
    base: BaseComparison | None = None
    """Whether another revision has it, too; `None` where that was not asked."""


@value
class Verdict:
    """The primary reason of a run, with what speaks for it."""

    reason: FailureReason
    """The reason with the lowest precedence number among those that hold."""
    kind: KindName
    """What refines the reason: lower-case words with dots between them, an open
    list."""
    precedence: Annotated[int, Bounds(low=1, high=15)]
    """Rank of the reason, 1 (most telling) to 15 (catch-all)."""
    confidence: Confidence
    """`certain` if it was seen, `likely` if it was inferred."""
    failure_type: FailureType | None
    """The sort of recovery that it needs; `None` if that was not asked."""
    recovery_action: RecoveryAction | None
    """The recommended next step; `None` if that was not asked."""
    retryable: bool | None
    """Whether the same run again could end differently; `None` if nothing speaks either
    way."""
    message: str
    """What happened, in one sentence."""
    nodeid: str | None
    """Node id of the first test or collector concerned; `None` if none is."""
    evidence: tuple[Evidence, ...]
    """What speaks for it, in order of occurrence; the first ten pieces."""
    ambiguous: tuple[str, ...] = ()
    """Other kinds that it may have been, in the order documented for the kind; what was
    seen does not tell them apart."""
    owner: CodeOwner | None = None
    """Whose code most of its failures were raised in; `None` if that is not known."""
    charge_to: ChargedTo | None = None
    """Whom the score of a harness charges it to, as the first cause of its kind; `None`
    where that was not asked."""
    history: GroupHistory | None = None
    """What earlier runs say about a verdict that belongs to no group; `None` for
    others."""


@value
class KnownFailures:
    """How the failures of a run compare with those that are known."""

    by: str
    """What knows them: the name of a file, or `history`."""
    accepted: bool
    """Whether all of them are known, so that the exit status is 0."""
    failures: Count
    """How many failures there are."""
    unknown: tuple[str, ...]
    """Node ids of those that are not known, the first ones."""
    unknown_count: Count
    """How many those are."""
    others: str
    """What made the session fail besides tests; empty for nothing."""
    notes: tuple[str, ...]
    """What is wrong with the entries of the file, in sentences."""


@value
class Judgement:
    """What the evidence of a run comes to."""

    exit_reason: FailureReason | None
    """What the exit code alone says, by the stage's table."""
    verdict: Verdict | None = None
    """`None` for success."""
    reasons: tuple[HeldReason, ...] = ()
    """All that hold, primary first."""
    failures: tuple[FailureJudgement, ...] = ()
    """One for each of the evidence's `failures`, in their order; so are the next
    two."""
    collection_failures: tuple[FailureJudgement, ...] = ()
    errors: tuple[FailureJudgement, ...] = ()
    causes: tuple[Cause, ...] = ()
    """Of all that failed: what explains others first, then by count."""
    groups: tuple[Group, ...] = ()
    """Of test failures and collection failures: biggest first, then by their first
    failure."""
    lines: tuple[evidence.OutputLine, ...] = ()
    """The lines of a log that speak for the reasons, by number."""
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    """What contradicts itself in the evidence, in words: a fault of the recorder's."""


def owner_of_most(failures: Iterable[evidence.Failure | None]) -> CodeOwner | None:
    """Return whose code raised most failures; `None` if that is known of none.

    On a tie, the first in the order of `CodeOwner` wins.
    """
    raised = [failure.exception for failure in failures if failure is not None]
    owners = [
        exception.frame.owner
        for exception in raised
        if exception is not None and exception.frame is not None
    ]
    if not owners or owners.count(owners[0]) == len(owners):
        return owners[0] if owners else None
    order = get_args(CodeOwner)
    return min(
        set(owners), key=lambda owner: (-owners.count(owner), order.index(owner))
    )

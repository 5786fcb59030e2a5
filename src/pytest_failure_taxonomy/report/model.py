"""The report as one frozen value, schema version 1.3.

Each class is defined once: the report uses the values of the evidence and the judgement as they
are, and `PUBLISHED` says which of their fields a report has. `tests/helpers/report_schema.py` makes
the JSON Schema that ships from these classes; their docstrings are its descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pytest_failure_taxonomy.report.codec import Codec, Fields
from pytest_failure_taxonomy.taxonomy.evidence import (
    Activity,
    Attempt,
    Attribution,
    Change,
    Completeness,
    Counts,
    Entered,
    Environment,
    InFlightTest,
    IntegrityFinding,
    Location,
    Phase,
    RaisedException,
    RaisingFrame,
    Repository,
    Shard,
    Stall,
    StallState,
    Surroundings,
    TestRun,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    Cause,
    CauseOwner,
    FailureReason,
    FailureType,
    Group,
    HeldReason,
    KindName,
    KnownFailures,
    Stage,
    Verdict,
)
from pytest_failure_taxonomy.taxonomy.order import Order
from pytest_failure_taxonomy.taxonomy.values import (
    Bounds,
    Count,
    Pattern,
    Positive,
    Seconds,
    Time,
    value,
)

SCHEMA_VERSION: Final = "1.3"
SCHEMA_ID: Final = "urn:pytest-failure-taxonomy:failure-report:1.3"
JSONObject = Mapping[str, Any]
"""An object of a section with its own schema, or one that a plugin or hook added."""
Section = tuple[JSONObject, ...]
"""What a neighbour of the core adds to a report, in its own form."""


@value
class Generator:
    """The program that wrote the report."""

    name: str
    """Name of the distribution."""
    version: str
    """Version of the distribution."""


@value
class Invocation:
    """How pytest was called."""

    args: tuple[str, ...]
    """The arguments of the command line, in their order."""
    rootdir: str
    """Absolute path of pytest's root directory."""


@value
class Run:
    """Which run it was, and when."""

    id: Annotated[str, Pattern("^[0-9a-f]{32}$")]
    """32 hexadecimal digits, new for each run."""
    started_at: Time
    """When pytest started, as RFC 3339 has it, in UTC."""
    duration_seconds: Seconds | None
    """From the start to the end of the session; `None` while it runs, or if its end was
    not seen."""
    stage: Stage
    """The step of an attempt that the run was."""
    invocation: Invocation
    """How pytest was called."""
    shard: Shard | None
    """Which part of the suite it was; `None` if the suite was not sharded."""


@value
class Exit:
    """How the process ended, and what its exit code alone says."""

    code: int | None
    """The exit status as a shell shows it; `None` where it can't be known."""
    name: str | None
    """The name that pytest gives to the code, 0 to 6; `None` for any other."""
    signal: str | None
    """Name of the signal that ended the process, such as `SIGSEGV`; `None` if none did."""
    reason: FailureReason | None
    """What the exit table alone says for this code and stage; `None` for success or no code."""
    observed: bool
    """Whether a second process saw pytest end."""
    source: str
    """How the code is known: `pytest` (pytest returned it), `exception` (by what left pytest),
    `none` (it is not known) or another word."""


@value
class Failure:
    """One failed phase of one test; a test may have several."""

    nodeid: str
    """Node id of the test."""
    phase: Phase
    """The phase that failed."""
    reason: FailureReason
    """The reason that it stands for."""
    kind: KindName
    """What refines the reason."""
    failure_type: FailureType | None
    """The sort of recovery that it needs; `None` if that was not asked."""
    exception: RaisedException | None
    """What was raised; `None` if nothing was, as in a strict xpass or a crash."""
    location: Location | None
    """Where it was raised; `None` if that is not known."""
    origin: RaisingFrame | None
    """The frame that raised it; `None` if nothing was raised or that is not known."""
    traceback: str | None
    """As pytest shows it, capped; `None` if there is none or if `limits` says that it was
    omitted."""
    duration_seconds: Seconds | None
    """How long the phase took; `None` if it is not known."""
    attempts: Positive
    """How often the test was tried."""
    worker: str | None
    """Id of the xdist worker that ran it; `None` without xdist."""
    marker: str | None
    """Reason that a marker line in the test's output gave; `None` if there was none."""
    fingerprint: str | None
    """Equal for failures of one cause, in any run; `None` if it was not computed."""
    rule: str | None
    """Name of the rule that gave reason and kind; `None` if none did."""


@value
class CollectionError:
    """A node that could not be collected."""

    nodeid: str
    """Node id of the collector, such as a file's."""
    exception: RaisedException | None
    """What was raised; `None` if that is not known."""
    message: str
    """What went wrong, as pytest words it; capped."""
    location: Location | None
    """Where it was raised; `None` if that is not known."""
    origin: RaisingFrame | None
    """The frame that raised it; `None` if that is not known."""
    failure_type: FailureType | None
    """The sort of recovery that it needs; `None` if that was not asked."""
    traceback: str | None
    """As pytest shows it, capped; `None` if there is none or if `limits` says that it was
    omitted."""


@value
class InternalError:
    """An error outside of any test and any collector."""

    kind: KindName
    """`internal.error`, `usage.error`, `conftest.error` or `plugin.error`."""
    message: str
    """What went wrong; capped."""
    traceback: str | None
    """As pytest shows it, capped; `None` if there is none or if `limits` says that it was
    omitted."""


@value
class StalledActivity:
    """A stall outside of any test."""

    what: Activity
    """`collection`, `session` (the session's end), `shutdown` (the interpreter's end after it) or
    `controller` (of xdist, while its workers wait)."""
    state: StallState
    """As for a test in flight."""
    seconds: Seconds
    """How long it had made no progress."""
    where: str | None
    """What was being imported or called, and the innermost place that is known; `None` if it can't
    be read."""
    stack: str | None
    """The stacks of the threads, the stalled one first; `None` if they can't be read; capped."""
    worker: str | None
    """Id of the xdist worker; `None` for the process that writes the report."""


@value
class NotRun:
    """Tests that were selected and never started."""

    count: Count
    """How many there are."""
    nodeids: tuple[str, ...]
    """Their node ids, in the order in which they would have run."""


@value
class WorkerExit:
    """How the process of an xdist worker ended."""

    code: int | None
    """Its exit status as a shell shows it; `None` where it is not known."""
    signal: str | None
    """Name of the signal that ended it; `None` if none did or it is not known."""


@value
class Worker:
    """One xdist worker."""

    id: str
    """As xdist names it, such as `gw0`."""
    tests: Count
    """Tests that it started."""
    exit: WorkerExit
    """How its process ended."""
    crashed_on: str | None
    """Node id of the test that it was running when it died; `None` if it did not, or ran none."""
    peak_rss_bytes: Count | None
    """The most resident memory that it was seen to use; `None` if that is not known."""


@value
class Limits:
    """What was cut to keep the report small; all zero if nothing was."""

    failures_omitted: Count
    """Failures that are counted and not listed, with those that a full disk lost."""
    collection_errors_omitted: Count
    """Collection errors that are counted and not listed."""
    internal_errors_omitted: Count
    """Internal errors that are not listed."""
    tracebacks_omitted: Count
    """Tracebacks omitted because earlier ones had used up the room."""
    nodeids_omitted: Count
    """Node ids omitted from all lists together."""
    groups_omitted: Count
    """Groups of failures that are not listed."""
    causes_omitted: Count = 0
    """Causes that are not listed."""
    texts_truncated: Count
    """Texts that were cut; each says `truncated` and how many characters at the cut."""


@value
class Trial:
    """What a harness says about one trial of a system at a task."""

    harness: str
    """Name of the harness."""
    task: str
    """Name of the task."""
    system: str
    """Name of the agent, with its model."""
    name: str
    """What the harness calls this trial among those of the task and the system."""
    passed: bool | None
    """Whether the harness says that it passed; `None` where it came to no result."""
    label: str | None
    """What the harness calls the failure; `None` where it has no name for it."""
    told: JSONObject
    """Fields of the harness's own, as they are."""


@value
class RetriedTest:
    """A test, a file or a whole session that `run --retry` has run again."""

    nodeid: str
    """Node id; empty for the session."""
    key: str
    """The key of the cause by which it had failed or had not run."""
    cause: str
    """What was wrong, in one line."""
    outcome: Literal["rescued", "same_cause", "other_cause", "not_settled"]
    """Whether it passed, failed by that cause or by another one, or did neither."""
    kind: KindName | None = None
    """The kind of its failure, else of that cause; `None` in older reports."""
    fix: str | None = None
    """What fixes it; `None` where that is not known for sure."""
    owner: CauseOwner | None = None
    """Who has to fix it; `None` if that is not known."""


@value
class Retry:
    """Which tests of an earlier run a run has run again."""

    number: Positive
    """Its number among the retries of that run."""
    tests: tuple[RetriedTest, ...]
    """In the order of their causes."""


@value
class MergedRun:
    """One of the runs that a report was merged from."""

    run: Run
    """The run as its own report has it."""
    completeness: Completeness
    """How much of it its own report knows."""
    commit: str | None
    """The commit whose tests it ran."""
    repository: str | None
    """The repository of that commit."""
    merge_base: str | None
    """The last commit that the commit's branch and the main branch share."""
    exit: Exit
    """How it ended."""
    verdict: Verdict | None
    """Its own primary reason; `None` where it has succeeded."""
    reasons: tuple[HeldReason, ...]
    """All reasons that held for it, most important first."""
    summary: Counts
    """Its own counts of tests."""
    groups: tuple[Group, ...]
    """Its own groups of failures."""
    causes: tuple[Cause, ...] = ()
    """Its own causes."""
    limits: Limits
    """The limits that it ran under."""
    not_run: Count
    """How many collected tests did not run."""
    notes: tuple[str, ...]
    """What its own report notes."""
    attempt: Mapping[str, str] | None
    """The subtask and the approach of the attempt, with the name of a harness's trial; `None` where
    none was named."""
    counts: Mapping[str, Count]
    """How many entries its own report has in each list."""
    kept: Mapping[str, Count]
    """How many of these the merged report has."""
    has_tests: bool
    """Whether its own report lists every test."""
    bench_shards: Section = ()
    """The parts of benches that it ran; the merged report has them joined."""
    name: str | None = None
    """How it is shown if it is not a shard: the path of its root directory in the repository, or
    the name of its own report's file; `None` where neither is known."""
    surroundings: Surroundings | None = None
    """How and where pytest was started, as its own report says; `None` for nothing."""
    is_from_top: bool = False
    """Whether paths and node ids begin at the top of the repository, not at the root directory."""
    retry: Retry | None = None
    """What it has run again of an earlier run, whose counts, lists and causes are
    without what that settled; `None` for a run of its own."""


@value
class Merged:
    """What a merged report says about its runs."""

    runs: Annotated[tuple[MergedRun, ...], Bounds(low=1)]
    """Each run once, in the order of their starts."""
    reruns: bool
    """Whether several runs of one stage and shard are tries, of which only the last one counts."""
    expect: Positive | None
    """How many shards there should be; `None` if that was not said."""


@value
class FailureReport:
    """Why a pytest run failed: one typed reason, with the evidence for it.

    Objects are closed, except `extensions`. Every key is always there;
    what has no value is `None`.
    """

    schema_id: Literal["urn:pytest-failure-taxonomy:failure-report:1.3"]
    """The id of this schema."""
    schema_version: Literal["1.3"]
    """The version of this schema."""
    generator: Generator
    """The program that wrote the report."""
    run: Run
    """Which run it was, and when."""
    completeness: Completeness
    """`full` if pytest ended and wrote it, `reconstructed` if it was made from what a dead pytest
    left, `running` if pytest is still running or nothing was left to finish the report."""
    exit: Exit
    """How the process ended, and what its exit code alone says."""
    verdict: Verdict | None
    """Why the run failed; `None` for success."""
    reasons: tuple[HeldReason, ...]
    """Every reason that holds, sorted by precedence, lowest number first, then by count, biggest
    first, then in order of occurrence; empty for success."""
    summary: Counts
    """Counts of the run."""
    failures: tuple[Failure, ...]
    """Failed tests, in order of occurrence."""
    groups: tuple[Group, ...]
    """Failures of one fingerprint, sorted by count, biggest first."""
    causes: tuple[Cause, ...] = ()
    """What to fix. Each failure and each ending is in exactly one cause. The order: causes that
    explain others, new before known, biggest first, in order of occurrence. Empty for success."""
    collection_errors: tuple[CollectionError, ...]
    """Nodes that could not be collected, one entry a node, in order of occurrence."""
    internal_errors: tuple[InternalError, ...]
    """Errors outside of any test and any collector, in order of occurrence."""
    in_flight: tuple[InFlightTest, ...]
    """Tests that were running when the run ended, in order of start."""
    stalls: tuple[StalledActivity, ...] = ()
    """What was stalled when the run ended, apart from tests, in order of occurrence."""
    tests: tuple[TestRun, ...] | None = None
    """Every test that ran or was skipped, in order of its start; `None` unless an option needs
    that, or pytest died."""
    not_run: NotRun
    """Tests that were selected and never started."""
    order: Order | None = None
    """In which order the tests started; `None` if nothing failed, or that was not recorded."""
    workers: tuple[Worker, ...]
    """The xdist workers, sorted by id (`gw2` before `gw10`); empty without xdist."""
    bench: Section
    """One report for each task class that ran, in order of occurrence, in the bench's own form."""
    environment: Environment
    """What the run ran on."""
    limits: Limits
    """What was cut to keep the report small."""
    notes: tuple[str, ...] = ()
    """Further notes, in sentences."""
    faults: tuple[str, ...] = ()
    """What went wrong in the recorder itself, in sentences; empty in an ordinary run."""
    attributions: tuple[Attribution, ...] = ()
    """What tests, hooks and rules said about failures, each once with its count, most frequent
    first."""
    repository: Repository | None = None
    """The repository of the environment's commits; `None` outside of one."""
    attempt: Attempt | None = None
    """The attempt at a subtask that the run was a part of; `None` where none was named."""
    known: KnownFailures | None = None
    """How its failures compare with those that are known; `None` where none were given."""
    trial: Trial | None = None
    """What the harness says about the trial; `None` for any other report."""
    changes: tuple[Change, ...] = ()
    """What tests did to the processes that ran them, and what outlived them, in order of
    occurrence; capped."""
    merged: Merged | None = None
    """What the report was merged from; `None` for the report of one run."""
    surroundings: Surroundings | None = None
    """What a command that repeats the run needs besides its arguments; `None` for nothing."""
    session_exit_code: int | None = None
    """The exit status of pytest's session, if the process ended with 0 and the session did not."""
    integrity: tuple[IntegrityFinding, ...] = ()
    """What made a result other than the code of the tests did, in order of occurrence."""
    entered: Entered | None = None
    """How many test functions were entered; `None` where nobody has looked."""
    redacted: Mapping[str, Count] = MappingProxyType({})
    """How many secrets were removed from the report, by their sort."""
    is_unannotated: bool = False
    """Whether the process that sees the end of the CI job still has to print its annotations."""
    extensions: JSONObject
    """What has no field of its own, by namespace: what plugins and hooks added."""


PUBLISHED: Final[Fields] = {
    Change: ("nodeid", "what", "detail"),
    RaisedException: ("type", "module", "message"),
    Stall: ("state", "seconds", "where", "stack", "children"),
    HeldReason: ("reason", "kind", "count", "nodeids"),
    Cause: (
        *("key", "what", "fix", "reason", "kind", "owner", "retryable", "charge_to"),
        *("failure_type", "count", "nodeids", "tests", "files", "unnamed"),
        *("fingerprints", "history", "proof", "base"),
    ),
}
"""The fields that a report has of values that have more fields while a run is judged."""

KEYS: Final = MappingProxyType({"schema_id": "$schema"})
_LATE: Final[Fields] = {
    Cause: ("base",),
    FailureReport: ("changes", "integrity", "entered"),
    MergedRun: ("retry",),
}
"""Fields that reports of this schema version may lack, because they were added later."""
CODEC: Final = Codec(published=PUBLISHED, optional=_LATE, biggest=inf, keys=KEYS)
"""Reads and writes reports of this schema version."""

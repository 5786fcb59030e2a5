"""The report's model, schema version 1.2, for whoever reads reports.

`build.py` writes the same shape as plain data, because a pytest run must not pay for pydantic; the
tests hold the two together. The JSON Schema ships as a file, which `failure-taxonomy schema`
prints. It is made of this model by `tests/helpers/report_schema.py`, and the docstrings of these
classes are its descriptions.
"""

# Without `from __future__ import annotations`: pydantic needs the annotations as they are.

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field

from pytest_failure_taxonomy.bench.models import BenchRunReport
from pytest_failure_taxonomy.documents.models import ClosedModel
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy import judgement

_T = TypeVar("_T")
# Strict validation of Python objects takes no list for a tuple and no string for an enum's member;
# here it shall, so that `model_validate(json.loads(text))` works as `model_validate_json(text)`.
_Listed = Annotated[tuple[_T, ...], Field(strict=False)]
_Reason = Annotated[judgement.FailureReason, Field(strict=False)]
_FailureType = Annotated[judgement.FailureType, Field(strict=False)]
_RecoveryAction = Annotated[judgement.RecoveryAction, Field(strict=False)]
_Stage = Annotated[judgement.Stage, Field(strict=False)]

_Count = Annotated[int, Field(ge=0)]
_Seconds = Annotated[float, Field(ge=0)]
_Ranges = Annotated[str, Field(pattern="^[0-9]+(-[0-9]+)?( [0-9]+(-[0-9]+)?)*$")]
_Kind = Annotated[str, Field(pattern=judgement.KIND_PATTERN)]


def _existing_time(text: str) -> str:
    """Return a time of the right form as it is.

    Raises:
        ValueError: the calendar has no such day, which no pattern says in full.
    """
    datetime.fromisoformat(text)
    return text


_Time = Annotated[
    str,
    Field(
        pattern=(
            "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
            "T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
            r"(\.[0-9]{1,9})?(Z|\+00:00)$"
        ),
        json_schema_extra={"format": "date-time"},
    ),
    AfterValidator(_existing_time),
]
"""RFC 3339 in UTC, without leap seconds, which no clock of a computer tells."""


class Generator(ClosedModel):
    """The program that wrote the report."""

    name: str
    """Name of the distribution."""
    version: str
    """Version of the distribution."""


class Invocation(ClosedModel):
    """How pytest was called."""

    args: _Listed[str]
    """The arguments of the command line, in their order."""
    rootdir: str
    """Absolute path of pytest's root directory."""


class Shard(ClosedModel):
    """Which part of a suite that is spread over several jobs this run was."""

    index: Annotated[int, Field(ge=1)]
    """Number of the shard, counted from 1."""
    total: Annotated[int, Field(ge=1)]
    """How many shards there are."""


class Run(ClosedModel):
    """Which run it was, and when."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    """32 hexadecimal digits, new for each run."""
    started_at: _Time
    """When pytest started, as RFC 3339 has it, in UTC."""
    duration_seconds: _Seconds | None
    """From the start to the end of the session; null while it runs, or if its end was not seen."""
    stage: _Stage
    """The step of an attempt that the run was."""
    invocation: Invocation
    """How pytest was called."""
    shard: Shard | None
    """Which part of the suite it was; null if the suite was not sharded."""


class Exit(ClosedModel):
    """How the process ended, and what its exit code alone says."""

    code: int | None
    """The exit status as a shell shows it; null where it can't be known."""
    name: str | None
    """The name that pytest gives to the code, 0 to 6; null for any other."""
    signal: str | None
    """Name of the signal that ended the process, such as `SIGSEGV`; null if none did."""
    reason: _Reason | None
    """What the exit table alone says for this code and stage; null for success or no code."""
    observed: bool
    """Whether a second process saw pytest end."""
    source: str
    """How the code is known: `pytest` (pytest returned it), `exception` (by what left pytest),
    `none` (it is not known) or another word."""


class Evidence(ClosedModel):
    """One thing that was seen and speaks for the verdict."""

    source: str
    """Where it was seen, such as `test report`."""
    detail: str
    """What was seen, in words."""


class Verdict(ClosedModel):
    """Why the run failed: the primary reason, from the evidence."""

    reason: _Reason
    """The reason of the lowest precedence number among those that hold."""
    kind: _Kind
    """What refines the reason: lower-case words with dots between them, an open list."""
    precedence: Annotated[int, Field(ge=1, le=15)]
    """Rank of the reason, 1 (most telling) to 15 (catch-all)."""
    confidence: judgement.Confidence
    """`certain` if it was seen, `likely` if it was inferred."""
    failure_type: _FailureType | None
    """What sort of recovery it takes; null if that was not asked."""
    recovery_action: _RecoveryAction | None
    """The recommended next step; null if that was not asked."""
    retryable: bool | None
    """Whether the same run again could end differently; null if nothing speaks either way."""
    message: str
    """What happened, in one sentence."""
    nodeid: str | None
    """Node id of the first test or collector concerned; null if none is."""
    evidence: _Listed[Evidence]
    """What speaks for it, in order of occurrence; the first ten pieces."""
    ambiguous: _Listed[str]
    """What else it may have been and can't be told apart, in the order documented for the kind."""
    owner: judgement.CodeOwner | None
    """Whose code most of its failures were raised in; null if that is not known."""
    charge_to: judgement.ChargedTo | None = None
    """Whom a score of a harness charges it to: what the first cause of its kind is; null where that
    was not asked."""


class HeldReason(ClosedModel):
    """A reason that holds for the run."""

    reason: _Reason
    """The reason."""
    kind: _Kind
    """What refines the reason."""
    count: Annotated[int, Field(ge=1)]
    """How often it was found."""
    nodeids: _Listed[str]
    """Node ids that it was found on, each once, in order of occurrence."""


class Summary(ClosedModel):
    """Counts of the run, in the words of pytest's last line."""

    collected: _Count
    """Tests selected to run."""
    deselected: _Count
    """Tests found and not selected."""
    passed: _Count
    """Tests that passed."""
    failed: _Count
    """Tests that failed in their call, and subtests that failed."""
    errors: _Count
    """Tests whose setup or teardown failed, and nodes that could not be collected."""
    skipped: _Count
    """Tests and collectors that were skipped."""
    xfailed: _Count
    """Tests that failed as expected."""
    xpassed: _Count
    """Tests that passed against expectation, not strictly."""
    rerun: _Count
    """Attempts that were followed by another attempt of the same test."""
    flaky: _Count
    """Tests that passed after they had failed; also counted in `passed`."""
    timed_out: _Count
    """Tests that a time limit ended; also counted in `failed` or `errors`."""
    crashed: _Count
    """Tests during which an xdist worker died; also counted in `failed`."""
    in_flight: _Count
    """Tests that had started and not finished."""
    not_run: _Count
    """Tests selected and never started."""
    collection_errors: _Count
    """Nodes that could not be collected; also counted in `errors`."""
    warnings: _Count
    """Warnings that pytest reported."""


class RaisedException(ClosedModel):
    """An exception that was raised."""

    type: str
    """Qualified name of its class, such as `AssertionError`."""
    module: str
    """The module that its class says it is from, such as `builtins`."""
    message: str
    """`str()` of it, or a placeholder where that failed; capped."""


class Location(ClosedModel):
    """A place in a file."""

    path: str
    """Relative to the root directory, with forward slashes, where it lies below it."""
    line: Annotated[int, Field(ge=1)] | None
    """Number of the line, counted from 1; null if it is not known."""


class Origin(ClosedModel):
    """The frame that raised an exception, and whose code that is.

    Frames of the standard library are passed over to who called them, and so are those of pytest
    and pluggy above a plugin's.
    """

    owner: judgement.CodeOwner
    """Whose code it is: a test module's, a conftest file's, another of the project's, an installed
    package's, pytest's, a plugin's or Python's own."""
    package: str | None
    """Name and version of the distribution, such as `requests 2.32.5`; null for the project's."""
    module: str
    """Dotted name of the module."""
    function: str
    """Qualified name of the function; `<module>` outside of any."""
    path: str
    """Relative to the root directory, or to the `site-packages` that it lies in."""
    line: Annotated[int, Field(ge=1)] | None
    """Number of the line, counted from 1; null if it is not known."""


class Failure(ClosedModel):
    """One failed phase of one test; a test may have several."""

    nodeid: str
    """Node id of the test."""
    phase: ev.Phase
    """The phase that failed."""
    reason: _Reason
    """The reason that it stands for."""
    kind: _Kind
    """What refines the reason."""
    failure_type: _FailureType | None
    """What sort of recovery it takes; null if that was not asked."""
    exception: RaisedException | None
    """What was raised; null if nothing was, as in a strict xpass or a crash."""
    location: Location | None
    """Where it was raised; null if that is not known."""
    origin: Origin | None
    """The frame that raised it; null if nothing was raised or that is not known."""
    traceback: str | None
    """As pytest shows it, capped; null if there is none or if `limits` says it was left out."""
    duration_seconds: _Seconds | None
    """How long the phase took; null if it is not known."""
    attempts: Annotated[int, Field(ge=1)]
    """How often the test was tried."""
    worker: str | None
    """Id of the xdist worker that ran it; null without xdist."""
    marker: str | None
    """Reason that a marker line in the test's output gave; null if there was none."""
    fingerprint: str | None
    """Equal for failures of one cause, in any run; null if it was not computed."""
    rule: str | None
    """Name of the rule that gave reason and kind; null if none did."""


class GroupHistory(ClosedModel):
    """What earlier runs say of a group of failures."""

    state: Literal["new", "came_back", "known", "flaky"]
    """`new` if no earlier run had it, `came_back` if it was gone in a run between, `known` if the
    last run had it, `flaky` if its tests pass and fail on one commit or change their minds."""
    first_seen: _Time | None
    """The start of the first run that had it; null for a new one."""
    runs: _Count
    """How many earlier runs had it."""
    last_passed_commit: str | None
    """The last commit at which its tests passed; null if none is known."""
    distributions_changed: _Listed[str] | None = None
    """What is installed in other versions than then: `numpy 2.3.1 -> 2.4.0`, `+ new 1.0`, `- old
    1.0`; the first four and how many more. Null if that is not known."""


class FailureGroup(ClosedModel):
    """Failures of one fingerprint."""

    fingerprint: str
    """What its failures have in common."""
    reason: _Reason
    """The reason of its failures."""
    kind: _Kind
    """What refines the reason."""
    title: str
    """What failed, in one line."""
    count: Annotated[int, Field(ge=1)]
    """How many failures it has."""
    nodeids: _Listed[str]
    """Node ids of its tests, each once, in order of occurrence."""
    owner: judgement.CodeOwner | None
    """Whose code most of its failures were raised in; null if that is not known."""
    history: GroupHistory | None
    """What earlier runs say of it; null if the run keeps no history."""


class Interval(ClosedModel):
    """Bounds of a share, of 0 to 1."""

    low: Annotated[float, Field(ge=0, le=1)]
    """The lower bound."""
    high: Annotated[float, Field(ge=0, le=1)]
    """The upper bound."""


class Counterfactual(ClosedModel):
    """The same experiment without what the proof names, which shows that nothing else decides."""

    runs: _Count
    """How many runs it took."""
    failed: _Count
    """How many of them failed with the same fingerprint."""
    state: str | None
    """What was different, such as the other hash seed; null where the type says it."""


class Proof(ClosedModel):
    """What an experiment says of a cause."""

    type: judgement.ProofType
    """What was tried."""
    status: Literal["proven", "refuted", "suspected", "undecided"]
    """What came of it."""
    nodeids: _Listed[str]
    """Node ids of the tests that it names besides the one that fails: those that leave something
    behind, or that set up what it needs; in their order."""
    state: str | None
    """What differs where it fails, or the commit since which it does; where nothing was decided,
    why; null where there is no more to say."""
    runs: _Count
    """How many runs it took under the conditions in which it fails."""
    failed: _Count
    """How many of them failed with the same fingerprint."""
    without: Counterfactual | None
    """The same where it passes; null where that was not tried."""
    interval: Interval | None
    """The exact 95 % interval of the share of `runs` that fails; null without a share."""
    command: str | None
    """What repeats it; null where nothing does."""
    suspicions: _Listed[str]
    """What was seen besides and is not proven, in words, in the order in which it was tried."""
    commit: str | None = None
    """The commit since which it fails so, in words, where that was proven besides; else null."""
    known_since: _Time | None
    """When an earlier run's experiment said it; null if one on this run did."""


class Cause(ClosedModel):
    """Failures and endings that the same change mends."""

    key: str
    """The same in any run that has this cause; 16 hexadecimal digits."""
    what: str
    """What is wrong and with what, in one line."""
    fix: str | None
    """A command or an edit that mends it; null where none is known for sure."""
    reason: _Reason
    """The reason of most of it."""
    kind: _Kind
    """What refines the reason."""
    owner: judgement.CauseOwner | None
    """Who has to mend it: whose code most of it was raised in, or `environment`, who runs the
    machine and its services; null if that is not known."""
    retryable: bool | None
    """Whether the same run again could end differently; null if nothing speaks either way."""
    charge_to: judgement.ChargedTo | None
    """Whom a score of a harness charges it to: what is judged, the environment, or what verifies;
    null where that was not asked."""
    count: Annotated[int, Field(ge=1)]
    """How many failures and endings it has."""
    nodeids: _Listed[str]
    """Node ids of its tests and collectors, each once, in order of occurrence."""
    fingerprints: _Listed[str]
    """Of its failures, each once, in order of occurrence."""
    history: GroupHistory | None
    """What earlier runs say of it; null if the run keeps no history."""
    proof: Proof | None
    """What an experiment says of it; null without one."""


class CollectionError(ClosedModel):
    """A node that could not be collected."""

    nodeid: str
    """Node id of the collector, such as a file's."""
    exception: RaisedException | None
    """What was raised; null if that is not known."""
    message: str
    """What went wrong, as pytest words it; capped."""
    location: Location | None
    """Where it was raised; null if that is not known."""
    origin: Origin | None
    """The frame that raised it; null if that is not known."""
    failure_type: _FailureType | None
    """What sort of recovery it takes; null if that was not asked."""
    traceback: str | None
    """As pytest shows it, capped; null if there is none or if `limits` says it was left out."""


class InternalError(ClosedModel):
    """An error outside of any test and any collector."""

    kind: _Kind
    """`internal.error`, `usage.error`, `conftest.error` or `plugin.error`."""
    message: str
    """What went wrong; capped."""
    traceback: str | None
    """As pytest shows it, capped; null if there is none or if `limits` says it was left out."""


class Stall(ClosedModel):
    """No progress for longer than the limit, looked at from outside."""

    state: ev.StallState
    """`blocked` if it used no CPU time, `frozen` if Python ran nothing or the process was stopped,
    `busy` if it used CPU time."""
    seconds: _Seconds
    """How long it had made no progress."""
    where: str | None
    """The innermost place that says something, such as `acquire (tests/test_x.py:6)`; null if it
    can't be read."""
    stack: str | None
    """What the threads were at, the one that stalled first; null if it can't be read; capped."""
    children: _Listed[str]
    """The command lines of the child processes, by process id."""


class InFlightTest(ClosedModel):
    """A test that was running when the run ended."""

    nodeid: str
    """Node id of the test."""
    phase: ev.Phase
    """The phase that it was in."""
    worker: str | None
    """Id of the xdist worker that ran it; null without xdist."""
    elapsed_seconds: _Seconds | None
    """How long it had been running; null where the time of the end can't be known."""
    stall: Stall | None
    """What it was stalled at; null if it made progress, or nobody looked."""
    output: str | None
    """The last that it wrote to its captured standard output and error; null if it wrote nothing or
    that is not known."""
    stack: str | None
    """The frames of the thread that crashed, the deepest first; null if none did."""
    location: Location | None
    """The innermost of those frames that is the user's own code; null if there is none."""


class StalledActivity(ClosedModel):
    """A stall of what is no test."""

    what: ev.Activity
    """`collection`, `session` (the session's end), `shutdown` (the interpreter's end after it) or
    `controller` (of xdist, while its workers wait)."""
    state: ev.StallState
    """As for a test in flight."""
    seconds: _Seconds
    """How long it had made no progress."""
    where: str | None
    """What was being imported or called, and the innermost place that says something; null if it
    can't be read."""
    stack: str | None
    """What the threads were at, the one that stalled first; null if it can't be read; capped."""
    worker: str | None
    """Id of the xdist worker; null for the process that writes the report."""


class TestRun(ClosedModel):
    """One test that ran or was skipped, with all its attempts."""

    __test__ = False

    nodeid: str
    """Node id of the test."""
    outcome: ev.TestOutcome
    """How it ended: `error` in its setup or teardown, `flaky` if it passed after it had failed."""
    start_seconds: _Seconds | None
    """When it started, after the start of the run; null if it is not known."""
    duration_seconds: _Seconds | None
    """Of setup, call and teardown together; null if it is not known."""
    worker: str | None
    """Id of the xdist worker that ran it; null without xdist."""


class NotRun(ClosedModel):
    """Tests that were selected and never started."""

    count: _Count
    """How many there are."""
    nodeids: _Listed[str]
    """Their node ids, in the order in which they would have run."""


class WorkerExit(ClosedModel):
    """How the process of an xdist worker ended."""

    code: int | None
    """Its exit status as a shell shows it; null where it is not known."""
    signal: str | None
    """Name of the signal that ended it; null if none did or it is not known."""


class Worker(ClosedModel):
    """One xdist worker."""

    id: str
    """As xdist names it, such as `gw0`."""
    tests: _Count
    """Tests that it started."""
    exit: WorkerExit
    """How its process ended."""
    crashed_on: str | None
    """Node id of the test that it was running when it died; null if it did not, or ran none."""
    peak_rss_bytes: _Count | None
    """The most resident memory that it was seen to use; null if that is not known."""


class ContinuousIntegration(ClosedModel):
    """The CI job that the run was part of, from the variables that its provider documents."""

    provider: str
    """Name of the CI system."""
    run_id: str | None
    """What the provider calls the run; null if it does not say."""
    job: str | None
    """What the provider calls the job; null if it does not say."""
    commit: str | None
    """The commit that was tested; null if the provider does not say."""
    ref: str | None
    """The branch or tag that was tested; null if the provider does not say."""


class Watcher(ClosedModel):
    """The second process that sees pytest end and completes the report of one that dies."""

    active: bool
    """Whether it was there, from the start of the run to its end."""
    why_not: str | None
    """Why it was not; null where it was."""


class Memory(ClosedModel):
    """How much memory the run used, in bytes."""

    limit_bytes: _Count | None
    """What its control group allows; null if there is no limit or it can't be read."""
    cgroup_peak_bytes: _Count | None
    """The most that its control group was seen to use; null if that can't be read."""
    peak_rss_bytes: _Count | None
    """The most resident memory of the pytest process; null if that can't be read."""


class Git(ClosedModel):
    """The commit that was tested, from the CI system or from git."""

    commit: str | None
    """Its full hash; null if it is not known."""
    branch: str | None
    """The branch; null if none is checked out and no CI system says which one it is."""
    dirty: bool | None
    """Whether files have been changed since; null if nobody has looked."""


class Environment(ClosedModel):
    """What the run ran on."""

    python: str
    """Version of Python."""
    platform: str
    """The operating system, as Python words it."""
    pytest: str
    """Version of pytest."""
    plugins: _Listed[str]
    """`name-version` of each distribution that brought a plugin, sorted."""
    ci: ContinuousIntegration | None
    """The CI job; null outside of the CI systems that are known."""
    watcher: Watcher | None
    """The watcher; null where there is none by design: it is switched off, `failure-taxonomy run`
    sees the end, pytest only collects, is process 1 or runs inside of another run, or the system is
    not Linux."""
    memory: Memory | None
    """Memory of the run; null if nothing of it was seen."""
    git: Git | None
    """The commit that was tested; null outside of a repository."""
    distributions: _Listed[str] | None
    """`name-version` of every installed distribution, sorted; null if nothing failed, or that was
    not recorded."""


class Order(ClosedModel):
    """In which order the tests started, so that it can be run again."""

    workers: dict[str, _Ranges]
    """By worker, `main` without xdist: the numbers of its tests in the order of their starts, such
    as `0-41 60`. They are places in the list that pytest was about to run, after all plugins had
    reordered it, from 0 on. A test that was run again has its first place."""
    tests: _Count
    """How many tests that list has."""
    digest: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    """BLAKE2s of its node ids with null characters between them, in 8 bytes."""
    seeds: dict[str, int]
    """Seeds that are known, by what they are of: `hash` (`PYTHONHASHSEED`), `randomly`
    (pytest-randomly) and `random_order` (pytest-random-order)."""
    distribution: str | None
    """The value of xdist's option `--dist`; null without workers."""
    truncated: bool
    """Whether later starts were left out."""


class Limits(ClosedModel):
    """What was cut to keep the report small; all zero if nothing was."""

    failures_omitted: _Count
    """Failures that are counted and not listed, also those that a full disk has lost."""
    collection_errors_omitted: _Count
    """Collection errors that are counted and not listed."""
    internal_errors_omitted: _Count
    """Internal errors that are not listed."""
    tracebacks_omitted: _Count
    """Tracebacks left out because the earlier ones had used up their room."""
    nodeids_omitted: _Count
    """Node ids left out of all lists together."""
    groups_omitted: _Count
    """Groups of failures that are not listed."""
    causes_omitted: _Count = 0
    """Causes that are not listed."""
    texts_truncated: _Count
    """Texts that were cut; each says `truncated` and how many characters at the cut."""


class FailureReport(ClosedModel):
    """Why a pytest run failed: one typed reason, with the evidence for it.

    Objects are closed, except `extensions`. Every key is always there;
    what has no value is null.
    """

    schema_id: Annotated[
        Literal["urn:pytest-failure-taxonomy:failure-report:1.2"],
        Field(alias="$schema"),
    ]
    """The id of this schema."""
    schema_version: Literal["1.2"]
    """The version of this schema."""
    generator: Generator
    """The program that wrote the report."""
    run: Run
    """Which run it was, and when."""
    completeness: ev.Completeness
    """`full` if pytest ended and wrote it, `reconstructed` if it was made from what a dead pytest
    left, `running` if pytest is still running or nothing was left to finish the report."""
    exit: Exit
    """How the process ended, and what its exit code alone says."""
    verdict: Verdict | None
    """Why the run failed; null for success."""
    reasons: _Listed[HeldReason]
    """Every reason that holds, sorted by precedence, lowest number first, then by count, biggest
    first, then in order of occurrence; empty for success."""
    summary: Summary
    """Counts of the run."""
    failures: _Listed[Failure]
    """Failed tests, in order of occurrence."""
    groups: _Listed[FailureGroup]
    """Failures of one fingerprint, sorted by count, biggest first."""
    causes: _Listed[Cause]
    """What is to be mended, each failure and ending in exactly one: what explains others first,
    then new before known, biggest first, in order of occurrence; empty for success."""
    collection_errors: _Listed[CollectionError]
    """Nodes that could not be collected, one entry a node, in order of occurrence."""
    internal_errors: _Listed[InternalError]
    """Errors outside of any test and any collector, in order of occurrence."""
    in_flight: _Listed[InFlightTest]
    """Tests that were running when the run ended, in order of start."""
    stalls: _Listed[StalledActivity]
    """What was stalled when the run ended and is no test, in order of occurrence."""
    tests: _Listed[TestRun] | None
    """Every test that ran or was skipped, in order of its start; null unless an option needs
    that."""
    not_run: NotRun
    """Tests that were selected and never started."""
    order: Order | None
    """In which order the tests started; null if nothing failed, or that was not recorded."""
    workers: _Listed[Worker]
    """The xdist workers, sorted by id (`gw2` before `gw10`); empty without xdist."""
    bench: _Listed[BenchRunReport]
    """One report a task class that ran, in order of occurrence."""
    environment: Environment
    """What the run ran on."""
    limits: Limits
    """What was cut to keep the report small."""
    extensions: dict[str, Any]
    """What has no field of its own, by namespace: what plugins added, and notes of this one."""


class MergedRun(ClosedModel):
    """One of the runs that a report was merged from."""

    run: Run
    """The run as its own report has it."""
    completeness: ev.Completeness
    """How much of it its own report knows."""
    commit: str | None
    """The commit whose tests it ran."""
    repository: str | None
    """The repository of that commit."""
    merge_base: str | None
    """Where the commit's branch has left the main one."""
    exit: Exit
    """How it ended."""
    verdict: Verdict | None
    """Its own primary reason; null where it has succeeded."""
    reasons: _Listed[HeldReason]
    """All reasons that held for it, most important first."""
    summary: Summary
    """Its own counts of tests."""
    groups: _Listed[FailureGroup]
    """Its own groups of failures."""
    causes: _Listed[Cause] = ()
    """Its own causes."""
    limits: Limits
    """The limits that it ran under."""
    not_run: _Count
    """How many collected tests did not run."""
    notes: _Listed[str]
    """What its own report notes."""
    attempt: dict[str, str] | None
    """The subtask and the approach that it was an attempt at, with the name of a harness's trial;
    null where none was named."""
    counts: dict[str, _Count]
    """How many entries its own report has in each list."""
    kept: dict[str, _Count]
    """How many of these the merged report has."""
    has_tests: bool
    """Whether its own report lists every test."""
    bench_shards: _Listed[BenchRunReport] = ()
    """The parts of benches that it ran; the merged report has them joined."""
    name: str | None = None
    """How it is shown where it is no shard: the path of its root directory in the repository, or
    the name of its own report's file; null where neither is known."""
    surroundings: dict[str, Any] = Field(default_factory=dict)
    """What its own report says of how pytest was started, and where."""
    is_from_top: bool = False
    """Whether paths and node ids begin at the top of the repository, not at the root directory."""


class Merged(ClosedModel):
    """What a merged report says of its runs."""

    runs: Annotated[tuple[MergedRun, ...], Field(strict=False, min_length=1)]
    """Each run once, in the order of their starts."""
    reruns: bool
    """Whether runs of one stage and shard are tries, of which the last one counts."""
    expect: Annotated[int, Field(ge=1)] | None
    """How many shards there should be; null where nobody said so."""

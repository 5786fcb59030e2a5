"""What was seen of a run, as frozen values. The judge decides what it means.

Every value here is plain data of the standard library, so that it can come from the
live plugin, from a record on disk or from a log alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pytest_failure_taxonomy.taxonomy.judgement import (
    CodeOwner,
    FailureReason,
    KindName,
    Stage,
)
from pytest_failure_taxonomy.taxonomy.order import Order
from pytest_failure_taxonomy.taxonomy.values import (
    Count,
    Positive,
    Seconds,
    Time,
    value,
)

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.judgement import Cause, Finding
    from pytest_failure_taxonomy.taxonomy.mismatch import CollectionMismatch


@value
class OriginPlace:
    """The place in the user's own code that a failure comes from.

    It holds no line number and no absolute path, so that it stays the same when other
    lines are edited, in other folders and on other machines.
    """

    path: str
    """Relative to the root directory, or to where its package is imported from."""
    function: str
    """Qualified name of the function, `<module>` outside of any; empty where none
    ran."""
    text: str = ""
    """The statement, on one line; empty where it isn't the user's or can't be had."""
    entry: str = ""
    """`path: function` of the user's outermost function on the way, if that is another
    one."""
    leaf: str = ""
    """Of an exception group: the type of the exception in it that the place belongs
    to."""


Phase = Literal["setup", "call", "teardown"]
Completeness = Literal["full", "reconstructed", "running"]
TestOutcome = Literal[
    "passed", "failed", "error", "skipped", "xfailed", "xpassed", "flaky", "in_flight"
]
"""How a test ended: `error` in its setup or teardown, `flaky` if it passed after it had
failed."""
Part = Literal["test", "subtest", "sum"]
"""What failed: the test itself, one of its subtests, or the test only because its
subtests did."""
MAX_LISTED: Final = 1_000
"""Failures that are kept whole, and that a report lists."""

ErrorOrigin = Literal["internal", "usage", "conftest", "plugin"]


@value
class RaisingFrame:
    """The frame that raised an exception, and whose code that is.

    Frames of the standard library are passed over to who called them, and so are those
    of pytest and pluggy above a plugin's.
    """

    owner: CodeOwner
    """Whose code it is: a test module's, a conftest file's, another of the project's,
    an installed package's, pytest's, a plugin's or Python's own."""
    package: str | None
    """Name and version of the distribution, such as `requests 2.32.5`; `None` for the
    project's."""
    module: str
    """Dotted name of the module."""
    function: str
    """Qualified name of the function; `<module>` outside of any."""
    path: str
    """Relative to the root directory, or to the `site-packages` that it lies in."""
    line: Positive | None
    """Number of the line, counted from 1; `None` if it is not known."""


@value
class MemoryPressure:
    """How much was used of a limit of memory when an exception was seen."""

    limit: str
    """Such as `RLIMIT_AS`."""
    used_bytes: int
    limit_bytes: int


@value
class Fact:
    """One thing that an exception holds besides its message."""

    name: str
    """`errno`, `filename`, `host`, `port`, `status`, `url`, `name` (of a module),
    `distribution` (that has it), and others that the table of causes asks for."""
    text: str


@value
class LinkedException:
    """An exception that another one was raised from, or while it was handled."""

    bases: tuple[str, ...]
    """Dotted names of its classes, itself first, in method resolution order, without
    `object`."""
    message: str
    is_cause: bool
    """Whether the other one was raised `from` it."""
    facts: tuple[Fact, ...] = ()
    raiser: str | None = None
    """As of `RaisedException`."""


@value
class RaisedException:
    """Describe an exception without holding on to it."""

    type: str
    """Qualified name of its class, such as `AssertionError`."""
    module: str
    """The module that its class says it is from, such as `builtins`."""
    message: str
    """`str()` of it, or a placeholder where that failed; capped."""
    bases: tuple[str, ...] = ()
    """Dotted names of its classes, itself first, in method resolution order, without
    `object`."""
    raised_in: str = ""
    """Dotted name of the module that called `pytest.fail`; empty for other
    exceptions."""
    origin: OriginPlace | None = None
    """The place in the user's own code that it comes from."""
    frame: RaisingFrame | None = None
    """The frame that raised it."""
    memory: MemoryPressure | None = None
    """Of a `MemoryError`: the limit of which most was used when it was seen, if there
    is one."""
    facts: tuple[Fact, ...] = ()
    """What its fields and the standard library's own frames say, each name once."""
    chain: tuple[LinkedException, ...] = ()
    """What it was raised from, or while it was handled, from the nearest to the
    root."""
    fixture: str | None = None
    """The name of the fixture whose setup or teardown raised it."""
    fixture_place: Location | None = None
    """Where that is defined; `None` where it is not the user's, and in a log."""
    raiser: str | None = None
    """Dotted name of the module whose `raise` statement raised it. Empty for compiled
    code and for the standard library, `unittest.mock` apart; `None` where it isn't
    known, as in a log."""
    raising_function: str = ""
    """Dotted name of the innermost function, if it is Python's, pytest's or a
    library's."""

    @property
    def names(self) -> tuple[str, ...]:
        """Dotted names of its class and base classes, its own first."""
        return self.bases or (f"{self.module}.{self.type}",)


def public_name(name: str) -> str:
    """Return a name without the private modules that some library versions have."""
    return re.sub(r"\._[a-z]\w*(?=\.)", "", name) if "._" in name else name


@value
class Location:
    """Point to a place in a file."""

    path: str
    """Relative to the root directory, with forward slashes, where it lies below it."""
    line: Positive | None
    """Number of the line, counted from 1; `None` if it is not known."""


@value
class TimeLimit:
    """A time limit that was running when the process ended."""

    owner: str
    """Who would enforce it: `pytest-timeout (thread)`, `faulthandler_timeout`,
    `timeout`."""
    budget_seconds: float
    elapsed_seconds: float | None
    """`None` where the time of the end can't be known."""
    nodeid: str | None = None
    """The test that it limits; `None` where it limits the process."""

    @property
    def share(self) -> float:
        """How much of it was used up as far as is known, 1.0 for all of it."""
        elapsed = self.elapsed_seconds or 0.0
        return elapsed / self.budget_seconds if self.budget_seconds > 0 else 0.0


@value
class Attribution:
    """The reason of a failure as a test, a hook or a rule gives it."""

    reason: FailureReason
    """The reason."""
    kind: KindName
    """What refines the reason."""
    source: str
    """Who says it: `test`, `hook`, `rule` (the user's) or `library` (the packaged
    table)."""
    rule: str | None = None
    """The rule's name."""
    detail: str | None = None
    """What else the test had to say."""
    severity: str | None = None
    """How bad it is, as a rule has it."""
    retryable: bool | None = None
    """Whether a retry helps; `None` where the kind decides."""
    owner: str | None = None
    """Who has to fix it, as a rule has it."""
    link: str | None = None
    """Where more is to be read."""
    charge_to: str | None = None
    """Whom it is charged to; `None` where the table decides."""
    count: Positive = 1
    """How many failures it is said of; 1 for the attribution of one failure."""


@value
class SeenMarker:
    """The failure marker that an agent has left in its output."""

    name: str
    """As in `[GZA_FAILURE:NAME]`; `UNKNOWN` where the name is not a known one."""
    reason: FailureReason
    """What it stands for."""


@value
class TestFailure:
    """One failed report of a test, which may have several, such as of subtests."""

    __test__ = False

    nodeid: str
    phase: Phase
    message: str
    """One line or a few, as pytest words the failure."""
    exception: RaisedException | None = None
    part: Part = "test"
    crashed: bool = False
    """The process that ran this test died: an xdist worker, unless it was forked for
    the test."""
    forked: bool = False
    """It was a process that pytest-forked had made for this test alone."""
    limit: TimeLimit | None = None
    """The test's time limit, where its worker ended as it would by that limit."""
    stall: Stall | None = None
    """What it was stalled at when its worker was ended."""
    attributed: Attribution | None = None
    """Reason and kind as a test, a hook or a rule has given them."""
    marker: SeenMarker | None = None
    """The last marker in what the test has printed."""
    location: Location | None = None
    traceback: str | None = None
    traceback_truncated: bool = False
    duration_seconds: Seconds | None = None
    attempts: Positive = 1
    worker: str | None = None


def drop_attempt(
    failures: Sequence[TestFailure], nodeid: str, worker: str | None
) -> list[TestFailure]:
    """Return failures without the failed subtests of one process's attempt."""
    attempt = "subtest", nodeid, worker
    return [
        failure
        for failure in failures
        if (failure.part, failure.nodeid, failure.worker) != attempt
    ]


def sort_by_selection(
    failures: Sequence[TestFailure], selected: Sequence[str]
) -> tuple[TestFailure, ...]:
    """Return failures in the order in which their tests were selected.

    In one process that is the order of occurrence. With several workers that order
    differs from run to run, and a report must not depend on it.

    Args:
        failures: in order of occurrence. Of those that are listed, all come before the
            others.
        selected: the node ids of all tests that were to run, in their order.
    """
    if all(failure.worker is None for failure in failures):
        return tuple(failures)
    wanted = {failure.nodeid for failure in failures}
    places: dict[str, int] = {}
    for place, nodeid in enumerate(selected):
        if nodeid in wanted:
            places.setdefault(nodeid, place)

    def place_of(failure: TestFailure) -> tuple[int, str]:
        return places.get(failure.nodeid, len(selected)), failure.worker or ""

    listed, others = failures[:MAX_LISTED], failures[MAX_LISTED:]
    return (*sorted(listed, key=place_of), *sorted(others, key=place_of))


@value
class CollectionFailure:
    """One node that could not be collected."""

    nodeid: str
    message: str
    exception: RaisedException | None = None
    location: Location | None = None
    traceback: str | None = None
    traceback_truncated: bool = False


@value
class Interruption:
    """Something that ended the session early and is no error."""

    exception: Literal["KeyboardInterrupt", "Exit", "Interrupted"]
    """`Interrupted` is pytest's and xdist's own way to stop, a subclass of
    KeyboardInterrupt."""
    message: str
    location: Location | None = None


@value
class RunError:
    """An error outside of any test and any collector."""

    origin: ErrorOrigin
    message: str
    traceback: str | None = None
    exception: RaisedException | None = None
    """What was raised, or what is behind the exception by which pytest says so."""


FailureAtNode = TestFailure | CollectionFailure
Failure = FailureAtNode | RunError


StallState = Literal["blocked", "frozen", "polling", "busy"]
"""Nothing moves; Python runs nothing, or the process is stopped; it looks around now
and then, and does nothing else; it works."""
Activity = Literal["collection", "session", "shutdown", "controller"]
"""What a pytest can be doing that is no test: `session` is the session's end,
`shutdown` that of the interpreter after it, `controller` is xdist's while its workers
wait."""


@value
class Stall:
    """Something that has made no progress for longer than its limit."""

    state: StallState
    """`blocked` if it used no CPU time, `frozen` if Python ran nothing or the process
    was stopped, `polling` if it only looked around now and then, `busy` if it used CPU
    time."""
    seconds: Seconds
    """How long it had made no progress."""
    where: str | None
    """The innermost place that is known, such as `acquire (tests/test_x.py:6)`; `None`
    if it can't be read."""
    stack: str | None
    """What the threads were at, the one that stalled first; `None` if it can't be read;
    capped."""
    children: tuple[str, ...] = ()
    """The command lines of the child processes, by process id."""
    location: Location | None = None
    """The innermost line of the user's own code."""
    others_move: bool = False
    """Other threads of its process do something."""
    left: str = ""
    """The threads that earlier tests have left and that still run, where it waits for a
    lock."""
    is_ended: bool = False
    """We ended it, as `--failure-taxonomy-end-stalled` asks for."""


@value
class RunningActivity:
    """What a process was at when it ended, where that was no test."""

    what: Activity
    name: str | None = None
    """The node id of what was collected, or the hook that was called, with its
    plugins."""
    is_hook: bool = False
    """Whether the name is that of a hook."""


@value
class SeenStall:
    """A stall of a test, or of what is no test, as it was seen."""

    what: Literal["test"] | Activity
    stall: Stall
    worker: str | None = None
    nodeid: str | None = None
    """Of the test."""
    phase: Phase | None = None
    name: str | None = None
    """What is being imported or called, such as the node id of a file or the name of a
    hook."""
    began_ns: int = 0
    """When the last progress was seen, on the monotonic clock."""
    seen_ns: int = 0
    """When it was looked at."""
    place: str | None = None
    """Where it is, and in which function: `tests/conftest.py:217 in wait_for_log`."""
    told: int = 0
    """How many times the limit had passed when the user was last told; 0 for never."""


@value
class MemoryUse:
    """How much memory a run has used, in bytes; `None` where that is not known."""

    limit_bytes: Count | None = None
    """What its control group allows; `None` if there is no limit or it can't be read.
    """
    cgroup_peak_bytes: Count | None = None
    """The most that its control group was seen to use; `None` if that can't be read."""
    peak_rss_bytes: Count | None = None
    """The most resident memory of the pytest process; `None` if that can't be read."""


@value
class ProcessPeak:
    """The most resident memory that a process was seen to use."""

    pid: int
    peak_rss_bytes: int


@value
class MemorySeen:
    """What `system.process.MemorySampler` saw of a run, in bytes; `None` if unknown."""

    at_ns: int = 0
    """When it looked last, on the monotonic clock; 0 for never."""
    limit_bytes: int | None = None
    """What the run's control group allows."""
    cgroup_peak_bytes: int | None = None
    """The most that the group was seen to use."""
    used_bytes: int | None = None
    """What the group was last seen to use, like the two that follow."""
    rss_bytes: int | None = None
    """By the pytest process."""
    total_rss_bytes: int | None = None
    """By that, its workers and all other children together."""
    processes: tuple[ProcessPeak, ...] = ()

    def peak_of(self, process_id: int | None) -> int | None:
        """Return the most resident memory that a process was seen to use."""
        peaks = (
            process.peak_rss_bytes
            for process in self.processes
            if process.pid == process_id
        )
        return next(peaks, None)


@value
class OomKill:
    """What the kernel's log says of a process that it killed for lack of memory."""

    rss_bytes: int
    """What the process used."""
    limit_bytes: int | None = None
    """What its control group allowed; `None` where the machine's memory ran out."""


@value
class Left:
    """What a dead process has left, as bytes that may hold anything."""

    dump: bytes = b""
    """What faulthandler has written."""
    stdout: bytes = b""
    """The end of what it had captured."""
    stderr: bytes = b""


@value
class Traces:
    """What a process that died has left of its last moments."""

    stack: str | None = None
    """The frames of the thread that crashed, the deepest first."""
    location: Location | None = None
    """The innermost of those frames that is the user's own code."""
    output: str | None = None
    """The last that was written to its captured standard output and error."""


@value
class InFlightTest:
    """A test that had started and not finished when the run ended."""

    nodeid: str
    """Node id of the test."""
    phase: Phase
    """The phase that it was in."""
    worker: str | None = None
    """Id of the xdist worker that ran it; `None` without xdist."""
    elapsed_seconds: Seconds | None
    """How long it had been running; `None` where the time of the end can't be known."""
    stall: Stall | None = None
    """How it was stalled; `None` if it made progress, or if that was not checked."""
    output: str | None = None
    """The end of its captured standard output and error; `None` if it wrote nothing, or
    if that is not known."""
    stack: str | None = None
    """The frames of the thread that crashed, the deepest first; `None` if none did."""
    location: Location | None = None
    """The innermost of those frames that is the user's own code; `None` if there is
    none."""


MAX_TESTS: Final = 200_000
"""How many tests a report lists; of more, none: a list with holes would pass for
whole."""


@value
class TestRun:
    """One test that ran or was skipped, with all its attempts."""

    __test__ = False

    nodeid: str
    """Node id of the test."""
    outcome: TestOutcome
    """How it ended: `error` in its setup or teardown, `flaky` if it passed after it had
    failed."""
    start_seconds: Seconds | None
    """When it started, after the start of the run; `None` if it is not known."""
    duration_seconds: Seconds | None
    """The time of setup, call and teardown together; `None` if it is not known."""
    worker: str | None = None
    """Id of the xdist worker that ran it; `None` without xdist."""


@value
class Change:
    """What a test did to the process that ran it, and what outlived the test."""

    nodeid: str
    """Node id of the test."""
    what: Literal["forked", "thread", "child", "folder", "memory"]
    """`forked` if it forked and the child returned into pytest, `thread` or `child` if
    it left one running, `folder` if it left another working folder, `memory` if the
    peak grew by a tenth and by 64 MiB or more."""
    detail: str
    """The name of the thread, the command line of the child, the folder, or by how much
    the peak grew."""
    number: int = 0
    """Of a thread that of `threading.get_native_id`, of a child its process id, of
    memory the bytes."""
    is_over: bool = False
    """The thread, or the child, has ended since."""


@value
class WorkerEnd:
    """How an xdist worker ended."""

    id: str
    tests: Count
    """Tests that it started."""
    exit_code: int | None = None
    signal: str | None = None
    """By name, such as `SIGSEGV`."""
    crashed_on: str | None = None
    ending: Literal["finished", "died", "interrupted", "exited"] = "finished"
    """Whether its session came to an end, it went down in the middle, it got a Ctrl+C,
    or `pytest.exit` was called in it."""
    error: str | None = None
    """xdist's own words."""
    limit: TimeLimit | None = None
    """The time limit of its test that was running when it died."""
    out_of_memory: bool = False
    """The cgroup's count of processes that the OOM killer ended rose until its
    death."""
    stall: Stall | None = None
    """What its test was stalled at, where that is why it was ended."""
    peak_rss_bytes: Count | None = None
    """The most resident memory that it was seen to use."""
    process_id: int | None = None
    """`None` where it runs on another machine."""
    oom_kill: OomKill | None = None
    """The kernel's log names it."""
    activity: RunningActivity | None = None
    """What it was at when it died, where that was no test."""
    traces: Traces | None = None
    """`None` where it has left none."""
    changes: tuple[Change, ...] = ()
    """What its tests did to its process, in order of occurrence."""


@value
class Counts:
    """Counts of a run, in the words of pytest's last line.

    `flaky`, `timed_out`, `crashed` and `collection_errors` count tests and nodes that
    are in `passed`, `failed` or `errors` already. The judge needs only `flaky` of them;
    they are counted for the report, as are `in_flight` and `not_run`.
    """

    collected: Count = 0
    """Tests selected to run."""
    deselected: Count = 0
    """Tests found and not selected."""
    passed: Count = 0
    """Tests that passed."""
    failed: Count = 0
    """Tests that failed in their call, and subtests that failed."""
    errors: Count = 0
    """Tests whose setup or teardown failed, and nodes that could not be collected."""
    skipped: Count = 0
    """Tests and collectors that were skipped."""
    xfailed: Count = 0
    """Tests that failed as expected."""
    xpassed: Count = 0
    """Tests that passed against expectation, not strictly."""
    rerun: Count = 0
    """Attempts that were followed by another attempt of the same test."""
    flaky: Count = 0
    """Tests that passed after they had failed; also counted in `passed`."""
    timed_out: Count = 0
    """Tests that a time limit ended; also counted in `failed` or `errors`."""
    crashed: Count = 0
    """Tests during which an xdist worker died; also counted in `failed`."""
    in_flight: Count = 0
    """Tests that had started and not finished."""
    not_run: Count = 0
    """Tests selected and never started."""
    collection_errors: Count = 0
    """Nodes that could not be collected; also counted in `errors`."""
    warnings: Count = 0
    """Warnings that pytest reported."""

    @property
    def ran(self) -> int:
        """How many results of tests that ran there were, whatever their outcome."""
        return self.passed + self.failed + self.xfailed + self.xpassed


@value
class ProcessExit:
    """How the pytest process, or its session, ended."""

    code: int | None
    """The exit status, as a shell would show it; `None` where it can't be known."""
    source: str
    """How it is known: `pytest` (returned by it), `exception` (by what left it),
    `none`, or the process that observed the end: `watcher`, `supervisor`,
    `finalize`."""
    signal: str | None = None
    observed: bool = False
    """A second process saw it."""
    session_code: int | None = None
    """What the session itself said before, where it had ended when the process did."""
    late_seconds: float | None = None
    """How long the process went on after its session; `None` where that is not
    known."""
    waited_for: str | None = None
    """The thread that was to end before it, and what that was at when the session
    ended."""
    enforced_limit_seconds: float | None = None
    """The limit of our own supervisor, if that ended the process."""
    out_of_memory: bool = False
    """The cgroup's count of processes that the OOM killer ended rose during the run."""
    oom_kill: OomKill | None = None
    """The kernel's log names this process."""
    memory: MemorySeen | None = None
    """What was seen of its memory before; `None` where nobody has looked."""
    sender: str | None = None
    """Name of the process that sent the signal, where that could be seen."""
    limits: tuple[TimeLimit, ...] = ()
    """Limits that were running, the tests' before the process's."""
    stacks: str | None = None
    """What all threads were at when a SIGTERM came."""


@value
class Unrecorded:
    """What was counted but not recorded: a full disk loses events, but no counts."""

    failures: int = 0
    collection_failures: int = 0
    errors: int = 0
    interruptions: int = 0

    def __bool__(self) -> bool:
        """Tell whether anything is missing."""
        return any(
            (self.failures, self.collection_failures, self.errors, self.interruptions)
        )


class OutputLine(NamedTuple):
    """One line of a log."""

    number: int
    """Counted from 1."""
    text: str


ToolCause = Literal[
    "daemon",
    "disk",
    "service",
    "time_limit",
    "command",
    "interpreter",
    "script",
    "module",
    "permission",
    "syntax",
    "killed",
    "network",
    "unavailable",
    "rate_limited",
    "denied",
    "missing",
    "file",
    "conflict",
    "refused",
    "build",
    "pull_limit",
    "no_image",
    "certificate",
    "quota",
    "format",
    "target",
    "context",
    "host_key",
    "ssh_key",
    "commit",
    "browser",
    "patch",
    "canceled",
    "interrupted",
    "crashed",
    "sandbox.failed",
    "llm.rate_limited",
    "llm.quota_exceeded",
    "llm.timeout",
    "llm.unavailable",
    "llm.authentication",
    "llm.context_exceeded",
    "llm.bad_request",
    "llm.error",
]
"""What a tool says went wrong: `daemon` if that of its containers can't be had. What a
service says is named by its kind."""


@value
class ToolMessage:
    """What a tool or a shell says why a command has failed."""

    tool: str
    """The tool, in lower case, the command that the shell could not run, or a
    service."""
    cause: ToolCause
    line: OutputLine
    """Where it says so."""
    tests_ran: bool = False
    """The output has a tally of tests, too: they ran, whatever a tool says. Where the
    cause counts in any stage, only a tally after it counts."""


@value
class Output:
    """The lines of a log that may say why its program failed, by their subject."""

    by_subject: Mapping[str, tuple[OutputLine, ...]]
    """By kind, such as `test.timeout`, or by the first word of kinds, such as
    `test`."""
    others: tuple[OutputLine, ...] = ()
    """Those for all other kinds: lines that look like an error's, else the last one."""
    error: OutputLine | None = None
    """The most telling line that looks like an error's."""
    failed_tests: int = 0
    """How many tests failed, by what other test runners than pytest say."""
    test_names: tuple[str, ...] = ()
    """Those of them that are named."""
    summary: OutputLine | None = None
    """pytest's last line, which is always worth quoting."""
    last: OutputLine | None = None
    is_fragment: bool = False
    """Only pieces of what pytest has printed are there."""

    def lines_about(self, kind: str) -> tuple[OutputLine, ...]:
        """Return the lines that may speak for a failure of this kind."""
        for subject in (kind, kind.partition(".")[0]):
            if subject in self.by_subject:
                return self.by_subject[subject]
        return self.others


@value
class IntegrityFinding:
    """Something other than the code of the tests that made a result."""

    kind: str
    """Such as `integrity.outcome_rewritten`."""
    nodeids: tuple[str, ...]
    """The tests whose result it made; empty where it can be any."""
    where: Location | None
    """The statement that did it; `None` if it is not known."""
    hook: str | None
    """The hook, or the name that was replaced; `None` for neither."""
    detail: str
    """What was seen, in words."""


@value
class Entered:
    """How many test functions were entered."""

    entered: Count
    """Test functions whose code was entered."""
    ran: Count
    """Tests that ran and have a function that can be followed."""


@value
class RunEvidence:
    """All that was seen of one run."""

    stage: Stage = Stage.FINAL_TEST
    strict_baseline: bool = False
    finished: bool = True
    """pytest came to its own end, in whichever way."""
    recorded: bool = True
    """The plugin saw what happened; where it did not, the exit code is all there is."""
    is_pytest: bool = True
    """What was run is a pytest."""
    rootdir: str = ""
    """Absolute; empty where it is not known."""
    exit: ProcessExit
    should_fail: str = ""
    """`session.shouldfail`: why the session failed though no test need have."""
    last_words: str = ""
    """What a plugin wrote on the terminal when it changed the session's status."""
    coverage: str = ""
    """What pytest-cov finds wanting, where it fails the session."""
    nothing_ran: str = ""
    """Why no test was found, or what deselected all, where that is known."""
    gate: str = ""
    """Why the gate of a bench fails the session, or cases of it that have no score."""
    counts: Counts = Counts()
    failures: tuple[TestFailure, ...] = ()
    """In order of occurrence."""
    collection_failures: tuple[CollectionFailure, ...] = ()
    errors: tuple[RunError, ...] = ()
    early_refusal: RunError | None = None
    """An error that must have stopped pytest before it loaded a plugin, such as a wrong
    `-p`."""
    interruptions: tuple[Interruption, ...] = ()
    mismatch: CollectionMismatch | None = None
    """Set where xdist's workers collected different tests, so that none was run."""
    in_flight: tuple[InFlightTest, ...] = ()
    """In order of start."""
    changes: tuple[Change, ...] = ()
    """What tests did to the processes that ran them."""
    stalls: tuple[SeenStall, ...] = ()
    """What was stalled at the end and is no test, in order of occurrence."""
    ended_tests: tuple[SeenStall, ...] = ()
    """Tests in which we ended the run, and that have caught the exception that does."""
    activity: RunningActivity | None = None
    """What was going on when the process died, where that was no test."""
    traces: Traces | None = None
    """What the process has left that died; `None` where that is nothing."""
    not_run: tuple[str, ...] = ()
    """Node ids of selected tests that never started, in their order."""
    order: Order | None = None
    """In which order tests started; `None` where that is not known, or nothing has
    failed."""
    workers: tuple[WorkerEnd, ...] = ()
    """Sorted by id."""
    unrecorded: Unrecorded = Unrecorded()
    """What is missing from the lists above."""
    uncounted: int = 0
    """Failures that pytest's session has counted, and that no report was of."""
    integrity: tuple[IntegrityFinding, ...] = ()
    """What made a result other than the code of the tests."""
    entered: Entered | None = None
    """How many test functions were entered; `None` where nobody has looked."""
    is_certified: bool = False
    """Such findings fail the run."""
    marker: SeenMarker | None = None
    """The last marker in the output of the whole command."""
    output: Output | None = None
    """What a log says, where a log is all that is left of the run."""
    tool_message: ToolMessage | None = None
    """What a tool has said at the end of the output of a command that is no pytest."""
    tests: tuple[TestRun, ...] | None = None
    """Every test that ran or was skipped, in order of its start; `None` where nobody
    asked."""
    settled: tuple[Finding, ...] = ()
    """Findings of a report that is judged again, now with the end of its process."""
    settled_causes: tuple[Cause, ...] = ()
    """What these findings come from."""

    @property
    def uncertified(self) -> tuple[IntegrityFinding, ...]:
        """What made a result other than the tests, where that fails the run."""
        return self.integrity if self.is_certified else ()

    @property
    def forked(self) -> tuple[str, ...]:
        """Tests whose forked child returned into pytest, so that the rest ran twice."""
        return tuple(
            [change.nodeid for change in self.changes if change.what == "forked"]
        )


@value
class GitState:
    """The commit that was tested."""

    commit: str | None = None
    """Its full hash; `None` if it is not known."""
    branch: str | None = None
    """The branch; `None` if none is checked out and no CI system says which one it is.
    """
    dirty: bool | None = None
    """Whether files have been changed since; `None` if that was not checked."""


@value
class Repository:
    """The repository of a run's commits."""

    name: str
    """Such as `owner/name`, of the remote `origin`; else the folder's name."""
    merge_base: str | None = None
    """The last commit that the main branch has, too."""


@value
class Attempt:
    """An agent's attempt at a subtask, of which a run is a part."""

    subtask: str
    """What it tries to solve."""
    approach: str
    """How it tries to, in words."""


_HARMLESS: Final = re.compile(r"(?:-[bBdEIOqRsSuv]+ |-[XW] ?[\w=:]+ )*")
"""Options of Python that run no code. A category of `-W` with a dot imports its
module."""


def python_options(line: str) -> str:
    """Return the options of a Python command line, without those that run code."""
    begin = _HARMLESS.match(f"{line} ")
    return begin[0].rstrip() if begin else ""


@value
class Surroundings:
    """What a run had besides its arguments, and a command that repeats it lacks."""

    variables: tuple[str, ...] = ()
    """Names of the environment variables that were set and from which pytest takes
    options."""
    cache: bool = True
    """Whether pytest's cache knows what has failed."""
    folder: str | None = None
    """Where pytest was started; `None` if that was its root directory."""
    root: str | None = None
    """The root directory's path from the top of its Git repository, `.` there; `None`
    outside."""
    python: str = ""
    """Options of Python itself, such as `-X dev`."""
    path: str | None = None
    """The folder that `python -m pytest` or a script has put in front of `sys.path`,
    from the root directory; `None` for the command `pytest`."""


@value
class Shard:
    """Which part of a suite that is spread over several jobs a run is."""

    index: Positive
    """Number of the shard, counted from 1."""
    total: Positive
    """How many shards there are."""


@value
class ContinuousIntegration:
    """The CI job that a run is part of, from the variables that its provider documents."""

    provider: str
    """Name of the CI system."""
    run_id: str | None = None
    """What the provider calls the run; `None` if it does not say."""
    job: str | None = None
    """What the provider calls the job; `None` if it does not say."""
    commit: str | None = None
    """The commit that was tested; `None` if the provider does not say."""
    ref: str | None = None
    """The branch or tag that was tested; `None` if the provider does not say."""


@value
class WatcherState:
    """Whether a second process was there to see pytest end."""

    active: bool
    """Whether it was there, from the start of the run to its end."""
    why_not: str | None = None
    """Why it was not; `None` where it was."""


@value
class Environment:
    """What the run ran on."""

    python: str
    """Version of Python."""
    platform: str
    """The operating system, as Python words it."""
    pytest: str
    """Version of pytest."""
    plugins: tuple[str, ...] = ()
    """`name-version` of each distribution that brought a plugin, sorted."""
    ci: ContinuousIntegration | None = None
    """The CI job; `None` outside of the CI systems that are known."""
    watcher: WatcherState | None = None
    """The watcher; `None` where there is none by design: it is switched off,
    `failure-taxonomy run` sees the end, pytest only collects, is process 1 or runs
    inside of another run, or the system is not Linux."""
    memory: MemoryUse | None = None
    """Memory of the run; `None` if nothing of it was seen."""
    git: GitState | None = None
    """The commit that was tested; `None` outside of a repository."""
    distributions: tuple[str, ...] | None = None
    """`name-version` of every installed distribution, sorted; `None` if nothing failed,
    or that was not recorded."""


@value
class Faces:
    """Which other formats of its report a run is asked for; paths are absolute."""

    junit: str | None = None
    """Where JUnit XML goes."""
    junit_family: str = "xunit2"
    """Which dialect of it, by pytest's name; `xunit1` has files, lines and properties
    of tests."""
    html: str | None = None
    """Where the HTML page goes."""
    github: bool = False
    """Annotate the run on GitHub."""
    summary: str | None = None
    """The file of a GitHub step's summary."""
    output: str | None = None
    """The file of a GitHub step's outputs."""
    teamcity: bool = False
    """Report build problems to TeamCity."""

    @property
    def printed(self) -> tuple[str, ...]:
        """The formats that are printed among the output of the run."""
        return ("github",) * self.github + ("teamcity",) * self.teamcity


@value
class RunContext:
    """Which run it was, when and where; nothing here is judged."""

    id: str
    """32 hexadecimal digits, new for each run."""
    started_at: Time
    """RFC 3339, UTC."""
    duration_seconds: float | None
    """`None` while the run goes on."""
    args: tuple[str, ...]
    rootdir: str
    environment: Environment
    shard: Shard | None = None
    """`None` where the suite is not sharded."""
    repository: Repository | None = None
    """`None` outside of one, and where nobody has looked."""
    attempt: Attempt | None = None
    history: str | None = None
    """Where the run is to be recorded: a URL without password, empty for the default;
    `None` for nowhere."""
    faces: Faces = Faces()
    surroundings: Surroundings = Surroundings()

"""Judge a process that ended before its session, or that no plugin has seen.

What is inferred and not seen is `likely`, and what can't be told apart is named. The
test that was in flight "was running when it died"; it never "caused" it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import inf
from typing import Final, NotRequired, TypedDict

from pytest_failure_taxonomy.taxonomy import evidence, packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import (
    CRASH_SIGNALS,
    TIME_LIMIT_EXIT_CODES,
    TIMEOUT_EXIT_CODE,
    Confidence,
    FailureReason,
    Finding,
    Stage,
    known_kinds,
    make_finding,
    type_of_kind,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import (
    bracket_place,
    counted,
    find_left_threads,
    first_lines,
    words_at,
    words_of_left,
    words_of_oom_kill,
    words_of_run_error,
    words_of_sample,
    words_of_stalled_activity,
)

TEST_LIMIT_SHARE: Final = 0.98
"""How much of a test's time limit must be used up for the limit to be what ended the
process. Timers fire late, never early; the rest is the resolution of the record."""

TEST_LIMIT_EXIT_CODE: Final = 1
"""What a process leaves with that a test's limit ends: by pytest-timeout's thread
method and by faulthandler alike."""

PROCESS_LIMIT_SHARE: Final = 0.97
"""The same for GNU `timeout` around the run, whose start is known to 10 ms only. That
there is one says nothing: taken alone it made a timeout of every kill."""

LATE_SHARE: Final = 0.2
"""How much of a limit is used up after the session by a process that is stuck at its
end. Most end within a tenth of a second; the rest is room for slow machines and large
reports of coverage."""

LEAST_LATE_SECONDS: Final = 1.0
"""After how long an interpreter that has not ended waits for a thread that was left.
Others end within this time by themselves."""

KILLED_EXIT_CODE: Final = 137
"""What a shell, or a container, answers for a process that SIGKILL ended."""

_NO_COUNTS: Final = evidence.Counts()

_FRAME_OF_LIBRARY: Final = (
    r'.*\n  File "[^"\n]*(?:site|dist)-packages[/\\]'
    r'(?!_pytest[/\\]|pluggy[/\\])([^"\n]+)", line (\d+), in (\S+)'
)
"""How a stack begins whose deepest frame is an installed library's."""

_INTERRUPTED: Final = 2
"""pytest's exit code for a run that was interrupted."""

_NEVER_STARTED: Final = (126, 127)
"""A shell's exit codes for a command that it may not run, or does not find."""

KILLED_BY: Final = ("process.oom", "process.killed")
"""What a SIGKILL without further evidence could be: want of memory, or a time limit
from outside.
"""


def judge_death(run: evidence.RunEvidence) -> Finding:
    """Say how and where a process ended before its session, and what it was doing."""
    died = _judge_end(run.exit)
    nodeid = died.nodeid
    headline = died.headline
    if died.kind == "process.crashed":
        headline = f"{headline}{_place_of_crash(run.traces)}"
    doing = words_of_activity(run.activity)
    if run.in_flight:
        nodeid = nodeid or run.in_flight[0].nodeid
    elif doing:
        nodeid = _node_of(run.activity)
        headline = f"{headline or known_kinds()[died.kind].one}, while {doing}"
    # xdist's controller runs no test: its threads are nobody's.
    is_own = not run.workers or died.kind in KILLED_BY
    left = _words_of_changes(died.kind, run.changes if is_own else ())
    if left:
        headline = headline or known_kinds()[died.kind].one
        headline += f"{';' if ': ' in headline else ':'} {left}"
        left = f"; {left}"
    if not run.recorded and not run.is_pytest:  # words that fit any command
        deaths = packaged_table("exit_statuses")["deaths"]
        headline = deaths.get(died.kind, headline)
    place = bracket_place(run.traces.location if run.traces else None)
    return replace(
        died,
        detail=f"{died.detail}{left}{place}",
        nodeid=nodeid,
        headline=headline,
    )


def _judge_end(end: evidence.ProcessExit) -> Finding:
    died = _judge_limit_or_signal(end)
    if died is not None:
        return died
    if end.code is not None:
        return _judge_exit(end)
    headline = "pytest died in an unknown way"
    return make_finding(
        "process.vanished",
        "report",
        "the end of the run was not recorded",
        confidence="likely",
        headline=None if end.source == "none" else headline,
    )


def _place_of_crash(traces: evidence.Traces | None) -> str:
    """Say where a process crashed: on a line of the user's, or else in which library.

    Nothing is said of the standard library and of pytest, which all crashes have in
    common.
    """
    if traces is None or traces.stack is None:
        return ""
    place = traces.location
    if place is not None:
        return f" at {place.path}:{place.line}"
    deepest = re.match(_FRAME_OF_LIBRARY, traces.stack)
    if deepest is None:
        return ""
    file, line, function = deepest.groups()
    return f" in {function} ({file}:{line})"


_MUCH_MEMORY: Final = 256 * 1024**2
"""Bytes."""


def _words_of_changes(kind: str, changes: Iterable[evidence.Change]) -> str:
    """Name the test that took most memory, or that left a thread running.

    Args:
        kind: of the death.
        changes: what tests did to the process before.
    """
    if kind in KILLED_BY:
        grown = [change for change in changes if change.what == "memory"]
        most = max(grown, key=lambda change: change.number, default=None)
        # Without evidence that the memory ran out, a test must need a lot to be named.
        if most is None or (kind == "process.killed" and most.number < _MUCH_MEMORY):
            return ""
        return f"{most.nodeid}: {most.detail}"
    if kind != "process.exited":
        return ""
    threads = [*map(words_of_left, find_left_threads(changes))]
    return f"{threads[-1]}, was still running" if threads else ""


def words_of_activity(activity: evidence.RunningActivity | None) -> str:
    """Return what a process was doing outside of tests, to follow "while"."""
    if activity is None:
        return ""
    if activity.name is None:
        is_end = activity.what == "session"
        return "the session was being ended" if is_end else ""
    done = "called" if activity.is_hook else "collected"
    return f"{activity.name} was being {done}"


def _node_of(activity: evidence.RunningActivity | None) -> str | None:
    """Return the node that was being collected."""
    return None if activity is None or activity.is_hook else activity.name


def _judge_exit(end: evidence.ProcessExit) -> Finding:
    limit = find_used_limit(end.limits, TEST_LIMIT_SHARE, of_test=True)
    words = f"the process exited with code {end.code}"
    if limit is not None and end.code == TEST_LIMIT_EXIT_CODE:
        return make_finding(
            "test.timeout",
            limit.owner,
            f"{_limit_words(limit)}; {words}",
            nodeid=limit.nodeid,
            confidence="likely",
            headline=headline_of_timeout(limit),
        )
    # The watcher has seen pytest itself, and no shell's answer.
    if end.code == KILLED_EXIT_CODE and end.source != "watcher":
        return _judge_kill(end)
    words = f"{words} before the session had finished"
    return make_finding("process.exited", end.source, words)


def _judge_limit_or_signal(end: evidence.ProcessExit) -> Finding | None:
    """Judge a process that a limit or a signal ended; return None if it left by itself.

    Our own limit comes first: it ends a process by a signal.
    """
    if end.enforced_limit_seconds is not None:
        words = f"the limit of {end.enforced_limit_seconds:g} s was reached"
        return make_finding("process.timeout", end.source, words)
    if end.signal is not None:
        return _judge_signal(end, end.signal)
    if end.code not in (TIMEOUT_EXIT_CODE, KILLED_EXIT_CODE):
        return None
    outer = find_used_limit(end.limits, PROCESS_LIMIT_SHARE, of_test=False)
    confidence: Confidence = "certain"
    if outer is None and end.code == TIMEOUT_EXIT_CODE:
        unmeasured = [limit for limit in end.limits if limit.elapsed_seconds is None]
        outer = next(iter(unmeasured), None)
    if outer is None:
        return None
    if outer.elapsed_seconds is None:
        confidence = "likely"
    words = _limit_words(outer)
    return make_finding("process.timeout", outer.owner, words, confidence=confidence)


def judge_late_death(
    end: evidence.ProcessExit, counts: evidence.Counts = _NO_COUNTS
) -> Finding:
    """Say how a process ended after its session had finished.

    It left with another status than the session's, or at a time limit.

    Args:
        end: of the process.
        counts: of the session.
    """
    status = "" if end.session_code is None else f" with exit code {end.session_code}"
    before = f"after the session had ended{status}"
    died = _judge_limit_or_signal(end)
    if died is None:
        reason = FailureReason.from_pytest_exit_code(end.code or 0)
        words = f"the process exited with code {end.code} {before}"
        if end.waited_for is not None:
            words += f"; {end.waited_for}, was still running"
        return make_finding(
            "exit_status.changed",
            end.source,
            words,
            reason=reason or FailureReason.UNKNOWN,
            headline=words,
        )
    headline = died.headline
    retryable = died.retryable
    if died.kind == "process.crashed" and end.session_code == 0:
        headline = f"the interpreter crashed ({end.signal})"
    elif _waits_for_thread(end) and died.kind in ENDED_FROM_OUTSIDE:
        headline = f"the interpreter waited for {end.waited_for}"
        died = replace(
            died,
            confidence="likely",
            ambiguous=(),
        )
        retryable = False
    elif died.kind == "process.timeout" and _is_stuck(end):
        headline = known_kinds()[died.kind].one
        retryable = False
    if headline != died.headline and end.session_code == 0:
        headline = f"{_words_of_passed(counts)}; then {headline}"
    return replace(
        died,
        detail=f"{died.detail} {before}",
        headline=headline,
        retryable=retryable,
    )


def _words_of_passed(counts: evidence.Counts) -> str:
    """Say how a session with exit code 0 ended."""
    if not counts.passed:
        return "the session passed"
    every = "all " if counts.passed == counts.collected > 1 else ""
    return f"{every}{counted(counts.passed, 'test')} passed"


def _waits_for_thread(end: evidence.ProcessExit) -> bool:
    """Tell whether a thread kept the process alive until somebody else ended it."""
    late_seconds = end.late_seconds or 0.0
    return end.waited_for is not None and late_seconds >= LEAST_LATE_SECONDS


def _is_stuck(end: evidence.ProcessExit) -> bool:
    """Tell whether a good part of a time limit was used up after the session.

    Then the interpreter waits for what will be there in the next run, too: a thread, an
    `atexit` function. A session that was long may be shorter the next time.
    """
    budget = end.enforced_limit_seconds
    if budget is None:
        outer = [limit for limit in end.limits if limit.nodeid is None]
        budget = min([limit.budget_seconds for limit in outer], default=inf)
    late_seconds = end.late_seconds or 0.0
    return late_seconds >= LATE_SHARE * budget


def judge_worker(worker: evidence.WorkerEnd) -> Finding:
    """Say how an xdist worker ended that did not finish its session."""
    if worker.stall is not None:
        how = words_of_stall(worker.stall)
        nodeid = worker.crashed_on
        return _stall_finding("test.stalled", worker.stall, how, nodeid=nodeid)
    doing = words_of_activity(worker.activity)
    if worker.crashed_on:
        doing = f"it ran {worker.crashed_on}"
    if doing:
        doing = f" while {doing}"
    how = "process.exited"
    if worker.signal == "SIGKILL":
        is_oom = worker.out_of_memory or worker.oom_kill is not None
        how = "process.oom" if is_oom else "process.killed"
    if how in KILLED_BY or worker.exit_code is not None:
        left = _words_of_changes(how, worker.changes)
        doing += left and f"; {left}"
    kind = "worker.crashed"
    reason = None
    is_likely = False
    headline: str | None = f"{worker.id} {_death_words(worker)}{doing}"
    if worker.ending == "interrupted":
        kind = "interrupt.keyboard"
        headline = None
    elif worker.limit is not None and is_ended_by_limit(worker):
        kind = "test.timeout"
        is_likely = True
        headline = headline_of_timeout(worker.limit)
    elif worker.oom_kill is not None:
        reason = FailureReason.SANDBOX_ERROR
    elif worker.signal == "SIGKILL" and worker.out_of_memory:
        reason = FailureReason.SANDBOX_ERROR
        is_likely = True
    return make_finding(
        kind,
        "xdist worker",
        _worker_words(worker, doing),
        nodeid=worker.crashed_on or _node_of(worker.activity),
        reason=reason,
        confidence="likely" if is_likely else "certain",
        headline=headline,
    )


def _death_words(worker: evidence.WorkerEnd) -> str:
    """Say in short how an xdist worker died: `died (SIGSEGV)`."""
    if worker.oom_kill is not None:
        return f"was killed for lack of memory ({words_of_oom_kill(worker.oom_kill)})"
    if worker.signal is not None:
        return f"died ({worker.signal}){_place_of_crash(worker.traces)}"
    if worker.exit_code is not None:
        return f"exited with code {worker.exit_code}"
    return "died"


ENDED_AS_STALLED: Final = "--failure-taxonomy-end-stalled"
"""The source of the evidence of a stall that we have ended."""

ENDED_FROM_OUTSIDE: Final = frozenset(
    (
        *(
            "process.killed",
            "process.terminated",
            "process.timeout",
            "process.vanished",
        ),
        *("interrupt.keyboard", "stage.setup_timeout", "stage.timeout"),
    )
)
"""How a run ends that somebody has ended, or may have; what was stalled then explains
why."""


def judge_stalls(run: evidence.RunEvidence) -> tuple[list[Finding], bool]:
    """Return what was stalled when the run ended, and whether we ended it for that.

    A test that still worked was only slow.
    """
    stalls = []
    for test in run.in_flight:
        if test.stall is not None:
            nodeid = test.nodeid
            stalls.append(
                evidence.SeenStall(
                    what="test",
                    stall=test.stall,
                    nodeid=nodeid,
                )
            )
    stalls += [*run.ended_tests, *run.stalls]
    findings = []
    for stalled in stalls:
        if stalled.stall.state != "busy":
            how = words_of_stall(stalled.stall, words_of_stalled_activity(stalled))
            subject = "session" if stalled.what == "controller" else stalled.what
            kind = f"{subject}.stalled"
            findings.append(
                _stall_finding(kind, stalled.stall, how, nodeid=stalled.nodeid)
            )
    return findings, any(stalled.stall.is_ended for stalled in stalls)


def _stall_finding(
    kind: str, stall: evidence.Stall, how: str, nodeid: str | None = None
) -> Finding:
    lines = [how]
    if stall.stack:
        lines.append(stall.stack)
    lines += [f"child process: {child}" for child in stall.children]
    is_certain = stall.is_ended and stall.state != "polling" and not stall.others_move
    return make_finding(
        kind,
        ENDED_AS_STALLED if stall.is_ended else "stall",
        "\n".join(lines),
        nodeid=nodeid,
        confidence="certain" if is_certain else "likely",
        headline=f"{known_kinds()[kind].one}: {how}",
        words=(how,),
    )


def words_of_stall(stall: evidence.Stall, where: str | None = None) -> str:
    """Say how something was stalled, for how long, and where if that is known."""
    words = words_at(stall.state, where or stall.where)
    left = stall.left and f"; still running: {stall.left}"
    return f"{words} for {stall.seconds:.0f} s{left}"


def headline_of_timeout(limit: evidence.TimeLimit) -> str:
    """Return the message for one test that used up this limit."""
    return f"1 test hit its time limit of {limit.budget_seconds:g} s"


def _worker_words(worker: evidence.WorkerEnd, doing: str) -> str:
    if worker.ending == "interrupted":
        how = "was interrupted from the keyboard"
    elif worker.signal is not None:
        how = f"died of {worker.signal}"
    elif worker.exit_code is not None:
        how = f"exited with code {worker.exit_code}"
    else:
        how = f"went down: {worker.error or 'no exit status is known'}"
    kill = worker.oom_kill
    if kill is not None:
        how = f"{how}, sent by the kernel's OOM killer ({words_of_oom_kill(kill)})"
    limit = worker.limit
    if limit is not None and is_used_up(limit):
        how = f"{how} ({_limit_words(limit)})"
    words = f"worker {worker.id} {how}{doing}"
    traces = worker.traces
    if traces is not None:
        words += bracket_place(traces.location)
        if traces.stack:
            words += f"\n{first_lines(traces.stack)}"
    return words


def is_ended_by_limit(worker: evidence.WorkerEnd) -> bool:
    """Tell whether a worker left as one does that its test's time limit ended."""
    is_exit = worker.signal is None and worker.exit_code in (None, TEST_LIMIT_EXIT_CODE)
    return is_exit and is_used_up(worker.limit)


def is_used_up(limit: evidence.TimeLimit | None) -> bool:
    """Tell whether a test's limit had run long enough to be what ended its process."""
    return limit is not None and limit.share >= TEST_LIMIT_SHARE


def find_used_limit(
    limits: tuple[evidence.TimeLimit, ...], share: float, *, of_test: bool
) -> evidence.TimeLimit | None:
    """Return the first limit of which such a share had been used up, if any.

    Args:
        limits: in the order in which they are asked.
        share: of the limit, 1 for all of it.
        of_test: look at the limits of tests, not at those of the process.
    """
    for limit in limits:
        if (limit.nodeid is not None) == of_test and limit.share >= share:
            return limit
    return None


def _judge_signal(end: evidence.ProcessExit, signal: str) -> Finding:
    if signal == "SIGINT":  # it means that, whoever sent it
        return make_finding("interrupt.keyboard", end.source, signal)
    if signal in CRASH_SIGNALS:
        headline = f"{known_kinds()['process.crashed'].one} ({signal})"
        return make_finding("process.crashed", end.source, signal, headline=headline)
    if end.sender == "timeout":
        return make_finding("process.timeout", end.source, f"{signal} from timeout")
    outer = find_used_limit(end.limits, PROCESS_LIMIT_SHARE, of_test=False)
    if outer is not None:
        words = f"{signal}; {_limit_words(outer)}"
        return make_finding("process.timeout", outer.owner, words, confidence="likely")
    if signal == "SIGKILL":
        return _judge_kill(end)
    sender = f" from {end.sender}" if end.sender else ""
    return make_finding("process.terminated", end.source, f"{signal}{sender}")


def _judge_kill(end: evidence.ProcessExit) -> Finding:
    last = words_of_sample(end.memory)
    if last:
        last = f"; {last}"
    if end.oom_kill is not None:
        kill = words_of_oom_kill(end.oom_kill)
        words = f"SIGKILL by the kernel's OOM killer: {kill}{last}"
        headline = f"{known_kinds()['process.oom'].one}: {kill}"
        return make_finding("process.oom", "kernel log", words, headline=headline)
    if end.out_of_memory:
        words = "SIGKILL; the cgroup counts one more process killed for lack of memory"
        words = f"{words}{last}"
        return make_finding(
            "process.oom", "cgroup oom_kill", words, confidence="likely"
        )
    words = end.signal or f"exit code {end.code}, which stands for SIGKILL"
    return make_finding(
        "process.killed",
        end.source,
        f"{words}{last}",
        confidence="likely",
        ambiguous=KILLED_BY,
    )


def _limit_words(limit: evidence.TimeLimit) -> str:
    budget = f"{limit.budget_seconds:g} s that {limit.owner} allows were used up"
    if limit.elapsed_seconds is None:
        return f"the {budget}, judging by the exit code"
    return f"{limit.elapsed_seconds:.2f} s of the {budget}"


_CODES_OF_REFUSALS: Final = frozenset(
    {
        0,
        1,
        3,
        4,
    }
)
"""Exit codes of a pytest that can't load a plugin or read its files; versions of it
differ. With 0 a plugin has ended it."""


def judge_command(
    code: int, source: str, *, is_pytest: bool, refusal: evidence.RunError | None = None
) -> Iterator[Finding]:
    """Yield what follows from the exit code of a command.

    Args:
        code: the exit code.
        source: who saw it.
        is_pytest: what was run is a pytest.
        refusal: an error that must have stopped that pytest before it loaded a plugin.
    """
    if refusal is not None and code in _CODES_OF_REFUSALS:
        yield make_finding(
            f"{refusal.origin}.error",
            "command and configuration",
            refusal.message,
            confidence="likely",
            words=words_of_run_error(refusal),
            failure=refusal,
        )
        return
    if code == 0:
        return
    commands = packaged_table("exit_statuses")
    row = commands["pytest"].get(str(code), {}) if is_pytest else {}
    kind = row.get("kind", "command.failed")
    reason = None
    if kind == "command.failed":
        reason = FailureReason.from_pytest_exit_code(code)
        if code == _INTERRUPTED and not is_pytest:
            # Of any other command it is an error; one that was interrupted says so.
            reason = FailureReason.UNKNOWN
    ambiguous = tuple(row.get("ambiguous", ()))
    headline = row.get("headline")
    if code == KILLED_EXIT_CODE:
        ambiguous = KILLED_BY
        headline = commands["deaths"]["process.killed"]
    yield make_finding(
        kind,
        source,
        f"exit code {code}",
        reason=reason,
        confidence="likely",
        ambiguous=ambiguous,
        headline=headline,
    )


def judge_tool(run: evidence.RunEvidence) -> Iterator[Finding]:
    """Yield that a command failed because of what a tool says, of tests or containers.

    Of a stage that is a tool's own work, such as the setup, the stage says it; but what
    the machine lacks counts in each, and so does what a service says. A script whose
    last command succeeded ran no tests where a shell had not found what runs them.
    """
    message = run.tool_message
    if message is None:
        return
    meaning, kind = meaning_of(message), kind_of_tool(message)
    code = run.exit.code
    any_stage = meaning.get("any_stage", False)
    though_tests_ran = meaning.get("though_tests_ran", False)
    if not (any_stage and though_tests_ran):
        is_agent = run.stage is Stage.AGENT_RUN
        is_of_machine = kind.startswith("sandbox.") and not is_agent
        is_of_tests = run.stage in (Stage.FINAL_TEST, Stage.BASELINE_RUN)
        # An agent tries commands; by these codes it is the agent that never started.
        is_of_agent = is_agent and code in _NEVER_STARTED
        is_of_stage = is_of_machine or is_of_tests or is_of_agent or any_stage
        if (message.tests_ran and not though_tests_ran) or not is_of_stage:
            return
        if code in TIME_LIMIT_EXIT_CODES:
            return
    is_runner = message.tool in packaged_table("tools")["runners"]
    if code == 0 and not (is_runner and message.cause == "command"):
        return
    yield make_finding(
        kind,
        "output",
        message.line.text,
        confidence="likely",
        headline=words_of_tool(message),
        retryable=meaning.get("retryable"),
        failure_type=type_of_kind(kind),
        ambiguous=tuple(meaning.get("ambiguous", ())),
    )


def kind_of_tool(message: evidence.ToolMessage) -> str:
    """Return the kind of what a tool says."""
    if message.tool == "git":
        return "tool.git"
    return str(meaning_of(message)["kind"].format(tool=message.tool))


def words_of_tool(message: evidence.ToolMessage) -> str:
    """Say in a few words what a tool says that went wrong."""
    name = message.tool
    if name in ("docker", "podman"):
        name = name.capitalize()
    return f"{name}: {meaning_of(message)['words']}"


class ToolMeaning(TypedDict):
    """What it means that a tool says something."""

    kind: str
    """In which `{tool}` stands for the tool."""
    words: str
    """For what went wrong."""
    retryable: NotRequired[bool]
    """Missing where that is not known."""
    any_stage: NotRequired[bool]
    """It counts in each stage, unless tests ran after it."""
    though_tests_ran: NotRequired[bool]
    """It counts also where tests ran."""
    ambiguous: NotRequired[list[str]]
    """The kinds that it could be."""


def meaning_of(message: evidence.ToolMessage) -> ToolMeaning:
    """Return what a tool's message means."""
    meaning: ToolMeaning = packaged_table("tools")["causes"][message.cause]
    return meaning

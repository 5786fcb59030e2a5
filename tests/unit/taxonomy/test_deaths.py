"""How a process ended that did not finish its session, by rows of what was seen of it."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.taxonomy.deaths import (
    find_used_limit,
    is_used_up,
    judge_command,
    judge_death,
    judge_late_death,
    judge_worker,
)
from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    Change,
    Counts,
    InFlightTest,
    Location,
    ProcessExit,
    RunEvidence,
    RunningActivity,
    SeenMarker,
    TimeLimit,
    Traces,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import (
    CRASH_SIGNALS,
    FailureReason,
    Finding,
    Stage,
    known_kinds,
    signal_name,
    signal_of_exit_code,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import (
    assert_valid_report,
    make_failure,
    make_report,
    make_run,
    with_late_end,
)

SERVER: Final = "thread server, test_it.py:5"
TEST: Final = "test_cart.py::test_total"
RUNNING: Final = (
    InFlightTest(nodeid=TEST, phase="call", elapsed_seconds=9.9),
    InFlightTest(nodeid="test_cart.py::test_other", phase="setup", elapsed_seconds=0.1),
)
CERTAIN: Final = "certain"
LIKELY: Final = "likely"


def end(code: int | None = None, signal: str | None = None, **seen: Any) -> ProcessExit:
    """Return how a process ended, as a watcher saw it."""
    return ProcessExit(**{"code": code, "signal": signal, "source": "watcher", **seen})


def death_of(
    seen: ProcessExit,
    in_flight: tuple[InFlightTest, ...] = (),
    activity: RunningActivity | None = None,
) -> Finding:
    """Return what is found of a run that ended in this way."""
    return judge_death(
        RunEvidence(finished=False, exit=seen, in_flight=in_flight, activity=activity)
    )


def of_test(share: float, owner: str = "pytest-timeout (thread)") -> TimeLimit:
    """Return a test's limit of 10 s of which a share was used up."""
    return TimeLimit(
        owner=owner,
        budget_seconds=10.0,
        elapsed_seconds=10.0 * share,
        nodeid="test_x.py::test_x",
    )


def of_process(share: float) -> TimeLimit:
    """Return the limit of a GNU `timeout` of which a share was used up."""
    return TimeLimit(
        owner="timeout", budget_seconds=100.0, elapsed_seconds=100.0 * share
    )


def told(finding: Finding) -> tuple[str, str]:
    """Return kind and confidence."""
    return finding.kind, finding.confidence


BEFORE: Final = (
    Change(nodeid="a", what="memory", detail="+700 MiB", number=700 * 1024**2),
    Change(nodeid="b", what="memory", detail="+80 MiB", number=80 * 1024**2),
    Change(nodeid="c", what="thread", detail="ended", number=1, is_over=True),
    Change(nodeid="d", what="thread", detail="server", number=2),
    Change(nodeid="e", what="child", detail="sleep", number=3),
)
"""What tests did before."""


def test_little_memory_is_named_only_with_evidence() -> None:
    """A SIGKILL may have any reason; the OOM killer has one."""
    seen = end(137, "SIGKILL")
    judged = judge(make_run(exit=seen, finished=False, changes=BEFORE[1:]))
    assert judged.verdict is not None
    assert "+80 MiB" not in judged.verdict.message
    seen = end(137, "SIGKILL", out_of_memory=True)
    judged = judge(make_run(exit=seen, finished=False, changes=BEFORE[1:]))
    assert judged.verdict is not None
    assert judged.verdict.message.endswith("b: +80 MiB")


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (end(137, "SIGKILL"), "a: +700 MiB"),
        (end(137, "SIGKILL", out_of_memory=True), "a: +700 MiB"),
        (end(3), "thread server, started in d, was still running"),
        (end(139, "SIGSEGV"), ""),
        (end(143, "SIGTERM"), ""),
    ],
    ids=["killed", "oom", "exited", "crashed", "terminated"],
)
def test_the_test_that_made_an_end_possible_is_named(
    seen: ProcessExit, words: str
) -> None:
    """Most memory for SIGKILL, a thread that still runs for an exit; else nobody."""
    judged = judge(make_run(exit=seen, finished=False, changes=BEFORE))
    assert judged.verdict is not None
    assert judged.verdict.message.endswith(words)
    assert words or not any(each.detail in str(judged.verdict) for each in BEFORE)
    worker = WorkerEnd(
        id="gw0",
        tests=5,
        exit_code=None if seen.signal else seen.code,
        signal=seen.signal,
        ending="died",
        crashed_on=TEST,
        changes=BEFORE,
    )
    headline = judge_worker(worker).headline or ""
    assert headline.endswith(f"; {words}" if words else TEST)


# A session that was not finished.


@pytest.mark.parametrize(
    ("seen", "kind", "confidence"),
    [
        # Signals.
        (end(139, "SIGSEGV"), "process.crashed", CERTAIN),
        (end(134, "SIGABRT"), "process.crashed", CERTAIN),
        (end(135, "SIGBUS"), "process.crashed", CERTAIN),
        (end(132, "SIGILL"), "process.crashed", CERTAIN),
        (end(136, "SIGFPE"), "process.crashed", CERTAIN),
        (end(137, "SIGKILL"), "process.killed", LIKELY),
        (end(143, "SIGTERM"), "process.terminated", CERTAIN),
        (end(129, "SIGHUP"), "process.terminated", CERTAIN),
        (end(131, "SIGQUIT"), "process.terminated", CERTAIN),
        (end(138, "SIGUSR1"), "process.terminated", CERTAIN),
        (end(130, "SIGINT"), "interrupt.keyboard", CERTAIN),
        # Memory.
        (end(137, "SIGKILL", out_of_memory=True), "process.oom", LIKELY),
        (end(143, "SIGTERM", out_of_memory=True), "process.terminated", CERTAIN),
        (end(139, "SIGSEGV", out_of_memory=True), "process.crashed", CERTAIN),
        (end(1, out_of_memory=True), "process.exited", CERTAIN),
        # Who sent it.
        (end(143, "SIGTERM", sender="timeout"), "process.timeout", CERTAIN),
        (end(137, "SIGKILL", sender="timeout"), "process.timeout", CERTAIN),
        (end(143, "SIGTERM", sender="dockerd"), "process.terminated", CERTAIN),
        (end(139, "SIGSEGV", sender="timeout"), "process.crashed", CERTAIN),
        # Our own limit comes before all.
        (end(143, "SIGTERM", enforced_limit_seconds=2.5), "process.timeout", CERTAIN),
        (end(137, "SIGKILL", enforced_limit_seconds=2.5), "process.timeout", CERTAIN),
        (end(0, enforced_limit_seconds=2.5), "process.timeout", CERTAIN),
        (end(139, "SIGSEGV", enforced_limit_seconds=2.5), "process.timeout", CERTAIN),
        # Exit codes.
        (end(0), "process.exited", CERTAIN),
        (end(1), "process.exited", CERTAIN),
        (end(7), "process.exited", CERTAIN),
        (end(124), "process.exited", CERTAIN),
        (end(137), "process.exited", CERTAIN),
        # Nothing.
        (end(), "process.vanished", LIKELY),
        (end(out_of_memory=True), "process.vanished", LIKELY),
        (end(limits=(of_test(1.0), of_process(1.0))), "process.vanished", LIKELY),
    ],
)
def test_the_end_makes_the_kind(seen: ProcessExit, kind: str, confidence: str) -> None:
    """What was seen of the end says what it was; what is only inferred is `likely`."""
    assert told(death_of(seen)) == (kind, confidence)


@pytest.mark.parametrize(
    ("share", "is_reached"),
    [(0.96, False), (0.97, False), (0.98, True), (0.99, True), (3.0, True)],
)
@pytest.mark.parametrize(
    "owner",
    ["pytest-timeout (thread)", "pytest-timeout (signal)", "faulthandler_timeout"],
)
def test_a_tests_limit_explains_an_exit_from_98_percent_on(
    share: float, is_reached: bool, owner: str
) -> None:
    """A timer that had run for 98 % of its time is likely what ended the process, else not."""
    finding = death_of(end(1, limits=(of_test(share, owner),)), RUNNING)
    if not is_reached:
        assert told(finding) == ("process.exited", CERTAIN)
        assert finding.nodeid == TEST
        return
    assert told(finding) == ("test.timeout", LIKELY)
    assert finding.reason is FailureReason.TIMEOUT
    assert (finding.source, finding.nodeid) == (owner, "test_x.py::test_x")
    assert finding.detail == (
        f"{10 * share:.2f} s of the 10 s that {owner} allows were used up; "
        "the process exited with code 1"
    )


@pytest.mark.parametrize("code", [0, 2, 3, 124])
def test_a_tests_limit_explains_no_other_exit_code_than_1(code: int) -> None:
    """pytest-timeout and faulthandler leave with 1; who leaves with another code does it itself."""
    seen = end(code, limits=(of_test(1.0), of_test(1.0, "faulthandler_timeout")))
    assert told(death_of(seen)) == ("process.exited", CERTAIN)


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize(
    ("share", "is_reached"),
    [(0.5, False), (0.96, False), (0.97, True), (0.98, True), (0.99, True)],
)
def test_the_limit_of_the_process_explains_a_signal_from_97_percent_on(
    share: float, is_reached: bool, signal: str
) -> None:
    """That there is a `timeout` around the run says nothing until its time is all but used up."""
    plain = told(death_of(end(137, signal)))
    finding = death_of(end(137, signal, limits=(of_process(share),)), RUNNING)
    if not is_reached:
        assert told(finding) == plain
        return
    assert told(finding) == ("process.timeout", LIKELY)
    assert finding.source == "timeout"
    assert signal in finding.detail
    assert finding.nodeid == TEST


@pytest.mark.parametrize("signal", sorted({*CRASH_SIGNALS, "SIGINT"}))
def test_no_limit_explains_a_crash(signal: str) -> None:
    """A segmentation fault at the very end of a time limit is still one, and so is a Ctrl+C."""
    seen = end(139, signal, limits=(of_test(1.0), of_process(1.0)), sender="timeout")
    assert death_of(seen).kind == death_of(end(139, signal)).kind


@pytest.mark.parametrize(
    ("code", "share", "kind"),
    [
        (124, 0.96, "process.exited"),
        (124, 0.97, "process.timeout"),
        (137, 0.97, "process.timeout"),
        (0, 1.0, "process.exited"),
        (1, 1.0, "process.exited"),
        (143, 1.0, "process.exited"),
    ],
)
def test_the_exit_code_of_a_time_limit_needs_one_that_was_used_up(
    code: int, share: float, kind: str
) -> None:
    """Exit codes 124 and 137 are a time limit's where one around the process was used up."""
    assert death_of(end(code, limits=(of_process(share),))).kind == kind


def test_a_tests_limit_comes_before_that_of_the_process() -> None:
    """Where both were used up and the process left by itself, the test's timer made it leave."""
    assert (
        death_of(end(1, limits=(of_process(1.0), of_test(1.0)))).kind == "test.timeout"
    )


def test_a_signal_is_not_explained_by_a_tests_limit() -> None:
    """pytest-timeout ends a process by leaving it, never by a signal from outside."""
    assert (
        death_of(end(137, "SIGKILL", limits=(of_test(1.0),))).kind == "process.killed"
    )


def test_a_kill_can_have_two_causes() -> None:
    """SIGKILL without a word from the kernel may be either of two things, and says so."""
    both = ("process.oom", "process.killed")
    assert death_of(end(137, "SIGKILL")).ambiguous == both
    assert set(both) <= known_kinds().keys()
    assert death_of(end(137, "SIGKILL", out_of_memory=True)).ambiguous == ()
    assert death_of(end(143, "SIGTERM")).ambiguous == ()


def test_the_exit_code_of_a_kill_is_one_where_a_shell_may_have_answered() -> None:
    """137 from outside stands for SIGKILL; the watcher has seen pytest itself leave with it."""
    finding = death_of(end(137, source="supervisor"), RUNNING)
    assert told(finding) == ("process.killed", LIKELY)
    assert finding.ambiguous == ("process.oom", "process.killed")
    assert (finding.nodeid, finding.detail) == (
        TEST,
        "exit code 137, which stands for SIGKILL",
    )
    assert told(death_of(end(137, source="watcher"))) == ("process.exited", CERTAIN)


def test_a_kill_after_the_session_can_have_two_causes() -> None:
    """Who killed a process that had finished its session is not known either."""
    finding = judge_late_death(end(137, "SIGKILL", session_code=0))
    assert told(finding) == ("process.killed", LIKELY)
    assert finding.ambiguous == ("process.oom", "process.killed")
    assert finding.detail == "SIGKILL after the session had ended with exit code 0"


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (end(143, "SIGTERM"), "SIGTERM"),
        (end(143, "SIGTERM", sender="dockerd"), "SIGTERM from dockerd"),
        (end(143, "SIGTERM", sender="timeout"), "SIGTERM from timeout"),
        (
            end(137, "SIGKILL", enforced_limit_seconds=2.5),
            "the limit of 2.5 s was reached",
        ),
        (end(0), "the process exited with code 0 before the session had finished"),
        (end(), "the end of the run was not recorded"),
    ],
)
def test_the_detail_says_what_was_seen(seen: ProcessExit, words: str) -> None:
    """The evidence is in the words of what was seen, the sender's name included."""
    assert death_of(seen).detail == words


@pytest.mark.parametrize(
    ("activity", "nodeid", "words"),
    [
        (
            RunningActivity(what="collection", name="a/test_x.py"),
            "a/test_x.py",
            ", while a/test_x.py was being collected",
        ),
        (
            RunningActivity(
                what="collection", name="pytest_configure (a)", is_hook=True
            ),
            None,
            ", while pytest_configure (a) was being called",
        ),
        (
            RunningActivity(what="session", is_hook=True),
            None,
            ", while the session was being ended",
        ),
        (RunningActivity(what="collection"), None, ""),
        (None, None, ""),
    ],
)
def test_what_is_no_test_is_named(
    activity: RunningActivity | None, nodeid: str | None, words: str
) -> None:
    """The message has the file that was collected, or the hook; a test in flight comes first."""
    died = death_of(end(139, "SIGSEGV"), activity=activity)
    assert died.nodeid == nodeid
    assert died.headline == f"the pytest process crashed (SIGSEGV){words}"
    assert death_of(end(7), RUNNING, activity) == death_of(end(7), RUNNING)
    worker = WorkerEnd(
        id="gw0", tests=0, signal="SIGSEGV", ending="died", activity=activity
    )
    found = judge_worker(worker)
    assert found.nodeid == nodeid
    assert found.detail == f"worker gw0 died of SIGSEGV{words.removeprefix(',')}"
    assert found.headline == f"gw0 died (SIGSEGV){words.removeprefix(',')}"
    busy = judge_worker(replace(worker, crashed_on=TEST))
    assert (busy.nodeid, busy.headline) == (
        TEST,
        f"gw0 died (SIGSEGV) while it ran {TEST}",
    )


@pytest.mark.parametrize(
    ("frame", "location", "words"),
    [
        (
            "/v/lib/python3.12/site-packages/pytestqt/plugin.py",
            None,
            " in qapp (pytestqt/plugin.py:76)",
        ),
        (
            "/v/lib/python3.12/ctypes/__init__.py",
            Location(path="app/own.py", line=3),
            " at app/own.py:3",
        ),
        ("/v/lib/python3.12/ctypes/__init__.py", None, ""),
        ("/v/lib/python3.12/site-packages/_pytest/runner.py", None, ""),
    ],
)
def test_where_it_crashed(frame: str, location: Location | None, words: str) -> None:
    """The user's line says most; without one it is the library that was at work."""
    header = "Current thread 0x7f9f, most recent call first:"
    called = '  File "/v/lib/python3.12/site-packages/numpy/core.py", line 1, in call'
    stack = f'{header}\n  File "{frame}", line 76, in qapp\n{called}'
    traces = Traces(stack=stack, location=location)
    crash = end(139, "SIGSEGV")
    died = judge_death(RunEvidence(finished=False, exit=crash, traces=traces))
    assert died.headline == f"the pytest process crashed (SIGSEGV){words}"
    worker = WorkerEnd(
        id="gw0", tests=1, signal="SIGSEGV", ending="died", traces=traces
    )
    assert judge_worker(worker).headline == f"gw0 died (SIGSEGV){words}"
    killed = judge_death(
        RunEvidence(finished=False, exit=end(137, "SIGKILL"), traces=traces)
    )
    assert words == "" or words not in (killed.headline or "")


def test_the_first_test_in_flight_is_named() -> None:
    """The test that was running is named, whatever the end was; without one, none is."""
    for seen in (
        end(139, "SIGSEGV"),
        end(137, "SIGKILL"),
        end(0),
        end(),
        end(143, "SIGTERM"),
    ):
        assert death_of(seen, RUNNING).nodeid == TEST
        assert death_of(seen).nodeid is None


ENDS: Final = st.builds(
    ProcessExit,
    code=st.none() | st.integers(0, 255),
    source=st.sampled_from(["watcher", "supervisor", "finalize"]),
    signal=st.none()
    | st.sampled_from(["SIGKILL", "SIGTERM", "SIGSEGV", "SIGINT", "SIG63"]),
    observed=st.booleans(),
    session_code=st.none() | st.integers(0, 6),
    enforced_limit_seconds=st.none() | st.floats(0.1, 100),
    out_of_memory=st.booleans(),
    sender=st.none() | st.sampled_from(["timeout", "bash"]),
    limits=st.lists(
        st.builds(
            TimeLimit,
            owner=st.sampled_from(["timeout", "pytest-timeout (thread)"]),
            budget_seconds=st.floats(0, 100),
            elapsed_seconds=st.floats(-1, 200),
            nodeid=st.none() | st.just("t.py::t"),
        ),
        max_size=3,
    ).map(tuple),
)


@given(seen=ENDS)
def test_every_death_has_a_kind_of_ours_and_a_reason(seen: ProcessExit) -> None:
    """Whatever was seen, a death is judged by a published kind, and nothing but a timeout, a kill
    and no end at all is inferred.
    """
    finding = death_of(seen, RUNNING)
    assert known_kinds()[finding.kind].reason is finding.reason
    assert finding.detail
    if finding.confidence == LIKELY:
        assert finding.kind in {
            "process.killed",
            "process.timeout",
            "test.timeout",
            "process.oom",
            "process.vanished",
        }
    assert (finding.ambiguous != ()) == (finding.kind == "process.killed")


@given(seen=ENDS)
def test_every_late_death_is_judged(seen: ProcessExit) -> None:
    """A process that ended otherwise than its session said has a reason, whatever was seen."""
    assert judge_late_death(seen).kind in known_kinds()


# A session that was finished, and a process that ended otherwise.


@pytest.mark.parametrize(
    ("seen", "reason", "kind"),
    [
        (end(139, "SIGSEGV", session_code=0), "UNKNOWN", "process.crashed"),
        (end(134, "SIGABRT", session_code=1), "UNKNOWN", "process.crashed"),
        (end(137, "SIGKILL", session_code=0), "TIMEOUT", "process.killed"),
        (end(143, "SIGTERM", session_code=0), "INTERRUPTED", "process.terminated"),
        (end(130, "SIGINT", session_code=0), "INTERRUPTED", "interrupt.keyboard"),
        (
            end(143, "SIGTERM", session_code=0, sender="timeout"),
            "TIMEOUT",
            "process.timeout",
        ),
        # Our own limit comes before all, and so it does where a handler has left with the status.
        (
            end(143, "SIGTERM", session_code=0, enforced_limit_seconds=3.0),
            "TIMEOUT",
            "process.timeout",
        ),
        (
            end(137, "SIGKILL", session_code=1, enforced_limit_seconds=3.0),
            "TIMEOUT",
            "process.timeout",
        ),
        (
            end(139, "SIGSEGV", session_code=0, enforced_limit_seconds=3.0),
            "TIMEOUT",
            "process.timeout",
        ),
        (
            end(130, "SIGINT", session_code=0, enforced_limit_seconds=3.0),
            "TIMEOUT",
            "process.timeout",
        ),
        (
            end(
                143,
                "SIGTERM",
                session_code=0,
                enforced_limit_seconds=3.0,
                sender="systemd",
            ),
            "TIMEOUT",
            "process.timeout",
        ),
        (
            end(0, session_code=1, enforced_limit_seconds=3.0),
            "TIMEOUT",
            "process.timeout",
        ),
        (
            end(0, session_code=0, enforced_limit_seconds=3.0),
            "TIMEOUT",
            "process.timeout",
        ),
        # That of GNU `timeout`.
        (
            end(143, "SIGTERM", session_code=0, limits=(of_process(1.0),)),
            "TIMEOUT",
            "process.timeout",
        ),
        (
            end(137, "SIGKILL", session_code=0, limits=(of_process(1.0),)),
            "TIMEOUT",
            "process.timeout",
        ),
        (
            end(143, "SIGTERM", session_code=0, limits=(of_process(0.5),)),
            "INTERRUPTED",
            "process.terminated",
        ),
        (
            end(124, session_code=0, limits=(of_process(1.0),)),
            "TIMEOUT",
            "process.timeout",
        ),
        (end(1, session_code=0), "TESTS_FAILED", "exit_status.changed"),
        (end(5, session_code=0), "NO_TESTS_COLLECTED", "exit_status.changed"),
        (end(124, session_code=0), "TIMEOUT", "exit_status.changed"),
        (end(9, session_code=0), "UNKNOWN", "exit_status.changed"),
        (end(0, session_code=1), "UNKNOWN", "exit_status.changed"),
    ],
)
def test_an_end_after_the_session(seen: ProcessExit, reason: str, kind: str) -> None:
    """A process that ends otherwise than its session said is judged by how it ended."""
    finding = judge_late_death(seen)
    assert (str(finding.reason), finding.kind) == (reason, kind)
    assert finding.nodeid is None
    assert (
        f"after the session had ended with exit code {seen.session_code}"
        in finding.detail
    )


@pytest.mark.parametrize(
    ("late_seconds", "retryable"),
    [(4.0, False), (0.7, False), (0.1, True), (None, True)],
)
@pytest.mark.parametrize(
    "limit",
    [
        {"enforced_limit_seconds": 3.0},
        {
            "limits": (
                TimeLimit(owner="timeout", budget_seconds=3.0, elapsed_seconds=3.0),
            )
        },
    ],
    ids=["ours", "GNU"],
)
def test_a_retry_does_not_help_where_the_interpreter_hangs(
    limit: dict[str, Any], late_seconds: float | None, retryable: bool
) -> None:
    """What took the limit after the session takes it again; a session may be faster."""
    seen = end(143, "SIGTERM", session_code=0, late_seconds=late_seconds, **limit)
    judged = judge(make_run(exit=seen))
    assert judged.verdict is not None
    assert judged.verdict.kind == "process.timeout"
    assert judged.verdict.retryable is retryable


@pytest.mark.parametrize(
    ("seen", "counts", "words"),
    [
        (
            end(139, "SIGSEGV", session_code=0),
            Counts(collected=3, passed=3),
            "all 3 tests passed; then the interpreter crashed (SIGSEGV)",
        ),
        (
            end(134, "SIGABRT", session_code=0),
            Counts(collected=3, passed=2, skipped=1),
            "2 tests passed; then the interpreter crashed (SIGABRT)",
        ),
        (
            end(143, "SIGTERM", session_code=0, late_seconds=60.0, waited_for=SERVER),
            Counts(collected=1, passed=1),
            f"1 test passed; then the interpreter waited for {SERVER}",
        ),
        # It had hardly begun to end, so that nobody knows what for.
        (
            end(143, "SIGTERM", session_code=0, late_seconds=0.3, waited_for=SERVER),
            Counts(collected=1, passed=1),
            "pytest was told to end by a signal",
        ),
        (
            end(139, "SIGSEGV", session_code=1),
            Counts(collected=3, passed=2, failed=1),
            "the pytest process crashed (SIGSEGV)",
        ),
    ],
    ids=["crash", "with a skip", "thread", "at once", "red"],
)
def test_what_a_session_came_to_stands_first(
    seen: ProcessExit, counts: Counts, words: str
) -> None:
    """An end after a green session is told as such; a thread that was waited for is named."""
    judged = judge(make_run(exit=seen, counts=counts))
    assert judged.verdict is not None
    assert judged.verdict.message == words
    if SERVER in words:
        assert judged.verdict.retryable is False


@pytest.mark.parametrize(
    ("stage", "session_code", "verdict"),
    [
        ("final_test", 0, ("TIMEOUT", "process.timeout")),
        ("baseline_run", 0, ("TIMEOUT", "stage.timeout")),
        ("baseline_run", 1, ("TIMEOUT", "stage.timeout")),
        ("setup", 0, ("SETUP_TIMEOUT", "stage.setup_timeout")),
        ("setup", 1, ("SETUP_TIMEOUT", "stage.setup_timeout")),
        ("git_clone", 1, ("TIMEOUT", "stage.timeout")),
    ],
)
@pytest.mark.parametrize(
    "seen",
    [
        end(143, "SIGTERM", enforced_limit_seconds=3.0),
        end(0, enforced_limit_seconds=3.0),
        end(143, "SIGTERM", limits=(of_process(1.0),)),
        end(143, "SIGTERM", sender="timeout"),
    ],
    ids=["ours", "caught", "GNU", "sender"],
)
def test_a_late_limit_overrides_the_stage(
    stage: str, session_code: int, verdict: tuple[str, str], seen: ProcessExit
) -> None:
    """As exit code 124 does, also where the end is added to pytest's own report."""
    run = make_run(
        stage=Stage(stage),
        exit=ProcessExit(code=session_code, source="pytest"),
        counts=Counts(),
    )
    amended = with_late_end(make_report(run), seen)
    assert_valid_report(amended)
    assert {(held["reason"], held["kind"]) for held in amended["reasons"]} == {verdict}
    assert {(cause["reason"], cause["kind"]) for cause in amended["causes"]} == {
        verdict
    }
    at_once = judge(replace(run, exit=replace(seen, session_code=session_code)))
    assert {(str(held.reason), held.kind) for held in at_once.reasons} == {verdict}
    if seen.enforced_limit_seconds is not None:
        assert amended["exit"]["reason"] == verdict[0]


# Workers.


@pytest.mark.parametrize(
    ("seen", "reason", "kind", "confidence", "words"),
    [
        (
            {"signal": "SIGSEGV", "crashed_on": TEST},
            "TESTS_FAILED",
            "worker.crashed",
            CERTAIN,
            f"worker gw1 died of SIGSEGV while it ran {TEST}",
        ),
        (
            {"exit_code": 1, "limit": of_test(0.97)},
            "TESTS_FAILED",
            "worker.crashed",
            CERTAIN,
            "worker gw1 exited with code 1",
        ),
        (
            {"exit_code": 1, "limit": of_test(0.98)},
            "TIMEOUT",
            "test.timeout",
            LIKELY,
            (
                "worker gw1 exited with code 1 (9.80 s of the 10 s that pytest-timeout (thread) "
                "allows were used up)"
            ),
        ),
        (
            {
                "exit_code": 1,
                "limit": of_test(0.98, "faulthandler_timeout"),
                "crashed_on": TEST,
            },
            "TIMEOUT",
            "test.timeout",
            LIKELY,
            (
                "worker gw1 exited with code 1 (9.80 s of the 10 s that faulthandler_timeout "
                f"allows were used up) while it ran {TEST}"
            ),
        ),
        (
            {"exit_code": 1, "limit": of_test(0.97, "faulthandler_timeout")},
            "TESTS_FAILED",
            "worker.crashed",
            CERTAIN,
            "worker gw1 exited with code 1",
        ),
        (
            {"exit_code": 3, "limit": of_test(0.98, "faulthandler_timeout")},
            "TESTS_FAILED",
            "worker.crashed",
            CERTAIN,
            (
                "worker gw1 exited with code 3 (9.80 s of the 10 s that faulthandler_timeout "
                "allows were used up)"
            ),
        ),
        (
            {"limit": of_test(0.99), "error": "Not properly terminated"},
            "TIMEOUT",
            "test.timeout",
            LIKELY,
            (
                "worker gw1 went down: Not properly terminated (9.90 s of the 10 s that "
                "pytest-timeout (thread) allows were used up)"
            ),
        ),
        (
            {"signal": "SIGKILL", "out_of_memory": True},
            "SANDBOX_ERROR",
            "worker.crashed",
            LIKELY,
            "worker gw1 died of SIGKILL",
        ),
        (
            {"signal": "SIGSEGV", "out_of_memory": True},
            "TESTS_FAILED",
            "worker.crashed",
            CERTAIN,
            "worker gw1 died of SIGSEGV",
        ),
        (
            {"ending": "interrupted", "exit_code": 2, "limit": of_test(1.0)},
            "INTERRUPTED",
            "interrupt.keyboard",
            CERTAIN,
            (
                "worker gw1 was interrupted from the keyboard (10.00 s of the 10 s that "
                "pytest-timeout (thread) allows were used up)"
            ),
        ),
        (
            {},
            "TESTS_FAILED",
            "worker.crashed",
            CERTAIN,
            "worker gw1 went down: no exit status is known",
        ),
    ],
)
def test_a_workers_end(
    seen: dict[str, Any], reason: str, kind: str, confidence: str, words: str
) -> None:
    """A dead worker fails the run, by its test's limit or for want of memory where that shows."""
    finding = judge_worker(
        WorkerEnd(**{"id": "gw1", "tests": 3, "ending": "died", **seen})
    )
    assert (str(finding.reason), finding.kind) == (reason, kind)
    assert (finding.confidence, finding.detail) == (confidence, words)
    assert finding.nodeid == seen.get("crashed_on")


def test_a_worker_killed_by_a_signal_did_not_time_out() -> None:
    """A worker's segmentation fault at the end of its test's limit is no timeout."""
    worker = WorkerEnd(
        id="gw0", tests=1, ending="died", signal="SIGSEGV", limit=of_test(1.0)
    )
    assert judge_worker(worker).reason is FailureReason.TESTS_FAILED


# Limits.


def test_a_limit_of_nothing_is_never_used_up() -> None:
    """A budget of 0 means that there is no limit."""
    none = TimeLimit(owner="timeout", budget_seconds=0.0, elapsed_seconds=5.0)
    assert none.share == 0.0
    assert not is_used_up(none)
    assert not is_used_up(None)


def test_the_first_limit_that_was_used_up_is_named() -> None:
    """Of several limits the first counts that had run for its share; the sorts are kept apart."""
    limits = (of_test(0.5), of_process(1.0), of_test(0.99, "faulthandler_timeout"))
    assert find_used_limit(limits, 0.98, of_test=True) is limits[2]
    assert find_used_limit(limits, 0.97, of_test=False) is limits[1]
    assert find_used_limit(limits[:1], 0.98, of_test=True) is None


# The whole verdict.


def test_stacks_are_evidence_of_a_process_that_was_ended() -> None:
    """What the threads were at when a SIGTERM came is quoted, last."""
    run = make_run(
        finished=False,
        exit=end(143, "SIGTERM", observed=True, stacks="Thread 0x1: in test_it"),
    )
    verdict = judge(run).verdict
    assert verdict is not None
    assert [each.source for each in verdict.evidence] == [
        "watcher",
        "stacks at SIGTERM",
    ]
    assert verdict.evidence[1].detail == "Thread 0x1: in test_it"


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("code", [0, 1, 5, 124, None])
def test_an_unfinished_session_is_a_failure_whatever_it_answered(
    stage: Stage, code: int | None
) -> None:
    """Exit code 0 of a process that left its session unfinished is no success in any stage."""
    run = make_run(
        finished=False, stage=stage, exit=end(code, observed=code is not None)
    )
    judgement = judge(run)
    assert judgement.verdict is not None
    assert "process" in {reason.kind.partition(".")[0] for reason in judgement.reasons}


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (end(139, "SIGSEGV"), "test.failed"),
        (end(0), "test.failed"),
        (end(), "test.failed"),
        (end(143, "SIGTERM"), "test.failed"),
        (end(137, "SIGKILL"), "process.killed"),
    ],
)
def test_a_death_and_a_failed_test_are_both_reasons(
    seen: ProcessExit, verdict: str
) -> None:
    """Precedence says which of the two is the verdict; the other one stays listed."""
    run = make_run(
        finished=False,
        failures=(make_failure(),),
        counts=Counts(collected=2, failed=1),
        exit=seen,
    )
    judgement = judge(run)
    assert judgement.verdict is not None
    assert judgement.verdict.kind == verdict
    assert {reason.kind for reason in judgement.reasons} == {
        "test.failed",
        death_of(seen).kind,
    }


def test_a_finished_session_whose_process_agrees_is_a_success() -> None:
    """The end adds nothing where it is what the session had said."""
    assert judge(make_run(exit=end(0, observed=True, session_code=0))).verdict is None


# A report that pytest wrote itself.


def test_an_end_that_says_nothing_new_leaves_the_report() -> None:
    """The same exit code, or none at all, changes nothing."""
    report = make_report(make_run())
    assert with_late_end(report, end(0, observed=True)) is report
    assert with_late_end(report, end()) is report


@pytest.mark.parametrize(
    ("seen", "reason", "kind"),
    [
        (end(139, "SIGSEGV", observed=True), "UNKNOWN", "process.crashed"),
        (end(137, "SIGKILL", observed=True), "TIMEOUT", "process.killed"),
        (end(5, observed=True), "NO_TESTS_COLLECTED", "exit_status.changed"),
        (end(1, observed=True), "TESTS_FAILED", "exit_status.changed"),
    ],
)
def test_a_success_is_corrected(seen: ProcessExit, reason: str, kind: str) -> None:
    """A green report of a process that ended otherwise becomes a failure, observed."""
    report = with_late_end(make_report(make_run()), seen)
    assert_valid_report(report)
    assert (report["verdict"]["reason"], report["verdict"]["kind"]) == (reason, kind)
    assert report["exit"] == {
        "code": seen.code,
        "name": report["exit"]["name"],
        "signal": seen.signal,
        "reason": report["exit"]["reason"],
        "observed": True,
        "source": "watcher",
    }
    assert [held["kind"] for held in report["reasons"]] == [kind]
    assert report["completeness"] == "full"


def test_what_was_found_before_stays() -> None:
    """A correction keeps reasons, counts, node ids and evidence, and adds the end."""
    run = make_run(
        failures=(make_failure(), make_failure(nodeid="t.py::b")),
        counts=Counts(collected=3, passed=1, failed=2),
        exit=ProcessExit(code=1, source="pytest"),
    )
    before = make_report(run)
    after = with_late_end(before, end(139, "SIGSEGV", observed=True))
    assert_valid_report(after)
    assert after["reasons"][0] == before["reasons"][0]
    assert [held["kind"] for held in after["reasons"]] == [
        "test.failed",
        "process.crashed",
    ]
    assert [cause["kind"] for cause in after["causes"]] == [
        "process.crashed",
        "test.failed",
    ]
    assert after["causes"][1] == before["causes"][0]
    said = "2 of 3 tests failed"
    assert before["verdict"].pop("message").startswith(f"{said}: assert 3 == 4: ")
    assert (
        after["verdict"].pop("message")
        == f"{said}, then the pytest process crashed (SIGSEGV)"
    )
    assert after["verdict"] == before["verdict"]
    unchanged = set(before) - {"causes", "exit", "reasons", "verdict"}
    assert {key: after[key] for key in unchanged} == {
        key: before[key] for key in unchanged
    }


def test_what_a_rule_has_said_stays() -> None:
    """A marker that led the reasons leads no more, and a retry must help against the end, too."""
    said = Attribution(
        reason=FailureReason.TESTS_FAILED,
        kind="ours.flaky",
        source="rule",
        retryable=True,
    )
    marker = SeenMarker(name="MAX_TURNS", reason=FailureReason.AGENT_GAVE_UP)
    run = make_run(
        failures=(make_failure(attributed=said, marker=marker),),
        counts=Counts(collected=1, failed=1),
        exit=ProcessExit(code=1, source="pytest"),
    )
    before = make_report(run)
    assert [held["kind"] for held in before["reasons"]] == [
        "marker.max_turns",
        "ours.flaky",
    ]
    after = with_late_end(before, end(139, "SIGSEGV", observed=True))
    assert after["verdict"]["evidence"] == before["verdict"]["evidence"]
    assert [cause["retryable"] for cause in after["causes"]] == [None, True]
    assert (before["verdict"]["retryable"], after["verdict"]["retryable"]) == (
        True,
        None,
    )


def test_a_correction_made_twice_is_made_once() -> None:
    """A report that has been corrected by an end is left by the same end."""
    seen = end(139, "SIGSEGV", observed=True)
    once = with_late_end(make_report(make_run()), seen)
    assert with_late_end(once, seen) is once


# Commands of which no plugin has told.


@pytest.mark.parametrize(
    ("code", "is_pytest", "reason", "kind", "ambiguous"),
    [
        (
            *(1, True, "TESTS_FAILED", "test.failed"),
            (
                "test.setup_error",
                "test.teardown_error",
                "collection.error",
                "plugin.error",
            ),
        ),
        (
            2,
            True,
            "INTERRUPTED",
            "command.failed",
            ("collection.error", "interrupt.keyboard"),
        ),
        (3, True, "INTERNAL_ERROR", "internal.error", ()),
        (4, True, "INTERNAL_ERROR", "usage.error", ("conftest.error", "plugin.error")),
        (
            5,
            True,
            "NO_TESTS_COLLECTED",
            "tests.none_collected",
            ("tests.all_deselected",),
        ),
        (6, True, "UNKNOWN", "warnings.exceeded", ()),
        (124, True, "TIMEOUT", "command.failed", ()),
        (42, True, "UNKNOWN", "command.failed", ()),
        (1, False, "TESTS_FAILED", "command.failed", ()),
        (2, False, "UNKNOWN", "command.failed", ()),
        (3, False, "INTERNAL_ERROR", "command.failed", ()),
        (5, False, "NO_TESTS_COLLECTED", "command.failed", ()),
        (6, False, "UNKNOWN", "command.failed", ()),
        (137, True, "TIMEOUT", "command.failed", ("process.oom", "process.killed")),
        (137, False, "TIMEOUT", "command.failed", ("process.oom", "process.killed")),
    ],
)
def test_a_command_is_judged_by_its_exit_code(
    code: int, is_pytest: bool, reason: str, kind: str, ambiguous: tuple[str, ...]
) -> None:
    """An exit code alone makes nothing certain, and names what else it could come from."""
    (finding,) = judge_command(code, "supervisor", is_pytest=is_pytest)
    assert (str(finding.reason), finding.kind) == (reason, kind)
    assert (finding.confidence, finding.ambiguous) == (LIKELY, ambiguous)
    assert (finding.source, finding.detail) == ("supervisor", f"exit code {code}")


@pytest.mark.parametrize("is_pytest", [True, False])
def test_a_command_that_answers_zero_has_succeeded(is_pytest: bool) -> None:
    """There is nothing to find."""
    assert list(judge_command(0, "supervisor", is_pytest=is_pytest)) == []


@given(code=st.integers(1, 255), is_pytest=st.booleans())
def test_every_exit_code_of_a_command_has_a_reason(code: int, is_pytest: bool) -> None:
    """No exit code but 0 is a success."""
    (finding,) = judge_command(code, "supervisor", is_pytest=is_pytest)
    assert finding.kind in known_kinds()


# Signals.


def test_signals_have_names() -> None:
    """A number is named as the system names it, or by itself."""
    assert signal_name(11) == "SIGSEGV"
    assert signal_name(200) == "SIG200"
    assert signal_of_exit_code(137) == "SIGKILL"
    assert [signal_of_exit_code(code) for code in (0, 128, 255)] == [None, None, None]

"""From evidence to the report's JSON: order, caps, and that any evidence makes a valid report."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.report.build import (
    MAX_FAILURES,
    MAX_MESSAGE,
    MAX_NODEIDS,
    MAX_TRACEBACK,
    MAX_TRACEBACKS,
)
from pytest_failure_taxonomy.report.load import decode_report, parse_report
from pytest_failure_taxonomy.report.write import encode
from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    CollectionFailure,
    ContinuousIntegration,
    Counts,
    Environment,
    InFlightTest,
    Interruption,
    Location,
    OriginPlace,
    ProcessExit,
    RaisedException,
    RunContext,
    RunError,
    RunEvidence,
    SeenMarker,
    TestFailure,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason, Stage
from tests.helpers.reports import (
    assert_valid_report,
    extensions_of,
    make_failure,
    make_full_run,
    make_report,
    make_report_value,
    make_run,
)

NOTHING_CUT = {
    "failures_omitted": 0,
    "collection_errors_omitted": 0,
    "internal_errors_omitted": 0,
    "tracebacks_omitted": 0,
    "nodeids_omitted": 0,
    "groups_omitted": 0,
    "causes_omitted": 0,
    "texts_truncated": 0,
}

# --- Any evidence there could be -------------------------------------------------------------

_huge = st.builds(
    lambda piece, times: piece * times,
    st.sampled_from(["x", "\x00", "\ud800", "\x1b[31m", "é", "🙂", "\n", "::error::"]),
    st.integers(min_value=1_900, max_value=12_000),
)
_text = st.text(alphabet=st.characters(exclude_categories=()), max_size=20) | _huge
_maybe_text = st.none() | _text
_count = st.integers(min_value=0, max_value=10**12)
_code = st.none() | st.integers(min_value=-300, max_value=2**32)
_signal = st.sampled_from([None, "SIGSEGV", "SIGKILL", "SIGRTMIN+3"])
_clock = st.floats() | st.just(-0.0)
_phase = st.sampled_from(["setup", "call", "teardown"])
_word = st.text(
    alphabet=string.ascii_lowercase + string.digits + "_", min_size=1, max_size=8
)
_kind = st.lists(_word, min_size=2, max_size=3).map(".".join)
_exception = st.builds(
    RaisedException,
    type=_text | st.just("Failed"),
    module=_text,
    message=_text,
    raised_in=_text | st.just("pytest_timeout"),
    origin=st.none()
    | st.builds(
        OriginPlace, path=_text, function=_text, text=_text, entry=_text, leaf=_text
    ),
)
_attribution = st.builds(
    Attribution,
    reason=st.sampled_from(FailureReason),
    kind=_kind,
    source=_word,
    rule=_maybe_text,
    detail=_maybe_text,
    owner=_maybe_text,
    retryable=st.none() | st.booleans(),
)
_location = st.none() | st.builds(
    Location, path=_text, line=st.none() | st.integers(min_value=-5, max_value=10**6)
)


def _several(each: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(each, max_size=3).map(tuple)


_failure = st.builds(
    TestFailure,
    nodeid=_text,
    phase=_phase,
    message=_text | st.just("[XPASS(strict)] "),
    exception=st.none() | _exception,
    crashed=st.booleans(),
    attributed=st.none() | _attribution,
    marker=st.none()
    | st.builds(SeenMarker, name=_word, reason=st.sampled_from(FailureReason)),
    location=_location,
    traceback=_maybe_text,
    traceback_truncated=st.booleans(),
    duration_seconds=st.none() | _clock,
    attempts=st.integers(min_value=1, max_value=9),
    worker=_maybe_text,
)
_collection_failure = st.builds(
    CollectionFailure,
    nodeid=_text,
    message=_text,
    exception=st.none() | _exception,
    location=_location,
    traceback=_maybe_text,
    traceback_truncated=st.booleans(),
)
_worker = st.builds(
    WorkerEnd,
    id=_text,
    tests=_count,
    exit_code=_code,
    signal=_signal,
    crashed_on=_maybe_text,
    ending=st.sampled_from(["finished", "died", "interrupted"]),
    error=_maybe_text,
)
_run = st.builds(
    RunEvidence,
    stage=st.sampled_from(Stage),
    strict_baseline=st.booleans(),
    finished=st.booleans(),
    exit=st.builds(
        ProcessExit,
        code=_code | st.sampled_from([0, 1, 2, 3, 4, 5, 6, 124, 137]),
        source=_text,
        signal=_signal,
        observed=st.booleans(),
    ),
    should_fail=_text | st.just("session-timeout: 1.0 sec exceeded"),
    counts=st.builds(
        Counts,
        collected=_count,
        deselected=_count,
        passed=_count,
        failed=_count,
        warnings=_count,
    ),
    failures=_several(_failure),
    collection_failures=_several(_collection_failure),
    errors=_several(
        st.builds(
            RunError,
            origin=st.sampled_from(["internal", "usage", "conftest", "plugin"]),
            message=_text,
            traceback=_maybe_text,
        )
    ),
    interruptions=_several(
        st.builds(
            Interruption,
            exception=st.sampled_from(["KeyboardInterrupt", "Exit", "Interrupted"]),
            message=_text,
            location=_location,
        )
    ),
    in_flight=_several(
        st.builds(
            InFlightTest,
            nodeid=_text,
            phase=_phase,
            elapsed_seconds=_clock,
            worker=_maybe_text,
        )
    ),
    not_run=_several(_text),
    workers=_several(_worker),
)
_context = st.builds(
    RunContext,
    id=st.binary(min_size=16, max_size=16).map(bytes.hex),
    started_at=st.datetimes().map(
        lambda at: at.isoformat(timespec="milliseconds") + "Z"
    ),
    duration_seconds=st.none() | _clock,
    args=_several(_text),
    rootdir=_text,
    environment=st.builds(
        Environment,
        python=_text,
        platform=_text,
        pytest=_text,
        plugins=_several(_text),
        ci=st.none()
        | st.builds(
            ContinuousIntegration,
            provider=_text,
            run_id=_maybe_text,
            job=_maybe_text,
            commit=_maybe_text,
            ref=_maybe_text,
        ),
    ),
)


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    run=_run,
    context=_context,
    completeness=st.sampled_from(["full", "reconstructed", "running"]),
    faults=_several(_text),
)
def test_any_evidence_makes_a_report_that_can_be_read_back(
    run: RunEvidence, context: RunContext, completeness: Any, faults: tuple[str, ...]
) -> None:
    """Whatever was seen, the report is valid by schema and model and survives being written."""
    report = make_report(run, context=context, completeness=completeness, faults=faults)
    written = encode(decode_report(report))
    assert json.loads(written) == report
    assert parse_report(written, "report") == assert_valid_report(report)
    assert written == encode(
        make_report_value(
            run, context=context, completeness=completeness, faults=faults
        )
    )


# --- Shape and order --------------------------------------------------------------------------


def test_the_keys_stand_in_the_published_order() -> None:
    """A report is read by people too, so its order is part of the promise."""
    assert list(make_report()) == [
        "$schema",
        "schema_version",
        "generator",
        "run",
        "completeness",
        "exit",
        "verdict",
        "reasons",
        "summary",
        "failures",
        "groups",
        "causes",
        "collection_errors",
        "internal_errors",
        "in_flight",
        "stalls",
        "tests",
        "not_run",
        "order",
        "workers",
        "bench",
        "environment",
        "limits",
        "notes",
        "faults",
        "attributions",
        "repository",
        "attempt",
        "known",
        "trial",
        "changes",
        "merged",
        "surroundings",
        "session_exit_code",
        "integrity",
        "entered",
        "redacted",
        "is_unannotated",
        "extensions",
    ]


def test_a_run_in_which_everything_happened_is_told_in_order() -> None:
    """What has an order of its own keeps it: failures, errors, tests in flight and not run."""
    report = make_report(make_full_run())
    assert_valid_report(report)
    assert [failure["phase"] for failure in report["failures"]] == [
        "call",
        "teardown",
        "call",
    ]
    assert [error["nodeid"] for error in report["collection_errors"]] == [
        "tests/test_broken.py",
        "tests/test_gone.py",
    ]
    assert [error["kind"] for error in report["internal_errors"]] == [
        "internal.error",
        "plugin.error",
    ]
    assert report["not_run"] == {
        "count": 2,
        "nodeids": ["tests/test_late.py::test_b", "tests/test_late.py::test_a"],
    }
    assert [worker["id"] for worker in report["workers"]] == ["gw0", "gw1"]
    precedences = [
        FailureReason(held["reason"]).precedence for held in report["reasons"]
    ]
    assert precedences == sorted(precedences)
    assert report["verdict"]["reason"] == report["reasons"][0]["reason"]
    assert report["summary"]["crashed"] == 1
    assert report["limits"] == NOTHING_CUT


def test_success_is_null() -> None:
    """A run that passed has no verdict and no reason, and nothing was cut."""
    report = make_report(make_run())
    assert_valid_report(report)
    assert report["verdict"] is None
    assert report["exit"] == {
        "code": 0,
        "name": "OK",
        "signal": None,
        "reason": None,
        "observed": False,
        "source": "pytest",
    }
    assert (report["reasons"], report["failures"], report["extensions"]) == ([], [], {})
    assert report["limits"] == NOTHING_CUT


@pytest.mark.parametrize(
    ("run", "faults", "said"),
    [
        pytest.param(make_run(), (), {}, id="nothing to say"),
        pytest.param(
            make_run(), ("a fault",), {"faults": ["a fault"]}, id="a fault of ours"
        ),
        pytest.param(
            make_run(
                stage=Stage.BASELINE_RUN,
                exit=ProcessExit(code=5, source="pytest"),
                counts=Counts(),
            ),
            (),
            {
                "notes": [
                    "baseline: no test ran, yet exit code 5 counts as a failing baseline"
                ]
            },
            id="a note of the judge",
        ),
    ],
)
def test_notes_and_faults(
    run: RunEvidence, faults: tuple[str, ...], said: dict[str, Any]
) -> None:
    """They have fields of their own, which are empty for an ordinary run."""
    assert extensions_of(make_report(run, faults=faults)) == said


@pytest.mark.parametrize(
    ("line", "shown"), [(None, None), (-1, None), (0, None), (1, 1), (70_000, 70_000)]
)
def test_a_line_that_can_not_be_is_null(line: int | None, shown: int | None) -> None:
    """Lines count from 1; code made at run time may claim any."""
    failure = make_failure(location=Location(path="a.py", line=line))
    report = make_report(make_run(failures=(failure,)))
    assert report["failures"][0]["location"] == {"path": "a.py", "line": shown}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        pytest.param(None, None, id="not known"),
        pytest.param(1.23456789, 1.234568, id="microseconds"),
        pytest.param(-1.0, 0.0, id="a clock set back"),
        pytest.param(float("nan"), None, id="no number"),
        pytest.param(float("inf"), None, id="infinite"),
    ],
)
def test_a_duration_is_a_number_that_json_knows(
    seconds: float | None, shown: float | None
) -> None:
    """A test may have patched the clock; the report is written all the same."""
    report = make_report(make_run(failures=(make_failure(duration_seconds=seconds),)))
    assert report["failures"][0]["duration_seconds"] == shown


@pytest.mark.parametrize("elapsed", [float("nan"), None], ids=["no-number", "unknown"])
def test_a_test_in_flight_may_have_no_time(elapsed: float | None) -> None:
    """Where the time that a test in flight had taken can't be known, the report says null."""
    test = InFlightTest(nodeid="a.py::b", phase="call", elapsed_seconds=elapsed)
    assert (
        make_report(make_run(in_flight=(test,)))["in_flight"][0]["elapsed_seconds"]
        is None
    )


# --- Caps --------------------------------------------------------------------------------------


def _cut(report: dict[str, Any]) -> dict[str, int]:
    """Return what the report says was cut, without the zeros."""
    return {name: count for name, count in report["limits"].items() if count}


@pytest.mark.parametrize(
    ("run", "listed", "cut"),
    [
        pytest.param(
            make_run(
                failures=tuple(
                    make_failure(nodeid=f"t::{n}") for n in range(MAX_FAILURES)
                )
            ),
            ("failures", MAX_FAILURES),
            {},
            id="failures that just fit",
        ),
        pytest.param(
            make_run(
                failures=tuple(
                    make_failure(nodeid=f"t::{n}") for n in range(MAX_FAILURES + 3)
                )
            ),
            ("failures", MAX_FAILURES),
            {"failures_omitted": 3, "nodeids_omitted": 9},
            id="failures",
        ),
        pytest.param(
            make_run(
                collection_failures=tuple(
                    CollectionFailure(nodeid=f"{n}.py", message="")
                    for n in range(MAX_FAILURES + 2)
                )
            ),
            ("collection_errors", MAX_FAILURES),
            {
                "collection_errors_omitted": 2,
                "groups_omitted": 2,
                "causes_omitted": 2,
                "nodeids_omitted": 2,
            },
            id="collection errors",
        ),
        pytest.param(
            make_run(
                errors=tuple(
                    RunError(origin="plugin", message="")
                    for _ in range(MAX_FAILURES + 1)
                )
            ),
            ("internal_errors", MAX_FAILURES),
            {"internal_errors_omitted": 1},
            id="internal errors",
        ),
    ],
)
def test_a_list_that_was_cut_says_how_much_is_missing(
    run: RunEvidence, listed: tuple[str, int], cut: dict[str, int]
) -> None:
    """Lists stop at their cap, `limits` counts the rest, and the summary counts them all."""
    report = make_report(run)
    name, length = listed
    assert len(report[name]) == length
    assert _cut(report) == cut
    assert report["summary"]["collection_errors"] == len(run.collection_failures)
    assert sum(held["count"] for held in report["reasons"]) == len(
        [*run.failures, *run.collection_failures, *run.errors]
    )


def test_node_ids_that_were_cut_are_counted() -> None:
    """No list of node ids is longer than its cap, and `limits` counts what all of them lost."""
    over = MAX_NODEIDS + 5
    failures = tuple(make_failure(nodeid=f"t::{number}") for number in range(over))
    report = make_report(
        make_run(
            failures=failures, not_run=tuple(f"u::{number}" for number in range(over))
        )
    )
    assert len(report["reasons"][0]["nodeids"]) == MAX_NODEIDS
    assert report["not_run"]["count"] == over
    assert len(report["not_run"]["nodeids"]) == MAX_NODEIDS
    assert _cut(report) == {"failures_omitted": 5, "nodeids_omitted": 20}


@pytest.mark.parametrize(
    ("run", "path", "limit"),
    [
        pytest.param(
            make_run(failures=(make_failure(traceback="x" * 20_000),)),
            ("failures", 0, "traceback"),
            MAX_TRACEBACK,
            id="traceback",
        ),
        pytest.param(
            make_run(
                failures=(make_failure(location=Location(path="x" * 20_000, line=1)),)
            ),
            ("failures", 0, "location", "path"),
            MAX_TRACEBACK,
            id="path",
        ),
        pytest.param(
            make_run(
                failures=(
                    make_failure(
                        exception=RaisedException(
                            type="E", module="m", message="x" * 20_000
                        )
                    ),
                )
            ),
            ("failures", 0, "exception", "message"),
            MAX_MESSAGE,
            id="message of an exception",
        ),
        pytest.param(
            make_run(failures=(make_failure(message="x" * 20_000),)),
            ("verdict", "evidence", 0, "detail"),
            MAX_MESSAGE,
            id="evidence",
        ),
        pytest.param(
            make_run(exit=ProcessExit(code=0, source="x" * 20_000)),
            ("exit", "source"),
            MAX_TRACEBACK,
            id="any other text",
        ),
        pytest.param(
            make_run(exit=ProcessExit(code=0, source="\ud800" * 4_000)),
            ("exit", "source"),
            MAX_TRACEBACK,
            id="a text that grows when it is made encodable",
        ),
    ],
)
def test_a_text_that_was_cut_says_so(
    run: RunEvidence, path: tuple[str | int, ...], limit: int
) -> None:
    """A text keeps to its cap, says `truncated` where it was cut, and `limits` counts it."""
    report = make_report(run)
    shown: Any = report
    for step in path:
        shown = shown[step]
    assert len(shown) <= limit
    assert "... [truncated: " in shown
    assert _cut(report) == {"texts_truncated": 1}


def test_a_node_id_of_any_length_is_cut_wherever_it_stands() -> None:
    """A parameter can make a node id of a megabyte, which a report repeats in many places."""
    nodeid = f"test_a.py::test_b[{'x' * 1_000_000}]"
    report = make_report(
        make_run(failures=(make_failure(nodeid=nodeid),), not_run=(nodeid,))
    )
    assert_valid_report(report)
    assert len(encode(decode_report(report))) < 80_000
    shown = report["failures"][0]["nodeid"]
    assert shown.startswith("test_a.py::test_b[xxx")
    assert shown.endswith("xxx]")
    assert report["reasons"][0]["nodeids"] == report["not_run"]["nodeids"] == [shown]
    assert _cut(report) == {"texts_truncated": 8}


@pytest.mark.parametrize("length", [100, 20_000])
def test_a_text_that_was_cut_before_counts_once(length: int) -> None:
    """The recorder may have cut a traceback already; cutting it again is no second text."""
    failure = make_failure(traceback="x" * length, traceback_truncated=True)
    assert _cut(make_report(make_run(failures=(failure,)))) == {"texts_truncated": 1}


def test_later_tracebacks_are_left_out_when_the_room_for_all_is_used_up() -> None:
    """The first tracebacks say most; of the others the report says how many there were."""
    fitting = MAX_TRACEBACKS // MAX_TRACEBACK
    failures = tuple(
        make_failure(traceback="x" * MAX_TRACEBACK) for _ in range(fitting + 7)
    )
    report = make_report(make_run(failures=failures))
    shown = [failure["traceback"] is not None for failure in report["failures"]]
    assert shown == [True] * fitting + [False] * 7
    assert _cut(report) == {"tracebacks_omitted": 7}


class _Redaction:
    """Removes one word."""

    known = 0

    def redact(self, text: str) -> str:
        """Return the text without it."""
        return text.replace("hunter2", "[REDACTED:password]")

    def holds_none(self, texts: Sequence[str]) -> bool:
        """Tell whether it is nowhere."""
        return not any("hunter2" in text for text in texts)


@pytest.mark.parametrize("message", ["hunter2", "the password is hunter2"])
def test_a_cause_tells_no_secret(message: str) -> None:
    """What is said of a cause is made of messages, and is searched as they are."""
    raised = RaisedException(type="AssertionError", module="builtins", message=message)
    run = make_run(failures=(make_failure(exception=raised, message=message),))
    report = make_report(run, redaction=_Redaction())
    assert "hunter2" not in str(report)
    assert "[REDACTED:password]" in report["causes"][0]["what"]
    assert "[REDACTED:password]" in report["verdict"]["message"]
    assert_valid_report(report)

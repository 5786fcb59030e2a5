"""From what pytest's output says to the evidence that the judge takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_failure_taxonomy.logs import patterns as p
from pytest_failure_taxonomy.logs.failures import collection_failures, test_failures
from pytest_failure_taxonomy.logs.pytest_output import PytestOutput
from pytest_failure_taxonomy.logs.reader import Line
from pytest_failure_taxonomy.taxonomy.evidence import (
    Counts,
    InFlightTest,
    Interruption,
    ProcessExit,
    RunError,
    RunEvidence,
    TestFailure,
    TimeLimit,
    WorkerEnd,
)
from pytest_failure_taxonomy.taxonomy.reasons import Stage, signal_of_exit_code

_EXIT: Final = "_pytest.outcomes.Exit: "
_CTRL_C: Final = 130
_STOPPING: Final = ("stopping after ", "session-timeout:")
"""How pytest's own `session.shouldfail` begins, and pytest-timeout's."""


def evidence_of_output(out: PytestOutput, code: int | None, stage: Stage) -> RunEvidence:
    """Return what a log of pytest's tells as the recorder would have told it.

    Args:
        out: all that was noted of the log.
        code: the exit code as a shell shows it, if it is known.
        stage: the stage that the run was.
    """
    errors = tuple(_errors(out, code))
    interruptions = tuple(_interruptions(out, code))
    finished = _is_finished(out, errors, interruptions)
    counts = counts_of(out)
    failures = test_failures(out, counts)
    collection = collection_failures(out)
    said = _session_code(out, errors, interruptions, counts)
    return RunEvidence(
        stage=stage,
        finished=finished,
        exit=_exit_of(out, code, said, finished=finished),
        should_fail=next((b.text for b in out.bangs if b.text.startswith(_STOPPING)), ""),
        counts=counts,
        failures=failures,
        collection_failures=collection,
        errors=errors,
        interruptions=interruptions,
        in_flight=() if finished else _in_flight(out),
        workers=tuple(_workers(out, failures)),
    )


def counts_of(out: PytestOutput) -> Counts:
    """Return the counts of pytest's last line, and how many tests it had selected."""
    found: dict[str, int] = {}
    if out.last_line is not None:
        for number, word in p.COUNT.findall(out.last_line.text):
            name = p.COUNT_NAMES.get(word)
            if name is not None:
                found[name] = min(int(number[:9]), 10**9)
    deselected = found.get("deselected", 0)
    collected = max(0, (out.collected or 0) - deselected)
    return Counts(collected=collected, **found)


def _exit_of(
    out: PytestOutput, code: int | None, said: int | None, *, finished: bool
) -> ProcessExit:
    """Return how the process ended: as was given, else as far as its output tells."""
    limits = tuple(_limits(out)) if not finished else ()
    if code is not None:
        signal = signal_of_exit_code(code)
        # GNU timeout answers for its command, which it has sent a SIGTERM.
        by_timeout = code == 124 and not finished
        return ProcessExit(
            code=code,
            source="exit code",
            observed=True,
            signal="SIGTERM" if by_timeout else signal,
            sender="timeout" if by_timeout else None,
            session_code=said if finished and signal is not None else None,
            limits=limits,
        )
    if finished:
        return ProcessExit(code=said, source="log")
    if limits:
        return ProcessExit(code=1, source="log", limits=limits)
    return ProcessExit(code=None, source="log", signal=_signal_in_words(out))


def _limits(out: PytestOutput) -> Iterator[TimeLimit]:
    """Yield the limit of a test whose end the log shows: it prints all stacks, then nothing."""
    running = out.running.subject if out.running else ""
    if out.killed_by_plugin is not None:
        budget = out.time_limit_seconds or 1.0
        yield TimeLimit(
            owner="pytest-timeout (thread)",
            budget_seconds=budget,
            elapsed_seconds=budget,
            nodeid=running,
        )
    if out.faulthandler is not None:
        budget = float(out.faulthandler.text)
        yield TimeLimit(
            owner="faulthandler_timeout",
            budget_seconds=budget,
            elapsed_seconds=budget,
            nodeid=running,
        )


def _signal_in_words(out: PytestOutput) -> str | None:
    if out.fatal is None:
        return None
    words = out.fatal.text
    return next((name for start, name in p.SIGNALS_IN_WORDS if words.startswith(start)), None)


def _is_finished(
    out: PytestOutput, errors: tuple[RunError, ...], interruptions: tuple[Interruption, ...]
) -> bool:
    """Tell whether pytest came to an end of its own, in whichever way."""
    if out.last_line is not None or errors or interruptions or _stopped_itself(out):
        return True
    is_quiet = out.header is None
    return is_quiet and (out.is_complete or out.has_summary)


def _errors(out: PytestOutput, code: int | None) -> Iterator[RunError]:
    for lines in out.internal:
        yield RunError(origin="internal", message=_last_words(lines), traceback=_text(lines))
    if out.conftest is not None:
        yield RunError(origin="conftest", message=out.conftest.text or out.conftest.line.text)
        return
    if any(noted.status == "plugin" for noted in out.errors):
        yield from (
            RunError(origin="plugin", message=noted.text)
            for noted in out.errors
            if noted.status == "plugin"
        )
        return
    if out.raw_error is not None and not out.raw_error.text.startswith("KeyboardInterrupt"):
        yield RunError(origin="plugin", message=out.raw_error.text, traceback=_text(out.traceback))
    # Other programs write `ERROR:`, too; it is pytest's where pytest says so by its exit code.
    told = [noted for noted in out.errors if noted.status == "usage" or (code == 4 and out.is_seen)]
    if told and code in (4, None) and not out.results:
        detail = next((noted.text for noted in out.usage_details), "")
        yield RunError(origin="usage", message=told[-1].text or detail or told[-1].line.text)


def _last_words(lines: list[Line]) -> str:
    """Return what was raised: the last line of the traceback that is not indented."""
    words = [line.text.partition("> ")[2] for line in lines]
    return next((text for text in reversed(words) if p.RAISED.match(text)), words[-1])


def _text(lines: list[Line]) -> str:
    return "\n".join(line.text for line in lines)


def _interruptions(out: PytestOutput, code: int | None) -> Iterator[Interruption]:
    for bang in out.bangs:
        title = bang.text
        if title == "KeyboardInterrupt":
            yield Interruption(exception="KeyboardInterrupt", message=title)
        elif title.startswith(_EXIT) or title == _EXIT.strip(": "):
            yield Interruption(exception="Exit", message=title.partition(": ")[2])
        elif "Interrupted: " in title:
            yield Interruption(exception="Interrupted", message=title.partition(": ")[2])
    is_raw = out.raw_error is not None and out.raw_error.text.startswith("KeyboardInterrupt")
    if is_raw and code != _CTRL_C:  # as an exit code it says the same
        yield Interruption(exception="KeyboardInterrupt", message="KeyboardInterrupt")


def _session_code(
    out: PytestOutput,
    errors: tuple[RunError, ...],
    interruptions: tuple[Interruption, ...],
    counts: Counts,
) -> int | None:
    """Return the exit code that pytest's rules give to what it printed."""
    origins = {error.origin for error in errors}
    if origins:
        return 3 if "internal" in origins else 4 if origins & {"usage", "conftest"} else 1
    if any(stop.exception == "Exit" for stop in interruptions):
        return None  # whatever the caller of pytest.exit wanted
    if interruptions:
        return 2
    if counts.failed or counts.errors or out.results or out.blocks or _stopped_itself(out):
        return 1
    if out.too_many_warnings is not None:
        return 6
    ran = counts.ran or counts.skipped
    return 5 if out.last_line is not None and not ran else 0


def _stopped_itself(out: PytestOutput) -> bool:
    return any(bang.text.startswith(_STOPPING) for bang in out.bangs)


def _in_flight(out: PytestOutput) -> tuple[InFlightTest, ...]:
    """Return the test that `-v` had named last, if it had no result yet."""
    running = out.running
    if running is None or "::" not in running.subject:
        return ()
    return (InFlightTest(nodeid=running.subject, phase="call", elapsed_seconds=None),)


def _workers(out: PytestOutput, failures: tuple[TestFailure, ...]) -> Iterator[WorkerEnd]:
    """Yield the workers that died or were interrupted, sorted by id."""
    crashed_on = {each.worker: each.nodeid for each in failures if each.crashed and each.worker}
    crashed_on |= {noted.subject: noted.text for noted in out.lost.crashes}
    words = {noted.subject: noted.text for noted in out.lost.nodes_down}
    for worker in sorted({*crashed_on, *words}, key=lambda name: (len(name), name)):
        error = words.get(worker)
        yield WorkerEnd(
            id=worker,
            tests=0,
            crashed_on=crashed_on.get(worker),
            ending="interrupted" if error == "keyboard-interrupt" else "died",
            error=error,
            limit=_limit_of_worker(out, crashed_on.get(worker)),
        )


def _limit_of_worker(out: PytestOutput, nodeid: str | None) -> TimeLimit | None:
    """Return the limit of a worker's test, where its stacks have come through to the log."""
    if out.killed_by_plugin is None:
        return None
    budget = out.time_limit_seconds or 1.0
    return TimeLimit(
        owner="pytest-timeout (thread)",
        budget_seconds=budget,
        elapsed_seconds=budget,
        nodeid=nodeid,
    )

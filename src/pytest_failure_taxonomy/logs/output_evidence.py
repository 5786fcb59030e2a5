"""Turn what pytest printed into the evidence that the judge takes.

A failure is told of in several places: the short summary has the node id and the first line of the
message, the sections have the rest. The lines of `-v` and the letters of the progress are all there
is if pytest died, or was told to print neither.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final, cast

from pytest_failure_taxonomy.logs.log_lines import Tail
from pytest_failure_taxonomy.logs.output_readers import (
    Block,
    Noted,
    PytestOutput,
    pattern,
    printed_exception,
)
from pytest_failure_taxonomy.logs.program_output import ProgramOutput
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import (
    TIMEOUT_EXIT_CODE,
    Stage,
    signal_of_exit_code,
)
from pytest_failure_taxonomy.taxonomy.values import replace

_EXIT: Final = "_pytest.outcomes.Exit: "
_CTRL_C: Final = 130
_STOPPING: Final = ("stopping after ", "session-timeout:")
"""How the reasons begin with which pytest and pytest-timeout set `session.shouldfail`."""
_GATE: Final = ("the gate of bench ", "bench ")
"""How the reasons begin with which a bench sets it."""
_COLLECT: Final = "collect"
MAX_UNNAMED: Final = 100_000
"""Failures that are only counted; to judge as many takes a second."""


def evidence_of_output(
    out: PytestOutput, code: int | None, stage: Stage
) -> ev.RunEvidence:
    """Return the evidence that the recorder would have left of the run that printed this.

    Args:
        out: What was read of the output.
        code: The exit code as a shell shows it, if it is known.
        stage: The stage of the run.
    """
    errors = tuple(_errors(out, code))
    interruptions = tuple(_interruptions(out, code))
    should_fail = next((b.text for b in out.bangs if b.text.startswith(_STOPPING)), "")
    gate = next((b.text for b in out.bangs if b.text.startswith(_GATE)), "")
    is_quiet_end = out.header is None and (out.is_complete or out.has_summary)
    finished = bool(
        out.last_line or errors or interruptions or should_fail or is_quiet_end
    )
    counts = _counts(out)
    failures = _test_failures(out, counts)
    run = ev.RunEvidence(
        stage=stage,
        finished=finished,
        rootdir=out.rootdir,
        exit=ev.ProcessExit(code=None, source="log"),
        should_fail=should_fail,
        gate=gate,
        counts=counts,
        failures=failures,
        collection_failures=_collection_failures(out),
        errors=errors,
        interruptions=interruptions,
        in_flight=() if finished else _in_flight(out),
        workers=tuple(_workers(out, failures)),
    )
    return replace(run, exit=_exit(out, run, code))


def _counts(out: PytestOutput) -> ev.Counts:
    """Return the counts of pytest's last line, and how many tests were selected."""
    found: dict[str, int] = {}
    if out.last_line is not None:
        for number, word in pattern("count").findall(out.last_line.text):
            name = packaged_table("output")["counts"].get(word)
            if name is not None:
                found[name] = found.get(name, 0) + min(int(number[:9]), 10**9)
    deselected = found.get("deselected", 0)
    collected = max(0, (out.collected or 0) - deselected)
    return ev.Counts(collected=collected, **found)


def _exit(out: PytestOutput, run: ev.RunEvidence, code: int | None) -> ev.ProcessExit:
    """Return how the process ended: by its exit code if that is known, else by its output."""
    limits = tuple(_limits(out)) if not run.finished else ()
    if code is not None:
        # GNU timeout exits with 124 after it has sent SIGTERM to its command.
        by_timeout = code == TIMEOUT_EXIT_CODE
        signal = "SIGTERM" if by_timeout else signal_of_exit_code(code)
        return ev.ProcessExit(
            code=code,
            source="exit code",
            observed=True,
            signal=signal,
            sender="timeout" if by_timeout else None,
            session_code=_session_code(out, run)
            if run.finished and signal is not None
            else None,
            limits=limits,
        )
    if run.finished:
        return ev.ProcessExit(code=_session_code(out, run), source="log")
    if limits:
        return ev.ProcessExit(code=1, source="log", limits=limits)
    words = out.fatal.text if out.fatal is not None else ""
    named = packaged_table("output")["signals"].items()
    signal = next((signal for start, signal in named if words.startswith(start)), None)
    return replace(run.exit, signal=signal)


def _limits(out: PytestOutput) -> Iterator[ev.TimeLimit]:
    """Yield the time limits of a test that ended pytest: they print all stacks, then nothing."""
    running = out.running.subject if out.running else ""
    if out.killed_by_plugin is not None:
        yield _plugin_limit(out, running)
    if out.faulthandler is not None:
        yield _used_up("faulthandler_timeout", float(out.faulthandler.text), running)


def _plugin_limit(out: PytestOutput, nodeid: str | None) -> ev.TimeLimit:
    return _used_up("pytest-timeout (thread)", out.time_limit_seconds or 1.0, nodeid)


def _used_up(owner: str, seconds: float, nodeid: str | None) -> ev.TimeLimit:
    return ev.TimeLimit(
        owner=owner, budget_seconds=seconds, elapsed_seconds=seconds, nodeid=nodeid
    )


def _errors(out: PytestOutput, code: int | None) -> Iterator[ev.RunError]:
    for lines in out.internal:
        # What was raised is the last line of the traceback that isn't indented.
        words = [line.text.partition("> ")[2] for line in lines]
        raised = next(
            (text for text in reversed(words) if pattern("raised").match(text)),
            words[-1],
        )
        yield ev.RunError(origin="internal", message=raised, traceback=_text(lines))
    if out.conftest is not None:
        yield ev.RunError(
            origin="conftest", message=out.conftest.text or out.conftest.line.text
        )
        return
    of_plugins = [noted.text for noted in out.errors if noted.status == "plugin"]
    if of_plugins:
        yield from (ev.RunError(origin="plugin", message=text) for text in of_plugins)
        return
    if out.raw_error is not None and not out.raw_error.text.startswith(
        "KeyboardInterrupt"
    ):
        yield ev.RunError(
            origin="plugin", message=out.raw_error.text, traceback=_text(out.traceback)
        )
    # Other programs print `ERROR:`, too; exit code 4 says that it is pytest's.
    told = [
        noted
        for noted in out.errors
        if noted.status == "usage" or (code == 4 and out.is_seen)
    ]
    if told and code in (4, None) and not out.results:
        detail = next((noted.text for noted in out.usage_details), "")
        yield ev.RunError(
            origin="usage", message=told[-1].text or detail or told[-1].line.text
        )


def _text(lines: list[ev.OutputLine]) -> str:
    return "\n".join(line.text for line in lines)


def _interruptions(out: PytestOutput, code: int | None) -> Iterator[ev.Interruption]:
    for bang in out.bangs:
        title = bang.text
        if title == "KeyboardInterrupt":
            yield ev.Interruption(exception="KeyboardInterrupt", message=title)
        elif title.startswith(_EXIT) or title == _EXIT.strip(": "):
            yield ev.Interruption(exception="Exit", message=title.partition(": ")[2])
        elif "Interrupted: " in title:
            yield ev.Interruption(
                exception="Interrupted", message=title.partition(": ")[2]
            )
    is_raw = out.raw_error is not None and out.raw_error.text.startswith(
        "KeyboardInterrupt"
    )
    if is_raw and code != _CTRL_C:  # that exit code says the same
        yield ev.Interruption(
            exception="KeyboardInterrupt", message="KeyboardInterrupt"
        )


def _session_code(out: PytestOutput, run: ev.RunEvidence) -> int | None:
    """Return the exit code of a pytest that printed this."""
    origins, counts = {error.origin for error in run.errors}, run.counts
    if origins:
        return (
            3 if "internal" in origins else 4 if origins & {"usage", "conftest"} else 1
        )
    if any(stop.exception == "Exit" for stop in run.interruptions):
        return None  # it is an argument of pytest.exit
    if run.interruptions:
        return 2
    is_red = run.failures or counts.failed or counts.errors or out.results or out.blocks
    if is_red or run.should_fail or run.gate:
        return 1
    if out.too_many_warnings is not None:
        return 6
    last = out.last_line
    is_only_collected = last is None or pattern("only_collected").search(last.text)
    return 0 if counts.ran or counts.skipped or is_only_collected else 5


def _in_flight(out: PytestOutput) -> tuple[ev.InFlightTest, ...]:
    """Return the test that `-v` named last, if it has no result."""
    running = out.running
    if running is None or "::" not in running.subject:
        return ()
    return (
        ev.InFlightTest(nodeid=running.subject, phase="call", elapsed_seconds=None),
    )


def _workers(
    out: PytestOutput, failures: tuple[ev.TestFailure, ...]
) -> Iterator[ev.WorkerEnd]:
    """Yield the workers that died or were interrupted, sorted by id."""
    crashed_on = {
        each.worker: each.nodeid for each in failures if each.crashed and each.worker
    }
    crashed_on |= {noted.subject: noted.text for noted in out.lost.crashes}
    words = {noted.subject: noted.text for noted in out.lost.nodes_down}
    for worker in sorted({*crashed_on, *words}, key=lambda name: (len(name), name)):
        error, nodeid = words.get(worker), crashed_on.get(worker)
        yield ev.WorkerEnd(
            id=worker,
            tests=0,
            crashed_on=nodeid,
            ending="interrupted" if error == "keyboard-interrupt" else "died",
            error=error,
            limit=None if out.killed_by_plugin is None else _plugin_limit(out, nodeid),
        )


class _Blocks(defaultdict[tuple[str, str], list[Block]]):
    """The blocks of the sections by phase and name, each to be taken once, the last one first."""

    def take(self, phase: str, name: str) -> Block | None:
        found = self[phase, name]
        return found.pop() if found else None


def _test_failures(out: PytestOutput, counts: ev.Counts) -> tuple[ev.TestFailure, ...]:
    """Return the failed tests: those with a name, and as many without as the counts say."""
    blocks = _Blocks(list)
    for block in reversed(out.blocks):
        blocks[block.phase, block.crash[1] if block.crash else block.name].append(block)
    failures = [
        failure
        for noted in out.results
        if (failure := _of_result(noted, blocks, out)) is not None
    ]
    if not out.has_summary:
        left = [block for of_name in blocks.values() for block in reversed(of_name)]
        failures += [_of_block(block) for block in left if block.phase != _COLLECT]
    if not failures:
        failures += [_of_verbose(noted, out) for noted in out.verbose]
    if not out.has_summary and not out.blocks:
        failures += [_of_crash(worker, "") for worker in out.lost.without_name()]
    letters = Counter("".join(noted.text for noted in out.letters))
    failed = counts.failed or (0 if failures or counts.errors else letters["F"])
    errors = counts.errors - out.collection_error_count
    if not counts.errors:
        errors = 0 if out.last_line is not None or out.has_summary else letters["E"]
    in_calls = sum(each.phase == "call" for each in failures)
    named = len(failures) - in_calls
    if (
        not out.collection_error_count
    ):  # xdist counts files that fail on its workers as errors
        of_files = sum(
            each.status == "ERROR" and "::" not in each.subject for each in out.results
        )
        named += max(of_files, sum(block.phase == _COLLECT for block in out.blocks))
    failures += _unnamed("call", failed - in_calls)
    failures += _unnamed("setup", errors - named)
    return tuple(_in_order(failures, out))


def _in_order(
    failures: list[ev.TestFailure], out: PytestOutput
) -> list[ev.TestFailure]:
    """Sort failures and errors by their letters in the progress, if it shows all of them."""
    letters = [each for noted in out.letters for each in noted.text if each in "FE"]
    letters = letters or [noted.status[0] for noted in out.verbose]
    failed = [each for each in failures if each.phase == "call"]
    errors = [each for each in failures if each.phase != "call"]
    if (letters.count("F"), letters.count("E")) != (len(failed), len(errors)):
        return failures
    queues = {"F": iter(failed), "E": iter(errors)}
    return [next(queues[letter]) for letter in letters]


def _collection_failures(out: PytestOutput) -> tuple[ev.CollectionFailure, ...]:
    """Return the nodes that could not be collected, each once even if several workers name it."""
    found: dict[str, tuple[str, ev.RaisedException | None, ev.Location | None]] = {}
    for block in out.blocks:
        if block.phase == _COLLECT:
            raised = block.exception()
            message = f"{raised.type}: {raised.message}" if raised else block.message
            found.setdefault(block.name, (message, raised, block.location))
    for noted in out.results:
        if noted.status == "ERROR" and "::" not in noted.subject:
            found.setdefault(
                noted.subject, (noted.text, printed_exception(noted.text), None)
            )
    named = (
        ev.CollectionFailure(
            nodeid=nodeid, message=message, exception=raised, location=place
        )
        for nodeid, (message, raised, place) in found.items()
    )
    unnamed = min(MAX_UNNAMED, out.collection_error_count) - len(found)
    return (*named, *[ev.CollectionFailure(nodeid="", message="")] * unnamed)


def _of_result(
    noted: Noted, blocks: _Blocks, out: PytestOutput
) -> ev.TestFailure | None:
    """Return the failure of a line of the short summary and its block."""
    nodeid, name = noted.subject, _name_in_title(noted)
    if noted.status == "ERROR":
        if blocks.take(_COLLECT, nodeid) is not None or "::" not in nodeid:
            return None
        for phase in ("setup", "teardown"):
            block = blocks.take(phase, name)
            if block is not None:
                return _made(nodeid, phase, noted.text, block)
        return _made(nodeid, "setup", noted.text, None)
    worker = next(
        (crash.subject for crash in out.lost.crashes if crash.text == nodeid), None
    )
    if (found := pattern("crashed").match(noted.text)) is not None:
        worker = worker or found[1]
    block = blocks.take("call", nodeid if worker else name)
    if worker is None:
        return _made(nodeid, "call", noted.text, block)
    return _of_crash(worker, nodeid)


def _of_crash(worker: str, nodeid: str) -> ev.TestFailure:
    """Return the failure of a test whose worker was lost; the test may be unknown."""
    return ev.TestFailure(
        nodeid=nodeid,
        phase="call",
        message=f"worker '{worker}' crashed while running "
        + (f"'{nodeid}'" if nodeid else "a test"),
        crashed=True,
        worker=worker,
    )


def _name_in_title(noted: Noted) -> str:
    """Return the title of a node id's block: without the file, and with dots."""
    inside = noted.subject.partition("::")[2] or noted.subject
    name = inside.replace("::", ".")
    context = noted.status.removeprefix("SUBFAILED")
    return (
        f"{name} {context}" if noted.status.startswith("SUBFAIL") and context else name
    )


def _made(
    nodeid: str, phase: ev.Phase, message: str, block: Block | None
) -> ev.TestFailure:
    raised = block.exception() if block is not None else printed_exception(message)
    if message.startswith("[XPASS(strict)]"):
        raised = None
    place = block.location if block is not None else None
    if (
        raised is not None
        and raised.type == "AssertionError"
        and block is not None
        and place
    ):
        # The line tells assertions apart, whatever values they have compared.
        source = block.marked_source.removeprefix(">").strip()
        name = block.name.partition("[")[0]
        raised = replace(
            raised, origin=ev.OriginPlace(path=place.path, function=name, text=source)
        )
    return ev.TestFailure(
        nodeid=nodeid,
        phase=phase,
        message=(block.message if block is not None else "") or message,
        exception=raised,
        location=block.location if block is not None else None,
    )


def _of_block(block: Block) -> ev.TestFailure:
    """Return the failure of a block without a line in a summary; its node id is reconstructed."""
    if block.crash is not None:
        return _of_crash(*block.crash)
    path = block.location.path if block.location is not None else ""
    nodeid = f"{path}::{block.name.replace('.', '::')}" if path else ""
    return _made(nodeid, cast("ev.Phase", block.phase), block.message, block)


def _of_verbose(noted: Noted, out: PytestOutput) -> ev.TestFailure:
    lost = next((crash for crash in out.lost.crashes if crash.line == noted.line), None)
    if lost is not None:
        return _of_crash(lost.subject, lost.text)
    phase: ev.Phase = "call" if noted.status == "FAILED" else "setup"
    return ev.TestFailure(nodeid=noted.subject, phase=phase, message=noted.status)


def _unnamed(phase: ev.Phase, count: int) -> list[ev.TestFailure]:
    """Return failures that are only counted."""
    return [ev.TestFailure(nodeid="", phase=phase, message="failed")] * min(
        count, MAX_UNNAMED
    )


def output_of(
    out: PytestOutput,
    other: ProgramOutput,
    tail: Tail,
    told: ev.ToolMessage | None = None,
) -> ev.Output:
    """Return the lines of a log that the judge may choose from.

    Args:
        out: what was noted of pytest's output.
        other: what was noted of any program's.
        tail: the last lines.
        told: why a tool says that it has failed.
    """
    by_subject: dict[str, tuple[ev.OutputLine, ...]] = {}
    if other.marker_line is not None:
        by_subject["marker"] = (other.marker_line,)
    if out.is_seen:
        by_subject |= _lines_of_pytest(out)
    if told is not None:
        by_subject |= dict.fromkeys(
            ("stage", "sandbox", "tool", "process"), (told.line,)
        )
    lines, errors = tail.lines[-1:], other.lines(tail.before_failure or tail.lines)
    count, names = other.failed_tests
    return ev.Output(
        by_subject=by_subject,
        others=tuple(errors or lines),
        error=errors[0] if errors else None,
        failed_tests=count,
        test_names=names,
        summary=out.last_line,
        last=lines[0] if lines else None,
    )


def _of(*noted: Noted | None) -> tuple[ev.OutputLine, ...]:
    return tuple(each.line for each in noted if each is not None)


def _lines_of_pytest(out: PytestOutput) -> dict[str, tuple[ev.OutputLine, ...]]:
    """Return the lines about one kind, or about all kinds whose names begin with a word."""
    of_tests = [block.decisive for block in out.blocks if block.phase != _COLLECT][:6]
    of_tests += _of(*(each for each in out.results if "::" in each.subject))[:6]
    tests = tuple(of_tests) or _of(*out.verbose[:6], *out.letters[:6])
    stops, files = (
        _of(*out.bangs[-3:]),
        [each for each in out.results if "::" not in each.subject],
    )
    of_files = [block.decisive for block in out.blocks if block.phase == _COLLECT][:6]
    told = _of(*out.errors, out.conftest, out.raw_error, *out.usage_details)[:10]
    errors = (*(lines[-1] for lines in out.internal[:3]), *told)
    death = _of(
        out.killed_by_plugin,
        out.faulthandler,
        out.fatal,
        out.running,
        out.job_exit_code,
    )
    return {
        "test.timeout": tests if out.blocks or out.results else death,
        "warnings.exceeded": _of(out.too_many_warnings),
        "test": tests,
        "collection": (*of_files, *_of(*files)[:6], *stops),
        **dict.fromkeys(("interrupt", "session"), stops),
        **dict.fromkeys(("internal", "usage", "conftest", "plugin"), errors),
        "process": death,
        "worker": _of(*out.lost.nodes_down[:5], *out.lost.crashes[:5]),
        "exit_status": _of(out.job_exit_code),
        **dict.fromkeys(("tests", "bench"), _of(*out.bangs)),
    }

"""Turn what pytest printed into the evidence that the judge takes.

A failure is printed in several places: the short summary has the node id and the first
line of the message, the sections have the rest. The lines of `-v` and the letters of
the progress are all there is if pytest died, or an option turned off both.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, cast

from pytest_failure_taxonomy.logs.log_lines import Tail
from pytest_failure_taxonomy.logs.output_readers import (
    Block,
    Noted,
    PytestOutput,
    pattern,
)
from pytest_failure_taxonomy.logs.printed_exceptions import (
    Surroundings,
    describe,
    describe_error,
    describe_words,
    drop_callers_of_pytest,
    find_location,
    split_message,
)
from pytest_failure_taxonomy.logs.printed_tracebacks import (
    PrintedException,
    TracebackReader,
)
from pytest_failure_taxonomy.logs.program_output import ProgramOutput
from pytest_failure_taxonomy.taxonomy import evidence as ev
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import (
    TIMEOUT_EXIT_CODE,
    Stage,
    signal_of_exit_code,
)
from pytest_failure_taxonomy.taxonomy.mismatch import (
    CollectionMismatch,
    compare_collections,
)
from pytest_failure_taxonomy.taxonomy.values import replace

_EXIT: Final = "_pytest.outcomes.Exit"
_CTRL_C: Final = 130
_PYTESTS_CODES: Final = range(1, 7)
"""Exit codes with which pytest itself ends in red."""
_STOPPING: Final = ("stopping after ", "session-timeout:")
"""How pytest and pytest-timeout begin the reasons in `session.shouldfail`."""
_GATE: Final = ("the gate of bench ", "bench ")
"""How a bench begins them."""
_COLLECT: Final = "collect"
_CUT_ERROR: Final = (
    "an error ended pytest before any test, and the text is cut before it"
)
_INTERNAL: Final = "INTERNALERROR> "
_KEYBOARD: Final = "KeyboardInterrupt"
MAX_UNNAMED: Final = 100_000
"""Failures that are only counted; to judge as many takes a second."""
_MAX_SHOWN: Final = 6
"""Lines about tests and files that the judge may choose from, of each sort."""


def evidence_of_output(
    out: PytestOutput, code: int | None, stage: Stage, *, may_be_cut: bool = False
) -> ev.RunEvidence:
    """Return the evidence that the recorder would have left of the same run.

    Args:
        out: what was read of the output.
        code: the exit code as a shell shows it, if it is known.
        stage: the stage of the run.
        may_be_cut: the text may end before pytest did, as a copied log does.
    """
    errors = tuple(_errors(out, code))
    interruptions = tuple(_interruptions(out, code))
    should_fail = _first_reason(out, _STOPPING)
    # All of these come after the tests, so pytest did not die in one of them.
    finished = any((out.last_line, errors, interruptions, should_fail))
    if out.header is None:  # with -q
        finished = finished or out.is_complete or out.has_summary
    if may_be_cut and is_cut(out, code):
        finished = True
    counts = _counts(out)
    failures = _test_failures(out, counts)
    run = ev.RunEvidence(
        stage=stage,
        finished=finished,
        rootdir=out.rootdir,
        exit=ev.ProcessExit(code=None, source="log"),
        should_fail=should_fail,
        gate=_first_reason(out, _GATE),
        coverage=out.coverage,
        counts=counts,
        failures=failures,
        collection_failures=_collection_failures(out),
        errors=errors,
        interruptions=interruptions,
        mismatch=_mismatch(out),
        in_flight=() if finished else _in_flight(out),
        workers=tuple(_workers(out, failures)),
    )
    return replace(run, exit=_exit(out, run, code))


def is_cut(out: PytestOutput, code: int | None) -> bool:
    """Tell whether a text ends before pytest did, and nothing says that pytest died.

    Args:
        out: what was read of the text.
        code: the exit code, where it is known; pytest's own say of no death.
    """
    death = out.fatal or out.killed_by_plugin or out.faulthandler
    if death is not None or out.last_line is not None:
        return False
    return code is None or code in _PYTESTS_CODES


def _first_reason(out: PytestOutput, beginnings: tuple[str, ...]) -> str:
    """Return the first reason between exclamation marks that begins in such a way."""
    for bang in out.bangs:
        if bang.text.startswith(beginnings):
            return bang.text
    return ""


def _mismatch(out: PytestOutput) -> CollectionMismatch | None:
    """Return how xdist's workers disagree about the tests, by its printed diff."""
    if not out.mismatch_lines:
        return None
    head, *lines = out.mismatch_lines
    workers = pattern("mismatch").match(head.text)
    assert workers is not None  # noqa: S101 - the reader has begun with this line
    first: list[str] = []
    other: list[str] = []
    for line in lines:
        sign = line.text[:1]
        nodeid = line.text[1:].strip()
        if "::" not in nodeid or sign not in "-+ ":
            continue
        if sign != "+":
            first.append(nodeid)
        if sign != "-":
            other.append(nodeid)
    variant = compare_collections(first, other, (workers["other"],))
    return CollectionMismatch(
        workers=(workers["first"],), tests=len(first), variants=(variant,)
    )


def _counts(out: PytestOutput) -> ev.Counts:
    """Return the counts of pytest's last line, and how many tests were selected."""
    names = packaged_table("output")["counts"]
    counts: Counter[str] = Counter()
    last = out.last_line.text if out.last_line else ""
    for number, word in pattern("count").findall(last):
        if word in names:
            counts[names[word]] += int(number[:9])  # a hostile one is of any length
    collected = (out.collected or 0) - counts["deselected"]
    return ev.Counts(collected=max(0, collected), **counts)


def _exit(out: PytestOutput, run: ev.RunEvidence, code: int | None) -> ev.ProcessExit:
    """Return how the process ended, by its exit code or else by its output."""
    limits = () if run.finished else tuple(_limits(out))
    if code is not None:
        signal = signal_of_exit_code(code)
        sender = None
        if code == TIMEOUT_EXIT_CODE:
            # GNU timeout exits with 124 after it has sent SIGTERM to its command.
            signal, sender = "SIGTERM", "timeout"
        session_code = None
        if run.finished and signal is not None:
            session_code = _session_code(out, run)
        return ev.ProcessExit(
            code=code,
            source="exit code",
            observed=True,
            signal=signal,
            sender=sender,
            session_code=session_code,
            limits=limits,
        )
    if run.finished:
        return ev.ProcessExit(code=_session_code(out, run), source="log")
    if limits:
        return ev.ProcessExit(code=1, source="log", limits=limits)
    words = out.fatal.text if out.fatal else ""
    for beginning, signal in packaged_table("output")["signals"].items():
        if words.startswith(beginning):
            return replace(run.exit, signal=signal)
    return run.exit


def _limits(out: PytestOutput) -> Iterator[ev.TimeLimit]:
    """Yield the limits of a test that ended pytest: they print stacks, then nothing."""
    nodeid = out.running.subject if out.running else ""
    if out.killed_by_plugin is not None:
        yield _plugin_limit(out, nodeid)
    if out.faulthandler is not None:
        seconds = float(out.faulthandler.text)
        yield _exceeded_limit("faulthandler_timeout", seconds, nodeid)


def _plugin_limit(out: PytestOutput, nodeid: str | None) -> ev.TimeLimit:
    seconds = out.time_limit_seconds or 1.0
    return _exceeded_limit("pytest-timeout (thread)", seconds, nodeid)


def _exceeded_limit(owner: str, seconds: float, nodeid: str | None) -> ev.TimeLimit:
    return ev.TimeLimit(
        owner=owner,
        budget_seconds=seconds,
        elapsed_seconds=seconds,
        nodeid=nodeid,
    )


def _errors(out: PytestOutput, code: int | None) -> Iterator[ev.RunError]:
    """Yield the errors outside of the tests; the first that pytest met hides others."""
    around = Surroundings(out.rootdir)
    for lines in out.internal:
        chain = _chain_of(lines, _INTERNAL)
        yield _run_error("internal", chain, around, traceback=_text(lines))
    if out.conftest is not None:
        # pytest loads conftest files first, and ends if one of them can't be loaded.
        yield _conftest_error(out, out.conftest)
        return
    plugin_errors = [error.text for error in out.errors if error.status == "plugin"]
    if plugin_errors:
        yield from map(_plugin_error, plugin_errors)
        return
    if out.raw_error is not None and not _is_raw_interrupt(out):
        first, *others = _chain_of(out.traceback)
        chain = (drop_callers_of_pytest(first, around), *others)
        yield _run_error("plugin", chain, around, traceback=_text(out.traceback))
    elif out.ends_in_own_traceback:
        traceback = _text(out.traceback)
        yield ev.RunError(origin="plugin", message=_CUT_ERROR, traceback=traceback)
    if not out.results:
        yield from _usage_errors(out, code)


def _conftest_error(out: PytestOutput, conftest: Noted) -> ev.RunError:
    chain = out.conftest_traceback.chain
    if not chain[0].message:
        return ev.RunError(origin="conftest", message=conftest.line.text)
    rootdir = out.rootdir
    if not rootdir:  # pytest has not come to print it
        folder = conftest.text.rpartition("/")[0]
        rootdir = re.sub(r"(?:/tests?)+$", "", folder)
    around = Surroundings(rootdir, is_collection=True)
    file = around.code_of(conftest.text).path
    return _run_error("conftest", chain, around, loaded=file)


def _plugin_error(message: str) -> ev.RunError:
    raised = None
    if missing := pattern("missing_module").search(message):
        raised = describe_words(f"ModuleNotFoundError: {missing[0]}")
    return ev.RunError(origin="plugin", message=message, exception=raised)


def _usage_errors(out: PytestOutput, code: int | None) -> Iterator[ev.RunError]:
    """Yield the last usage error that is pytest's: other programs print `ERROR:`, too.

    Through `setup.py test` the exit code is another one.
    """
    is_pytests = code == 4 and out.is_seen
    errors = [error for error in out.errors if is_pytests or error.status == "usage"]
    # pytest ends at the first, so what looks like one before it is another program's.
    for error in errors[-1:]:
        detail = out.usage_details[0].text if out.usage_details else ""
        message = error.text or detail or error.line.text
        yield ev.RunError(origin="usage", message=message)


def _chain_of(
    lines: Iterable[ev.OutputLine], prefix: str = ""
) -> tuple[PrintedException, ...]:
    """Return the exceptions of a traceback that Python has printed."""
    reader = TracebackReader()
    for line in lines:
        reader.feed(line._replace(text=line.text.removeprefix(prefix)))
    return reader.chain


def _run_error(
    origin: ev.ErrorOrigin,
    chain: Sequence[PrintedException],
    around: Surroundings,
    *,
    traceback: str | None = None,
    loaded: str = "",
) -> ev.RunError:
    """Return an error outside of the tests, in the words of the live run."""
    return ev.RunError(
        origin=origin,
        message=describe_error(chain, around, loaded),
        traceback=traceback,
        exception=describe(chain, around),
    )


def _text(lines: list[ev.OutputLine]) -> str:
    return "\n".join(line.text for line in lines)


def _is_raw_interrupt(out: PytestOutput) -> bool:
    """Tell whether the traceback outside the sections ends with a KeyboardInterrupt."""
    return out.raw_error is not None and out.raw_error.text.startswith(_KEYBOARD)


def _interruptions(out: PytestOutput, code: int | None) -> Iterator[ev.Interruption]:
    for bang in out.bangs:
        exception, _, message = bang.text.partition(": ")
        if bang.text == _KEYBOARD:
            yield ev.Interruption(exception=_KEYBOARD, message=_KEYBOARD)
        elif exception == _EXIT:
            yield ev.Interruption(exception="Exit", message=message)
        elif "Interrupted: " in bang.text:
            yield ev.Interruption(exception="Interrupted", message=message)
    # That exit code says the same.
    if code != _CTRL_C and _is_raw_interrupt(out):
        yield ev.Interruption(exception=_KEYBOARD, message=_KEYBOARD)


def _session_code(out: PytestOutput, run: ev.RunEvidence) -> int | None:
    """Return the exit code of a pytest that printed this."""
    counts = run.counts
    origins = {error.origin for error in run.errors}
    if "internal" in origins:
        return 3
    if origins:
        return 1 if origins == {"plugin"} else 4
    if run.interruptions:
        exceptions = {interruption.exception for interruption in run.interruptions}
        # That of `pytest.exit` is an argument of it.
        return None if "Exit" in exceptions else 2
    red = (
        run.failures,
        counts.failed,
        counts.errors,
        out.results,
        out.blocks,
        run.should_fail,
        run.gate,
        run.coverage,
        run.mismatch,
        run.workers,
    )
    if any(red):
        return 1
    if out.too_many_warnings is not None:
        return 6
    last = out.last_line
    wants_tests = last is not None and not pattern("only_collected").search(last.text)
    return 5 if wants_tests and not counts.ran and not counts.skipped else 0


def _in_flight(out: PytestOutput) -> tuple[ev.InFlightTest, ...]:
    """Return the test that `-v` named last, if it has no result."""
    nodeid = out.running.subject if out.running else ""
    if "::" not in nodeid:
        return ()
    return (ev.InFlightTest(nodeid=nodeid, phase="call", elapsed_seconds=None),)


def _workers(
    out: PytestOutput, failures: tuple[ev.TestFailure, ...]
) -> Iterator[ev.WorkerEnd]:
    """Yield the workers that died or were interrupted, sorted by id."""
    crashed_on = {}
    for failure in failures:
        if failure.crashed and failure.worker:
            crashed_on[failure.worker] = failure.nodeid
    for crash in out.lost.crashes:
        crashed_on[crash.subject] = crash.text
    errors = {down.subject: down.text for down in out.lost.nodes_down}
    workers = sorted({*crashed_on, *errors})
    for worker in sorted(workers, key=len):  # gw2 before gw10
        error = errors.get(worker)
        nodeid = crashed_on.get(worker)
        limit = None
        if out.killed_by_plugin is not None:
            limit = _plugin_limit(out, nodeid)
        yield ev.WorkerEnd(
            id=worker,
            tests=0,
            crashed_on=nodeid,
            ending="interrupted" if error == "keyboard-interrupt" else "died",
            error=error,
            limit=limit,
        )


class _Blocks(defaultdict[tuple[str, str], list[Block]]):
    """Blocks by phase and name, each to be taken once, the last one first."""

    def take(self, phase: str, name: str) -> Block | None:
        blocks = self[phase, name]
        return blocks.pop() if blocks else None


def _test_failures(out: PytestOutput, counts: ev.Counts) -> tuple[ev.TestFailure, ...]:
    """Return the failed tests: the named ones, and as many more as the counts say."""
    failures = _named_failures(out)
    letters = Counter("".join(noted.text for noted in out.letters))
    failed = counts.failed
    errors = counts.errors - out.collection_error_count
    # Without a last line, and without names, the letters are all that there is.
    if not counts.errors:
        if not failed and not failures:
            failed = letters["F"]
        is_counted = out.last_line is not None or out.has_summary
        errors = 0 if is_counted else letters["E"]
    in_calls = sum(failure.phase == "call" for failure in failures)
    named_errors = len(failures) - in_calls
    if not out.collection_error_count:
        # xdist counts files that fail on its workers as errors.
        files = sum(_is_about_file(result) for result in out.results)
        blocks = sum(block.phase == _COLLECT for block in out.blocks)
        named_errors += max(files, blocks)
    failures += _repeat_unnamed("call", failed - in_calls)
    failures += _repeat_unnamed("setup", errors - named_errors)
    return tuple(_sort_by_progress(failures, out))


def _named_failures(out: PytestOutput) -> list[ev.TestFailure]:
    blocks = _Blocks(list)
    # Tests of several files can have the same title: the first printed is taken first.
    for block in reversed(out.blocks):
        name = block.crash[1] if block.crash else block.name
        blocks[block.phase, name].append(block)
    results = [_read_result(noted, blocks, out) for noted in out.results]
    failures = [failure for failure in results if failure is not None]
    if not out.has_summary:
        for (phase, _), remaining in blocks.items():
            if phase != _COLLECT:
                failures += [_read_block(block, out) for block in reversed(remaining)]
    if not failures:
        failures += [_read_verbose(noted, out) for noted in out.verbose]
    if not out.has_summary and not out.blocks:
        failures += [_make_crash(worker, "") for worker in out.lost.find_unnamed()]
    return failures


def _is_about_file(noted: Noted) -> bool:
    """Tell whether a result is of a file that could not be collected."""
    return noted.status == "ERROR" and "::" not in noted.subject


def _is_about_collection(noted: Noted, out: PytestOutput) -> bool:
    """Tell whether a result is of a file, class or function that wasn't collected."""
    if noted.status != "ERROR" or not out.collection_error_count:
        return _is_about_file(noted)
    name = _name_in_title(noted)
    return _is_about_file(noted) or all(block.name != name for block in out.blocks)


def _sort_by_progress(
    failures: list[ev.TestFailure], out: PytestOutput
) -> list[ev.TestFailure]:
    """Sort failures and errors by their letters in the progress, if it shows all."""
    progress = "".join(noted.text for noted in out.letters)
    letters = [letter for letter in progress if letter in "FE"]
    if not letters:  # with -v a word stands for each letter
        letters = [noted.status[0] for noted in out.verbose]
    failed = [failure for failure in failures if failure.phase == "call"]
    errors = [failure for failure in failures if failure.phase != "call"]
    if Counter(letters) != Counter(F=len(failed), E=len(errors)):
        return failures
    queues = {"F": iter(failed), "E": iter(errors)}
    return [next(queues[letter]) for letter in letters]


def _collection_failures(out: PytestOutput) -> tuple[ev.CollectionFailure, ...]:
    """Return what could not be collected, once even if several workers name it."""
    failures: dict[str, ev.CollectionFailure] = {}
    results = [noted for noted in out.results if _is_about_collection(noted, out)]
    # The title of a class or a function that can't be collected names its file alone.
    nodes = {noted.subject.partition("::")[0]: noted.subject for noted in results}
    for block in out.blocks:
        if block.phase != _COLLECT:
            continue
        file = block.name.partition("::")[0]
        around = Surroundings(out.rootdir, file, is_collection=True)
        raised = describe(block.chain, around)
        nodeid = nodes.get(block.name, block.name) or _find_collected_file(block)
        failures.setdefault(
            nodeid,
            ev.CollectionFailure(
                nodeid=nodeid,
                message=f"{raised.type}: {raised.message}" if raised else block.message,
                exception=raised,
                location=find_location(block.chain, around),
            ),
        )
    for noted in results:
        failure = ev.CollectionFailure(
            nodeid=noted.subject,
            message=noted.text,
            exception=describe_words(noted.text),
        )
        failures.setdefault(noted.subject, failure)
    unnamed = min(MAX_UNNAMED, out.collection_error_count) - len(failures)
    nameless = ev.CollectionFailure(nodeid="", message="")
    return (*failures.values(), *[nameless] * unnamed)


def _find_collected_file(block: Block) -> str:
    """Return the path that pytest names of a file that it can't collect, if it does."""
    wanted = "test file we want to collect:"
    for line, following in pairwise(block.plain):
        if line.endswith(wanted):
            return following.strip()
    return ""


def _read_result(
    noted: Noted, blocks: _Blocks, out: PytestOutput
) -> ev.TestFailure | None:
    """Return the failure of a line of the short summary and its block."""
    nodeid, name = noted.subject, _name_in_title(noted)
    if noted.status == "ERROR":
        block = blocks.take(_COLLECT, nodeid)
        if block is not None or _is_about_collection(noted, out):
            return None
        phase: ev.Phase = "setup"
        block = blocks.take("setup", name)
        if block is None and (block := blocks.take("teardown", name)):
            phase = "teardown"
        return _make_failure(nodeid, phase, noted.text, block, out)
    match = pattern("crashed").match(noted.text)
    worker = match[1] if match else ""
    for crash in reversed(out.lost.crashes):
        if crash.text == nodeid:
            worker = crash.subject
    if worker:
        blocks.take("call", nodeid)  # or it would be counted once more
        return _make_crash(worker, nodeid)
    block = blocks.take("call", name)
    return _make_failure(nodeid, "call", noted.text, block, out)


def _make_crash(worker: str, nodeid: str) -> ev.TestFailure:
    """Return the failure of a test whose worker was lost; the test may be unknown."""
    test = f"'{nodeid}'" if nodeid else "a test"
    return ev.TestFailure(
        nodeid=nodeid,
        phase="call",
        message=f"worker '{worker}' crashed while running {test}",
        crashed=True,
        worker=worker,
    )


def _name_in_title(noted: Noted) -> str:
    """Return the title of a node id's block: without the file, and with dots."""
    inside = noted.subject.partition("::")[2] or noted.subject
    name = inside.replace("::", ".")
    if not noted.status.startswith("SUBFAIL"):
        return name
    context = noted.status.removeprefix("SUBFAILED")
    return f"{name} {context}" if context else name


def _make_failure(
    nodeid: str, phase: ev.Phase, message: str, block: Block | None, out: PytestOutput
) -> ev.TestFailure:
    place = None
    if block is None:
        raised = describe_words(message)
    else:
        around = Surroundings(
            out.rootdir,
            plugins=out.plugins,
            stderr="\n".join(block.stderr),
            file=nodeid.partition("::")[0],
            function=block.name.partition("[")[0],
            is_setup_or_teardown=phase != "call",
        )
        raised = describe(block.chain, around)
        place = find_location(block.chain, around)
        if place is None and around.file:
            place = ev.Location(path=around.file, line=None)
        message = block.message or message  # the summary cuts long ones
    if message.startswith("[XPASS(strict)]"):
        raised = None
    return ev.TestFailure(
        nodeid=nodeid,
        phase=phase,
        message=message,
        exception=raised,
        location=place,
    )


def _read_block(block: Block, out: PytestOutput) -> ev.TestFailure:
    """Return the failure of a block without a line in a summary; its id is a guess."""
    if block.crash is not None:
        return _make_crash(*block.crash)
    nodeid = ""
    place = find_location(block.chain, Surroundings(out.rootdir))
    if place is not None and place.path:
        name = block.name.replace(".", "::")
        nodeid = f"{place.path}::{name}"
    phase = cast("ev.Phase", block.phase)
    return _make_failure(nodeid, phase, block.message, block, out)


def _read_verbose(noted: Noted, out: PytestOutput) -> ev.TestFailure:
    for crash in out.lost.crashes:
        # xdist prints a crash as the test's failure.
        if crash.line == noted.line:
            return _make_crash(crash.subject, crash.text)
    return ev.TestFailure(
        nodeid=noted.subject,
        phase="call" if noted.status == "FAILED" else "setup",
        message=noted.status,
    )


def _repeat_unnamed(phase: ev.Phase, count: int) -> list[ev.TestFailure]:
    """Return failures that are only counted."""
    failure = ev.TestFailure(nodeid="", phase=phase, message="failed")
    return [failure] * min(count, MAX_UNNAMED)


def output_of(
    out: PytestOutput,
    other: ProgramOutput,
    tail: Tail,
    tool: ev.ToolMessage | None = None,
) -> ev.Output:
    """Return the lines of a log that the judge may choose from.

    Args:
        out: what was noted of pytest's output.
        other: what was noted of any program's.
        tail: the last lines.
        tool: why a tool says that it has failed.
    """
    by_subject: dict[str, tuple[ev.OutputLine, ...]] = {}
    if other.marker_line is not None:
        by_subject["marker"] = (other.marker_line,)
    if out.is_seen:
        by_subject |= _lines_of_pytest(out)
    if tool is not None:
        for subject in ("stage", "sandbox", "llm", "tool", "process", "interrupt"):
            by_subject[subject] = (tool.line,)
    last = tail.lines[-1:]
    errors = other.lines(tail.before_failure or tail.lines)
    count, names = other.failed_tests
    return ev.Output(
        by_subject=by_subject,
        others=tuple(errors or last),
        error=errors[0] if errors else None,
        failed_tests=count,
        test_names=names,
        summary=out.last_line,
        last=last[0] if last else None,
        is_fragment=out.is_seen and out.header is None and out.last_line is None,
    )


def _quote(*notes: Noted | None) -> tuple[ev.OutputLine, ...]:
    return tuple(note.line for note in notes if note is not None)


def _quote_failures(out: PytestOutput, *, are_files: bool) -> tuple[ev.OutputLine, ...]:
    """Return the lines of sections and short summary, of files or else of tests."""
    lines: dict[ev.OutputLine, None] = {}
    for block in out.blocks:
        if (block.phase == _COLLECT) is not are_files:
            continue
        lines[block.decisive] = None
        names_exception = split_message(block.message)[0]
        if not names_exception and block.marked is not None:
            lines[block.marked] = None
    results = [
        result for result in out.results if ("::" not in result.subject) is are_files
    ]
    sections = list(lines)[:_MAX_SHOWN]
    return (*sections, *_quote(*results[:_MAX_SHOWN]))


def _lines_of_pytest(out: PytestOutput) -> Mapping[str, tuple[ev.OutputLine, ...]]:
    """Return the lines about one kind, or about all kinds that begin with a word."""
    tests = _quote_failures(out, are_files=False)
    if not tests:
        tests = _quote(*out.verbose[:_MAX_SHOWN], *out.letters[:_MAX_SHOWN])
    bangs = _quote(*out.bangs)
    stops = (*out.mismatch_lines[:3], *bangs[-3:])
    others = list(_quote(*out.errors, out.conftest))
    if out.conftest is not None:
        raised = out.conftest_traceback.chain[0]
        others.append(raised.line or out.conftest.line)
    others += _quote(out.raw_error, *out.usage_details)
    internal = [lines[-1] for lines in out.internal[:3]]
    errors = (*internal, *others[:10])
    death = _quote(
        out.killed_by_plugin,
        out.faulthandler,
        out.fatal,
        out.running,
        out.job_exit_code,
    )
    return {
        "test.timeout": tests if out.blocks or out.results else death,
        "warnings.exceeded": _quote(out.too_many_warnings),
        "test": tests,
        "collection": (*_quote_failures(out, are_files=True), *stops),
        "interrupt": stops,
        "session": stops,
        "internal": errors,
        "usage": errors,
        "conftest": errors,
        "plugin": errors,
        "process": death,
        "worker": _quote(*out.lost.nodes_down[:5], *out.lost.crashes[:5]),
        "exit_status": _quote(out.job_exit_code),
        "tests": bangs,
        "bench": bangs,
    }

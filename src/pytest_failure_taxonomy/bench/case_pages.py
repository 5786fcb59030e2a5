"""What a page shows of the cases of kept runs, as plain values: outputs, transcripts, calls.

A page must stay usable, so it gets the cases that did not pass, and the others of small runs only.
Texts are cut, and a run has a maximal size; what is left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.bench.kept_texts import Message, messages_of, text_of
from pytest_failure_taxonomy.bench.run_records import SUFFIX
from pytest_failure_taxonomy.bench.runs_on_disk import read_calls, read_run
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.run_records import KeptAttempt
    from pytest_failure_taxonomy.bench.runs_on_disk import KeptRun

MAX_CASES: Final = 100
"""Cases of a run."""
SMALL_RUN: Final = 20
"""A run with at most so many cases has all of them on the page."""
MAX_TEXT: Final = 20_000
"""Characters of an output, or of what the rubric printed."""
MAX_MESSAGES: Final = 100
MAX_MESSAGE: Final = 5_000
"""Characters of one message of a transcript."""
MAX_CHARACTERS: Final = 1_000_000
"""Of all cases of a run together; the first case is there in any case."""
_MAX_CALLS: Final = 20

PageRun = dict[str, Any]
"""Has `run_id`, `cases`, and `left_out`: how many more cases could be shown."""


def page_runs(benches: Iterable[Mapping[str, Any]], storage: Path) -> dict[str, PageRun]:
    """Return what a page shows of the runs that a report is of, by run id as the report has it.

    Args:
        benches: The field `bench` of a report.
        storage: Where runs are kept. Runs that are not there or can't be read are left out.
    """
    found = {}
    for bench in benches:
        reported = str(bench["run_id"])
        name = reported.removeprefix("partial:")
        # A report may come from anybody, and must not name a file elsewhere.
        if not name.isprintable() or set(name) & set("/\\:") or name[:1] in ("", "."):
            continue
        try:
            run = read_run(storage / f"{name}{SUFFIX}", has_outputs=False)
        except BenchError:
            continue
        if run.header.run_id == name and run.header.task_class == bench["task_class"]:
            found[reported] = page_run(run)
    return found


def page_run(run: KeptRun) -> PageRun:
    """Return what a page shows of a run, which may have been read without its outputs."""
    is_small = len(run.cases) <= SMALL_RUN
    wanted = [
        case_id
        for case_id in run.cases
        if (state := run.state_of(case_id)) in ("failed", "lost")
        or (is_small and state == "passed")
    ]
    calls = read_calls(run.path, frozenset(wanted[:MAX_CASES]))
    contents = {call.case_id: _content(call) for call in calls if call.score is not None}
    shown: list[dict[str, Any]] = []
    room = MAX_CHARACTERS
    for case_id in wanted[:MAX_CASES]:
        case = _case(run, case_id) | contents.get(case_id, _NO_CONTENT)
        room -= _size(case)
        if room < 0 and shown:
            break
        shown.append(case)
    return {"run_id": run.header.run_id, "cases": shown, "left_out": len(wanted) - len(shown)}


def _case(run: KeptRun, case_id: str) -> dict[str, Any]:
    calls = run.attempts.get(case_id, [])
    return {
        "case_id": case_id,
        "state": run.state_of(case_id),
        "calls": [_call(call) for call in calls[-_MAX_CALLS:]],
        "calls_left_out": max(0, len(calls) - _MAX_CALLS),
    }


def _call(call: KeptAttempt) -> dict[str, Any]:
    try:
        began = datetime.fromtimestamp(call.started_at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):  # no time that any calendar has
        began = ""
    usage = ", ".join(
        f"{name} {amount:g}" for name, amount in list(call.usage.items())[:_MAX_CALLS]
    )
    return {
        "number": call.attempt,
        "began": began,
        "seconds": max(0.0, call.seconds),
        "cost_usd": call.cost_usd,
        "usage": usage[:MAX_MESSAGE],
        "ended": call.ended[:MAX_MESSAGE],
        "kind": call.kind or "",
    }


_NO_CONTENT: Final[dict[str, Any]] = {
    "notes": [],
    "output": None,
    "messages": [],
    "transcript": None,
    "printed": None,
}


def _content(last: KeptAttempt) -> dict[str, Any]:
    has_output = last.gave_output and "output" not in last.truncated
    messages = messages_of(last.transcript)
    raw = last.transcript if messages is None else None
    return {
        "notes": list(_notes(last, messages or [])),
        "output": _cut(text_of(last.output), MAX_TEXT) if has_output else None,
        "messages": [_shown(each) for each in (messages or [])[:MAX_MESSAGES]],
        "transcript": None if raw is None else _cut(text_of(raw), MAX_TEXT),
        "printed": _cut(last.printed, MAX_TEXT) if last.printed else None,
    }


def _notes(last: KeptAttempt, messages: list[Message]) -> Iterator[str]:
    for name in last.truncated:
        yield f"{name}: was too long to be kept"
    if last.is_redacted:
        yield "secrets were removed"
    if len(messages) > MAX_MESSAGES:
        yield f"the first {MAX_MESSAGES} of {len(messages)} messages are shown"


def _shown(message: Message) -> dict[str, Any]:
    parts = [part for part in (message.text, message.rest) if part]
    return {"role": message.role[:100], "text": _cut("\n".join(parts), MAX_MESSAGE)}


def _cut(text: str, limit: int) -> dict[str, Any]:
    """Return the beginning of a text, and how many characters it has if there are more."""
    return {"text": text[:limit], "of": len(text) if len(text) > limit else None}


def _size(case: dict[str, Any]) -> int:
    texts = [case["output"], case["transcript"], case["printed"]]
    texts += [message["text"] for message in case["messages"]]
    return sum(len(each["text"]) for each in texts if each is not None)

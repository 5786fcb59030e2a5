"""The cases of kept runs as people see them: as text, on a page, as rows of a table.

A page must stay usable, so it gets the cases that did not pass, and the others of small
runs only. Texts are cut, and a run has a maximal size; what is left out is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypedDict

from pytest_failure_taxonomy.bench.kept.lines import KeptAttempt
from pytest_failure_taxonomy.bench.kept.reader import (
    KeptCase,
    KeptRun,
    read_calls,
    read_run,
)
from pytest_failure_taxonomy.bench.models import PARTIAL
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import RUN_SUFFIX

_TOO_DEEP: Final = "(nested too deeply to be shown)"


class Message(NamedTuple):
    """One message of a transcript."""

    role: str
    """Who wrote it, such as `user`."""
    text: str
    """What was written; empty for a message that has other parts alone."""
    rest: str
    """Its other parts, such as calls of tools, as JSON; empty if there are none."""


def text_of(value: Any) -> str:
    """Return a text as it is, and any other JSON value on several lines."""
    return value if isinstance(value, str) else json_text(value, ensure_ascii=False)


def json_text(value: Any, *, ensure_ascii: bool = True) -> str:
    """Return JSON on several lines, or on one if it is nested too deeply."""
    for indent in (2, None):  # Python's own encoder gives up earlier than the one in C
        with suppress(RecursionError):
            return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    return json.dumps(_TOO_DEEP)


def messages_of(transcript: Any) -> list[Message] | None:
    """Return the messages of a transcript; `None` if it is no list of messages.

    A message is a mapping with a `role`. Its `content` is a text or a list of parts, of
    which those with a `text` are shown one below the other, as the interfaces of model
    providers have it.
    """
    if not isinstance(transcript, list) or not transcript:
        return None
    messages = []
    for message in transcript:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return None
        rest = dict(message)
        role, content = rest.pop("role"), rest.pop("content", None)
        parts = content if isinstance(content, list) else [content]
        texts, others = [], []
        for part in parts:
            text = _text_of_part(part)
            if text is not None:
                texts.append(text)
            elif part is not None:
                others.append(part)
        if others:
            rest["content"] = others if isinstance(content, list) else content
        messages.append(Message(role, "\n".join(texts), text_of(rest) if rest else ""))
    return messages


def _text_of_part(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    is_text = isinstance(part, dict) and part.keys() <= {"type", "text"}
    text = part.get("text") if is_text else None
    return text if isinstance(text, str) else None


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


class Text(TypedDict):
    """The beginning of a text."""

    text: str
    of: int | None
    """How many characters the whole text has, if there are more."""


class PageMessage(TypedDict):
    """A message of a transcript."""

    role: str
    text: Text


class PageCall(TypedDict):
    """A call of a case's system."""

    number: int
    began: str
    seconds: float
    cost_usd: float
    usage: str
    ended: str
    kind: str


class _Content(TypedDict):
    """What the last call of a case left behind."""

    notes: list[str]
    output: Text | None
    messages: list[PageMessage]
    transcript: Text | None
    printed: Text | None


class PageCase(_Content):
    """A case of a run."""

    case_id: str
    state: str
    calls: list[PageCall]
    calls_left_out: int


class PageRun(TypedDict):
    """What a page shows of a run."""

    run_id: str
    cases: list[PageCase]
    left_out: int
    """How many more cases could be shown."""


def page_runs(
    benches: Iterable[Mapping[str, object]], storage: Path
) -> dict[str, PageRun]:
    """Return what a page shows of the runs of a report, by the ids that it has.

    Args:
        benches: The field `bench` of a report.
        storage: Where runs are kept. Runs that are not there or can't be read are left
            out.
    """
    pages = {}
    for bench in benches:
        reported = str(bench["run_id"])
        name = reported.removeprefix(PARTIAL)
        # A report may come from anybody, and must not name a file elsewhere.
        if not name.isprintable() or set(name) & set("/\\:") or name[:1] in ("", "."):
            continue
        try:
            run = read_run(storage / f"{name}{RUN_SUFFIX}", has_outputs=False)
        except BenchError:
            continue
        header = run.header
        if header.run_id == name and header.task_class == bench["task_class"]:
            pages[reported] = page_run(run)
    return pages


def page_run(run: KeptRun) -> PageRun:
    """Return what a page shows of a run; its outputs are read here."""
    states = {"failed", "lost"}
    if len(run.cases) <= SMALL_RUN:
        states.add("passed")
    wanted = [case for case in run.cases.values() if case.state in states]
    first = wanted[:MAX_CASES]
    contents = {}
    for call in read_calls(run.path, {case.case_id for case in first}):
        if call.score is not None:
            contents[call.case_id] = _content(call)
    cases: list[PageCase] = []
    room = MAX_CHARACTERS
    for case in first:
        content = contents.get(case.case_id) or _content(_NO_CALL)
        texts = [content["output"], content["transcript"], content["printed"]]
        texts += [message["text"] for message in content["messages"]]
        room -= sum(len(text["text"]) for text in texts if text is not None)
        if room < 0 and cases:
            break
        cases.append(
            {
                "case_id": case.case_id,
                "state": case.state,
                "calls": [_page_call(call) for call in case.calls[-_MAX_CALLS:]],
                "calls_left_out": max(0, len(case.calls) - _MAX_CALLS),
                **content,
            }
        )
    left_out = len(wanted) - len(cases)
    return {"run_id": run.header.run_id, "cases": cases, "left_out": left_out}


def began_words(call: KeptAttempt) -> str:
    """Return when a call began; nothing for a time that no calendar has."""
    with suppress(ValueError, OverflowError, OSError):
        began = datetime.fromtimestamp(call.started_at, UTC)
        return began.strftime("%Y-%m-%d %H:%M:%SZ")
    return ""


def _page_call(call: KeptAttempt) -> PageCall:
    amounts = list(call.usage.items())[:_MAX_CALLS]
    usage = ", ".join(f"{name} {amount:g}" for name, amount in amounts)
    return {
        "number": call.attempt,
        "began": began_words(call),
        "seconds": max(0.0, call.seconds),
        "cost_usd": call.cost_usd,
        "usage": usage[:MAX_MESSAGE],
        "ended": call.ended[:MAX_MESSAGE],
        "kind": call.kind or "",
    }


_NO_CALL: Final = KeptAttempt(case_id="", attempt=1, started_at=0.0, seconds=0.0)


def _content(last: KeptAttempt) -> _Content:
    messages = messages_of(last.transcript)
    raw = last.transcript if messages is None else None
    messages = messages or []
    notes = [f"{name}: was too long to save" for name in last.truncated]
    if last.is_redacted:
        notes.append("secrets were removed")
    if len(messages) > MAX_MESSAGES:
        of_all = f"the first {MAX_MESSAGES} of {len(messages)}"
        notes.append(f"{of_all} messages are shown")
    return {
        "notes": notes,
        "output": _cut(text_of(last.output), MAX_TEXT) if last.has_output else None,
        "messages": [_page_message(message) for message in messages[:MAX_MESSAGES]],
        "transcript": None if raw is None else _cut(text_of(raw), MAX_TEXT),
        "printed": _cut(last.printed, MAX_TEXT) if last.printed else None,
    }


def _page_message(message: Message) -> PageMessage:
    text = "\n".join(filter(None, (message.text, message.rest)))
    return {"role": message.role[:100], "text": _cut(text, MAX_MESSAGE)}


def _cut(text: str, limit: int) -> Text:
    return {"text": text[:limit], "of": len(text) if len(text) > limit else None}


_OF_CALL: Final = ("attempt", "started_at", "seconds", "worker", "cost_usd")
_OF_END: Final = ("ended", "kind", "fingerprint")
_OF_CONTENT: Final = ("output", "transcript", "printed")
Row = dict[str, object]


def rows_of(run: KeptRun) -> list[Row]:
    """Return the rows of a run, in the order of its cases and their calls.

    All rows have the same fields in the same order. A case without a call that ended
    has one row without an `attempt`.
    """
    rows: list[Row] = []
    # The cases to run come first.
    for case in {**run.cases, **run.known}.values():
        calls: list[KeptAttempt | None] = [*case.calls]
        if not calls and case.scheduled is not None:
            calls = [None]
        last = case.last or (calls[-1] if calls else None)
        rows += [_row_of(run, case, call, is_last=call is last) for call in calls]
    return rows


def _row_of(
    run: KeptRun, case: KeptCase, call: KeptAttempt | None, *, is_last: bool
) -> Row:
    header = run.header
    scheduled = case.scheduled
    score = None if call is None else call.score
    modes = () if score is None else score.failure_modes
    # What is not known is null, or empty.
    known = call or _NO_CALL
    return {
        "run_id": header.run_id,
        "task_class": header.task_class,
        "system": header.system.name,
        "system_version": header.system.version,
        "system_label": header.system.label,
        "case_id": case.case_id,
        "repetition": scheduled and scheduled.repetition,
        "tags": list(scheduled.tags) if scheduled else [],
        "is_last": is_last,
        "result": case.state if is_last else "repeated",
        **{name: getattr(call, name, None) for name in _OF_CALL},
        "usage": known.usage,
        **{name: getattr(call, name, None) for name in _OF_END},
        "passed": getattr(score, "passed", None),
        "score": getattr(score, "score", None),
        "breakdown": {} if score is None else score.breakdown,
        "failure_modes": [mode.model_dump() for mode in modes],
        "case_cost_usd": getattr(score, "cost_usd", None),
        "rubric_cost_usd": None if score is None else known.rubric_cost_usd,
        "wall_clock_ms": getattr(score, "wall_clock_ms", None),
        "has_output": known.has_output,
        **{name: getattr(call, name, None) for name in _OF_CONTENT},
        "truncated": list(known.truncated),
        "is_redacted": known.is_redacted,
    }

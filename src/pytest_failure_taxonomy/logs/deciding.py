"""Find the lines of a log that decided, to be quoted with their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pytest_failure_taxonomy.logs.noted import Noted
from pytest_failure_taxonomy.logs.other_output import OtherOutput
from pytest_failure_taxonomy.logs.pytest_output import PytestOutput
from pytest_failure_taxonomy.logs.reader import Line, Tail
from pytest_failure_taxonomy.taxonomy.evidence import RunEvidence
from pytest_failure_taxonomy.taxonomy.judgement import Judgement

MAX_LINES: Final = 20


def deciding_lines(
    judgement: Judgement, run: RunEvidence, out: PytestOutput, other: OtherOutput, tail: Tail
) -> list[Line]:
    """Return the lines that speak for the reasons that hold, the verdict's first to be kept.

    They are sorted by number; each stands there once, and there are at most `MAX_LINES`.
    """
    kinds = dict.fromkeys(held.kind for held in judgement.reasons)
    if judgement.verdict is not None:
        kinds = dict.fromkeys((judgement.verdict.kind, *kinds))
    chosen: dict[int, Line] = {}
    for kind in kinds:
        for line in _lines_for(kind, out, other, tail):
            if len(chosen) < MAX_LINES - 1:  # room for pytest's last line
                chosen.setdefault(line.number, line)
    if out.last_line is not None:
        chosen[out.last_line.number] = out.last_line
    elif judgement.verdict is not None and (not chosen or not run.finished):
        chosen.update((line.number, line) for line in tail.lines[-1:])
    return [chosen[number] for number in sorted(chosen)]


def _lines_for(kind: str, out: PytestOutput, other: OtherOutput, tail: Tail) -> Iterable[Line]:
    group = kind.partition(".")[0]
    if group == "marker":
        return [other.marker_line] if other.marker_line is not None else []
    pick = _BY_KIND.get(kind) or _BY_GROUP.get(group)
    if pick is not None and out.is_seen:
        return pick(out)
    return other.error_lines[-5:] or tail.lines[-1:]


def _of(*noted: Noted | None) -> list[Line]:
    return [each.line for each in noted if each is not None]


def _of_tests(out: PytestOutput) -> list[Line]:
    of_blocks = [block.decisive for block in out.blocks if block.phase != "collect"][:6]
    of_results = _of(*(each for each in out.results if "::" in each.subject))[:6]
    return [*of_blocks, *of_results] or _of(*out.verbose[:6], *out.letters[:6])


def _of_collection(out: PytestOutput) -> list[Line]:
    of_blocks = [block.decisive for block in out.blocks if block.phase == "collect"][:6]
    of_results = _of(*(each for each in out.results if "::" not in each.subject))[:6]
    return [*of_blocks, *of_results, *_of_stops(out)]


def _of_stops(out: PytestOutput) -> list[Line]:
    return _of(*out.bangs[-3:])


def _of_errors(out: PytestOutput) -> list[Line]:
    told = [*out.errors, out.conftest, out.raw_error, *out.usage_details]
    return [*(lines[-1] for lines in out.internal[:3]), *_of(*told)[:10]]


def _of_death(out: PytestOutput) -> list[Line]:
    return _of(out.killed_by_plugin, out.faulthandler, out.fatal, out.running, out.job_exit_code)


def _of_workers(out: PytestOutput) -> list[Line]:
    return _of(*out.lost.nodes_down[:5], *out.lost.crashes[:5])


_BY_KIND: Final[dict[str, Callable[[PytestOutput], list[Line]]]] = {
    "test.timeout": lambda out: _of_tests(out) if out.blocks or out.results else _of_death(out),
    "warnings.exceeded": lambda out: _of(out.too_many_warnings),
}
_BY_GROUP: Final[dict[str, Callable[[PytestOutput], list[Line]]]] = {
    "test": _of_tests,
    "collection": _of_collection,
    "interrupt": _of_stops,
    "session": _of_stops,
    "internal": _of_errors,
    "usage": _of_errors,
    "conftest": _of_errors,
    "plugin": _of_errors,
    "process": _of_death,
    "worker": _of_workers,
    "exit_status": lambda out: _of(out.job_exit_code),
    "tests": lambda out: _of(*out.bangs),
}

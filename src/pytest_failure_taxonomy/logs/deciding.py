"""Find the lines of a log that may say why its program failed, by what they are about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pytest_failure_taxonomy.logs.log_lines import Line, Tail
from pytest_failure_taxonomy.logs.output_readers import Noted, OtherOutput, PytestOutput
from pytest_failure_taxonomy.taxonomy.evidence import Output, OutputLine, ToolMessage


def output_of(
    out: PytestOutput, other: OtherOutput, tail: Tail, told: ToolMessage | None = None
) -> Output:
    """Return the lines of a log that the judge may choose from.

    Args:
        out: what was noted of pytest's output.
        other: what was noted of any program's.
        tail: the last lines.
        told: why a tool says that it has failed.
    """
    by_subject = {"marker": _plain([other.marker_line])}
    if out.is_seen:
        by_subject |= {subject: _plain(pick(out)) for subject, pick in _BY_SUBJECT.items()}
    if told is not None:
        by_subject |= dict.fromkeys(("stage", "sandbox"), (told.line,))
    last = tail.lines[-1] if tail.lines else None
    return Output(
        by_subject=by_subject,
        others=_plain(other.error_lines[-5:] or [last]),
        error=_plain(other.error_lines[-1:])[0] if other.error_lines else None,
        summary=_plain([out.last_line])[0] if out.last_line is not None else None,
        last=_plain([last])[0] if last is not None else None,
    )


def _plain(lines: Sequence[Line | None]) -> tuple[OutputLine, ...]:
    return tuple(OutputLine(line.number, line.text) for line in lines if line is not None)


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


_BY_SUBJECT: Final[dict[str, Callable[[PytestOutput], list[Line]]]] = {
    "test.timeout": lambda out: _of_tests(out) if out.blocks or out.results else _of_death(out),
    "warnings.exceeded": lambda out: _of(out.too_many_warnings),
    "test": _of_tests,
    "collection": _of_collection,
    "interrupt": _of_stops,
    "session": _of_stops,
    "internal": _of_errors,
    "usage": _of_errors,
    "conftest": _of_errors,
    "plugin": _of_errors,
    "process": _of_death,
    "worker": lambda out: _of(*out.lost.nodes_down[:5], *out.lost.crashes[:5]),
    "exit_status": lambda out: _of(out.job_exit_code),
    "tests": lambda out: _of(*out.bangs),
}
"""What each line is about: one kind, or all kinds whose names begin with a word."""

"""What a tool answers to a program beside its text, small: `answers.json` has the schemas."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from pytest_failure_taxonomy.faces import agent
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from pytest_failure_taxonomy.report.summary import CauseSummary, place_words, summarise
from pytest_failure_taxonomy.text import that_fit

Fields = Mapping[str, Any]

SCHEMAS: Final[Mapping[str, Fields]] = json.loads(
    files(__package__).joinpath("answers.json").read_text("utf-8")
)
"""Of the kinds of answers, by name."""
LONGEST_TEXT: Final = 1_000
"""Characters of a text; a longer one is cut, or left out if it is a command."""
_MOST_CHARACTERS: Final = 10_000
"""Of a list as JSON."""
_MOST_OF_NODEIDS: Final = 2_000
"""Characters of the node ids of all causes together."""
_OF_VERDICT: Final = SCHEMAS["run"]["properties"]["verdict"]["required"]
_OF_FLAKY: Final = SCHEMAS["flaky"]["properties"]["tests"]["items"]["required"]
_OF_CAUSE: Final = (
    *("key", "fix", "reason", "kind", "owner"),
    *("charge_to", "count", "history", "proof"),
)
"""What an answer has as the summary has it."""


def fitting(entries: Iterable[Any]) -> list[Any]:
    """Return the first entries of a list, as many as an answer has room for."""
    return that_fit(entries, _MOST_CHARACTERS, lambda entry: len(json.dumps(entry)))


def describe_run(report: FailureReport, number: int | None = None) -> Fields:
    """Return the answer about a run; with a number, of its causes this one alone."""
    summary = summarise(report)
    wanted = [number] if number else range(1, len(summary.causes) + 1)
    causes = {at: summary.causes[at - 1] for at in wanted}
    return {
        "state": report.completeness,
        "started_at": report.run.started_at,
        "exit_code": report.exit.code,
        "verdict": _pick(report.verdict, _OF_VERDICT) if report.verdict else None,
        "in_flight": fitting(test.nodeid for test in report.in_flight),
        "folder": report.run.invocation.rootdir,
        "causes_count": summary.causes_count,
        "causes": fitting(_describe_causes(report, causes)),
    }


def describe_commands(report: FailureReport, number: int | None = None) -> Fields:
    """Return the commands of a run; with a number, that of this cause."""
    run = reproduction_of(report)
    commands = filter(_is_whole, agent.commands_of(report, number))
    return {"folder": run.folder, "commands": fitting(commands), "missing": run.missing}


def describe_past(
    count: int,
    entries: Iterable[Fields],
    known: int | None = None,
    notes: Sequence[str] = (),
) -> Fields:
    """Return the answer about earlier runs."""
    causes = fitting(entries)
    return {"causes_count": count, "known": known, "causes": causes, "notes": notes}


def describe_flaky(rows: Iterable[Any], runs: int) -> Fields:
    """Return the answer about flaky tests."""
    return {"runs": runs, "tests": fitting(_pick(row, _OF_FLAKY) for row in rows)}


def _describe_causes(
    report: FailureReport, causes: Mapping[int, CauseSummary]
) -> Iterator[Fields]:
    run = reproduction_of(report)
    retryable = {cause.key: cause.retryable for cause in report.causes}
    for number, cause in causes.items():
        places = [entry.location for entry in cause.failures if entry.location]
        command = agent.command_of(run, cause)
        yield _pick(cause, _OF_CAUSE) | {
            "number": number,
            "what": cause.text,
            "where": place_words(places[0]) if places else None,
            "retryable": retryable.get(cause.key),
            "nodeids": that_fit(cause.nodeids, _MOST_OF_NODEIDS // len(causes), len),
            "nodeids_count": len(cause.nodeids),
            "command": command if command and _is_whole(command) else None,
            "code": agent.quoted_code(cause, agent.MAX_WEIGHT // 2 // len(causes)),
        }


def _pick(value: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _is_whole(command: str) -> bool:
    return len(command) <= LONGEST_TEXT

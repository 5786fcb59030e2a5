"""One issue a cause, as JSON for what opens, comments and closes them.

All that a test or a report says stands in code, where GitHub looks for no people, issues, commits
or links. The hidden mark by which an issue is found again begins its body: no text within can be
taken for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from shlex import quote
from typing import Final, TypedDict

from pytest_failure_taxonomy.report.markup import as_code, folded
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.reproduce import Reproduction, reproduction_of
from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    accepted_words,
    summarise,
)
from pytest_failure_taxonomy.taxonomy.judgement import Stage
from pytest_failure_taxonomy.taxonomy.words import and_more
from pytest_failure_taxonomy.text import first_line, safe_text

MAX_BODY: Final = 65_000
"""Characters; GitHub takes 65,536 as the body of an issue, and a link to the run is added."""
MAX_TITLE: Final = 200
LABEL: Final = "failure-taxonomy"
_MOST_TESTS: Final = 20
_MOST_IN_COMMENT: Final = 5
_MOST_EVIDENCE: Final = 5
_KEY: Final = re.compile("[0-9a-f]{16}")
_CALLS: Final = re.compile("[@#]")
"""What makes a person or an issue of a name or number behind it, where a title is quoted."""


def render(report: FailureReport) -> str:
    """Return what to know about a run's issues; docs/how-to/known-failures.md has the form.

    Causes that are accepted as known get no issue, and such a run closes none.
    """
    summary = summarise(report)
    again = reproduction_of(report)
    causes = () if report.verdict is None else summary.causes
    answer = {
        "is_whole_run": _is_whole(report) and summary.causes_count == len(causes),
        "issues": [_issue(report, cause, again) for cause in causes],
    }
    return json.dumps(answer, indent=2)


def _is_whole(report: FailureReport) -> bool:
    """Tell whether a cause that is not in the run is gone, and its tests were not just left out.

    A test whose setup failed or that ran out of time has not come to what it failed of before.
    """
    counts = report.summary
    untried = counts.deselected + counts.errors + counts.timed_out + counts.crashed
    unfinished = report.in_flight or report.not_run.count
    errors = report.collection_errors or report.internal_errors
    return (
        report.completeness == "full"
        and report.exit.code in (0, 1)
        and report.run.stage != Stage.BASELINE_RUN
        and report.run.shard is None
        and counts.passed + counts.failed > 0
        and not (untried or unfinished or errors)
        and all(held.kind != "shard.missing" for held in report.reasons)
        and not accepted_words(report)
    )


class _Issue(TypedDict):
    """What there is to write of a cause."""

    key: str
    mark: str
    """Begins the body, by which the issue is found again."""
    title: str
    labels: list[str]
    body: str
    comment: str
    """For an issue that is there already."""


def _issue(report: FailureReport, cause: CauseSummary, again: Reproduction) -> _Issue:
    key = cause.key  # of a report that anybody may have written
    if not _KEY.fullmatch(key):
        key = sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
    mark = f"<!-- {LABEL} cause={key} "
    git = report.environment.git
    seen = f"{cause.count:,} x"
    if git and git.commit:
        seen += f" at commit {git.commit}"
    history = {"History": cause.history, "Last passed at": cause.last_passed_commit}
    facts = {
        "Is": f"{cause.reason} {cause.kind}",
        "Fix": cause.fix,
        "Seen": seen,
        **history,
        "Changed": cause.changed,
        "Before": cause.base,
        "Owner": cause.owner,
        "Charged to": cause.charge_to,
        "Rule": cause.about,
    }
    lines = [
        *_list_facts(facts),
        *(f"- Evidence: {as_code(words)}\n" for words in _evidence(report, cause)),
        *(f"- Proof: {as_code(words)}\n" for words in cause.proof if words),
    ]
    first = next(iter(cause.nodeids), "")
    command = cause.proof_command or again.command(first)
    script = f"cd {quote(again.folder)}\n{command}" if command else ""
    body = [
        f"{mark}passes=0 -->\n{as_code(cause.text)}\n\n",
        f"{''.join(lines)}\n{_tests(cause, _MOST_TESTS)}",
        folded("Reproduce", script),
    ]
    ending = f"_Opened by failure-taxonomy; the cause has the key {key}._\n"
    # The fences around a text of backticks are as long as the text.
    room = (MAX_BODY - sum(map(len, body)) - len(ending)) // 3
    body.append(folded("Traceback", cause.code.with_count, room))
    body.append(ending)
    title = _CALLS.sub("\\g<0>\u200b", safe_text(cause.text, MAX_TITLE))
    seen_again = "".join(_list_facts({"Seen again": seen, **history}))
    return {
        "key": key,
        "mark": mark,
        "title": title or cause.kind,
        "labels": [LABEL, cause.reason],
        "body": "".join(body),
        "comment": f"{seen_again}\n{_tests(cause, _MOST_IN_COMMENT)}",
    }


def _list_facts(facts: Mapping[str, str | None]) -> Iterator[str]:
    for name, text in facts.items():
        if text:
            yield f"- {name}: {as_code(text)}\n"


def _evidence(report: FailureReport, cause: CauseSummary) -> Iterator[str]:
    """Yield what decided, where no traceback tells it."""
    verdict = report.verdict
    if verdict is None or verdict.kind != cause.kind or cause.code.own:
        return
    for piece in verdict.evidence[:_MOST_EVIDENCE]:
        words = first_line(piece.detail)
        if words:
            yield words


def _tests(cause: CauseSummary, most: int) -> str:
    """Return a list of the first tests, and how many more there are."""
    if not cause.nodeids:
        return ""
    lines = [f"- {as_code(nodeid)}\n" for nodeid in cause.nodeids[:most]]
    more = and_more(len(cause.nodeids) - most)
    ending = f"-{more}\n\n" if more else "\n"
    return f"Tests:\n\n{''.join(lines)}{ending}"

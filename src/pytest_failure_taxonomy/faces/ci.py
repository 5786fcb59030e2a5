"""What CI systems show on the user's file and line: GitHub's annotations, GitLab's code quality.

GitHub shows ten annotations a kind and step, fifty a job, and drops the others in silence. So the
headline comes first, then one annotation a cause, in the report's order, and the last one counts
those for which there is no room. What one command of a job has used, the next one has less:
a file among the runner's temporary ones, which it removes with the job, has a line for each. Texts
are one line each and escaped as GitHub's own toolkit does it: none can begin a line, and so none
can be a command.

GitLab shows its report in a merge request, beside the lines that it changes.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.report.repository import Repository
from pytest_failure_taxonomy.report.summary import (
    CauseSummary,
    RunSummary,
    running_words,
    stall_words,
    summarise,
)
from pytest_failure_taxonomy.system.files import open_shared, read_descriptor
from pytest_failure_taxonomy.taxonomy.evidence import Location
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import and_more, counted
from pytest_failure_taxonomy.text import bench_name, safe_text

MAX_OF_A_KIND: Final = 10
"""GitHub shows no more errors, warnings and notices, each, of one step."""
MAX_OF_A_JOB: Final = 50
"""Nor more of all steps of a job."""
USED: Final = "failure-taxonomy-annotations"
"""The name of the file that has a line for each annotation of the job: its step and its level."""
_MAX_BYTES: Final = 64 * 1024
MAX_NODEIDS: Final = 5
"""Node ids that are named of one cause."""
_LEVELS: Final = ("error", "warning", "notice")
_NO_FILE: Final = ".gitlab-ci.yml"
"""GitLab wants a file. What no file is to blame for is put on that which describes the job."""


@value
class Annotation:
    """One annotation, with texts as they come."""

    level: str
    """One of `error`, `warning` and `notice`."""
    title: str
    lines: tuple[str, ...]
    place: Location | None = None


def render_for_github(report: dict[str, Any]) -> str:
    """Return the annotations of a run, one workflow command a line; empty where all is well."""
    found = list(_annotations(report))
    folder = (
        os.environ.get("RUNNER_TEMP")
        if os.environ.get("GITHUB_ACTIONS") == "true"
        else None
    )
    step = os.path.basename(
        os.environ.get("GITHUB_STEP_SUMMARY", "")
    )  # each has a file of its own
    used: list[str] = []
    descriptor = None
    if folder:
        with suppress(OSError):  # then nobody knows what was used
            descriptor = open_shared(Path(folder, USED), make=True)
            used = (
                read_descriptor(descriptor, _MAX_BYTES)
                .decode("utf-8", "replace")
                .splitlines()
            )
    shown: list[Annotation] = []
    for level in _LEVELS:
        left = MAX_OF_A_JOB - len(used) - len(shown)
        room = min(MAX_OF_A_KIND - used.count(f"{step} {level}"), left)
        shown += _with_room([each for each in found if each.level == level], room)
    if descriptor is not None:
        with suppress(OSError):
            os.write(
                descriptor, "".join(f"{step} {each.level}\n" for each in shown).encode()
            )
        os.close(descriptor)
    return "".join(f"{_command(each)}\n" for each in shown)


def _annotations(report: dict[str, Any]) -> Iterator[Annotation]:
    summary = summarise(report)
    repository = Repository(report, os.environ.get("GITHUB_WORKSPACE"))
    if report["verdict"] is None:
        for cause in summary.causes:
            yield _of_cause(cause, repository, "notice", "known: ")
    else:
        more = (*filter(None, (summary.left, summary.advice)), summary.codes)
        if len(summary.causes) > 1:
            yield Annotation(level="error", title=summary.headline, lines=more)
        for cause in summary.causes:
            see = "" if cause.failures else summary.see  # else the tests are listed
            about = () if len(summary.causes) > 1 else (see, *more)
            yield _of_cause(cause, repository, "error", more=about)
        for kind, _, words, place in _apart(report, summary, repository):
            title = kind.replace(".", " ").replace("_", " ")
            yield Annotation(level="warning", title=title, lines=(words,), place=place)
    for bench in report["bench"]:
        gate = bench["gate"]
        if gate is not None and gate["verdict"] != "PASS":
            yield Annotation(
                level="error" if gate["verdict"] == "FAIL" else "warning",
                title=f"bench {bench_name(bench)}: gate {gate['verdict']}",
                lines=tuple(gate["reasons"]) or (gate["verdict"],),
            )


def _apart(
    report: dict[str, Any], summary: RunSummary, repository: Repository
) -> Iterator[tuple[str, str, str, Location | None]]:
    """Yield what was cut short and is no cause: its kind, its name, words about it, its place."""
    told = {nodeid for cause in summary.causes for nodeid in cause.nodeids}
    for test in (each for each in report["in_flight"] if each["nodeid"] not in told):
        words = f"{test['nodeid']} {running_words(test)}"
        yield "test.in_flight", test["nodeid"], words, repository.place_of(test)
    for stalled in report["stalls"]:
        what = stalled["what"]
        yield f"{what}.stalled", what, f"{what} {stall_words(stalled)}", None


def _of_cause(
    cause: CauseSummary,
    repository: Repository,
    level: str,
    prefix: str = "",
    more: tuple[str, ...] = (),
) -> Annotation:
    owner = f"owner: {cause.owner}" if cause.owner else ""
    rest = and_more(len(cause.nodeids) - MAX_NODEIDS).strip()
    lines = (
        *cause.below,
        *cause.nodeids[:MAX_NODEIDS],
        rest,
        owner,
        *(more or (cause.codes,)),
    )
    return Annotation(
        level=level,
        title=f"{prefix}{cause.title}",
        lines=tuple(filter(None, lines)),
        place=repository.place_of_cause(cause),
    )


def _with_room(annotations: list[Annotation], room: int) -> list[Annotation]:
    """Return those that GitHub shows; the last one counts the others."""
    if len(annotations) <= room:
        return annotations
    if room < 1:
        return []
    kept = annotations[: room - 1]
    rest = len(annotations) - len(kept)
    words = (f"{counted(rest, 'annotation')} more; the report has them all",)
    return [
        *kept,
        Annotation(level=annotations[0].level, title="failure taxonomy", lines=words),
    ]


def _command(annotation: Annotation) -> str:
    place = annotation.place
    properties = {"title": annotation.title}
    if place is not None:
        line = {} if place.line is None else {"line": str(place.line)}
        properties = {"file": place.path, **line, **properties}
    escaped = {name: _escaped(safe_text(text)) for name, text in properties.items()}
    given = ",".join(
        f"{name}={text.replace(':', '%3A').replace(',', '%2C')}"
        for name, text in escaped.items()
    )
    message = "\n".join(map(safe_text, annotation.lines))
    return f"::{annotation.level} {given}::{_escaped(message)}"


def _escaped(text: str) -> str:
    """Return the text as the toolkit's `escapeData` does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def render_for_gitlab(report: dict[str, Any]) -> str:
    """Return the report as JSON: one entry a cause, and what was cut short."""
    entries: list[dict[str, Any]] = []
    seen: Counter[str] = Counter()

    def add(
        kind: str, words: str, severity: str, identity: str, place: Location | None
    ) -> None:
        # Equal ones are told apart by their order, for GitLab drops doubles.
        seen[identity] += 1
        known_by = f"{identity}\0{seen[identity]}".encode("utf-8", "backslashreplace")
        place = place or Location(path=_NO_FILE, line=None)
        entry = {
            "description": safe_text(words, 1_000),
            "check_name": kind,
            "fingerprint": sha256(known_by).hexdigest(),
            "severity": severity,
            "location": {
                "path": safe_text(place.path, 4_000),
                "lines": {"begin": place.line or 1},
            },
        }
        entries.append(entry)

    if report["verdict"] is not None:
        repository = Repository(report, os.environ.get("CI_PROJECT_DIR"))
        summary = summarise(report)
        for cause in summary.causes:
            severity = "major" if cause.reason == "TESTS_FAILED" else "critical"
            if cause.state == "flaky":
                severity = "minor"
            elif not cause.failures:  # the whole run's
                severity = "blocker"
            told = "; ".join(filter(None, (cause.title, cause.mend, *cause.proof[:1])))
            words, place = f"{told} {cause.codes}", repository.place_of_cause(cause)
            add(cause.kind, words, severity, f"cause\0{cause.key}", place)
        for kind, name, words, place in _apart(report, summary, repository):
            severity = "minor" if kind == "test.in_flight" else "critical"
            add(kind, words, severity, f"{kind}\0{name}", place)
    return json.dumps(entries, indent=2) + "\n"

"""What CI systems show: annotations, GitLab's code quality, TeamCity's problems.

GitHub shows ten annotations a kind and step, fifty a job, and drops the others in silence. So the
headline comes first, then one annotation a cause, in the report's order, and the last one counts
those for which there is no room. What one command of a job has used, the next one has less:
a file among the runner's temporary ones, which it removes with the job, has a line for each. Texts
are one line each and escaped as GitHub's own toolkit does it: none can begin a line, and so none
can be a command.

GitLab shows its report in a merge request, beside the lines that it changes.

TeamCity reads service messages in the output of a build. A build problem fails the
build, so there is none where nothing failed, and none for a test: another plugin may
report these.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.report.model import FailureReport
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
from pytest_failure_taxonomy.text import safe_text

MAX_OF_A_KIND: Final = 10
"""GitHub shows no more errors, warnings and notices, each, of one step."""
MAX_OF_A_JOB: Final = 50
"""Nor more of all steps of a job."""
USED: Final = "failure-taxonomy-annotations"
"""The name of the file that has a line for each annotation of the job: its step and its level."""
_MAX_BYTES: Final = 64 * 1024
MAX_NODEIDS: Final = 5
"""Node ids that are named of one cause."""
MAX_DESCRIPTION: Final = 4_000
"""TeamCity cuts a longer description of a build problem."""
_SPECIAL: Final = re.compile("[|'\\[\\]]|[^ -~]")
"""What TeamCity wants escaped; it knows the rest of Unicode by its UTF-16."""
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


@value
class _Unfinished:
    """What was cut short and is no cause."""

    kind: str
    name: str
    words: str
    place: Location | None = None


def render_for_github(report: FailureReport) -> str:
    """Return the annotations of a run, one workflow command a line; empty where all is well."""
    annotations = list(_annotations(report))
    # Each step has a file of its own for its summary.
    step = os.path.basename(os.environ.get("GITHUB_STEP_SUMMARY", ""))
    with _open_used() as descriptor:
        used = _read_used(descriptor)
        shown: list[Annotation] = []
        for level in _LEVELS:
            left = MAX_OF_A_JOB - len(used) - len(shown)
            room = min(MAX_OF_A_KIND - used.count(f"{step} {level}"), left)
            of_level = [entry for entry in annotations if entry.level == level]
            shown += _fit_annotations(of_level, room)
        if descriptor is not None:
            lines = "".join([f"{step} {annotation.level}\n" for annotation in shown])
            with suppress(OSError):
                os.write(descriptor, lines.encode())
    return "".join([f"{_command(annotation)}\n" for annotation in shown])


@contextmanager
def _open_used() -> Iterator[int | None]:
    """Open the file of the job's annotations; `None` if it is not known how many were used."""
    descriptor = None
    if os.environ.get("GITHUB_ACTIONS") == "true":
        folder = os.environ.get("RUNNER_TEMP")
        if folder:
            with suppress(OSError):
                descriptor = open_shared(Path(folder, USED), make=True)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _read_used(descriptor: int | None) -> list[str]:
    """Return the step and the level of each annotation that the job has used."""
    if descriptor is not None:
        with suppress(OSError):
            text = read_descriptor(descriptor, _MAX_BYTES).decode("utf-8", "replace")
            return text.splitlines()
    return []


def _annotations(report: FailureReport) -> Iterator[Annotation]:
    summary = summarise(report)
    repository = Repository(report, os.environ.get("GITHUB_WORKSPACE"))
    if report.verdict is None:
        for cause in summary.causes:
            yield _annotate_cause(cause, repository, "notice", "known: ")
    else:
        more = (*filter(None, (summary.left, summary.advice)), summary.codes)
        has_several = len(summary.causes) > 1
        if has_several:
            yield Annotation(level="error", title=summary.headline, lines=more)
        for cause in summary.causes:
            see = "" if cause.entries else summary.see  # else the tests are listed
            about = () if has_several else (see, *more)
            yield _annotate_cause(cause, repository, "error", more=about)
        for unfinished in _list_unfinished(report, summary, repository):
            yield Annotation(
                level="warning",
                title=unfinished.kind.replace(".", " ").replace("_", " "),
                lines=(unfinished.words,),
                place=unfinished.place,
            )
    for bench in summary.benches:
        if bench.gate not in (None, "PASS"):
            words = f"gate {bench.gate}"
            yield Annotation(
                level="error" if bench.gate == "FAIL" else "warning",
                title=f"bench {bench.name}: {words}",
                lines=bench.gate_reasons or (f"{bench.gate}",),
            )


def _list_unfinished(
    report: FailureReport, summary: RunSummary, repository: Repository
) -> Iterator[_Unfinished]:
    """Yield what was cut short and is not a cause."""
    nodeids = {nodeid for cause in summary.causes for nodeid in cause.nodeids}
    for test in report.in_flight:
        if test.nodeid not in nodeids:
            yield _Unfinished(
                kind="test.in_flight",
                name=test.nodeid,
                words=f"{test.nodeid} {running_words(test)}",
                place=repository.place_of(test),
            )
    for stall in report.stalls:
        words = f"{stall.what} {stall_words(stall)}"
        yield _Unfinished(kind=f"{stall.what}.stalled", name=stall.what, words=words)


def _annotate_cause(
    cause: CauseSummary,
    repository: Repository,
    level: str,
    prefix: str = "",
    more: tuple[str, ...] = (),
) -> Annotation:
    lines = (
        *cause.below,
        *cause.nodeids[:MAX_NODEIDS],
        and_more(len(cause.nodeids) - MAX_NODEIDS).strip(),
        f"owner: {cause.owner}" if cause.owner else "",
        *(more or (cause.codes,)),
    )
    return Annotation(
        level=level,
        title=f"{prefix}{cause.title}",
        lines=tuple(filter(None, lines)),
        place=repository.place_of_cause(cause),
    )


def _fit_annotations(annotations: list[Annotation], room: int) -> list[Annotation]:
    """Return those that GitHub shows; the last one counts the others."""
    if len(annotations) <= room:
        return annotations
    if room < 1:
        return []
    shown = annotations[: room - 1]
    rest = counted(len(annotations) - len(shown), "annotation")
    ending = Annotation(
        level=annotations[0].level,
        title="failure taxonomy",
        lines=(f"{rest} more; the report has them all",),
    )
    return [*shown, ending]


def _command(annotation: Annotation) -> str:
    place = annotation.place
    properties = {}
    if place is not None:
        properties["file"] = place.path
        if place.line is not None:
            properties["line"] = str(place.line)
    properties["title"] = annotation.title
    pairs = []
    for name, text in properties.items():
        escaped = _escaped(safe_text(text)).replace(":", "%3A").replace(",", "%2C")
        pairs.append(f"{name}={escaped}")
    message = _escaped("\n".join(map(safe_text, annotation.lines)))
    return f"::{annotation.level} {','.join(pairs)}::{message}"


def _escaped(text: str) -> str:
    """Return the text as the toolkit's `escapeData` does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def render_for_gitlab(report: FailureReport) -> str:
    """Return the report as JSON: one entry a cause, and what was cut short."""
    entries: list[_Entry] = []
    if report.verdict is not None:
        repository = Repository(report, os.environ.get("CI_PROJECT_DIR"))
        summary = summarise(report)
        entries += [_enter_cause(cause, repository) for cause in summary.causes]
        unfinished = _list_unfinished(report, summary, repository)
        entries += map(_enter_unfinished, unfinished)
    issues = []
    for fingerprint, entry in _identify(entries):
        place = entry.place or Location(path=_NO_FILE, line=None)
        location = {
            "path": safe_text(place.path, 4_000),
            "lines": {"begin": place.line or 1},
        }
        issue = {
            "description": safe_text(entry.words, 1_000),
            "check_name": entry.kind,
            "fingerprint": fingerprint,
            "severity": entry.severity,
            "location": location,
        }
        issues.append(issue)
    return json.dumps(issues, indent=2) + "\n"


def render_for_teamcity(report: FailureReport) -> str:
    """Return a build problem for each cause, one a line; empty if nothing failed."""
    if report.verdict is None:
        return ""
    repository = Repository(report, None)
    causes = summarise(report).causes
    entries = [_enter_cause(cause, repository) for cause in causes]
    messages = []
    for fingerprint, entry in _identify(entries):
        description = _escape_value(safe_text(entry.words, MAX_DESCRIPTION))
        # At most 60 letters, digits and underscores, the same in each build.
        identity = f"failure_taxonomy_{fingerprint[:32]}"
        attributes = f"description='{description}' identity='{identity}'"
        messages.append(f"##teamcity[buildProblem {attributes}]\n")
    return "".join(messages)


def _escape_value(text: str) -> str:
    """Return a value of a service message: printable ASCII, which can't end it."""

    def escape(match: re.Match[str]) -> str:
        letter = match[0]
        if letter.isascii() and letter.isprintable():
            return f"|{letter}"
        units = letter.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"|0x{units[at : at + 4]}" for at in range(0, len(units), 4))

    return _SPECIAL.sub(escape, text)


@value
class _Entry:
    """An entry of GitLab's report, or a problem of TeamCity's."""

    kind: str
    words: str
    severity: str
    identity: str
    """The same in any run."""
    place: Location | None


def _enter_cause(cause: CauseSummary, repository: Repository) -> _Entry:
    severity = "critical"
    if cause.state == "flaky":
        severity = "minor"
    elif not cause.entries:  # the whole run's
        severity = "blocker"
    elif cause.reason == "TESTS_FAILED":
        severity = "major"
    parts = filter(None, (cause.title, cause.fix_line, cause.base, *cause.proof[:1]))
    return _Entry(
        kind=cause.kind,
        words=f"{'; '.join(parts)} {cause.codes}",
        severity=severity,
        identity=f"cause\0{cause.key}",
        place=repository.place_of_cause(cause),
    )


def _enter_unfinished(unfinished: _Unfinished) -> _Entry:
    kind = unfinished.kind
    return _Entry(
        kind=kind,
        words=unfinished.words,
        severity="minor" if kind == "test.in_flight" else "critical",
        identity=f"{kind}\0{unfinished.name}",
        place=unfinished.place,
    )


def _identify(entries: list[_Entry]) -> Iterator[tuple[str, _Entry]]:
    """Yield entries with a digest of what each is of, the same in any run.

    Equal ones are told apart by their order, for GitLab drops doubles.
    """
    seen: Counter[str] = Counter()
    for entry in entries:
        seen[entry.identity] += 1
        identity = f"{entry.identity}\0{seen[entry.identity]}"
        encoded = identity.encode("utf-8", "backslashreplace")
        yield sha256(encoded).hexdigest(), entry

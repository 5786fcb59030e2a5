"""The faces of a report: other formats, for people and for their programs.

Each is a function of a module. That is imported when it is asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.errors import FailureTaxonomyError, ReportError
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.evidence import Faces
from pytest_failure_taxonomy.taxonomy.judgement import Verdict
from pytest_failure_taxonomy.text import safe_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FORMATS: Final[Mapping[str, str]] = {
    "junit": "JUnit XML, as Jenkins, GitLab and many others read it",
    "ctrf": "CTRF, a JSON format of test results",
    "github": "annotations of GitHub Actions, as workflow commands",
    "markdown": "a summary in Markdown, as on the page of a GitHub Actions job",
    "gitlab": "GitLab's code quality report, as JSON",
    "buildkite": "a summary in Markdown for `buildkite-agent annotate`",
    "teamcity": "build problems of TeamCity, as service messages",
    "html": "one HTML page with everything in it",
    "issue": "an issue for each cause, as JSON for what opens and closes them",
}
"""The names of our own formats, and what each is."""
_WORDS_OF_ADDED: Final = {"otlp": "spans of OpenTelemetry, as OTLP/JSON"}
"""What those are that this distribution adds as any other could."""
GROUP: Final = "pytest_failure_taxonomy.faces"
"""The group of entry points by which any distribution adds formats: each is a function
that returns a report as a text."""

LIBRARIES: Final[Mapping[str, tuple[str, ...]]] = {"html": ("jinja2", "markupsafe")}
"""What formats import that is not this package's nor Python's."""

_MISSING: Final = {
    "html": "the HTML page needs Jinja2, which is not installed; pip install jinja2"
}
_FUNCTIONS: Final = {
    "github": ("ci", "render_for_github"),
    "gitlab": ("ci", "render_for_gitlab"),
    "teamcity": ("ci", "render_for_teamcity"),
    "buildkite": ("markdown", "render"),
    "proofs": ("markdown", "render_proofs"),
}
"""Modules and functions of formats whose module has more than one."""
_OUTPUTS: Final = re.compile(
    r"^reason=\w+\nkind=[\w.]+\nretryable=(true|false|)$", re.MULTILINE
)
"""What a red run has given to its step."""
_LEADING: Final = ("false", "", "true")
"""Which of several red runs of a step its outputs are of: the first that is the least retryable."""
_MAX_OUTPUTS: Final = 2**20
"""GitHub takes no more outputs of a job."""


def render(name: str, report: FailureReport, **options: Any) -> str:
    """Return a report in one of the formats; `options` are those of its function.

    Raises:
        ReportError: a library that the format needs is missing; the message says how to get it.
            Or the function of another distribution failed.
    """
    missing = missing_library(name)
    if missing is not None:
        raise ReportError(missing)
    if name not in FORMATS and name not in _FUNCTIONS:
        return _render_as_added(name, report)
    module, function = _FUNCTIONS.get(name, (name, "render"))
    renders = getattr(import_module(f"{__name__}.{module}"), function)
    text: str = renders(report, **options)
    return text


def list_formats() -> dict[str, str]:
    """Return our own formats and those that distributions add, with what each is."""
    formats = dict(FORMATS)
    for entry in _find_added():
        by = _WORDS_OF_ADDED.get(entry.name, f"added by {_distribution_of(entry)}")
        formats.setdefault(entry.name, by)
    return formats


def _find_added() -> Iterable[EntryPoint]:
    # Here, because only `convert` asks, and a pytest run need not import it.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _distribution_of(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.module


def _render_as_added(name: str, report: FailureReport) -> str:
    entry = next(entry for entry in _find_added() if entry.name == name)
    try:
        text: str = entry.load()(report)
    except Exception as error:
        words = safe_text(f"{type(error).__name__}: {error}")
        whose = _distribution_of(entry)
        raise ReportError(
            f"convert: {name} of {whose} failed: {words}; update or remove {whose}"
        ) from error
    return text


def missing_library(name: str) -> str | None:
    """Say which library a format needs and does not find; `None` if it has all."""
    with suppress(ImportError, ValueError):  # of finders that others have installed
        if all(map(find_spec, LIBRARIES.get(name, ()))):
            return None
    return _MISSING[name]


def show_faces(
    report: FailureReport,
    faces: Faces,
    annotate: Callable[[str], object] | None = None,
    kept: Mapping[str, object] | None = None,
) -> list[str]:
    """Show the faces of a run; return in words what could not be shown.

    Args:
        report: of the run.
        faces: what to show.
        annotate: called with each line for the CI system; `None` for the files alone.
        kept: for the HTML page, what it shows of the cases of benches, by run id.
    """
    from pytest_failure_taxonomy.report.write import replace_file

    problems: list[str] = []
    if faces.junit is not None:
        with _note_fault("junit", problems):
            text = render("junit", report, family=faces.junit_family)
            replace_file(Path(faces.junit), text)
    if faces.html is not None:
        with _note_fault("html", problems):
            replace_file(Path(faces.html), render("html", report, kept=kept or {}))
    if faces.summary is not None:
        with _note_fault("step summary", problems):
            _append_summary(faces.summary, report)
    if faces.output is not None and report.verdict is not None:
        with _note_fault("step outputs", problems):
            _append_outputs(faces.output, report.verdict)
    if annotate is not None:
        for name in faces.printed:
            with _note_fault("annotations", problems):
                for line in render(name, report).splitlines():
                    annotate(line)
    return problems


@contextmanager
def _note_fault(name: str, problems: list[str]) -> Iterator[None]:
    """Go on without a face that fails: its fault is one line."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is
        words = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError):
            words = f"it can't be written: {error.strerror}"
        elif isinstance(error, FailureTaxonomyError):
            words = str(error)
        problems.append(f"{name}: {safe_text(words)}")


def faces_of_step() -> Faces:
    """Return the faces for a job of GitHub or TeamCity; none outside of one."""
    teamcity = bool(os.environ.get("TEAMCITY_VERSION"))
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return Faces(teamcity=teamcity)
    return Faces(
        github=True,
        teamcity=teamcity,
        summary=os.environ.get("GITHUB_STEP_SUMMARY") or None,
        output=os.environ.get("GITHUB_OUTPUT") or None,
    )


def append_proofs(report: FailureReport) -> list[str]:
    """Append what is proven to the summary of a step on GitHub, if this is one.

    Returns:
        In words, what could not be written.
    """
    problems: list[str] = []
    path = faces_of_step().summary
    if path is not None:
        with _note_fault("step summary", problems):
            _append_summary(path, report, "proofs")
    return problems


def _append_summary(path: str, report: FailureReport, name: str = "markdown") -> None:
    """Append a format to the summary of a step, which other commands may have begun."""
    from pytest_failure_taxonomy.faces.markdown import MAX_BYTES

    try:
        used = os.stat(path).st_size
    except OSError:
        used = 0
    room = MAX_BYTES - used
    text = render(name, report, room=room)
    if len(text.encode("utf-8", "replace")) > room:
        raise ReportError(f"{path}: it is full; a step's summary may have 1 MiB")
    _append(path, text)


def _append_outputs(path: str, verdict: Verdict) -> None:
    """Give a step its outputs, unless an earlier run of it failed in a way that a retry helps less.

    What is not given is empty, and of two values of one output GitHub takes the last. So a green
    run gives none: it would wipe those of a red run before it.
    """
    retryable = {True: "true", False: "false", None: ""}[verdict.retryable]
    earlier: list[str] = []
    with suppress(OSError), Path(path).open("rb") as file:
        outputs = file.read(_MAX_OUTPUTS).decode("utf-8", "replace")
        earlier = _OUTPUTS.findall(outputs)
    rank = _LEADING.index(retryable)
    if any(_LEADING.index(output) <= rank for output in earlier):
        return
    # Reasons and kinds are plain words, and can hold no line.
    lines = (
        f"reason={safe_text(verdict.reason)}\n",
        f"kind={safe_text(verdict.kind)}\n",
        f"retryable={retryable}\n",
    )
    _append(path, "".join(lines))


def _append(path: str, text: str) -> None:
    """Append to a file that other steps of a job write, too; it is made if it is not there."""
    with Path(path).open("ab") as file:
        file.write(text.encode("utf-8", "replace"))

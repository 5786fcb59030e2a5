"""Show a run that has ended: write other formats, print the verdict and notes."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pytest

from pytest_failure_taxonomy.faces import show_faces
from pytest_failure_taxonomy.faces import terminal as face
from pytest_failure_taxonomy.faces.terminal import verdict_lines
from pytest_failure_taxonomy.hooks import printing
from pytest_failure_taxonomy.hooks.printing import print_lines
from pytest_failure_taxonomy.hooks.report_file import ReportFile
from pytest_failure_taxonomy.hooks.settings import Settings
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.summary import accepted_words
from pytest_failure_taxonomy.system.interpreter import our_command, write_words
from pytest_failure_taxonomy.taxonomy.amendments import Amendment
from pytest_failure_taxonomy.taxonomy.evidence import RunEvidence
from pytest_failure_taxonomy.taxonomy.judgement import KnownFailures
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import (
    words_of_fork,
    words_of_uncounted,
)
from pytest_failure_taxonomy.text import ShownPaths, safe_text


@value
class EndedRun:
    """A run whose report is written, with what else to show."""

    run: RunEvidence
    report: FailureReport
    problem: str | None
    """Why the report is not written, or not whole."""
    known: KnownFailures | None
    amendments: Sequence[Amendment]
    cases: dict[str, object]
    """What the HTML page shows of the cases of benches."""


def show_run(
    ended: EndedRun,
    config: pytest.Config,
    settings: Settings,
    file: ReportFile,
    *,
    speaks_last: bool,
) -> None:
    """Write a report's other formats, and print the verdict.

    Args:
        ended: the run.
        config: of the run.
        settings: say what is shown.
        file: of the report.
        speaks_last: print after pytest's last hook, which tells what ends it before or
            outside of its session.
    """
    report = ended.report
    annotations: list[str] = []
    faults = show_faces(report, settings.faces, annotations.append, ended.cases)
    level = printing.verbosity(config)
    has_summary = level > -2 and settings.summary != "off"
    started_in = config.invocation_params.dir
    paths = ShownPaths(str(config.rootpath), str(started_in))
    path = "" if ended.problem else file.path_from(started_in)
    shown = f"{path} ({file.moved})" if path and file.moved else path
    lines: list[face.Line] = []
    if has_summary:
        lines += verdict_lines(
            report,
            shown,
            paths=paths,
            quiet=level < 0,
            problem=ended.problem,
            listed=printing.lines_of_causes(report, paths, settings.summary, level),
            is_folded=printing.is_on_gitlab(),
        )
        if ended.problem is None:  # without a report there is nothing to complete
            lines += face.watcher_lines(report)
        if ended.known is not None:
            from pytest_failure_taxonomy.hooks.known_failures import describe_known

            lines += describe_known(ended.known, ended.report)
        lines += map(face.notice, _describe_problems(ended.amendments, path))
        faults += _remarks(ended.run, file)
    if level > -2:
        lines += map(face.notice, faults)
    is_accepted = ended.known is not None and ended.known.accepted
    is_silent = not has_summary or config.pluginmanager.is_blocked("terminal")
    if is_accepted and is_silent:
        # Nothing turns a failed run green without a word.
        words = safe_text(accepted_words(report))
        write_words(sys.stderr, f"failure taxonomy: {words}\n")
    process_id = os.getpid()

    def speak() -> None:
        if os.getpid() != process_id:  # a fork has the same to do at its end
            return
        links = partial(printing.link_targets, report, paths, file.path, shown)
        print_lines(config, lines, links if has_summary else None)
        print_lines(config, [face.Line(text=text) for text in annotations])

    if speaks_last:
        atexit.register(speak)
    else:
        speak()


def _describe_problems(amendments: Sequence[Amendment], path: str) -> Iterator[str]:
    """Yield why neighbours have no answer, and the command that makes good for it."""
    for amendment in amendments:
        if not amendment.problem:
            continue
        command = our_command(*amendment.remedy, path) if path else ""
        more = f"; add it by: {command}" if command else ""
        yield f"{amendment.problem}{more}"


def _remarks(run: RunEvidence, file: ReportFile) -> Iterator[str]:
    """Yield further notes about a run."""
    if file.remains is not None:
        yield file.remains
    if not run.failures:  # else it stands beside the counts
        return
    if run.uncounted:
        yield words_of_uncounted(run.uncounted)
    yield from map(words_of_fork, run.forked)


def prove_at_end(
    ended: EndedRun,
    config: pytest.Config,
    settings: Settings,
    file: ReportFile,
    variables: Mapping[str, str],
) -> None:
    """Prove failures when this process ends, if asked and if there are some.

    Args:
        ended: the run.
        config: of the run.
        settings: say whether and for how long.
        file: of the report.
        variables: the environment in which pytest was started.
    """
    report = ended.report
    has_failed = report.verdict is not None and report.exit.code == 1
    if settings.prove is None or ended.problem is not None:
        return
    if not has_failed or not report.failures:
        return
    from pytest_failure_taxonomy.hooks.proving import prove_at_exit

    # What is appended to files of others stands there already.
    faces = replace(settings.faces, summary=None, output=None)
    prove_at_exit(
        file.path,
        settings.prove,
        config.invocation_params.dir,
        variables,
        settings.history,
        lambda proven: show_faces(proven, faces, kept=ended.cases),
    )

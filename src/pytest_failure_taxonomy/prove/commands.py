"""`failure-taxonomy prove`, which runs tests again to prove why they failed."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.cli import output
from pytest_failure_taxonomy.cli.reports import load
from pytest_failure_taxonomy.errors import HistoryError, SettingsError
from pytest_failure_taxonomy.faces import append_proofs
from pytest_failure_taxonomy.options import DEFAULT_REPORT, PROVING_VARIABLE
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.write import write_report
from pytest_failure_taxonomy.text import first_line, safe_text

_LONGEST_LINE: Final = 100
_ANSWERS: Final = {
    "passed": (0, "it passes"),
    "failed": (1, "it fails in the same way"),
    "other": (125, "it can't be tested"),
}
"""What `git bisect run` takes for good, bad and untestable, and what people read."""


def prove(options: argparse.Namespace) -> int:
    """Prove the causes of a report; exit code 1 where one of them is not proven."""
    from pytest_failure_taxonomy.prove.after import are_fixed, are_new_tests_sound
    from pytest_failure_taxonomy.prove.bases import find_on_base
    from pytest_failure_taxonomy.prove.causes import prove_causes
    from pytest_failure_taxonomy.prove.commits import find_commits
    from pytest_failure_taxonomy.prove.environment import Source, find_releases
    from pytest_failure_taxonomy.prove.recorded import Task

    path = Path(options.report)
    if not options.environment and (options.find_links or options.offline):
        raise SettingsError(
            "prove: --find-links and --offline say where old versions come from; add "
            "--environment"
        )
    source = Source(
        good=options.good,
        history=options.history,
        find_links=tuple(options.find_links),
        offline=options.offline,
    )
    report = _load_agreed("prove", options)
    _check_writable(path)

    def save(report: FailureReport) -> None:
        with output.writing_to(path):
            write_report(path, report)

    task = Task(
        report=report,
        tell=lambda line: output.answer(f"{safe_text(line)}\n"),
        save=save,
        budget_seconds=options.budget,
        number=options.cause,
        allows_effects=options.yes,
    )
    is_other = options.environment or options.commit or options.good
    resumes = not (options.new or options.fixed or options.base or is_other)
    # As by Ctrl+C: nothing goes on, and no folder stays.
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.new:
            return int(not are_new_tests_sound(task, options.history))
        if options.fixed:
            return int(not are_fixed(task, options.history))
        if options.base is not None:
            report, are_proven = find_on_base(task, options.base)
        elif options.environment:
            report, are_proven = find_releases(task, source)
        elif options.commit or options.good is not None:
            report, are_proven = find_commits(task, options.good)
        else:
            report, are_proven = prove_causes(path, task, resumes=options.resume)
    except KeyboardInterrupt:
        left = "; the results so far are in the report, --resume continues"
        output.tell(f"prove: interrupted{left if resumes else ''}")
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)
    for problem in append_proofs(report):
        output.tell(f"prove: {problem}")
    _remember(report, options.history)
    return int(not are_proven)


def _check_writable(path: Path) -> None:
    """Say before the work that its result can't be written.

    Raises:
        SettingsError: it can't be.
    """
    if not (os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)):
        raise SettingsError(
            f"prove: {path} can't be written, and what is proven goes into it; copy it to a "
            "folder that can be"
        )


def bisect_step(options: argparse.Namespace) -> int:
    """Answer `git bisect run`: the test passes, fails as it did, or can't be judged."""
    from pytest_failure_taxonomy.prove.commits import bisect_step as step

    report = _load_agreed("bisect-step", options)
    outcome = step(report, number=options.cause, times=options.times)
    code, words = _ANSWERS[outcome.result]
    why = first_line(outcome.words) if code else ""
    output.answer(f"{safe_text(': '.join(filter(None, (words, why))))}\n")
    return code


def _load_agreed(command: str, options: argparse.Namespace) -> FailureReport:
    """Return a report whose pytest may be run; the command of an odd one is shown.

    Raises:
        ExperimentError: the report doesn't say how pytest was called.
        SettingsError: an odd report needs `--yes`.
    """
    from pytest_failure_taxonomy.prove.consent import doubts_about
    from pytest_failure_taxonomy.prove.recorded import setup_of

    report = load(Path(options.report))
    if PROVING_VARIABLE in os.environ:  # pytest has just written it
        return report
    setup = setup_of(report)
    doubts = doubts_about(report, setup)
    if not doubts:
        return report
    path = setup.variables.get("PYTHONPATH")
    variables = [] if path is None else ["env", f"PYTHONPATH={path}"]
    words = [*variables, "python", *setup.python, "-m", "pytest", *setup.args]
    runs = f"runs in {setup.folder}:\n{_wrap(words)}"
    again = ["failure-taxonomy", command]
    if options.report != DEFAULT_REPORT:
        again.append(options.report)
    if not options.yes:
        raise SettingsError(
            f"{command}: anybody may have written {options.report}: {safe_text(', '.join(doubts))}"
            f"\nto go on: {shlex.join([*again, '--yes'])}, which {runs}"
        )
    output.answer(f"{runs}\n")
    return report


def _wrap(words: Sequence[str]) -> str:
    """Return a command in lines, whole, that a shell takes as they are.

    What is bad may stand at the end, and an agent gets no long lines.
    """
    safe = [safe_text(shlex.quote(word), sys.maxsize) for word in words]
    lines = textwrap.wrap(
        " ".join(word.replace(" ", "\0") for word in safe),
        _LONGEST_LINE,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(lines).replace("\0", " ")


def _remember(report: FailureReport, url: str | None) -> None:
    """Keep what is proven in the history, if the run is in one."""
    if not any(cause.history and cause.proof for cause in report.causes):
        return
    from pytest_failure_taxonomy.history import open_history

    rootdir = report.run.invocation.rootdir
    try:
        with open_history(url, rootdir=rootdir, create=False) as history:
            history.add(report)
    except HistoryError as error:
        output.tell(f"prove: the results are not in the history: {error}")

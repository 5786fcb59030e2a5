"""`failure-taxonomy convert --from HARNESS`: a report for each trial of a harness of agents."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.cli import output
from pytest_failure_taxonomy.cli.output import STDOUT, answer, tell
from pytest_failure_taxonomy.errors import (
    LogError,
    ReportError,
    SettingsError,
)
from pytest_failure_taxonomy.logs.harness_folders import trials_in
from pytest_failure_taxonomy.logs.trials import (
    Difference,
    Trial,
    report_of,
    words_of_verdict,
)
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.write import write_report
from pytest_failure_taxonomy.taxonomy.words import counted
from pytest_failure_taxonomy.text import safe_text

if TYPE_CHECKING:
    from pytest_failure_taxonomy.report.merging import Merger

_FAILED: Final = 1
_UNREAD: Final = 2
_MAX_PART: Final = 70
"""Characters of a name that a file's name has room for, three times."""
_COUNTS: Final = output.columns_of(
    {">count": "{0[1]}", "the harness": "{0[0][0]}", "ours": "{0[0][1]}"}, {}
)
_Reports = Iterator[tuple[Trial, FailureReport, list[Difference]]]


def _write_named(folder: Path, report: FailureReport, key: str, *names: str) -> None:
    """Write a report under names in which a harness may have put anything.

    The digest of the key at the end tells two reports apart on every file system, and no file of
    anybody else's has it: what is replaced is an earlier report of the same.
    """
    parts = [re.sub(r"[^A-Za-z0-9._@+-]+", "_", name)[:_MAX_PART] for name in names]
    digest = blake2b(key.encode("utf-8", "replace"), digest_size=4).hexdigest()
    path = folder.absolute() / f"{'--'.join(parts).lstrip('.-')}-{digest}.json"
    with output.writing_to(path):
        write_report(path, report)


def convert(options: argparse.Namespace) -> int:
    """Write a report for each trial, or say what the harness says differently."""
    if options.compare and options.output != STDOUT:
        raise SettingsError(
            "convert: --compare writes no report; give either --compare or -o"
        )
    problems: list[str] = []
    found = _reports(options, problems)
    code = _compare(found) if options.compare else _write(found, options.output)
    for problem in problems:
        tell(problem)
    return _UNREAD if problems else code


def _reports(options: argparse.Namespace, problems: list[str]) -> _Reports:
    redaction = Secrets()  # what was learnt of secrets serves for all trials
    for trial in trials_in(options.source, options.files):
        try:
            if isinstance(trial, ReportError):
                raise trial
            yield trial, *report_of(trial, rootdir=Path.cwd(), redaction=redaction)
        except (ReportError, LogError) as error:
            problems.append(str(error))


def _write(reports: _Reports, place: str) -> int:
    if place == STDOUT:
        found = list(islice(reports, 2))
        if len(found) > 1:
            raise SettingsError(
                "convert: there are several trials; give -o FOLDER for the reports"
            )
        for _, report, _ in found:
            output.answer_report(report, STDOUT)
        return 0
    outcomes: Counter[bool] = Counter()
    for trial, report, _ in reports:
        names = (trial.task, trial.system, trial.name)
        _write_named(Path(place), report, report.run.id, *names)
        outcomes[report.verdict is None] += 1
    if outcomes:  # else it is told why there is none
        words = f"{outcomes[True]} passed, {outcomes[False]} failed"
        answer(f"{counted(outcomes.total(), 'trial')}: {words}\n")
    return 0


def _compare(reports: _Reports) -> int:
    outcomes: Counter[tuple[str, str]] = Counter()
    differing: Counter[str] = Counter()
    for trial, report, differences in reports:
        outcomes[trial.outcome, words_of_verdict(report.verdict)] += 1
        for about, theirs, ours in differences:
            differing[about] += 1
            said = f"{trial.harness}: {theirs or 'nothing'}; ours: {ours or 'nothing'}"
            words = safe_text(
                f"{about}: {trial.path}: {trial.name}: {said}", output.MAX_LINE
            )
            answer(f"{words}\n")
    output.answer_lines(output.table_lines(_COUNTS, outcomes.most_common()))
    counts = ", ".join(f"{about} {count}" for about, count in sorted(differing.items()))
    words = f"{counted(outcomes.total(), 'trial')}, {counted(differing.total(), 'difference')}"
    answer(f"{words} ({counts})\n" if counts else f"{words}\n")
    return _FAILED if differing else 0


def write_by_task(mergers: Mapping[str, Merger], folder: Path) -> int:
    """Write the merged report of each task."""
    failed = 0
    for task, merger in sorted(mergers.items()):
        report = merger.result()
        _write_named(folder, report, task, task)
        failed += report.verdict is not None
    words = f"{len(mergers) - failed} passed in every attempt, {failed} did not"
    answer(f"{counted(len(mergers), 'task')}: {words}\n")
    return _FAILED if failed else 0

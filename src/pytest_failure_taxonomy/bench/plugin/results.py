"""Collect the results of a pytest run's cases.

A test's report carries its results to the process that collects them, xdist's controller maybe.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench import report as run_report
from pytest_failure_taxonomy.bench.answers import add_exactly
from pytest_failure_taxonomy.bench.kept.reader import KeptRun
from pytest_failure_taxonomy.bench.kept.runs import lost_to
from pytest_failure_taxonomy.bench.kept.writer import RunFile
from pytest_failure_taxonomy.bench.plugin.run_files import RunFiles
from pytest_failure_taxonomy.bench.plugin.storage import (
    BenchStorage,
    CasesOfTests,
    Source,
    remove_stale_journals,
)
from pytest_failure_taxonomy.bench.plugin.task_classes import TaskClasses
from pytest_failure_taxonomy.bench.run.admission import Admission
from pytest_failure_taxonomy.bench.run.runner import RunResults
from pytest_failure_taxonomy.bench.run.workspaces import remove_empty_folder
from pytest_failure_taxonomy.bench.scores import CaseAttempt, CaseOutcome
from pytest_failure_taxonomy.bench.sharding import digests_of
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.words import cost_words, seconds_words

ReportedResults = list[tuple[Any, ...]]
"""What the report of one test carries to the process that collects them, as plain data.

Each begins with what it is: `run` (the test, the report of a whole run that it made, whether it is
judged); or, followed by the fields of a source, `case` (its id and score), `broken` (the id of a
case whose test failed for another reason than its score, and whether it was called), `stop` (why
cases were not started); or `note` (a line for the summary).
"""
REPORTED = pytest.StashKey[ReportedResults]()


class SourcedReport(NamedTuple):
    """The report of a run, and the test that ran it; empty for the items of the class."""

    report: models.BenchRunReport
    test: str
    folder: str = ""
    """The folder of the task class; empty for a whole run that a test made."""
    is_judged: bool = True
    """Whether it fails the pytest run if cases have no score: not with `gate=False`."""


class SourceResults(RunResults):
    """The results of one source, in memory and, as far as this process makes them, in a file.

    They include those of cases whose test pytest never reached.
    """

    def __init__(self, file: RunFile | None = None) -> None:
        super().__init__()
        self.file = file
        """The file of the run; `None` if nothing is kept, or nothing was begun."""
        self.admission: Admission | None = None
        """Decides which cases of all units may start."""
        self.scheduled: dict[str, None] = {}
        """The ids of the cases that are to run, in order."""
        self.broken: set[str] = set()
        """Cases whose test failed for another reason than the score, which then doesn't count.

        Those whose test got no further than its setup are not started by that.
        """
        self.kept: KeptRun | None = None
        """The file of the run, as all processes together have written it."""
        self.system = ""
        """The system that was called, with its version."""
        self._before: KeptRun | None = None

    def before(self) -> KeptRun | None:
        """Return what the file holds now, by whichever process."""
        if self.file is None:
            return None
        with suppress(BenchError):
            self._before = self._before or KeptRun(self.file.path, has_outputs=False)
            return self._before.read()
        return None

    def fail(self, case_id: str, call: CaseAttempt) -> None:
        """Note a call that failed, in the file, too; admission writes what is begun and spent."""
        super().fail(case_id, call)
        if self.file is not None:
            self.file.note_attempt(case_id, call)

    def finish(self, outcome: CaseOutcome) -> None:
        """Note the outcome of a case, in the file, too."""
        super().finish(outcome)
        if self.file is not None:
            self.file.note_outcome(outcome)

    def report(self, plan: models.RunPlan, label: str = "") -> models.BenchRunReport:
        """Aggregate the results; `label` says which of several systems they are of."""
        ids = {case.case_id for case in plan.cases}
        counted = self.scores.keys() - self.broken
        kept = self.kept
        usages = list(self.usage_of_calls.values())
        run_id = os.urandom(16).hex()
        if kept is not None:
            run_id = kept.header.run_id
            usages = kept.usages() if kept.known else usages
        stopped = "" if ids <= self.scores.keys() else self.stopped
        return run_report.aggregate(
            plan,
            [(case_id, self.scores[case_id]) for case_id in ids & counted],
            run_id=models.id_of_run(run_id, stopped),
            started=self.started & ids,
            stopped=stopped or None,
            lost_to=self.lost_to,
            lost_cost_usd=self.late_cost_usd,
            usages=usages,
            digests=digests_of(plan.task_class, plan.cases),
            system=self.system or None,
            system_label=label,
        )

    def take_kept(self, run: KeptRun) -> None:
        """Add what the processes of the run have written into its file."""
        self.kept = run
        self.system = str(run.header.system)
        self.scheduled.update(dict.fromkeys(run.cases))  # a continued run may have more
        if run.known:
            self.started.update(key for key, case in run.known.items() if case.begun)
            self.scores = {**run.scores(), **self.scores}
            self.stopped = run.stopped or self.stopped
            self.lost_to.update(lost_to(run))
            self.late_cost_usd = run.cost_without_score_usd()


class Results:
    """The results of a pytest run.

    On xdist's controller, results are collected from the workers' reports and files.
    """

    def __init__(
        self, config: pytest.Config, storage: BenchStorage, worker: str = ""
    ) -> None:
        self._storage = storage
        self.is_shared = bool(worker) and not storage.does_all
        """Whether other processes run cases that are this one's, too, should one of them die."""
        self.worker = worker
        """The name of this process among those of xdist; empty for a single one."""
        self.files = RunFiles(config, storage, worker)
        """The files of its runs."""
        self.sources: defaultdict[Source, SourceResults] = defaultdict(SourceResults)
        """Of whom anything is known."""
        self._whole_runs: list[SourcedReport] = []
        self._first_progress: tuple[float, int] | None = None
        """When it was first asked, and how many cases were done by then."""
        self.notes: dict[str, None] = {}
        """What processes have to say, each once."""

    def take(self, sent: ReportedResults) -> None:
        """Add the results that the report of a test carries."""
        for result in sent:
            match result:
                case ("note", text):
                    self.notes[text] = None
                case ("run", test, run, is_judged):
                    report = models.BenchRunReport.model_validate(run)
                    self._whole_runs.append(
                        SourcedReport(report, test, is_judged=is_judged)
                    )
                case ("case", *source, case_id, score):
                    self._add_score(Source(*source), case_id, score)
                case ("broken", *source, case_id, is_started):
                    results = self.sources[Source(*source)]
                    results.broken.add(case_id)
                    if is_started:
                        results.started.add(case_id)
                case ("stop", *source, why):
                    self.sources[Source(*source)].stopped = why

    def _add_score(self, source: Source, case_id: str, score: object) -> None:
        results = self.sources[source]
        # Whether a test will have a score is not always known before it runs.
        if source.test:
            results.scheduled[case_id] = None
        reported = models.BenchScore.model_validate(score)
        # Two equal scores of each case would be the most memory that a long run takes.
        if results.scores.get(case_id) != reported:
            results.scores[case_id] = reported

    def progress(self) -> list[str]:
        """Return how far the cases are, in words; nothing when all are done."""
        sources = list(self.sources.values())
        total = sum(len(results.scheduled) for results in sources)
        scores = [
            score for results in sources for score in list(results.scores.values())
        ]
        done, now = len(scores), time.monotonic()
        self._first_progress = self._first_progress or (now, done)
        since, done_before = self._first_progress
        if done >= total:
            return []
        words = [f"{done} of {total} cases"]
        if failed := sum(not score.passed for score in scores):
            words.append(f"{failed} failed")
        if cost := cost_words(add_exactly(*(score.cost_usd for score in scores))):
            words.append(cost)
        if done > done_before:
            left = (now - since) * (total - done) / (done - done_before)
            words.append(f"{seconds_words(left)} left")
        return words

    def reports(self, classes: TaskClasses) -> list[SourcedReport]:
        """Return a report for each source that has cases to run, then those of whole runs."""
        reports = []
        for source, results in self.sources.items():
            if results.scheduled:
                task_class = classes.load(Path(source.folder))
                chosen = [*self.scheduled_cases(source, task_class)]
                report = results.report(classes.plan(task_class, chosen), source.system)
                reports.append(SourcedReport(report, source.test, source.folder))
        return [_name_shard(sourced) for sourced in (*reports, *self._whole_runs)]

    def scheduled_cases(
        self, source: Source, task_class: models.TaskClass
    ) -> Iterator[models.BenchCase]:
        """Yield the cases of a class that are to run, in its order."""
        scheduled = self.sources[source].scheduled
        return (case for case in task_class.cases if case.case_id in scheduled)

    def note_baseline(
        self, sourced: SourcedReport, comparison: models.BenchComparison | str
    ) -> None:
        """Write into the file of a run how it differs from its baseline."""
        label = sourced.report.system_label
        run = self.sources[Source(sourced.folder, sourced.test, label)].kept
        if run is not None:
            self.files.note_baseline(run.path, comparison)

    def kept_runs(self) -> dict[str, KeptRun]:
        """Return the runs that have files, by id."""
        runs = [results.kept for results in self.sources.values()]
        return {run.header.run_id: run for run in runs if run is not None}

    def collect(self) -> None:
        """Add what all processes of this pytest run have kept, on the one that prints the summary.

        The file of a source is not read where this process alone ran its cases, and has all their
        scores: ten thousand cases take 60 MiB.
        """
        self.files.close()
        for path in self.files.paths():
            remove_empty_folder(path.with_suffix(""))
            with suppress(BenchError):
                self._collect_run(path)
        if self._storage.journal:  # of xdist's workers, those included that died
            journal = CasesOfTests(Path(self._storage.journal))
            for source, case_id in journal.cases():
                self.sources[source].scheduled[case_id] = None
            journal.remove()
            remove_stale_journals()

    def _collect_run(self, path: Path) -> None:
        run = KeptRun(path, has_outputs=False)
        source = self.files.source_of(run.header)
        if source not in self.sources:
            return
        results = self.sources[source]
        is_own = path.name.startswith(self._storage.name)
        has_all = results.started <= results.scores.keys()
        if not is_own or self._storage.journal or not has_all:
            run.read(is_over=True)
        if is_own or self._storage.name in run.sessions:
            results.take_kept(run)

    def note_end(self, why: str) -> None:
        """Note why pytest ended early, for cases that nothing else has kept from starting."""
        for results in self.sources.values():
            if results.scheduled.keys() - results.started - results.scores.keys():
                results.stopped = results.stopped or why


def reported_by(item: pytest.Item) -> ReportedResults:
    """Return the results that the report of a test will carry; whatever happens is added."""
    return item.stash.setdefault(REPORTED, [])


def user_properties(sent: ReportedResults) -> list[tuple[str, object]]:
    """Return the scores among results as user properties, which `--junitxml` writes."""
    properties: list[tuple[str, object]] = []
    for score in (fields[-1] for what, *fields in sent if what == "case"):
        properties.append(("bench_score", score["score"]))
        if score["failure_modes"]:
            codes = " ".join(mode["code"] for mode in score["failure_modes"])
            properties.append(("bench_failure_modes", codes))
        if score["cost_usd"]:
            properties.append(("bench_cost_usd", score["cost_usd"]))
    return properties


def _name_shard(sourced: SourcedReport) -> SourcedReport:
    """Add the test and the system to a shard's report."""
    report, shard = sourced.report, sourced.report.shard
    if shard is None:
        return sourced
    source = shard.source + (f" in {sourced.test}" if sourced.test else "")
    source += f" with {report.system_label}" if report.system_label else ""
    shard = shard.model_copy(update={"source": source})
    return sourced._replace(report=report.model_copy(update={"shard": shard}))

"""The results of the cases of a pytest run: how they come together, are compared, and are shown.

A test's report carries its results to the process that collects them, xdist's controller maybe.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_failure_taxonomy.bench import comparing
from pytest_failure_taxonomy.bench import report as run_report
from pytest_failure_taxonomy.bench.bounds import NO_SCIPY
from pytest_failure_taxonomy.bench.kept.reader import KeptRun, lost_to, run_paths
from pytest_failure_taxonomy.bench.models import BenchRunReport, BenchScore, RunPlan, id_of_run
from pytest_failure_taxonomy.bench.plugin.storage import Source, storage_of
from pytest_failure_taxonomy.bench.sharding import case_digest, digests_of
from pytest_failure_taxonomy.bench.user_code import is_infrastructure
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import LATEST, chosen

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.kept.file import RunFile
    from pytest_failure_taxonomy.bench.plugin.task_classes import TaskClasses
    from pytest_failure_taxonomy.bench.run.admission import Admission
    from pytest_failure_taxonomy.bench.scores import CaseAttempt, CaseOutcome

BASELINE: pytest.StashKey[Baseline] = pytest.StashKey()
"""In the stash of the configuration: the baseline of the run, if it has one."""

ReportedResults = list[tuple[Any, ...]]
"""What the report of one test carries to the process that collects them, as plain data.

Each begins with what it is: `run` (the test, the report of a whole run that it made, whether it is
judged); or, followed by the fields of a source, `case` (its id and score), `broken` (the id of a
case whose test failed for another reason than its score, and whether it was called), `stop` (why
cases were not started); or `not_rerun` (a plugin would have run the test again).
"""
REPORTED = pytest.StashKey[ReportedResults]()

FindRuns = Callable[[BenchRunReport], Sequence[comparing.ComparedRun]]
"""Returns the older runs of a report's class and system."""
MakePlan = Callable[[Path, Sequence[str]], RunPlan]


class SourcedReport(NamedTuple):
    """The report of a run, and the test that ran it; empty for the items of the class."""

    report: BenchRunReport
    test: str
    folder: str = ""
    """The folder of the task class; empty for a whole run that a test made."""
    is_judged: bool = True
    """Whether it fails the pytest run if cases have no score: not with `gate=False`."""


class SourceResults:
    """The results of one source, in memory and, as far as this process makes them, in a file."""

    def __init__(self, file: RunFile | None = None) -> None:
        self.file = file
        """The file of the run; `None` if nothing is kept, or nothing was begun."""
        self.admission: Admission | None = None
        """Decides which cases of all units may start."""
        self.scheduled: dict[str, None] = {}
        """The ids of the cases that are to run, in order."""
        self.started: set[str] = set()
        self.scores: dict[str, BenchScore] = {}
        """Of finished cases, those included whose test pytest never reached."""
        self.broken: set[str] = set()
        """Cases whose test failed for another reason than the score, which then doesn't count.

        Those whose test got no further than its setup are not started by that.
        """
        self.stopped = ""
        """Why cases were not started."""
        self.lost_to: dict[str, str] = {}
        """The kind of the provider's failure for each case that never got through."""
        self.late_cost_usd = 0.0
        """What was spent that is in no score."""
        self.kept: KeptRun | None = None
        """The file of the run, as all processes together have written it."""
        self.system = ""
        """The system that was called, with its version."""
        self._ended: set[tuple[str, int]] = set()
        """The calls that have ended: case and number."""
        self._before: KeptRun | None = None

    def before(self) -> KeptRun | None:
        """Return what the file holds now, by whichever process."""
        if self.file is None:
            return None
        with suppress(BenchError):
            self._before = self._before or KeptRun(self.file.path, has_outputs=False)
            return self._before.read()
        return None

    def begin(self, case_id: str, attempt: int) -> None:
        """See a case before its system is called; its admission has written that."""
        del attempt
        self.started.add(case_id)

    def spend(self, case_id: str, attempt: int, cost_usd: float) -> None:
        """Note what a call of a case's system has spent."""
        if (case_id, attempt) in self._ended:
            self.late_cost_usd += cost_usd
        if self.file is not None:
            self.file.note_spent(case_id, attempt, cost_usd)

    def fail(self, case_id: str, call: CaseAttempt) -> None:
        """Note a call that failed, after which the system is called again."""
        self._ended.add((case_id, call.attempt))
        if self.file is not None:
            self.file.note_attempt(case_id, call)

    def finish(self, outcome: CaseOutcome) -> None:
        """Note the outcome of a case."""
        self.scores[outcome.case_id] = outcome.score
        for last in outcome.attempts[-1:]:
            self._ended.add((outcome.case_id, last.attempt))
            if last.kind is not None and is_infrastructure(last.kind):
                self.lost_to[outcome.case_id] = last.kind
        if self.file is not None:
            self.file.note_outcome(outcome)

    def report(self, plan: RunPlan, label: str = "") -> BenchRunReport:
        """Aggregate the results; `label` says which of several systems they are of."""
        known = {case.case_id for case in plan.cases}
        run_id = os.urandom(16).hex() if self.kept is None else self.kept.header.run_id
        is_missing = len(known & self.scores.keys()) < len(known)
        stopped = self.stopped if is_missing else ""
        return run_report.aggregate(
            plan,
            [(each, score) for each, score in self.scores.items() if each in known - self.broken],
            run_id=id_of_run(run_id, stopped),
            started=self.started & known,
            stopped=stopped or None,
            lost_to=self.lost_to,
            lost_cost_usd=self.late_cost_usd,
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
    """The results of a run; on xdist's controller, collected from the workers' reports."""

    def __init__(self) -> None:
        self.sources: defaultdict[Source, SourceResults] = defaultdict(SourceResults)
        """Of whom anything is known."""
        self._whole_runs: list[SourcedReport] = []
        self.is_not_rerun = False
        """Whether a case failed that a plugin would have run again."""

    def take(self, sent: ReportedResults) -> None:
        """Add the results that the report of a test carries."""
        for what, *fields in sent:
            if what == "not_rerun":
                self.is_not_rerun = True
                continue
            if what == "run":
                test, run, is_judged = fields
                report = BenchRunReport.model_validate(run)
                self._whole_runs.append(SourcedReport(report, test, is_judged=is_judged))
                continue
            folder, test, system, *rest = fields
            results = self.sources[Source(folder, test, system)]
            match what, *rest:
                case "case", case_id, score:
                    if test:  # whether a test will have a score is not always known before it runs
                        results.scheduled[case_id] = None
                    reported = BenchScore.model_validate(score)
                    # Two equal scores of each case would be the most memory that a long run takes.
                    if results.scores.get(case_id) != reported:
                        results.scores[case_id] = reported
                case "broken", case_id, is_started:
                    results.broken.add(case_id)
                    if is_started:
                        results.started.add(case_id)
                case "stop", why:
                    results.stopped = why

    def reports(self, make_plan: MakePlan) -> list[SourcedReport]:
        """Return a report for each source that has cases to run, then those of whole runs."""
        reports = [
            SourcedReport(
                results.report(
                    make_plan(Path(source.folder), tuple(results.scheduled)), source.system
                ),
                source.test,
                source.folder,
            )
            for source, results in self.sources.items()
            if results.scheduled
        ]
        return [*reports, *self._whole_runs]


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


class Baseline:
    """The runs that this one must not be worse than, one for each class and system that it has."""

    def __init__(self, find_runs: FindRuns) -> None:
        self._find_runs = find_runs
        self.problems: list[str] = []
        """Why classes could not be compared, though the user chose no cases."""
        self.notes: list[str] = []
        """Which classes the baseline does not have."""

    @classmethod
    def read(cls, config: pytest.Config) -> Baseline:
        """Read the baseline before any system is called.

        Raises:
            pytest.UsageError: It can't be read, or nothing could be compared with it.
        """
        option = config.getoption("bench_baseline")
        where = "bench_baseline" if option is None else "--bench-baseline"
        given, folder = chosen(config, option, config.getini("bench_baseline"))
        storage, _ = storage_of(config)
        try:
            if given == LATEST:
                paths = run_paths(storage)  # of which this pytest run has none
                if not paths:
                    right = "run once without a baseline, or name another --bench-storage"
                    raise BenchError(f"{LATEST}: no run is kept in {storage}; {right}")
                baseline = cls(comparing.latest_runs(paths))
            else:
                runs = comparing.read_earlier_runs(str(given), storage, folder=folder)
                baseline = cls(
                    lambda report: [
                        run
                        for run in runs
                        if (run.task_class, run.system) == (report.task_class, report.system_label)
                    ]
                )
        except BenchError as error:
            raise pytest.UsageError(f"{where}: {error}") from None
        if find_spec("scipy") is None:
            raise pytest.UsageError(f"{where}: {NO_SCIPY.removeprefix('none: ')}")
        return baseline

    def judge(self, sourced: SourcedReport, classes: TaskClasses) -> SourcedReport:
        """Return the report of a class with a gate that asks for no loss, too.

        A class or a system that the baseline doesn't have is new, and stays as it is. So is what a
        test has run by the mark or the fixture: the file doesn't say which test that was.
        """
        runs = [] if sourced.test else self._find_runs(sourced.report)
        if not runs:
            if not sourced.test:
                name = run_report.name_with_system(sourced.report)
                self.notes.append(f"bench {name}: the baseline has no whole run to compare with")
            return sourced
        cases = classes.load(Path(sourced.folder)).cases
        digests = {each.case_id: case_digest(each) for each in cases}
        report, problem = comparing.evaluate_against_baseline(sourced.report, runs, digests)
        if problem:
            self.problems.append(f"bench {runs[0].name}: {problem}")
        return sourced._replace(report=report)


def is_gate_failed(report: BenchRunReport) -> bool:
    """Return whether the task class has a gate and its run failed it."""
    return report.gate is not None and report.gate.verdict == "FAIL"


def print_runs(
    terminal: pytest.TerminalReporter,
    reports: Iterable[SourcedReport],
    lines_of_kept: Callable[[BenchRunReport], Iterable[str]],
) -> None:
    """Print the run of each class, or those of its systems together.

    Args:
        terminal: Where to.
        reports: The runs.
        lines_of_kept: Returns where a run is kept, and what an earlier one had left to do.
    """
    by_class: dict[tuple[str, str, str], list[BenchRunReport]] = {}
    for report, test, folder, _ in reports:
        # A whole run of a test stands alone: the test says how its runs belong together.
        alone = "" if folder else report.run_id
        by_class.setdefault((folder, test, alone), []).append(report)
    is_detailed = terminal.verbosity > 0
    for (_, test, _), runs in by_class.items():
        if len(runs) > 1:
            for line in run_report.table_of_systems(runs, test=test):
                terminal.write_line(line)
            if terminal.verbosity < 0:
                continue
        for report in runs:
            kept = lines_of_kept(report)
            if len(runs) > 1:
                lines = run_report.lines_of_system(report, detail=is_detailed)
                lines = [*lines, *(f"  {line}" for line in kept)]
            else:
                lines = run_report.summary_lines(report, test=test, detail=is_detailed)
                lines = [*lines, *kept]
            for line in lines:
                is_gate = line.lstrip().startswith("gate:")
                terminal.write_line(line, red=is_gate and is_gate_failed(report))

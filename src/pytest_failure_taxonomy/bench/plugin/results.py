"""Collect, save, compare and show the results of a pytest run's cases.

A test's report carries its results to the process that collects them, xdist's controller maybe.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.bench import comparing, models
from pytest_failure_taxonomy.bench import report as run_report
from pytest_failure_taxonomy.bench.answers import add_exactly
from pytest_failure_taxonomy.bench.bounds import NO_SCIPY
from pytest_failure_taxonomy.bench.kept import file as run_file
from pytest_failure_taxonomy.bench.kept.file import KeptRun, RunFile, RunHeader
from pytest_failure_taxonomy.bench.plugin.storage import (
    BenchStorage,
    CasesOfTests,
    Source,
    remove_stale_journals,
    storage_of,
)
from pytest_failure_taxonomy.bench.plugin.task_classes import TaskClasses
from pytest_failure_taxonomy.bench.run.admission import Admission
from pytest_failure_taxonomy.bench.run.runner import RunResults
from pytest_failure_taxonomy.bench.run.workspaces import (
    Workspaces,
    remove_empty_folder,
)
from pytest_failure_taxonomy.bench.scores import CaseAttempt, CaseOutcome
from pytest_failure_taxonomy.bench.sharding import case_digest, digests_of
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import LATEST, RUN_SUFFIX, STORAGE, chosen
from pytest_failure_taxonomy.system import files
from pytest_failure_taxonomy.system.process import ask_git
from pytest_failure_taxonomy.taxonomy.words import cost_words, seconds_words

_IGNORE: Final = (
    b"# Made by pytest-failure-taxonomy: what systems returned is not for git.\n*\n"
)
_CLOCKS_DIFFER_SECONDS: Final = 2.0
"""By how much the time of a file system may be behind ours."""
_GIT_SECONDS: Final = 1.0
_MAX_NAME: Final = 60
_MOST_NAMED: Final = 3
_MAIN: Final = "main"
"""What the process is called that decides which runs are continued."""

BASELINE: pytest.StashKey[Baseline] = pytest.StashKey()
"""In the stash of the configuration: the baseline of the run, if it has one."""

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
        known = {case.case_id for case in plan.cases}
        run_id = os.urandom(16).hex() if self.kept is None else self.kept.header.run_id
        is_missing = len(known & self.scores.keys()) < len(known)
        stopped = self.stopped if is_missing else ""
        return run_report.aggregate(
            plan,
            [
                (each, score)
                for each, score in self.scores.items()
                if each in known - self.broken
            ],
            run_id=models.id_of_run(run_id, stopped),
            started=self.started & known,
            stopped=stopped or None,
            lost_to=self.lost_to,
            lost_cost_usd=self.late_cost_usd,
            usages=self.kept.usages()
            if self.kept is not None and self.kept.known
            else self.usage_of_calls.values(),
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
            self.lost_to.update(run_file.lost_to(run))
            self.late_cost_usd = run.cost_without_score_usd()


class Results:
    """The results of a pytest run, and the files of its task classes' runs.

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
        self._config = config
        self._rootdir = config.rootpath
        self._began = time.time() - _CLOCKS_DIFFER_SECONDS
        self._files: list[RunFile] = []
        self.sources: defaultdict[Source, SourceResults] = defaultdict(SourceResults)
        """Of whom anything is known."""
        self._whole_runs: list[SourcedReport] = []
        self._first_progress: tuple[float, int] | None = None
        """When it was first asked, and how many cases were done by then."""
        self.notes: dict[str, None] = {}
        """What processes have to say, each once."""

    def take(self, sent: ReportedResults) -> None:
        """Add the results that the report of a test carries."""
        for each in sent:
            match each:
                case ("note", text):
                    self.notes[text] = None
                case ("run", test, run, is_judged):
                    report = models.BenchRunReport.model_validate(run)
                    self._whole_runs.append(
                        SourcedReport(report, test, is_judged=is_judged)
                    )
                case ("case", *source, case_id, score):
                    results = self.sources[Source(*source)]
                    # Whether a test will have a score is not always known before it runs.
                    if Source(*source).test:
                        results.scheduled[case_id] = None
                    reported = models.BenchScore.model_validate(score)
                    # Two equal scores of each case would be the most memory that a long run takes.
                    if results.scores.get(case_id) != reported:
                        results.scores[case_id] = reported
                case ("broken", *source, case_id, is_started):
                    self.sources[Source(*source)].broken.add(case_id)
                    if is_started:
                        self.sources[Source(*source)].started.add(case_id)
                case ("stop", *source, why):
                    self.sources[Source(*source)].stopped = why

    def progress(self) -> list[str]:
        """Return how far the cases are, in words; nothing when all are done."""
        sources = list(self.sources.values())
        total = sum(len(each.scheduled) for each in sources)
        scores = [score for each in sources for score in list(each.scores.values())]
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
                chosen = self._scheduled_cases(source, task_class)
                report = results.report(classes.plan(task_class, chosen), source.system)
                reports.append(SourcedReport(report, source.test, source.folder))
        return [_with_part(each) for each in (*reports, *self._whole_runs)]

    def check(self, shard: tuple[int, int] | None) -> None:
        """Refuse what would have all cases paid for again, though the user has named a run.

        Raises:
            pytest.UsageError: It can't be read, a process of another pytest works on it, or it is
                of other sources.
        """
        sources = [
            source
            for source in self.sources
            if not source.test and self._storage.folder
        ]
        try:
            found = [self._find(source, shard) for source in sources]
            for path, _ in found:
                # That of another shard is only looked at.
                if path is not None and _part(KeptRun(path).header.shard) == shard:
                    file = RunFile(path, (), self._redact, _MAIN)
                    self._files.append(file)
                    file.hold(self._storage.name)
        except (BenchError, OSError) as error:
            raise pytest.UsageError(f"--bench-resume: {error}") from None
        if (
            not found
            or self._storage.resumes in ("", LATEST)
            or any(path for path, _ in found)
        ):
            return
        wanted = ", ".join(
            sorted({relative(self._rootdir, each.folder) for each in sources})
        )
        raise pytest.UsageError(
            f"--bench-resume: {found[0][1]}, and none of {wanted}; name another, or leave it out"
        )

    def _find(
        self, source: Source, shard: tuple[int, int] | None
    ) -> tuple[Path | None, str | None]:
        """Return the file of the run that a source's is to continue, or why there is none.

        A test runs anew, since its code around the run may have changed.

        Args:
            source: Where the cases come from.
            shard: Which part of the class is to run, and of how many; `None` for all of it.

        Raises:
            BenchError: The file can't be read.
        """
        given = self._storage.resumes
        if not given or source.test:
            return None, None
        paths = run_file.run_paths(Path(self._storage.folder))
        # The runs that other pytest runs began, the oldest first.
        earlier = [
            each for each in paths if not each.name.startswith(self._storage.name)
        ]
        if given == LATEST:
            ending = f"-{name_of_source(self._rootdir, source)}{RUN_SUFFIX}"
            found = [each for each in earlier if each.name.endswith(ending)]
            for path in reversed(found):
                if _part(KeptRun(path).header.shard) == shard:
                    return path, None
            why_not = "no run of it was kept that could be continued"
            return (found[-1], None) if found else (None, why_not)
        paths = run_file.find_runs(given, earlier)
        headers = [KeptRun(path).header for path in paths]
        for path, header in zip(paths, headers, strict=True):
            if source_of_run(self._rootdir, header) == source:
                return path, None
        ran = set()
        for header in headers:
            label = header.system.label
            ran.add(
                (header.folder or header.task_class)
                + (f" with {label}" if label else "")
            )
        what = ", ".join(sorted(ran)) or "nothing that is kept"
        return None, f"{Path(given).name} is a run of {what}"

    def open(
        self,
        source: Source,
        task_class: models.TaskClass,
        system: run_file.SystemGiven,
        cases: Iterable[models.BenchCase] | None = None,
        shard: models.RunShard | None = None,
    ) -> RunFile | None:
        """Return the file of a source's run; `None` if nothing is kept.

        The first process that asks creates it. All processes come to the same file, because they
        all know the same of the run.

        Args:
            source: Where the cases come from.
            task_class: Their class, with the settings that options have given it.
            system: What is called.
            cases: The cases to run, in all processes together; by default, those that are
                scheduled.
            shard: Which shard of the class these are.
        """
        if not self._storage.folder:
            return None
        header = run_file.begin_header(
            task_class,
            run_id=f"{self._storage.name}-{name_of_source(self._rootdir, source)}",
            folder=relative(self._rootdir, source.folder),
            system=system,
        )
        commit = _commit(self._rootdir)
        own = {"test": source.test, "commit": commit, "shard": shard}
        header = header.model_copy(update=own)
        if cases is None:
            cases = self._scheduled_cases(source, task_class)
        listed = [run_file.scheduled(case) for case in cases]
        earlier = None
        try:
            path, why_not = self._find(source, _part(shard))
            if path is not None:
                earlier = run_file.read_run(path, has_outputs=False)
        except BenchError as error:
            why_not = str(error)
        if earlier is not None:
            why_not = _why_not_resumed(earlier.header, header)
        if earlier is not None and why_not is None:
            # Its cases and those that were selected now, if the class still has them.
            known = {each.case_id: each for each in (*earlier.scheduled(), *listed)}
            whole = [
                known[each.case_id]
                for each in task_class.cases
                if each.case_id in known
            ]
            file = RunFile(earlier.path, whole, self._redact, self.worker)
            self._files.append(file)
            file.hold(self._storage.name)
            file.resume(self._storage.name, commit, header.cases_in_class)
        else:
            path = self._make_folder() / f"{header.run_id}{RUN_SUFFIX}"
            file = RunFile(path, listed, self._redact, self.worker)
            self._files.append(file)
            file.create(header.model_copy(update={"not_resumed": why_not}))
            if not source.test and not self._storage.is_temporary:
                with suppress(OSError):  # the file's own problem says what is wrong
                    file.hold(self._storage.name)
        return file

    def workspaces(
        self, task_class: models.TaskClass, file: RunFile | None
    ) -> Workspaces | None:
        """Return what makes the workspaces of a run that is kept; they are beside its file."""
        settings = task_class.settings.workspace
        if settings is None or file is None or self._storage.is_temporary:
            return None
        return Workspaces(task_class, settings, file.path.with_suffix(""))

    def close(self) -> None:
        """Close the files of the runs, which other pytest runs may continue then."""
        for file in self._files:
            file.close()

    def keep_baseline(
        self, of: SourcedReport, found: models.BenchComparison | str
    ) -> None:
        """Write into the file of a run how it differs from its baseline."""
        kept = self.sources[Source(of.folder, of.test, of.report.system_label)].kept
        if kept is not None:
            file = RunFile(kept.path, (), self._redact)
            file.note_baseline(found)
            file.close()

    def _scheduled_cases(
        self, source: Source, task_class: models.TaskClass
    ) -> list[models.BenchCase]:
        scheduled = self.sources[source].scheduled
        return [case for case in task_class.cases if case.case_id in scheduled]

    def note_problems(self) -> Iterator[str]:
        """Yield why runs could not be written."""
        yield from filter(
            None, [self._storage.problem, *(file.problem for file in self._files)]
        )

    def _make_folder(self) -> Path:
        folder = Path(self._storage.folder)
        with suppress(OSError):  # the file's own error says what is wrong
            if self._storage.is_temporary:
                with files.make_folder(folder):
                    pass  # it has to be there, and nobody else's
            elif (
                not folder.is_dir() or folder == self._rootdir / STORAGE
            ):  # of a worker, maybe
                folder.mkdir(parents=True, exist_ok=True)
                files.write_new(folder / ".gitignore", _IGNORE)
        return folder

    @cached_property
    def _redact(self) -> Callable[[Any], Any]:
        from pytest_failure_taxonomy.redaction.redactor import Redactor

        given: list[str] = self._config.getoption("failure_taxonomy_redact", None) or []
        ini: list[str] = []
        with suppress(
            KeyError, ValueError
        ):  # the plugin that declares it is switched off
            ini = self._config.getini("failure_taxonomy_redact")
        redact: Callable[[Any], Any] = Redactor((*ini, *given)).redact_json
        return redact

    def collect(self) -> None:
        """Add what all processes of this pytest run have kept, on the one that prints the summary.

        The file of a source is not read where this process alone ran its cases, and has all their
        scores: ten thousand cases take 60 MiB.
        """
        self.close()
        for path in self._paths():
            remove_empty_folder(path.with_suffix(""))
            with suppress(BenchError):
                run = KeptRun(path, has_outputs=False)
                source = source_of_run(self._rootdir, run.header)
                if source not in self.sources:
                    continue
                known = self.sources[source]
                is_own = path.name.startswith(self._storage.name)
                is_known = (
                    not self._storage.journal and known.started <= known.scores.keys()
                )
                if not (is_own and is_known):
                    run.read(is_over=True)
                if is_own or self._storage.name in run.sessions:
                    known.take_kept(run)
        if self._storage.journal:  # of xdist's workers, those included that died
            journal = CasesOfTests(Path(self._storage.journal))
            for source, case_id in journal.cases():
                self.sources[source].scheduled[case_id] = None
            journal.remove()
            remove_stale_journals()

    def note_end(self, why: str) -> None:
        """Note why pytest ended early, for cases that nothing else has kept from starting."""
        for each in self.sources.values():
            if each.scheduled.keys() - each.started - each.scores.keys():
                each.stopped = each.stopped or why

    def _paths(self) -> list[Path]:
        """Return the files that processes of this session may have written, the oldest first."""
        paths = (
            run_file.run_paths(Path(self._storage.folder))
            if self._storage.folder
            else []
        )
        if not self._storage.resumes:
            return [each for each in paths if each.name.startswith(self._storage.name)]
        given = Path(self._storage.resumes)
        if given.is_file() and given not in paths:
            paths.append(given)
        return [each for each in paths if each.stat().st_mtime >= self._began]

    def print_runs(
        self,
        terminal: pytest.TerminalReporter,
        reports: Iterable[SourcedReport],
        shown: Callable[[Path], str],
    ) -> None:
        """Print the run of each class, or those of its systems together.

        Args:
            terminal: Where to.
            reports: The runs.
            shown: Returns a path as a user would type it.
        """
        by_class: dict[tuple[str, str, str], list[models.BenchRunReport]] = {}
        for report, test, folder, _ in reports:
            # A whole run of a test stands alone: the test says how its runs belong together.
            alone = "" if folder else report.run_id
            by_class.setdefault((folder, test, alone), []).append(report)
        is_detailed, is_brief = terminal.verbosity > 0, terminal.verbosity < 0
        for (_, test, _), runs in by_class.items():
            if len(runs) > 1:
                for line in run_report.table_of_systems(
                    runs, test=test, has_pairs=not is_brief
                ):
                    terminal.write_line(line)
            for report in runs:
                if len(runs) > 1:
                    lines = run_report.lines_of_system(
                        report, detail=is_detailed, brief=is_brief
                    )
                    indent = "    "
                else:
                    lines = run_report.summary_lines(
                        report, test=test, detail=is_detailed
                    )
                    indent = "  "
                for line in lines:
                    terminal.write_line(
                        line, red=line.lstrip().startswith("gate: FAIL")
                    )
                for line in self._lines_of_kept(report, shown, is_brief=is_brief):
                    terminal.write_line(f"{indent}{line}")

    def _lines_of_kept(
        self,
        report: models.BenchRunReport,
        shown: Callable[[Path], str],
        *,
        is_brief: bool,
    ) -> Iterator[str]:
        """Yield where a run is kept, and what an earlier one had left to do."""
        kept_id = report.run_id.removeprefix(models.PARTIAL)
        found = (each.kept for each in self.sources.values())
        run = next((run for run in found if run and run.header.run_id == kept_id), None)
        if run is None:
            return
        if resumed := resumed_line(run):
            yield f"resumed: {resumed}"
        yield from run.problems[:3]
        is_over = report.counts.graded == report.counts.scheduled
        if not (is_brief and is_over) and not self._storage.is_temporary:
            more = "" if is_over else "; --bench-resume runs what is missing"
            yield f"kept: {shown(run.path.absolute())}{more}"


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


@dataclass(eq=False)
class Baseline:
    """The runs that this one must not be worse than, one for each class and system that it has."""

    find_runs: Callable[[models.BenchRunReport], Sequence[comparing.ComparedRun]]
    """Returns the older runs of a report's class and system."""
    has: str
    """What else it has."""
    problems: list[str] = field(default_factory=list)
    """Why classes could not be compared, though the user chose no cases."""
    notes: list[str] = field(default_factory=list)
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
                paths = run_file.run_paths(storage)  # of which this pytest run has none
                if not paths:
                    right = (
                        "run once without a baseline, or name another --bench-storage"
                    )
                    raise BenchError(f"{LATEST}: no run is kept in {storage}; {right}")
                baseline = cls(comparing.latest_runs(paths), "no whole run of it")
            else:
                runs = comparing.read_earlier_runs(str(given), storage, folder=folder)
                baseline = cls(
                    lambda report: [
                        run
                        for run in runs
                        if (run.task_class, run.system)
                        == (report.task_class, report.system_label)
                    ],
                    f"{comparing.names_in_words({run.name for run in runs})}, and no run of it",
                )
        except BenchError as error:
            raise pytest.UsageError(f"{where}: {error}") from None
        if find_spec("scipy") is None:
            raise pytest.UsageError(f"{where}: {NO_SCIPY.removeprefix('none: ')}")
        return baseline

    def judge(
        self,
        reports: Sequence[SourcedReport],
        classes: TaskClasses,
        keep: Callable[[SourcedReport, models.BenchComparison | str], None],
    ) -> list[SourcedReport]:
        """Return the reports of classes with gates that ask for no loss, too.

        A class or a system that the baseline doesn't have is new, and stays as it is. So is what a
        test has run by the mark or the fixture: the file doesn't say which test that was.

        Args:
            reports: The reports.
            classes: Their classes.
            keep: Keeps what was found of a report.
        """
        found: dict[int, models.BenchComparison | str] = {}
        for number, (report, test, folder, _) in enumerate(reports):
            runs = [] if test else self.find_runs(report)
            if runs:
                cases = classes.load(Path(folder)).cases
                digests = {each.case_id: case_digest(each) for each in cases}
                found[number] = comparing.compare_with_baseline(report, runs, digests)
            elif not test:
                self.notes.append(f"bench {report.name}: the baseline has {self.has}")
        compared = {
            number: each for number, each in found.items() if not isinstance(each, str)
        }
        adjusted = comparing.adjusted([*compared.values()])
        found |= dict(zip(compared, adjusted, strict=True))
        judged = list(reports)
        for number, each in found.items():
            report, problem = comparing.evaluate_against_baseline(
                reports[number].report, each
            )
            judged[number] = reports[number]._replace(report=report)
            keep(judged[number], each)
            if problem:
                # In one line, which the gate's reason goes on from.
                reason = problem.partition("; ")[0]
                self.problems.append(f"bench {report.name}: {reason}")
        return judged


def _with_part(sourced: SourcedReport) -> SourcedReport:
    """Add the test and the system to a shard's report."""
    report, shard = sourced.report, sourced.report.shard
    if shard is None:
        return sourced
    source = shard.source + (f" in {sourced.test}" if sourced.test else "")
    source += f" with {report.system_label}" if report.system_label else ""
    shard = shard.model_copy(update={"source": source})
    return sourced._replace(report=report.model_copy(update={"shard": shard}))


def check_resumed(storage: Path, config: pytest.Config) -> None:
    """Refuse to continue a run that does not exist, before any system is called.

    Raises:
        pytest.UsageError: There is none, or there are several.
    """
    given = str(config.getoption("bench_resume"))
    if given == LATEST:
        return
    paths = run_file.run_paths(storage)
    named = run_file.find_runs(given, paths)
    sessions = list(
        dict.fromkeys(run_file.session_of(path) for path in reversed(named))
    )
    listed = ", ".join(path.stem for path in paths[: -_MOST_NAMED - 1 : -1])
    try:
        tests = [KeptRun(path).header.test for path in named if len(sessions) == 1]
    except BenchError as error:
        raise pytest.UsageError(f"--bench-resume: {error}") from None
    if len(sessions) > 1:
        right = f"name one, such as {', '.join(sessions[:_MOST_NAMED])}"
        problem = f"{given}: {len(sessions)} runs begin like this; {right}"
    elif named and all(tests):
        problem = f"{given} is a run of the test {tests[0]}, which is not continued; run the test"
    elif named:
        return
    elif os.path.exists(config.invocation_params.dir / given):
        right = f"write --bench-resume={LATEST}, or the option behind the paths"
        problem = f"{given} is no run; {right}"
    else:
        right = f"the latest are {listed}" if listed else "nothing was kept there"
        problem = f"there is no run {given} in {storage}; {right}"
    raise pytest.UsageError(f"--bench-resume: {problem}")


def resumed_line(run: KeptRun) -> str:
    """Return what a session that continued a run had left to do, in words; '' for a new run."""
    if not run.sessions:
        return (
            f"all cases run: {run.header.not_resumed}" if run.header.not_resumed else ""
        )
    both = [
        (case.done_before, case.scheduled)
        for case in run.cases.values()
        if case.done_before is not None and case.scheduled is not None
    ]
    changed = [each.case_id for call, each in both if call.input_digest != each.digest]
    done = [
        each for call, each in both if each.case_id not in changed and run.settles(call)
    ]
    line = f"{len(done)} of {len(run.cases)} cases were done before"
    if changed:
        line += f"; {len(changed)} had changed and ran again: {', '.join(changed[:5])}"
    return line


def _part(shard: models.RunShard | None) -> tuple[int, int] | None:
    """Return which shard it is, and of how many."""
    return None if shard is None else (shard.index, shard.total)


def _why_not_resumed(old: RunHeader, new: RunHeader) -> str | None:
    """Return what has changed since a run so that its scores don't count any more."""
    changes = {
        "the failure codes or breakdown keys": old.digests.taxonomy
        != new.digests.taxonomy,
        "the rubric": old.digests.rubric != new.digests.rubric,
        "the system": old.system.name != new.system.name,
        "the system's version": old.system.version != new.system.version,
        "the shard": old.shard != new.shard,
    }
    changed = [what for what, is_other in changes.items() if is_other]
    if not changed:
        return None
    verb = "has" if len(changed) == 1 else "have"
    return f"{' and '.join(changed)} {verb} changed since {old.run_id}"


@cache
def _commit(rootdir: Path) -> str | None:
    """Return the commit that is checked out, as git says it."""
    code, said = ask_git(rootdir, time.monotonic() + _GIT_SECONDS, "rev-parse", "HEAD")
    return said if code == 0 and re.fullmatch(r"[0-9a-f]{40,64}", said) else None


def source_of_run(rootdir: Path, header: RunHeader) -> Source:
    """Return where the cases of a kept run came from."""
    folder = str(rootdir / header.folder) if header.folder else ""
    return Source(folder, header.test, header.system.label)


def name_of_source(rootdir: Path, source: Source) -> str:
    """Return what the name of a run's file says of its source; equal for equal sources."""
    parts = (relative(rootdir, source.folder), source.test, source.system)
    digest = hashlib.sha256(
        "\0".join(parts).encode("utf-8", "surrogateescape")
    ).hexdigest()
    name = "-".join(filter(None, (Path(source.folder).name, source.system)))
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:_MAX_NAME] or "bench"
    return f"{readable}-{digest[:8]}"


def relative(rootdir: Path, folder: str) -> str:
    """Return a folder relative to the root directory, if it lies below it."""
    path = Path(folder)
    if not folder or not path.is_relative_to(rootdir):
        return folder
    return path.relative_to(rootdir).as_posix()

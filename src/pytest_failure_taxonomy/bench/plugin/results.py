"""The results of the cases of a pytest run, and how xdist's workers send them to the controller.

A test's report carries its results (`ReportedResults`). A journal on disk keeps those of workers
that die.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.bench.digests import digests_of
from pytest_failure_taxonomy.bench.models import BenchRunReport, BenchScore, RunPlan
from pytest_failure_taxonomy.bench.plugin.bench_names import TEMPORARY_FOLDER, WORKERS_FOLDER
from pytest_failure_taxonomy.bench.run_report import aggregate
from pytest_failure_taxonomy.bench.runs.file import SUFFIX
from pytest_failure_taxonomy.bench.runs.reader import KeptRun, lost_to
from pytest_failure_taxonomy.system import journal
from pytest_failure_taxonomy.system.files import make_folder, open_folder
from pytest_failure_taxonomy.system.process import has_process

MakePlan = Callable[[Path, Sequence[str]], RunPlan]

_SUFFIX: Final = ".journal"
"""The suffix of our files; other files in the folder are neither read nor removed."""
_OWN_SUFFIXES: Final = (_SUFFIX, SUFFIX, ".tmp")
"""Of all files that we create beside a journal."""
_FIELD_COUNTS: Final = {"started": 2, "scheduled": 5}
"""The number of fields in a line, by its first field."""
_MAX_BYTES: Final = 256 * 1024 * 1024
"""Limit of one worker's file; a case takes a few hundred bytes."""


class Source(NamedTuple):
    """Where results come from."""

    folder: str
    """The folder of the task class."""
    test: str = ""
    """The test that ran the cases, without its parameters; empty for the items of the class."""
    system: str = ""
    """Which of several systems under test was called; empty for a single one."""


class SourcedReport(NamedTuple):
    """The report of a run, and the test that ran it; empty for the items of the class."""

    report: BenchRunReport
    test: str
    folder: str = ""
    """The folder of the task class; empty for a whole run that a test made."""
    is_judged: bool = True
    """Whether it fails the pytest run if cases have no score: not with `gate=False`."""


class SourceResults:
    """The results of one source."""

    def __init__(self) -> None:
        self.scheduled: dict[str, None] = {}
        """The ids of the cases that are to run, in order."""
        self.started: set[str] = set()
        self.scores: dict[str, BenchScore] = {}
        """Scores from the reports of tests."""
        self.unreported: dict[str, BenchScore] = {}
        """Scores of finished cases, including those whose test pytest never reached."""
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

    def schedule(self, case_id: str) -> None:
        """Add a case to those that are to run."""
        self.scheduled[case_id] = None

    def report(self, plan: RunPlan, label: str = "") -> BenchRunReport:
        """Aggregate the results; `label` says which of several systems they are of."""
        known = {case.case_id for case in plan.cases}
        scores = {**self.unreported, **self.scores}
        run_id = os.urandom(16).hex() if self.kept is None else self.kept.header.run_id
        is_missing = len(known & scores.keys()) < len(known)
        stopped = self.stopped if is_missing else ""
        return aggregate(
            plan,
            [(each, score) for each, score in scores.items() if each in known - self.broken],
            run_id=f"partial:{run_id}" if stopped else run_id,
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
        if run.attempts or run.started:
            self.started.update(run.started)
            self.unreported.update(run.scores())
            self.stopped = run.stopped or self.stopped
            self.lost_to.update(lost_to(run))
            self.late_cost_usd = run.cost_without_score_usd()


class Results:
    """The results of a run; on xdist's controller, collected from the workers' reports."""

    def __init__(self) -> None:
        self._sources: dict[Source, SourceResults] = {}
        self._whole_runs: list[SourcedReport] = []
        self.is_not_rerun = False
        """Whether a case failed that a plugin would have run again."""

    def of(self, source: Source) -> SourceResults:
        """Return the results of a source."""
        return self._sources.setdefault(source, SourceResults())

    def has(self, source: Source) -> bool:
        """Return whether anything is known of a source."""
        return source in self._sources

    def sources(self) -> list[Source]:
        """Return the task classes and systems of which pytest's items are known."""
        return [each for each in self._sources if not each.test]

    def kept(self, run_id: str) -> KeptRun | None:
        """Return the file of a run; `None` if it is not kept."""
        found = (each.kept for each in self._sources.values())
        return next((run for run in found if run and run.header.run_id == run_id), None)

    def take(self, sent: Mapping[str, Any]) -> None:
        """Add the results that the report of a test carries, in the form of `ReportedResults`."""
        self.is_not_rerun |= sent.get("is_not_rerun", False)
        for test, run, is_judged in sent.get("runs", ()):
            report = BenchRunReport.model_validate(run)
            self._whole_runs.append(SourcedReport(report, test, is_judged=is_judged))
        for folder, test, system, case_id, score in sent.get("cases", ()):
            results = self.of(Source(folder, test, system))
            if test:  # whether a test will have a score is not always known before it runs
                results.schedule(case_id)
            reported, known = BenchScore.model_validate(score), results.unreported.get(case_id)
            # Two equal scores of each case would be the most memory that a long run takes.
            results.scores[case_id] = known if known == reported else reported
        for folder, test, system, case_id, is_started in sent.get("broken", ()):
            results = self.of(Source(folder, test, system))
            results.broken.add(case_id)
            if is_started:
                results.started.add(case_id)
        for folder, test, system, why in sent.get("stops", ()):
            self.of(Source(folder, test, system)).stopped = why

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
            for source, results in self._sources.items()
            if results.scheduled
        ]
        return [*reports, *self._whole_runs]


class ReportedResults:
    """The results that the report of one test carries to the process that collects them."""

    def __init__(self) -> None:
        self.runs: list[SourcedReport] = []
        """The whole runs that the test made."""
        self.cases: list[tuple[Source, str, BenchScore]] = []
        """Cases and their scores."""
        self.broken: list[tuple[Source, str, bool]] = []
        """Cases whose test failed for another reason than the score, and whether it was called."""
        self.stops: list[tuple[Source, str]] = []
        """Why a case was not started."""
        self.is_not_rerun = False
        """Whether a plugin would have run the test again."""

    def as_json(self) -> dict[str, Any]:
        """Return the results as plain data."""
        return {
            "runs": [
                [each.test, each.report.model_dump(mode="json"), each.is_judged]
                for each in self.runs
            ],
            "cases": [
                [*source, case_id, score.model_dump(mode="json")]
                for source, case_id, score in self.cases
            ],
            "broken": [[*source, case_id, called] for source, case_id, called in self.broken],
            "stops": [[*source, why] for source, why in self.stops],
            "is_not_rerun": self.is_not_rerun,
        }

    def as_properties(self) -> list[tuple[str, object]]:
        """Return the scores as user properties, which `--junitxml` writes."""
        properties: list[tuple[str, object]] = []
        for _, _, score in self.cases:
            properties.append(("bench_score", score.score))
            if score.failure_modes:
                codes = " ".join(mode.code for mode in score.failure_modes)
                properties.append(("bench_failure_modes", codes))
            if score.cost_usd:
                properties.append(("bench_cost_usd", score.cost_usd))
        return properties


def remove_stale_journals(storage: Path) -> None:
    """Remove the journals of pytest runs that were killed, in a storage and the temporary folder.

    In the temporary folder the files of their runs are removed with them.
    """
    temporary = Path(tempfile.gettempdir())
    for folder, begin in ((storage, WORKERS_FOLDER), (temporary, TEMPORARY_FOLDER)):
        for path in folder.glob(f"{begin}*"):
            process_id = path.name.removeprefix(begin).partition("-")[0]
            is_dead = process_id.isdecimal() and not has_process(int(process_id))
            if is_dead and _is_own(path):
                Journal(path, "controller").remove()


def _is_own(path: Path) -> bool:
    """Return whether a file belongs to this user; to root, too, what others have isn't its own."""
    with suppress(OSError):
        return not hasattr(os, "geteuid") or path.lstat().st_uid == os.geteuid()
    return False


class Journal:
    """A folder in which each xdist worker appends to a file what it knows of its cases.

    There is no journal without xdist, nor if the workers are on other machines.
    """

    def __init__(self, folder: Path, worker: str) -> None:
        self._folder = folder
        self._name = f"{worker}{_SUFFIX}"
        self._journal: journal.Journal | None = None

    def begin(self) -> None:
        """Create the folder, which tells the controller that there will be results."""
        self._append("")

    def note_start(self, nodeid: str) -> None:
        """Record that the system under test is about to be called for a case."""
        self._append(f"started\t{nodeid}\n")

    def note_schedule(self, source: Source, case_id: str) -> None:
        """Record that a test will run a case, which its node id does not tell the controller."""
        self._append(f"scheduled\t{source.folder}\t{source.test}\t{source.system}\t{case_id}\n")

    def started_elsewhere(self) -> frozenset[str]:
        """Return the node ids of the cases that other workers have started."""
        return frozenset(fields[1] for name, fields in self._lines("started") if name != self._name)

    def started(self) -> frozenset[str]:
        """Return the node ids of the cases that any worker has started."""
        return frozenset(fields[1] for _, fields in self._lines("started"))

    def scheduled(self) -> list[tuple[Source, str]]:
        """Return the cases that tests will run, each once, in the order of the files."""
        lines = (fields for _, fields in self._lines("scheduled"))
        return list(dict.fromkeys((Source(*each[1:4]), each[4]) for each in lines))

    def remove(self) -> None:
        """Remove our files, and the folder if that leaves it empty."""
        with suppress(OSError), open_folder(self._folder) as folder:
            for name in folder.names():
                if name.endswith(_OWN_SUFFIXES):
                    folder.unlink(name)
            folder.rmdir()

    def _append(self, line: str) -> None:
        # If the disk is full, the journal is lost, but not the run.
        with suppress(OSError):
            if self._journal is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                with make_folder(self._folder) as folder:
                    self._journal = journal.Journal(folder.open_file(self._name, flags))
            self._journal.append(line.encode("utf-8", "backslashreplace"))

    def _lines(self, sort: str) -> Iterator[tuple[str, list[str]]]:
        with suppress(OSError), open_folder(self._folder) as folder:
            for name in folder.names():
                if not name.endswith(_SUFFIX):
                    continue
                try:
                    content = folder.read(name, _MAX_BYTES)
                except OSError:  # a link, a pipe
                    continue
                for _, line in journal.whole_lines(BytesIO(content)):
                    fields = line.decode("utf-8", "replace").rstrip("\n").split("\t")
                    if fields[0] == sort and len(fields) == _FIELD_COUNTS[sort]:
                        yield name, fields

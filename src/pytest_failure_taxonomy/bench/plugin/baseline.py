"""Compare the runs of a pytest run with earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_failure_taxonomy.bench import comparing, models
from pytest_failure_taxonomy.bench.bounds import NO_SCIPY
from pytest_failure_taxonomy.bench.kept.runs import run_paths
from pytest_failure_taxonomy.bench.plugin.results import SourcedReport
from pytest_failure_taxonomy.bench.plugin.storage import storage_of
from pytest_failure_taxonomy.bench.plugin.task_classes import TaskClasses
from pytest_failure_taxonomy.bench.sharding import case_digest
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import LATEST, chosen

BASELINE: pytest.StashKey[Baseline] = pytest.StashKey()
"""In the stash of the configuration: the baseline of the run, if it has one."""


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
                paths = run_paths(storage)  # of which this pytest run has none
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
        note: Callable[[SourcedReport, models.BenchComparison | str], None],
    ) -> list[SourcedReport]:
        """Return the reports of classes with gates that ask for no loss, too.

        A class or a system that the baseline doesn't have is new, and stays as it is. So is what a
        test has run by the mark or the fixture: the file doesn't say which test that was.

        Args:
            reports: The reports.
            classes: Their classes.
            note: Writes down how a report differs.
        """
        outcomes: dict[int, models.BenchComparison | str] = {}
        for number, (report, test, folder, _) in enumerate(reports):
            runs = [] if test else self.find_runs(report)
            if runs:
                cases = classes.load(Path(folder)).cases
                digests = {case.case_id: case_digest(case) for case in cases}
                outcomes[number] = comparing.compare_with_baseline(
                    report, runs, digests
                )
            elif not test:
                self.notes.append(f"bench {report.name}: the baseline has {self.has}")
        compared = {
            number: outcome
            for number, outcome in outcomes.items()
            if not isinstance(outcome, str)
        }
        adjusted = comparing.adjusted([*compared.values()])
        outcomes |= dict(zip(compared, adjusted, strict=True))
        judged = list(reports)
        for number, outcome in outcomes.items():
            report, problem = comparing.evaluate_against_baseline(
                reports[number].report, outcome
            )
            judged[number] = reports[number]._replace(report=report)
            note(judged[number], outcome)
            if problem:
                # In one line, which the gate's reason goes on from.
                reason = problem.partition("; ")[0]
                self.problems.append(f"bench {report.name}: {reason}")
        return judged

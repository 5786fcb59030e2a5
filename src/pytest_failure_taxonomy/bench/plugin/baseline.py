"""`--bench-baseline`: an earlier run that this one must not be worse than."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_failure_taxonomy.bench.bounds import NO_SCIPY
from pytest_failure_taxonomy.bench.comparing import evaluate_against_baseline
from pytest_failure_taxonomy.bench.digests import case_digest
from pytest_failure_taxonomy.bench.plugin.session_of_runs import storage_of
from pytest_failure_taxonomy.bench.run_summary import name_with_system
from pytest_failure_taxonomy.bench.runs.earlier import LatestRuns, read_earlier_runs
from pytest_failure_taxonomy.bench.runs.reader import LATEST, run_paths
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.comparing import ComparedRun
    from pytest_failure_taxonomy.bench.models import BenchRunReport
    from pytest_failure_taxonomy.bench.plugin.results import SourcedReport
    from pytest_failure_taxonomy.bench.plugin.task_classes import TaskClasses

_BASELINE: pytest.StashKey[Baseline] = pytest.StashKey()

FindRuns = Callable[["BenchRunReport"], "Sequence[ComparedRun]"]
"""Returns the older runs of a report's class and system."""


class Baseline:
    """The runs of a baseline, one for each task class and system that it has."""

    def __init__(self, find_runs: FindRuns) -> None:
        self._find_runs = find_runs
        self.problems: list[str] = []
        """Why classes could not be compared, though the user chose no cases."""
        self.notes: list[str] = []
        """Which classes the baseline does not have."""

    @classmethod
    def of(cls, runs: Sequence[ComparedRun]) -> Baseline:
        """Return the baseline that runs are."""

        def find_runs(report: BenchRunReport) -> Sequence[ComparedRun]:
            wanted = (report.task_class, report.system_label)
            return [each for each in runs if (each.task_class, each.system) == wanted]

        return cls(find_runs)

    def judge(self, sourced: SourcedReport, classes: TaskClasses) -> SourcedReport:
        """Return the report of a class with a gate that asks for no loss, too.

        A class or a system that the baseline doesn't have is new, and stays as it is. So is what a
        test has run by the mark or the fixture: the file doesn't say which test that was.
        """
        runs = [] if sourced.test else self._find_runs(sourced.report)
        if not runs:
            if not sourced.test:
                name = name_with_system(sourced.report)
                self.notes.append(f"bench {name}: the baseline has no whole run to compare with")
            return sourced
        cases = classes.load(Path(sourced.folder)).cases
        digests = {each.case_id: case_digest(each) for each in cases}
        judged = evaluate_against_baseline(sourced.report, runs, digests)
        if judged.problem:
            self.problems.append(f"bench {runs[0].name}: {judged.problem}")
        return sourced._replace(report=judged.report)


def read_baseline(config: pytest.Config) -> None:
    """Read the baseline before any system is called.

    Raises:
        pytest.UsageError: It can't be read, or nothing could be compared with it.
    """
    where, given, folder = _named(config)
    storage = storage_of(config)[0]
    try:
        if given == LATEST:
            baseline = Baseline(LatestRuns(_paths(storage)).of)
        else:
            baseline = Baseline.of(read_earlier_runs(given, storage, folder=folder))
    except BenchError as error:
        raise pytest.UsageError(f"{where}: {error}") from None
    if find_spec("scipy") is None:
        raise pytest.UsageError(f"{where}: {NO_SCIPY.removeprefix('none: ')}")
    config.stash[_BASELINE] = baseline


def _paths(storage: Path) -> list[Path]:
    """Return the files of all runs that are kept now, of which this pytest run has none."""
    paths = run_paths(storage)
    if not paths:
        raise BenchError(
            f"{LATEST}: no run is kept in {storage}; run once without a baseline, or name another"
            " --bench-storage"
        )
    return paths


def _named(config: pytest.Config) -> tuple[str, str, Path]:
    """Return which option names the baseline, its value, and what a path is relative to."""
    given = config.getoption("bench_baseline")
    if given is not None:
        return "--bench-baseline", str(given), config.invocation_params.dir
    folder = config.rootpath if config.inipath is None else config.inipath.parent
    return "bench_baseline", str(config.getini("bench_baseline")), folder


def judge_by_baseline(
    config: pytest.Config, reports: Sequence[SourcedReport], classes: TaskClasses
) -> list[SourcedReport]:
    """Return the reports of a run, compared with the baseline if there is one."""
    baseline = config.stash.get(_BASELINE, None)
    return [each if baseline is None else baseline.judge(each, classes) for each in reports]


def baseline_problems(config: pytest.Config) -> Sequence[str]:
    """Return why task classes could not be compared with the baseline."""
    baseline = config.stash.get(_BASELINE, None)
    return () if baseline is None else baseline.problems


def baseline_notes(config: pytest.Config) -> Sequence[str]:
    """Return which task classes the baseline does not have."""
    baseline = config.stash.get(_BASELINE, None)
    return () if baseline is None else baseline.notes

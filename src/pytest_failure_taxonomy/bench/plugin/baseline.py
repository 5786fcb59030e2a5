"""`--bench-baseline`: an earlier run that this one must not be worse than."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_failure_taxonomy.bench.baseline_gate import evaluate_against_baseline
from pytest_failure_taxonomy.bench.bounds import NO_SCIPY
from pytest_failure_taxonomy.bench.earlier_runs import read_earlier_runs
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.comparing import ComparedRun
    from pytest_failure_taxonomy.bench.plugin.results import SourcedReport

_BASELINE: pytest.StashKey[Baseline] = pytest.StashKey()


class Baseline:
    """The runs of a baseline, one for each task class that it has."""

    def __init__(self, runs: Sequence[ComparedRun]) -> None:
        self._runs = runs
        self._problems: list[str] = []

    def judge(self, sourced: SourcedReport) -> SourcedReport:
        """Return the report of a class with a gate that asks for no loss, too.

        A class that the baseline doesn't have is new, and stays as it is. So is what a test has run
        by the mark or the fixture: the file doesn't say which test that was.
        """
        runs = [each for each in self._runs if each.task_class == sourced.report.task_class]
        if sourced.test or not runs:
            return sourced
        judged = evaluate_against_baseline(sourced.report, runs)
        if judged.problem:
            self._problems.append(f"bench {sourced.report.task_class}: {judged.problem}")
        return sourced._replace(report=judged.report)

    @property
    def problems(self) -> Sequence[str]:
        """Why classes could not be compared, though the user chose no cases."""
        return self._problems


def read_baseline(config: pytest.Config) -> None:
    """Read the baseline before any system is called.

    Raises:
        pytest.UsageError: It can't be read, or nothing could be compared with it.
    """
    where, path = _path(config)
    try:
        runs = read_earlier_runs(path)
    except BenchError as error:
        raise pytest.UsageError(f"{where}: {error}") from None
    if find_spec("scipy") is None:
        raise pytest.UsageError(f"{where}: {NO_SCIPY.removeprefix('none: ')}")
    config.stash[_BASELINE] = Baseline(runs)


def _path(config: pytest.Config) -> tuple[str, Path]:
    given = config.getoption("bench_baseline")
    if given is not None:
        return "--bench-baseline", config.invocation_params.dir / str(given)
    folder = config.rootpath if config.inipath is None else config.inipath.parent
    return "bench_baseline", folder / str(config.getini("bench_baseline"))


def judge_by_baseline(
    config: pytest.Config, reports: Sequence[SourcedReport]
) -> list[SourcedReport]:
    """Return the reports of a run, compared with the baseline if there is one."""
    baseline = config.stash.get(_BASELINE, None)
    return [each if baseline is None else baseline.judge(each) for each in reports]


def baseline_problems(config: pytest.Config) -> Sequence[str]:
    """Return why task classes could not be compared with the baseline."""
    baseline = config.stash.get(_BASELINE, None)
    return () if baseline is None else baseline.problems

"""Count how many passes show that a test is fixed, or that a new test is sound."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.prove import causes, rates, recorded
from pytest_failure_taxonomy.prove.experiment import (
    AS_RECORDED,
    Conditions,
    Experiments,
    OutOfTime,
    Victim,
)
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import counted
from pytest_failure_taxonomy.text import first_line

_RATE: Final = 0.05
"""What passes have to exclude where nothing says how often it failed."""
_FEWEST: Final = 10
"""Runs of each new test, and"""
_MOST: Final = rates.passes_needed(0.01)
"""the most, however much time is left."""


def are_fixed(task: recorded.Task, history: str | None = None) -> bool:
    """Tell whether the causes of a report are gone: whether their tests pass often enough.

    Every run is a process of its own, in the order in which the test failed.

    Args:
        task: what is asked for.
        history: the URL of one that says how often tests failed; `None` for the usual one.

    Raises:
        ExperimentError: pytest can't be run as it was.
        HistoryError: the history that is given can't be read.
        SettingsError: there is no such cause, or nothing failed.
    """
    report = task.report
    chosen = causes.causes_of(report, task.number)
    gone = 0
    with recorded.experiments_of(task, recorded.setup_of(report)) as experiments:
        experiments.start()
        experiments.stop()
        for cause in causes.in_turn(task, chosen, experiments):
            repeat = recorded.repeat_of(report, cause, experiments)
            if not repeat.known.runs:
                nodeid = repeat.victim.nodeid
                before = recorded.order_before(report, experiments, nodeid) or ()
                known = _known_by_history(report, nodeid, history)
                repeat = replace(repeat, before=before, known=known)
            is_gone, words = run_until_excluded(experiments, repeat)
            task.tell(f"   {words}")
            gone += is_gone
    return gone == len(chosen)


def run_until_excluded(
    experiments: Experiments, repeat: recorded.Repeat
) -> tuple[bool, str]:
    """Run a test until it has passed often enough; return whether it has, and what that says."""
    rate = repeat.known.interval[0] or _RATE
    if _is_seed(repeat.conditions):
        # Changed code draws other numbers from the same seed, so a pass shows nothing.
        is_fixed, words = _run_until_excluded(experiments, repeat, 1.0)
        if not is_fixed:
            return is_fixed, words
        repeat, rate = replace(repeat, conditions=AS_RECORDED), _RATE
    return _run_until_excluded(experiments, repeat, rate)


def _is_seed(conditions: Conditions) -> bool:
    variables = [name for name, _ in conditions.variables]
    return conditions.seed is not None or "PYTHONHASHSEED" in variables


def _run_until_excluded(
    experiments: Experiments, repeat: recorded.Repeat, rate: float
) -> tuple[bool, str]:
    needed = rates.passes_needed(rate)
    passed = 0
    try:
        for passed in range(needed):
            outcome = experiments.run(
                repeat.victim, repeat.before, repeat.conditions, is_fresh=True
            )
            if outcome.result == "failed":
                return False, f"not fixed: failed in run {passed + 1}"
            if outcome.result == "other":
                return (
                    False,
                    f"undecided: it ends in another way: {first_line(outcome.words)}",
                )
    except OutOfTime:
        excluded = f"{_excluded(passed)}; " if passed else ""
        more = f"it takes {needed:,} to exclude {rate:.1%}"
        return False, f"undecided, time ran out: {excluded}{more}"
    return (
        True,
        f"{'fixed' if repeat.known.failed else 'no rate is known'}: {_excluded(needed)}",
    )


def _excluded(passed: int) -> str:
    bound = rates.upper_bound(rates.Count(runs=passed))
    passes = "1 pass excludes" if passed == 1 else f"{passed:,} passes in a row exclude"
    return f"{passes} a failure rate of {bound:.1%} or more (at 95%)"


def _known_by_history(
    report: FailureReport, nodeid: str, url: str | None
) -> rates.Count:
    """Return how often a test has failed in earlier runs."""
    try:
        from pytest_failure_taxonomy.history import open_history  # slow
        from pytest_failure_taxonomy.history.questions import Wanted, find_flaky
        from pytest_failure_taxonomy.history.tables import project_of

        rootdir = report.run.invocation.rootdir
        with open_history(url, rootdir=rootdir, create=False) as history:
            for row in find_flaky(
                history, Wanted(nodeid=nodeid, project=project_of(report))
            ):
                if row.nodeid == nodeid:  # and not only matches, as a pattern
                    return rates.Count(failed=row.failures, runs=row.runs)
    except HistoryError:
        if url is not None:
            raise
    return rates.Count()


def are_new_tests_sound(task: recorded.Task, history: str | None = None) -> bool:
    """Repeat the tests that no run before that of a report has seen; tell whether all pass.

    Each runs alone, in forks where that is possible, and for about as long as the others.

    Args:
        task: what is asked for.
        history: the URL of what knows earlier tests; `None` for the usual one.

    Raises:
        ExperimentError: pytest can't be run as it was.
        HistoryError: there is no history, or it knows no earlier run.
    """
    from pytest_failure_taxonomy.history import open_history  # slow
    from pytest_failure_taxonomy.history.questions import find_new_tests

    report, tell = task.report, task.tell
    experiments = recorded.experiments_of(task, recorded.setup_of(report))
    rootdir = report.run.invocation.rootdir
    with open_history(history, rootdir=rootdir, create=False) as opened, experiments:
        experiments.start()
        new = find_new_tests(opened, report, experiments.nodeids)
        tell(f"{counted(len(new), 'new test')} of {len(experiments.nodeids):,}")
        counts, failed = run_in_turn(experiments, new)
    for nodeid, words in failed.items():
        low, high = counts[nodeid].interval
        tell(f"{nodeid}: fails {counts[nodeid]} ({low:.1%} to {high:.1%}): {words}")
    passed = [count.runs for count in counts.values() if not count.failed]
    runs = min(passed, default=_FEWEST)
    if passed and runs:
        tell(f"{counted(len(passed), 'test')} passed each time: {_excluded(runs)}")
    if runs < _FEWEST:
        tell(f"time ran out before each had {_FEWEST} runs; give a longer --budget")
    return not failed and runs >= _FEWEST


def run_in_turn(
    experiments: Experiments, nodeids: Sequence[str]
) -> tuple[dict[str, rates.Count], dict[str, str]]:
    """Run tests alone until time is over: each some times, then those that took the least time.

    Returns:
        The counts of those that are not skipped, and how those ended that failed.
    """
    counts, seconds = dict.fromkeys(nodeids, rates.Count()), dict.fromkeys(nodeids, 0.0)
    failed: dict[str, str] = {}

    def turn(nodeid: str) -> tuple[float, int]:
        runs = counts[nodeid].runs
        return (0.0 if runs < _FEWEST else seconds[nodeid]), runs

    with suppress(OutOfTime):
        while waiting := [
            nodeid for nodeid, count in counts.items() if count.runs < _MOST
        ]:
            nodeid = min(waiting, key=turn)
            victim = Victim(
                nodeid=nodeid, fingerprints=frozenset(), endings=frozenset()
            )
            outcome = experiments.run(victim)
            seconds[nodeid] += outcome.seconds
            # No fingerprint is known: what is judged to be a failure is one, and so is a death.
            if outcome.answer("result") is None or outcome.answer("kinds"):
                failed[nodeid] = first_line(outcome.words)
                counts[nodeid] = counts[nodeid].plus("failed")
            elif outcome.result == "passed":
                counts[nodeid] = counts[nodeid].plus("passed")
            else:
                del counts[nodeid]  # it is skipped
    return counts, failed

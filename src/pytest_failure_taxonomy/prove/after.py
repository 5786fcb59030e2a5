"""Is it fixed, and are new tests sound: how many passes it takes, and what they exclude."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.prove import causes, recorded
from pytest_failure_taxonomy.prove.experiment import Experiments, OutOfTime, Victim
from pytest_failure_taxonomy.prove.rates import Count, passes_needed, upper_bound
from pytest_failure_taxonomy.prove.recorded import Repeat
from pytest_failure_taxonomy.report.text import first_line
from pytest_failure_taxonomy.taxonomy.words import counted

_RATE: Final = 0.05
"""What passes have to exclude where nothing says how often it failed."""
_MOST_OTHERS: Final = 3
"""Runs that may end in another way, and one more for each ten passes."""
_FEWEST: Final = 10
"""Runs of each new test, and"""
_MOST: Final = passes_needed(0.01)
"""the most, however much time is left."""


def are_fixed(
    report: Mapping[str, Any],
    *,
    number: int | None = None,
    history: str | None = None,
    budget_seconds: float,
    allows_effects: bool = False,
    tell: Callable[[str], None],
) -> bool:
    """Tell whether the causes of a report are gone: whether their tests pass often enough.

    Every run is a process of its own, in the order in which the test failed.

    Args:
        report: its JSON object.
        number: of the only cause that is looked at, from 1 on.
        history: the URL of one that says how often tests failed; `None` for the usual one.
        budget_seconds: for all causes together.
        allows_effects: run tests that use the network, a database or other processes.
        tell: prints a line.

    Raises:
        ExperimentError: pytest can't be run as it was.
        HistoryError: the history that is given can't be read.
        SettingsError: there is no such cause, or nothing failed.
    """
    chosen = causes.causes_of(report, number)
    until = time.monotonic() + budget_seconds
    setup = recorded.setup_of(report)
    experiments = recorded.experiments_of(report, setup, until, allows_effects=allows_effects)
    all_fixed = True
    with experiments:
        experiments.start()
        experiments.stop()
        for cause, experiments.until in causes.in_turn(chosen, until, tell):
            victims = recorded.victims_of(report, cause)
            is_fixed, words = False, "no test of its own fails, so there is nothing to run"
            if victims:
                repeat = recorded.repeat_of(report, cause, experiments, victims[0])
                if not repeat.known.runs:
                    nodeid = victims[0].nodeid
                    repeat = Repeat(
                        before=recorded.order_before(report, experiments, nodeid) or (),
                        known=_known_by_history(report, nodeid, history),
                    )
                is_fixed, words = run_until_excluded(experiments, victims[0], repeat)
            all_fixed = all_fixed and is_fixed
            tell(f"   {words}")
    return all_fixed


def run_until_excluded(
    experiments: Experiments, victim: Victim, repeat: Repeat
) -> tuple[bool, str]:
    """Run a test until it has passed often enough; return whether it has, and what that says."""
    known = repeat.known
    rate = known.interval[0] if known.failed else _RATE
    needed = passes_needed(rate)
    passed = others = 0
    try:
        while passed < needed:
            outcome = experiments.run(victim, repeat.before, repeat.conditions, is_fresh=True)
            if outcome.result == "failed":
                return False, f"not fixed: failed in run {passed + others + 1}"
            passed += outcome.result == "passed"
            others += outcome.result == "other"
            if others > _MOST_OTHERS + passed // 10:
                return False, f"undecided: it ends in another way: {first_line(outcome.words)}"
    except OutOfTime:
        excluded = f"{_excluded(passed)}; " if passed else ""
        more = f"it takes {needed:,} to exclude {rate:.1%}"
        return False, f"undecided, time ran out: {excluded}{more}"
    return True, f"{'fixed' if known.failed else 'no rate is known'}: {_excluded(passed)}"


def _excluded(passed: int) -> str:
    bound = upper_bound(Count(runs=passed))
    passes = "1 pass excludes" if passed == 1 else f"{passed:,} passes in a row exclude"
    return f"{passes} a failure rate of {bound:.1%} or more (at 95%)"


def _known_by_history(report: Mapping[str, Any], nodeid: str, url: str | None) -> Count:
    """Return how often a test has failed in earlier runs."""
    from pytest_failure_taxonomy.history import open_history, require_libraries  # slow

    try:
        require_libraries()
        from pytest_failure_taxonomy.history.questions import Wanted, find_flaky
        from pytest_failure_taxonomy.history.tables import project_of

        rootdir = report["run"]["invocation"]["rootdir"]
        with open_history(url, rootdir=rootdir, create=False) as history:
            flaky = find_flaky(history, Wanted(nodeid=nodeid, project=project_of(report)))
    except HistoryError:
        if url is not None:
            raise
        flaky = []
    counts = (Count(failed=row.failures, runs=row.runs) for row in flaky if row.nodeid == nodeid)
    return next(counts, Count())


def are_new_tests_sound(
    report: Mapping[str, Any],
    *,
    history: str | None = None,
    budget_seconds: float,
    allows_effects: bool = False,
    tell: Callable[[str], None],
) -> bool:
    """Repeat the tests that no run before that of a report has seen; tell whether all pass.

    Each runs alone, in forks where that is possible, and for about as long as the others.

    Args:
        report: its JSON object.
        history: the URL of what knows earlier tests; `None` for the usual one.
        budget_seconds: for all of them together.
        allows_effects: run tests that use the network, a database or other processes.
        tell: prints a line.

    Raises:
        ExperimentError: pytest can't be run as it was.
        HistoryError: there is no history, or it knows no earlier run.
    """
    from pytest_failure_taxonomy.history import open_history, require_libraries  # slow

    require_libraries()
    from pytest_failure_taxonomy.history.questions import find_new_tests

    setup, until = recorded.setup_of(report), time.monotonic() + budget_seconds
    experiments = recorded.experiments_of(report, setup, until, allows_effects=allows_effects)
    rootdir = report["run"]["invocation"]["rootdir"]
    with open_history(history, rootdir=rootdir, create=False) as opened, experiments:
        experiments.start()
        new = find_new_tests(opened, report, experiments.nodeids)
        tell(f"{counted(len(new), 'new test')} of {len(experiments.nodeids):,}")
        counts, words = repeat(experiments, new)
    failing = [nodeid for nodeid, count in counts.items() if count.failed]
    for nodeid in failing:
        low, high = counts[nodeid].interval
        told = f"{nodeid}: fails {counts[nodeid]} ({low:.1%} to {high:.1%})"
        tell(": ".join(filter(None, (told, words[nodeid]))))
    passing = [count.runs for count in counts.values() if not count.failed]
    if passing:
        which = f"the other {len(passing):,} passed" if failing else "none failed"
        bound = upper_bound(Count(runs=min(passing))) if min(passing) else 1.0
        runs = counted(min(passing), "run")
        tell(f"{which} in {runs} each (excludes a rate of {bound:.0%} or more)")
    is_short = min(passing, default=_FEWEST) < _FEWEST
    if is_short:
        tell(f"time ran out before each had {_FEWEST}; give a longer --budget")
    return not failing and not is_short


def repeat(
    experiments: Experiments, nodeids: Sequence[str]
) -> tuple[dict[str, Count], dict[str, str]]:
    """Run tests alone until time is over.

    Returns:
        The counts of those that are not skipped, and how those ended that failed.
    """
    counts, spent = dict.fromkeys(nodeids, Count()), dict.fromkeys(nodeids, 0.0)
    words: dict[str, str] = {}

    def turn(nodeid: str) -> tuple[bool, float]:
        runs = counts[nodeid].runs
        return (False, runs) if runs < _FEWEST else (True, spent[nodeid])

    with suppress(OutOfTime):
        while waiting := [nodeid for nodeid, count in counts.items() if count.runs < _MOST]:
            nodeid = min(waiting, key=turn)
            victim = Victim(nodeid=nodeid, fingerprints=frozenset(), endings=frozenset())
            outcome = experiments.run(victim)
            spent[nodeid] += outcome.seconds
            # No fingerprint is known: what is judged to be a failure is one, and so is a death.
            is_failed = outcome.answer("result") is None or bool(outcome.answer("kinds"))
            if is_failed:
                words[nodeid] = first_line(outcome.words)
            elif outcome.result != "passed":
                del counts[nodeid]  # it is skipped
                continue
            counts[nodeid] = counts[nodeid].plus("failed" if is_failed else "passed")
    return counts, words

"""How often systems pass their tasks, and how much of that is not their own doing.

A trial is a run that says which task it was an attempt at (its subtask) and how that
was gone about (its approach), which for a harness is the system that it judges. What
the figures mean, and what they don't: docs/explanation/charges.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any, Final, NamedTuple

from sqlalchemy import select

from pytest_failure_taxonomy.bench.bounds import (
    ALPHA,
    difference_interval_95,
    interval_95,
)
from pytest_failure_taxonomy.errors import HistoryError
from pytest_failure_taxonomy.history.database import History
from pytest_failure_taxonomy.history.questions import ALL, Wanted, match_runs
from pytest_failure_taxonomy.history.tables import ATTEMPT, RUN, RUNS
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import listed
from pytest_failure_taxonomy.text import safe_text

PASSED: Final = "passed"
UNKNOWN: Final = "unknown"
"""Where a report or the history is older than the question whom a failure is charged
to."""
NOT_SUBJECT: Final = frozenset({"environment", "verifier"})
EXCUSED: Final = ("environment", "verifier", "ambiguous", UNKNOWN)
"""Failures that are surely not the subject's, or may not be."""
_NOBODY: Final[frozenset[str]] = frozenset()
_MAX_NAMES: Final = 5
_MAX_NAME: Final = 60
_DIGITS: Final = 12
"""Of a difference of rates; what is beyond them is rounding."""


@value
class Rate:
    """How often the trials at a task, of a system, or of both have passed."""

    task: str | None
    """`None` for all."""
    system: str | None
    """`None` for all."""
    trials: int
    passed: int
    subject: int
    """Failures that are charged to the subject; and so are the next ones."""
    environment: int
    verifier: int
    ambiguous: int
    unknown: int
    """Failures for which it was not asked whom they are charged to."""
    rate: float
    low: float | None
    """The exact 95 % bounds of the rate; `None` without scipy."""
    high: float | None
    rate_without: float | None
    """The rate of the trials that did not fail by the environment or the verifier, if
    any."""
    low_without: float | None
    high_without: float | None
    at_most: float
    """The rate if all had passed whose failure is not surely the subject's."""


@value
class Explained:
    """How much two systems differ if some of their failures are counted differently."""

    first: str
    second: str
    charged_to: str | None
    """Whose failures are counted in another way; `None` for none, `all` for all but the
    subject's."""
    counted: str
    """As `failed`, which they have; `left out` with their trials; as if they had
    `passed`; or as if those of one system had, and the other's not: the farthest that
    it can be either way."""
    first_failures: int
    """How many there are of the first system, in tasks that both have."""
    second_failures: int
    tasks: int
    """Those at which both have trials that count."""
    only_first: int
    """Tasks that the second system has no trial at."""
    only_second: int
    difference: float | None
    """The mean over the tasks of the second system's rate less that of the first, of -1
    to 1."""
    low: float | None
    high: float | None
    method: str
    """How the bounds were computed, or why there are none."""
    explained: float | None = None
    """How much less the difference is than if these failures count as such."""
    explained_low: float | None = None
    explained_high: float | None = None
    share: float | None = None
    """The same as a share of the difference; `None` where it is not decided that there
    is one."""


class _Trial(NamedTuple):
    task: str
    system: str
    end: str
    """`PASSED`, or whom the failure is charged to."""


def _read_trials(history: History, wanted: Wanted) -> list[_Trial]:
    query = (
        select(ATTEMPT.subtask_id, ATTEMPT.approach, RUN.reason, RUN.charge_to)
        .join(RUNS, RUN.id == ATTEMPT.run_id)
        .where(*match_runs(wanted))
    )
    trials = []
    with history.reading() as connection:
        for task, system, reason, charge_to in connection.execute(query):
            end = PASSED if reason is None else charge_to or UNKNOWN
            trials.append(_Trial(task, system, end))
    return trials


def count_rates(
    history: History, wanted: Wanted = ALL, *, by: str = "system", limit: int = 20
) -> list[Rate]:
    """Return how often systems pass, the best first.

    Args:
        history: an open history.
        wanted: the runs that count.
        by: a row for each `system`, for each `task`, or for each of `both`.
        limit: how many rows.
    """
    groups = defaultdict[tuple[str, str], list[_Trial]](list)
    for trial in _read_trials(history, wanted):
        task = "" if by == "system" else trial.task
        system = "" if by == "task" else trial.system
        groups[task, system].append(trial)
    shares = {}
    for key, trials in groups.items():
        shares[key] = fmean(trial.end == PASSED for trial in trials)
    # Bounds take long, so only the rows that are shown get them.
    best = sorted(groups, key=lambda key: (-shares[key], key))[:limit]
    return [
        _rate_trials(task or None, system or None, groups[task, system])
        for task, system in best
    ]


def _rate_trials(
    task: str | None, system: str | None, trials: Sequence[_Trial]
) -> Rate:
    ends = Counter(trial.end for trial in trials)
    judged = [trial for trial in trials if trial.end not in NOT_SUBJECT]
    passed = ends[PASSED]
    low, high = _bound_rate(trials)
    low_without, high_without = _bound_rate(judged)
    return Rate(
        task=task,
        system=system,
        trials=len(trials),
        passed=passed,
        **{name: ends[name] for name in ("subject", *EXCUSED)},
        rate=passed / len(trials),
        low=low,
        high=high,
        rate_without=passed / len(judged) if judged else None,
        low_without=low_without,
        high_without=high_without,
        at_most=1 - ends["subject"] / len(trials),
    )


def _bound_rate(trials: Sequence[_Trial]) -> tuple[float | None, float | None]:
    """Return the bounds of the rate at tasks like these, or at the only one."""
    if not trials:
        return None, None
    tasks = [trial.task for trial in trials]
    # Trials at one task are alike, so tasks are drawn as a whole where there are
    # several.
    clusters = tasks if len(set(tasks)) > 1 else ()
    scores = [float(trial.end == PASSED) for trial in trials]
    try:
        return interval_95(scores, clusters)
    except ImportError:
        return None, None


def compare_systems(
    history: History, wanted: Wanted = ALL, *, first: str, second: str
) -> list[Explained]:
    """Return how much two systems differ, and how much of that is not their own doing.

    Systems are paired by task. The first row has all failures as they are. For each of
    `EXCUSED` that there are, one more has its trials left out, and one counts them as
    passed. The last two say how far apart the systems may be whatever had come of these
    trials.

    Args:
        history: an open history.
        wanted: the runs that count.
        first: a system.
        second: the system whose rates those of the first are taken from.

    Raises:
        HistoryError: there is no such system, or no task that both have.
    """
    systems = defaultdict[str, defaultdict[str, list[str]]](lambda: defaultdict(list))
    for trial in _read_trials(history, wanted):
        systems[trial.system][trial.task].append(trial.end)
    for name in (first, second):
        if name not in systems:
            names = [safe_text(system, _MAX_NAME) for system in sorted(systems)]
            raise HistoryError(
                f"{safe_text(name)}: this system has no trial; systems with trials: "
                f"{listed(names, _MAX_NAMES) or 'none'}"
            )
    tasks = sorted(systems[first].keys() & systems[second].keys())
    if not tasks:
        raise HistoryError(
            f"{safe_text(first)}, {safe_text(second)}: no task was tried by both; give "
            "two systems that have tried the same tasks"
        )
    pairs = {task: (systems[first][task], systems[second][task]) for task in tasks}
    cases = _list_cases(pairs.values())
    changes = {task: cases[0].change(*ends) or 0.0 for task, ends in pairs.items()}
    p_value = difference_interval_95([*changes.values()]).p_value
    is_decided = p_value is not None and p_value < ALPHA
    return [
        Explained(
            first=first,
            second=second,
            only_first=len(systems[first]) - len(tasks),
            only_second=len(systems[second]) - len(tasks),
            **_measure_case(case, pairs, changes, is_decided=is_decided),
        )
        for case in cases
    ]


def _list_cases(pairs: Collection[tuple[list[str], list[str]]]) -> list[_Case]:
    """Return the ways to count the failures of two systems, as they are first."""
    ends = {*chain.from_iterable(chain.from_iterable(pairs))}
    groups: dict[str, frozenset[str]] = {
        name: frozenset({name}) for name in EXCUSED if name in ends
    }
    if len(groups) > 1:
        groups["all"] = frozenset(EXCUSED)
    cases = [_Case(None, "failed", _NOBODY, _NOBODY)]
    for name, excused in groups.items():
        cases.append(_Case(name, "left out", excused, excused))
        cases.append(_Case(name, "passed", excused, excused))
    # The farthest that it can be either way, by all failures that may be excused.
    for name, excused in [*groups.items()][-1:]:
        cases.append(_Case(name, "first passed", excused, _NOBODY))
        cases.append(_Case(name, "second passed", _NOBODY, excused))
    return cases


class _Case(NamedTuple):
    """A way to count failures."""

    charged_to: str | None
    counted: str
    of_first: frozenset[str]
    """Failures of the first system that are left out or count as passed."""
    of_second: frozenset[str]

    def change(self, first: list[str], second: list[str]) -> float | None:
        """Return how much more the second system passes; `None` if no trial is left."""
        shares = []
        for ends, excused in ((first, self.of_first), (second, self.of_second)):
            left_out = excused if self.counted == "left out" else _NOBODY
            counted = [end for end in ends if end not in left_out]
            if not counted:
                return None
            shares.append(fmean(end == PASSED or end in excused for end in counted))
        return round(shares[1] - shares[0], _DIGITS)


def _measure_case(
    case: _Case,
    pairs: Mapping[str, tuple[list[str], list[str]]],
    plain: Mapping[str, float],
    *,
    is_decided: bool,
) -> dict[str, Any]:
    """Return the fields of `Explained` that depend on how failures are counted.

    Args:
        case: the way.
        pairs: how the trials of both systems ended, by task.
        plain: how much they differ if all failures count, by task.
        is_decided: whether that is no chance.
    """
    changes = {}
    for task, ends in pairs.items():
        change = case.change(*ends)
        if change is not None:
            changes[task] = change
    bounds = difference_interval_95([*changes.values()])
    counted = case.of_first | case.of_second or {"subject", *EXCUSED}
    failures = [0, 0]
    for ends in pairs.values():
        for system in (0, 1):
            failures[system] += sum(end in counted for end in ends[system])
    figures = {
        "charged_to": case.charged_to,
        "counted": case.counted,
        "first_failures": failures[0],
        "second_failures": failures[1],
        "tasks": len(changes),
        "difference": fmean(changes.values()) if changes else None,
        "low": bounds.low,
        "high": bounds.high,
        "method": bounds.method,
    }
    if not changes or case.counted not in ("left out", "passed"):
        return figures
    whole = fmean(plain.values())
    explained = whole - fmean(changes.values())
    figures["explained"] = explained
    figures["share"] = explained / whole if is_decided else None
    # Only for the same trials: with some left out, the tasks may be others.
    if case.counted == "passed":
        less = [
            round(plain[task] - change, _DIGITS) for task, change in changes.items()
        ]
        bounds = difference_interval_95(less)
        figures |= {"explained_low": bounds.low, "explained_high": bounds.high}
    return figures

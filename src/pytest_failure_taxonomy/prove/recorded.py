"""Read from a report how to run its tests again: how pytest was called, and in which order.

Options of ours are left out, and those that name a file to be written. All others stay: the plugin
inside of an experiment switches off what would spread, reorder or cut it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.options import OPTIONS
from pytest_failure_taxonomy.prove.axes import conditions_of
from pytest_failure_taxonomy.prove.experiment import (
    AS_RECORDED,
    Conditions,
    ExperimentError,
    Experiments,
    Setup,
    Victim,
)
from pytest_failure_taxonomy.prove.rates import Count
from pytest_failure_taxonomy.report.build import REDACTED
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.reproduce import start_of_python
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import CRASH_SIGNALS, Cause
from pytest_failure_taxonomy.taxonomy.order import read_ranges
from pytest_failure_taxonomy.taxonomy.values import value

_DIES: Final = frozenset(
    {"process.crashed", "worker.crashed", "test.crashed", "process.oom"}
)
_LASTS: Final = frozenset(
    {"test.stalled", "test.timeout", "process.timeout", "process.killed"}
)
_SECONDS: Final = 20.0
"""How long an experiment may take at least, and how long one whose victim hangs may."""
_LONGEST_SECONDS: Final = 900.0
_SEEDED: Final = {
    "randomly": "--randomly-seed",
    "random_order": "--random-order-seed",
}


def setup_of(report: FailureReport) -> Setup:
    """Return how to run the pytest of a report.

    Raises:
        ExperimentError: the report doesn't say it in full.
    """
    invocation, around = report.run.invocation, report.surroundings
    if report.environment.pytest == "unknown":
        raise ExperimentError(
            "it does not say how pytest was called; give one that pytest wrote"
        )
    args = [*_without_ours(invocation.args)]
    for arg in args:
        if REDACTED in arg:
            raise ExperimentError(
                f"the argument {arg} had a value that is not in the report"
            )
    folders = [around and around.folder, invocation.rootdir, os.getcwd()]
    folder, *others = [path for path in folders if path and os.path.isdir(path)]
    rootdir = invocation.rootdir if invocation.rootdir in others else folder
    variables = {}
    seeds = {} if report.order is None else report.order.seeds
    args += [f"{_SEEDED[name]}={seeds[name]}" for name in seeds if name in _SEEDED]
    if "hash" in seeds:
        variables["PYTHONHASHSEED"] = str(seeds["hash"])
    python, path = start_of_python(report)
    front = None if path is None else os.path.normpath(Path(rootdir) / path)
    # Else `-m` puts it in front of `sys.path`.
    if around is not None and front != folder:
        python.append("-P")
        if front is not None:
            inherited = os.environ.get("PYTHONPATH", "")
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, [front, inherited]))
    return Setup(
        args=tuple(args),
        folder=Path(folder),
        rootdir=Path(rootdir),
        variables=variables,
        python=tuple(python),
    )


def _without_ours(args: Sequence[str]) -> Iterator[str]:
    ours = {name: option for option in OPTIONS.values() for name in option.names}
    # They take a path, too, to which an experiment must not write.
    ours |= dict.fromkeys(
        packaged_table("experiments")["written"]["options"], OPTIONS["report"]
    )
    words = [*args]
    while words:
        word = words.pop(0)
        name, is_joined, _ = word.partition("=")
        if (option := ours.get(name)) is None:
            yield word
            continue
        has_value = option.type != "flag" and not is_joined and words
        # As argparse does it: what begins an option is no value of one that needs none.
        if has_value and (option.left_out is None or not words[0].startswith("-")):
            words.pop(0)


def limit_of(report: FailureReport) -> float:
    """Return how many seconds one experiment may take: three times the recorded run."""
    lasted = report.run.duration_seconds or 0.0
    return min(max(_SECONDS, 3 * lasted), _LONGEST_SECONDS)


@value
class Task:
    """What is asked for: of which report, and within what."""

    report: FailureReport
    tell: Callable[[str], None]
    """Prints a line."""
    save: Callable[[FailureReport], None]
    """Keeps the report, after each cause."""
    budget_seconds: float
    """For all causes together."""
    number: int | None = None
    """That of the only cause that is looked at, from 1 on."""
    allows_effects: bool = False
    """Run tests that use the network, a database or other processes."""


def experiments_of(task: Task, setup: Setup) -> Experiments:
    """Return the experiments that run tests of a report until their time is over."""
    return Experiments(
        setup,
        until=time.monotonic() + task.budget_seconds,
        limit_seconds=limit_of(task.report),
        allows_effects=task.allows_effects,
    )


def victims_of(report: FailureReport, cause: Cause) -> tuple[Victim, ...]:
    """Return the tests of a cause, in the order in which they occurred.

    A test that was running when its process died or hung is one, too.
    """
    tests = {failure.nodeid for failure in report.failures}
    tests |= {running.nodeid for running in report.in_flight}
    endings: frozenset[str] = frozenset()
    if cause.kind in _DIES:
        signals = [
            report.exit.signal,
            *(worker.exit.signal for worker in report.workers),
        ]
        endings = frozenset(filter(None, signals)) or CRASH_SIGNALS
    elif cause.kind in _LASTS:
        endings = frozenset({"limit", "1"})  # pytest-timeout's thread leaves with 1
    elif cause.kind == "process.exited":
        endings = frozenset(map(str, range(256)))
    order = report.order
    # xdist adds a test's group to its node id, where it distributes by groups.
    is_grouped = order is not None and order.distribution == "loadgroup"
    victims = []
    for nodeid in cause.nodeids:
        if nodeid in tests:
            victim = Victim(
                nodeid=re.sub(r"@[^\]]*$", "", nodeid) if is_grouped else nodeid,
                fingerprints=frozenset(cause.fingerprints),
                endings=endings,
            )
            victims.append(victim)
    return tuple(victims)


def why_order_is_unknown(report: FailureReport, experiments: Experiments) -> str:
    """Return why the order can't be repeated with the tests of now; empty if it can."""
    if report.order is None:
        return "the report has none"
    is_same = report.order.digest == experiments.digest
    return "" if is_same else "other tests are collected than then"


def order_before(
    report: FailureReport, experiments: Experiments, victim: str
) -> tuple[str, ...] | None:
    """Return the tests that ran before a victim in its process; `None` if not known.

    Args:
        report: whose order has numbers of the tests that pytest selected.
        experiments: which have collected them again.
        victim: node id.
    """
    order, nodeids = report.order, experiments.nodeids
    if order is None or why_order_is_unknown(report, experiments):
        return None
    for text in order.workers.values():
        numbers = (number for number in read_ranges(text) if number < len(nodeids))
        started = [nodeids[number] for number in numbers]
        if victim in started:
            return tuple(started[: started.index(victim)])
    return None


@value
class Repeat:
    """A test of a cause, what makes it fail by its proof, and how often it does."""

    victim: Victim
    before: tuple[str, ...] = ()
    conditions: Conditions = AS_RECORDED
    known: Count = Count()


def repeat_of(report: FailureReport, cause: Cause, experiments: Experiments) -> Repeat:
    """Return what makes the first test of a cause fail; only the test if not proven.

    Raises:
        ExperimentError: it can't be had on this machine.
        LookupError: no test of the cause's own fails.
    """
    victim, proof = victims_of(report, cause)[0], cause.proof
    if proof is None or proof.status != "proven":
        return Repeat(victim=victim)
    conditions = conditions_of(experiments, victim, proof, time_of(report))
    if conditions is None:
        raise ExperimentError(
            f"what makes it fail can't be had on this machine: {proof.state}"
        )
    return Repeat(
        victim=victim,
        before=proof.nodeids if proof.type == "order.polluted" else (),
        conditions=conditions,
        known=Count(failed=proof.failed, runs=proof.runs),
    )


def time_of(report: FailureReport) -> datetime:
    """Return when the run of a report began."""
    return datetime.fromisoformat(report.run.started_at)

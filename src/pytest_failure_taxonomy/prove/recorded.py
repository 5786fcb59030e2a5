"""What a report says of the run that is to be repeated: how pytest was called, and in what order.

Options of ours are left out, and those that name a file to be written. All others stay: the plugin
inside of an experiment switches off what would spread, reorder or cut it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

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
from pytest_failure_taxonomy.report.model import as_value
from pytest_failure_taxonomy.report.reproduce import start_of_python
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import CRASH_SIGNALS
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


def setup_of(report: Mapping[str, Any]) -> Setup:
    """Return how to run the pytest of a report.

    Raises:
        ExperimentError: the report doesn't say it in full.
    """
    invocation = report["run"]["invocation"]
    if report["environment"]["pytest"] == "unknown":
        raise ExperimentError(
            "it does not say how pytest was called; give one that pytest wrote"
        )
    around = report["surroundings"] or {}
    args = tuple(_without_ours(invocation["args"]))
    secret = next((each for each in args if REDACTED in each), None)
    if secret is not None:
        raise ExperimentError(
            f"the argument {secret} had a value that the report doesn't have"
        )
    folders = [around.get("folder"), invocation["rootdir"], os.getcwd()]
    folder = next(
        each for each in folders if isinstance(each, str) and os.path.isdir(each)
    )
    order = report["order"] or {}
    seeds = order.get("seeds", {})
    seeded = {"randomly": "--randomly-seed", "random_order": "--random-order-seed"}
    args += tuple(
        f"{seeded[name]}={seed}" for name, seed in seeds.items() if name in seeded
    )
    variables = {"PYTHONHASHSEED": str(seeds["hash"])} if "hash" in seeds else {}
    rootdir = Path(
        invocation["rootdir"] if os.path.isdir(invocation["rootdir"]) else folder
    )
    python, path = start_of_python(as_value(report))
    front = None if path is None else os.path.normpath(rootdir / path)
    if "path" in around and front != folder:  # else `-m` puts it in front of `sys.path`
        python.append("-P")
        if front is not None:
            inherited = os.environ.get("PYTHONPATH", "")
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, [front, inherited]))
    return Setup(
        args=args,
        folder=Path(folder),
        rootdir=rootdir,
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


def limit_of(report: Mapping[str, Any]) -> float:
    """Return how many seconds one experiment may take: three times the recorded run."""
    lasted = report["run"]["duration_seconds"] or 0.0
    return min(max(_SECONDS, 3 * float(lasted)), _LONGEST_SECONDS)


@value
class Task:
    """What is asked for: of which report, and within what."""

    report: dict[str, Any]
    tell: Callable[[str], None]
    """Prints a line."""
    save: Callable[[dict[str, Any]], None]
    """Keeps the report, after each cause."""
    budget_seconds: float
    """For all causes together."""
    number: int | None = None
    """That of the only cause that is looked at, from 1 on."""
    allows_effects: bool = False
    """Run tests that use the network, a database or other processes."""


def experiments_of(task: Task, setup: Setup) -> Experiments:
    """Return what runs tests of a report until its time is over."""
    return Experiments(
        setup,
        until=time.monotonic() + task.budget_seconds,
        limit_seconds=limit_of(task.report),
        allows_effects=task.allows_effects,
    )


def victims_of(
    report: Mapping[str, Any], cause: Mapping[str, Any]
) -> tuple[Victim, ...]:
    """Return the tests of a cause, in the order in which they occurred; none where it is no test's.

    A test that was running when its process died or hung counts, too.
    """
    kind, fingerprints = cause["kind"], frozenset(cause["fingerprints"])
    tests = [each["nodeid"] for each in (*report["failures"], *report["in_flight"])]
    endings: frozenset[str] = frozenset()
    if kind in _DIES:
        exits = [report["exit"], *(worker["exit"] for worker in report["workers"])]
        endings = (
            frozenset(filter(None, [each["signal"] for each in exits])) or CRASH_SIGNALS
        )
    elif kind in _LASTS:
        endings = frozenset({"limit", "1"})  # pytest-timeout's thread leaves with 1
    elif kind == "process.exited":
        endings = frozenset(map(str, range(256)))
    # xdist adds the group of a test to its node id, where it distributes by groups.
    is_grouped = (report["order"] or {}).get("distribution") == "loadgroup"
    return tuple(
        Victim(
            nodeid=re.sub(r"@[^\]]*$", "", nodeid) if is_grouped else nodeid,
            fingerprints=fingerprints,
            endings=endings,
        )
        for nodeid in cause["nodeids"]
        if nodeid in tests
    )


def why_order_is_unknown(report: Mapping[str, Any], experiments: Experiments) -> str:
    """Return why a report's order can't be repeated with the tests of now; empty if it can."""
    order = report["order"]
    if order is None:
        return "the report has none"
    is_same = order["digest"] == experiments.digest
    return "" if is_same else "other tests are collected than then"


def order_before(
    report: Mapping[str, Any], experiments: Experiments, victim: str
) -> tuple[str, ...] | None:
    """Return the tests that ran before a victim in its process; `None` if that is not known.

    Args:
        report: whose order has numbers of the tests that pytest selected.
        experiments: which have collected them again.
        victim: node id.
    """
    if why_order_is_unknown(report, experiments):
        return None
    for text in report["order"]["workers"].values():
        numbers = (
            number for number in read_ranges(text) if number < len(experiments.nodeids)
        )
        started = [experiments.nodeids[number] for number in numbers]
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


def repeat_of(
    report: Mapping[str, Any], cause: Mapping[str, Any], experiments: Experiments
) -> Repeat:
    """Return what makes the first test of a cause fail; only the test where nothing is proven.

    Raises:
        ExperimentError: it can't be had on this machine.
        LookupError: no test of the cause's own fails.
    """
    victim, proof = victims_of(report, cause)[0], cause["proof"]
    if proof is None or proof["status"] != "proven":
        return Repeat(victim=victim)
    recorded_at = datetime.fromisoformat(report["run"]["started_at"])
    conditions = conditions_of(experiments, victim, proof, recorded_at)
    if conditions is None:
        raise ExperimentError(
            f"what makes it fail can't be had on this machine: {proof['state']}"
        )
    return Repeat(
        victim=victim,
        before=tuple(proof["nodeids"]) if proof["type"] == "order.polluted" else (),
        conditions=conditions,
        known=Count(failed=proof["failed"], runs=proof["runs"]),
    )

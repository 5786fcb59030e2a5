"""Prove the causes of a report, one after the other, and write into it what is known.

Each cause has its share of the time that is left. What one of them has shown is in the report
before the next begins, so that Ctrl+C leaves it, and `--resume` goes on from there.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.options import DEFAULT_REPORT
from pytest_failure_taxonomy.prove import axes, recorded
from pytest_failure_taxonomy.prove.copies import Copies, Leftovers, leftovers_of
from pytest_failure_taxonomy.prove.experiment import (
    Experiments,
    OutOfTime,
    Result,
    Victim,
)
from pytest_failure_taxonomy.prove.ladder import Climb, Ladder
from pytest_failure_taxonomy.prove.progress import Progress
from pytest_failure_taxonomy.prove.rates import ENOUGH_FRESH, FEWEST
from pytest_failure_taxonomy.prove.shell import program_of
from pytest_failure_taxonomy.prove.state import changed_files, take_files
from pytest_failure_taxonomy.report.amend import amend
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.summary import proof_words
from pytest_failure_taxonomy.taxonomy.amendments import Amendment
from pytest_failure_taxonomy.taxonomy.judgement import Cause, Proof
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import (
    counted,
    listed,
    seconds_words,
)

_MOST_FILES: Final = 5
_MOST_NAMED: Final = 3
_MOST_CHANGERS: Final = 5
"""Tests that are tried first because they have left something behind."""
_INDENT: Final = "   "
_COVERAGE: Final = re.compile(r"\.coverage|coverage\.|htmlcov/")
_DECIDED: Final = ("proven", "refuted")
_LONG_TO_COLLECT: Final = 10.0
"""Seconds."""
_MOST_ALIKE: Final = 20
"""Tests of one cause that are tried besides the first."""
_ENDS: Final[Mapping[str, tuple[Result, ...]]] = {
    "order.polluted": ("passed", "failed"),
    "order.brittle": ("failed", "passed"),
    "reproducible": ("failed",),
}
"""How a test ends alone, and after the tests that a proof of a type names."""
_ENDS_WORDS: Final[Mapping[Result, str]] = {
    "passed": "passes",
    "failed": "fails",
    "other": "ends in another way",
}


def prove_causes(
    path: Path, task: recorded.Task, *, resumes: bool = False
) -> tuple[FailureReport, bool]:
    """Return a report with what experiments show of its causes, and whether all are proven.

    Args:
        path: of the report.
        task: what is asked for.
        resumes: leave out what has been decided before.

    Raises:
        ExperimentError: pytest can't be run as it was, or a test has effects that are not allowed.
        SettingsError: there is no such cause, or nothing to prove.
    """
    report, began = task.report, time.monotonic()
    causes = causes_of(report, task.number, resumes=resumes)
    setup = recorded.setup_of(report)
    files = _files_besides(path, setup.rootdir)
    experiments = recorded.experiments_of(task, setup)
    # Counted in the budget, as all that follows.
    ours = _names_of_ours(report)
    leftovers = leftovers_of(
        report,
        {name: state for name, state in files.items() if not ours(name)},
        setup.rootdir,
    )
    experiments.left_between_ns = leftovers.between_ns
    experiments.progress = progress = Progress()

    answer = task.tell

    def tell(line: str) -> None:
        progress.clear()
        answer(line)

    task = replace(task, tell=tell)
    budget = seconds_words(task.budget_seconds)
    tell(f"{counted(len(causes), 'cause')} to prove in at most {budget}")
    with ExitStack() as stack:
        copies = None
        if leftovers.names or leftovers.older:
            copies = stack.enter_context(Copies(experiments, leftovers))
            if copies.why_not:
                tell(f"it is not known which files the run left: {copies.why_not}")
                copies = None
        stack.enter_context(experiments)
        report, undecided = _prove_in_turn(
            task,
            report,
            causes,
            Search(experiments=experiments, copies=copies, leftovers=leftovers),
        )
        fresh_runs = experiments.fresh_runs + (copies.runs if copies else 0)
        runs = f"{fresh_runs} runs in fresh processes, {experiments.forks} in forks"
        tell(f"{runs}, {seconds_words(time.monotonic() - began)}")
        if undecided:
            minutes = max(1, round(2 * task.budget_seconds / 60))
            tell(
                f"{counted(undecided, 'cause')} not proven; "
                f"to go on: {_command_to_go_on(task, path, minutes)}"
            )
    if changed := changed_files(files, _files_besides(path, setup.rootdir)):
        tell(f"the tests left files in {setup.rootdir}: {listed(changed, _MOST_FILES)}")
    return report, not undecided


@value
class Search:
    """What runs tests of a report, and what is known for all causes."""

    experiments: Experiments
    copies: Copies | None
    """Where the run has left files; `None` else."""
    leftovers: Leftovers


def _prove_in_turn(
    task: recorded.Task,
    report: FailureReport,
    causes: Sequence[tuple[int, Cause]],
    search: Search,
) -> tuple[FailureReport, int]:
    """Prove causes; return the report with it, and how many are not proven."""
    experiments, tell = search.experiments, task.tell
    experiments.start()
    if why := recorded.why_order_is_unknown(report, experiments):
        tell(f"the recorded order is not known ({why}): the current order is used")
    if why := experiments.why_no_forks:
        tell(f"every experiment needs its own process: {why}")
    if plan := plan_words(experiments):
        tell(plan)
    suspects: dict[tuple[str, ...], None] = {}
    not_tried: dict[str, str] = {}
    undecided = len(causes)
    for cause in in_turn(task, causes, experiments):
        proof = _prove(report, cause, search, tuple(suspects), not_tried)
        if isinstance(proof, str):
            tell(f"{_INDENT}{proof}")
            continue
        undecided -= proof.status == "proven"
        if proof.type == "order.polluted":
            suspects[proof.nodeids] = None
        report = tell_and_keep(task, report, cause, proof)
    if Path.cwd() != experiments.setup.rootdir:
        tell(f"the commands are for {experiments.setup.rootdir}")
    if not_tried:
        reasons = [f"{name} ({why})" for name, why in not_tried.items()]
        tell(f"not tried here: {', '.join(reasons)}")
    return report, undecided


def _command_to_go_on(task: recorded.Task, path: Path, minutes: int) -> str:
    words = ["failure-taxonomy", "prove", "--resume", "--budget", f"{minutes}m"]
    if task.allows_effects:
        words.append("--yes")
    if path != Path(DEFAULT_REPORT):
        words.append(str(path))
    return shlex.join(words)


def plan_words(experiments: Experiments) -> str:
    """Return how long the steps of a cause take, if collecting the tests takes long."""
    seconds = experiments.seconds_to_collect
    if seconds < _LONG_TO_COLLECT:
        return ""
    steps = {"an order": 2 * FEWEST + 2, "a failure that is always there": ENOUGH_FRESH}
    words = [
        f"{step} about {seconds_words(runs * seconds)}" for step, runs in steps.items()
    ]
    return (
        f"collecting the tests takes {seconds_words(seconds)}, and each process does it "
        f"again: to prove {' and '.join(words)}"
    )


def _files_besides(report: Path, rootdir: Path) -> dict[str, tuple[int, int]]:
    """Return the project's files but the report, which we write ourselves."""
    files = take_files(rootdir)
    files.pop(os.path.relpath(report, rootdir).replace(os.sep, "/"), None)
    return files


def in_turn(
    task: recorded.Task,
    causes: Sequence[tuple[int, Cause]],
    experiments: Experiments,
    victims_of: Callable[
        [FailureReport, Cause], tuple[Victim, ...]
    ] = recorded.victims_of,
) -> Iterator[Cause]:
    """Yield causes that have victims, each with its share of the time; its line is printed."""
    until = experiments.until
    for index, (number, cause) in enumerate(causes):
        tests = listed(cause.nodeids, 1) or "no test"
        task.tell(f"{number}. {cause.count} x {cause.what}: {tests}")
        if not victims_of(task.report, cause):
            task.tell(f"{_INDENT}it has no failed test, so there is nothing to run")
            continue
        now = time.monotonic()
        experiments.until = now + (until - now) / (len(causes) - index)
        yield cause


def tell_and_keep(
    task: recorded.Task, report: FailureReport, cause: Cause, proof: Proof
) -> FailureReport:
    """Print a proof and its command; return the report with it. A better one stays."""
    first_nodeid = next(iter(cause.nodeids), None)
    lines = [*proof_words(proof, first_nodeid)]
    if proof.command and proof.status != "undecided":
        lines.append(proof.command)
    report = amend(report, Amendment(proofs={cause.key: proof}))
    known = {known.key: known.proof for known in reversed(report.causes)}
    best = known[cause.key]
    if best and (best.type, best.status) != (proof.type, proof.status):
        lines.append(f"what was proven before stays in the report: {best.type}")
    for line in lines:
        task.tell(f"{_INDENT}{line}")
    task.save(report)
    return report


def causes_of(
    report: FailureReport, number: int | None, *, resumes: bool = False
) -> list[tuple[int, Cause]]:
    """Return causes with their numbers: all, one, or those that are not decided.

    Raises:
        SettingsError: there is none.
    """
    causes = list(enumerate(report.causes, 1))
    if not causes:
        raise SettingsError("prove: nothing failed in this run")
    if number is not None:
        if number > len(causes):
            raise SettingsError(
                f"prove: there is no cause {number}; the report has {len(causes)}, which "
                "`failure-taxonomy show --all` lists"
            )
        return [causes[number - 1]]
    if not resumes:
        return causes
    undecided = [
        (number, cause)
        for number, cause in causes
        if cause.proof is None or cause.proof.status not in _DECIDED
    ]
    if not undecided:
        raise SettingsError(
            "prove: every cause of this run is decided; leave out --resume"
        )
    return undecided


def _prove(
    report: FailureReport,
    cause: Cause,
    search: Search,
    suspects: tuple[tuple[str, ...], ...],
    not_tried: dict[str, str],
) -> Proof | str:
    """Return the proof of a cause, or a sentence that says why there is none."""
    experiments = search.experiments
    victims = recorded.victims_of(report, cause)
    nodeids, natural = experiments.nodeids, experiments.natural
    known = set(nodeids)
    collected = [victim for victim in victims if victim.nodeid in known]
    if not collected:
        why = ""
        if experiments.collection_errors:
            errors = counted(experiments.collection_errors, "error")
            why = f" (with {errors})"
        return f"{victims[0].nodeid} is not collected any more{why}"
    victim = collected[0]
    before = recorded.order_before(report, experiments, victim.nodeid)
    if before is None:
        before = nodeids[: nodeids.index(victim.nodeid)]
    seconds = 4 * (report.run.duration_seconds or 0.0)
    others: tuple[str, ...] = ()
    if seconds < experiments.until - time.monotonic():
        others = tuple(nodeid for nodeid in natural if nodeid != victim.nodeid)

    def to_try(base: axes.Base, uses_random: bool) -> Iterator[axes.Axis]:  # noqa: FBT001
        known = axes.axes_of(
            experiments,
            victim,
            base,
            uses_random=uses_random,
            recorded_at=recorded.time_of(report),
        )
        return axes.likely_first(known, _failure_words(report, cause, victim))

    climb = Climb(
        victim=victim,
        recorded=before,
        natural=natural[: natural.index(victim.nodeid)],
        others=others,
        suspects=(*_changers(report, before), *suspects),
        suspicions=_installed_since(cause),
        not_known=tuple(_not_known(report, search)),
        files=tuple(dict.fromkeys(nodeid.partition("::")[0] for nodeid in natural)),
        home=axes.empty_home(experiments.folder / "home").conditions[0],
        program=program_of(report),
        axes=to_try,
    )
    ladder = Ladder(experiments, climb, search.copies)
    try:
        proof = ladder.prove()
    except OutOfTime:
        return "time ran out before it began"
    finally:
        not_tried |= ladder.not_tried
    if ladder.trials.base.tree != "here":
        return proof  # what is proven of copies, others can't be asked here
    alike = [other for other in collected if other.nodeid != victim.nodeid]
    # Only what is not in forks takes long.
    most = 2 if experiments.why_no_forks else _MOST_ALIKE
    if exceptions := _exceptions(experiments, alike[:most], proof):
        words = f"another cause for {listed(exceptions, _MOST_NAMED)}"
        proof = replace(proof, suspicions=(*proof.suspicions, words))
    return proof


def _failure_words(report: FailureReport, cause: Cause, victim: Victim) -> str:
    """Return in words what is known about how a test failed."""
    words = [cause.what]
    for failure in report.failures:
        if failure.nodeid == victim.nodeid and failure.exception is not None:
            words += [failure.exception.type, failure.exception.message]
    return " ".join(words)


def _exceptions(
    experiments: Experiments, others: Sequence[Victim], proof: Proof
) -> list[str]:
    """Return for which other tests of a cause, which failed alike, the proof is not true."""
    names = proof.nodeids
    if proof.status != "proven":
        return []
    ends = _ENDS.get(proof.type, ())
    expected = [*zip(((), names), ends, strict=False)]
    # Alone the first test ends in another way, too.
    if proof.without is not None and proof.without.state:
        expected = expected[1:]
    exceptions = []
    with suppress(OutOfTime):
        for other in others:
            if other.nodeid in names:
                continue
            for before, result in expected:
                ended = experiments.run(other, before).result
                if ended != result:
                    after = "after the same tests" if before else "alone"
                    words = f"{other.nodeid}, which {_ENDS_WORDS[ended]} {after}"
                    exceptions.append(words)
                    break
    return exceptions


def _names_of_ours(report: FailureReport) -> Callable[[str], bool]:
    """Return a function that tells the run's reports from files that tests left."""
    args = " ".join(report.run.invocation.args)  # which name reports

    def is_ours(name: str) -> bool:
        return name in args or bool(_COVERAGE.match(name))

    return is_ours


def _not_known(report: FailureReport, search: Search) -> Iterator[str]:
    """Yield what may make a test fail each time besides the test itself."""
    leftovers = search.leftovers
    if leftovers.names and search.copies is None:
        yield f"files that the run has written: {listed(leftovers.names, _MOST_NAMED)}"
    if deselected := report.summary.deselected:
        yield f"it may need one of {counted(deselected, 'test')} that the run had deselected"


def _changers(
    report: FailureReport, before: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Yield the last tests of those before a victim that have left something behind."""
    changed = {change.nodeid for change in report.changes}
    last = [nodeid for nodeid in reversed(before) if nodeid in changed]
    yield from ((nodeid,) for nodeid in last[:_MOST_CHANGERS])


def _installed_since(cause: Cause) -> tuple[str, ...]:
    """Return what is installed in other versions since the last pass, if known."""
    history = cause.history
    if history is None or not history.distributions_changed:
        return ()
    changed = listed(history.distributions_changed, _MOST_NAMED)
    return (f"environment: {changed} since the last pass",)

"""Prove the causes of a report, one after the other, and write into it what is known.

Each cause has its share of the time that is left. What one of them has shown is in the report
before the next begins, so that Ctrl+C leaves it, and `--resume` goes on from there.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.prove import recorded
from pytest_failure_taxonomy.prove.axes import axes_of
from pytest_failure_taxonomy.prove.experiment import Experiments, OutOfTime, Result, Victim
from pytest_failure_taxonomy.prove.ladder import MOST_RUNS, Climb, Ladder
from pytest_failure_taxonomy.prove.state import changed_files, take_files
from pytest_failure_taxonomy.report.amend import with_proofs
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from pytest_failure_taxonomy.report.summary import proof_words
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import and_more, counted, listed, seconds_words

_MOST_FILES: Final = 5
_MOST_NAMED: Final = 3
_INDENT: Final = "   "
_COVERAGE: Final = re.compile(r"\.coverage|coverage\.|htmlcov/")
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
    path: Path,
    report: dict[str, Any],
    *,
    budget_seconds: float,
    number: int | None = None,
    resumes: bool = False,
    allows_effects: bool = False,
    tell: Callable[[str], None],
    save: Callable[[dict[str, Any]], None],
) -> tuple[dict[str, Any], bool]:
    """Return a report with what experiments show of its causes, and whether all are proven.

    Args:
        path: of the report.
        report: its JSON object.
        budget_seconds: for all causes together.
        number: of the only cause that is looked at, from 1 on.
        resumes: leave out what has been decided before.
        allows_effects: run tests that use the network, a database or other processes.
        tell: prints a line.
        save: keeps the report, after each cause.

    Raises:
        ExperimentError: pytest can't be run as it was, or a test has effects that are not allowed.
        SettingsError: there is no such cause, or nothing to prove.
    """
    causes = causes_of(report, number, resumes=resumes)
    setup = recorded.setup_of(report)
    began = time.monotonic()
    until = began + budget_seconds
    experiments = recorded.experiments_of(report, setup, until, allows_effects=allows_effects)
    tell(
        f"{counted(len(causes), 'cause')}, in at most {seconds_words(budget_seconds)} and about "
        f"{len(causes) * MOST_RUNS:,} runs of some of the tests"
    )
    own = os.path.relpath(path, setup.rootdir).replace(os.sep, "/")
    files = take_files(setup.rootdir)
    files.pop(own, None)
    with experiments:
        experiments.start()
        is_same = _is_order_known(report["order"], experiments.digest, tell)
        if experiments.why_no_forks:
            tell(f"every experiment takes a process of its own: {experiments.why_no_forks}")
        suspects: list[tuple[str, ...]] = []
        not_tried: dict[str, str] = {}
        left_by_run = _written_since(report, files)
        undecided = 0
        for cause, experiments.until in in_turn(causes, until, tell):
            proof = _prove(
                report, cause, experiments, suspects, not_tried, left_by_run, is_same=is_same
            )
            undecided += isinstance(proof, str) or proof["status"] != "proven"
            if isinstance(proof, str):
                tell(f"{_INDENT}{proof}")
                continue
            if proof["type"] == "order.polluted" and tuple(proof["nodeids"]) not in suspects:
                suspects.append(tuple(proof["nodeids"]))
            for line in proof_lines(proof, cause):
                tell(f"{_INDENT}{line}")
            if _says_more(cause["proof"], proof):
                tell(
                    f"{_INDENT}what was proven before stays in the report: {cause['proof']['type']}"
                )
            else:
                report = with_proofs(report, {cause["key"]: proof})
                save(report)
        if not_tried:
            told = [f"{name} ({why})" for name, why in not_tried.items()]
            tell(f"not tried here: {', '.join(told)}")
        runs = f"{experiments.fresh_runs} runs in fresh processes, {experiments.forks} in forks"
        tell(f"{runs}, {seconds_words(time.monotonic() - began)}")
        if undecided:
            more = f"--resume --budget {max(1, round(2 * budget_seconds / 60))}m"
            tell(
                f"{counted(undecided, 'cause')} not proven; to go on: failure-taxonomy prove {more}"
            )
    left = take_files(setup.rootdir)
    left.pop(own, None)  # what we write ourselves is none of theirs
    if changed := changed_files(files, left):
        tell(f"the tests have left in {setup.rootdir}: {listed(changed, _MOST_FILES)}")
    return report, not undecided


def _is_order_known(
    order: Mapping[str, Any] | None, digest: str, tell: Callable[[str], None]
) -> bool:
    if order is not None and order["digest"] == digest:
        return True
    why = "the report has none" if order is None else "other tests are collected than then"
    tell(f"the recorded order is not known ({why}): that of now is taken")
    return False


def in_turn(
    causes: Sequence[tuple[int, dict[str, Any]]], until: float, tell: Callable[[str], None]
) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield causes, each with the end of its share of the time; its line is printed."""
    for index, (at, cause) in enumerate(causes):
        nodeids = cause["nodeids"]
        tests = f"{nodeids[0]}{and_more(len(nodeids) - 1)}" if nodeids else "no test"
        tell(f"{at}. {cause['count']} x {cause['what']}: {tests}")
        now = time.monotonic()
        yield cause, now + (until - now) / (len(causes) - index)


def proof_lines(proof: Mapping[str, Any], cause: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is printed of a proof: what is proven, what was left behind, and the command."""
    nodeid = cause["nodeids"][0] if cause["nodeids"] else None
    yield from proof_words(dict(proof), nodeid)
    if proof["command"] and proof["status"] != "undecided":
        yield proof["command"]


def causes_of(
    report: Mapping[str, Any], number: int | None, *, resumes: bool = False
) -> list[tuple[int, dict[str, Any]]]:
    """Return causes with their numbers: all, one, or those that are not decided.

    Raises:
        SettingsError: there is none.
    """
    causes = list(enumerate(report["causes"], 1))
    if not causes:
        raise SettingsError("prove: nothing failed in this run")
    if number is not None:
        if number > len(causes):
            raise SettingsError(
                f"prove: there is no cause {number}; the report has {len(causes)}, which "
                "`failure-taxonomy show --all` lists"
            )
        return [causes[number - 1]]
    if resumes:
        decided = ("proven", "refuted")
        causes = [
            (at, cause)
            for at, cause in causes
            if cause["proof"] is None or cause["proof"]["status"] not in decided
        ]
        if not causes:
            raise SettingsError("prove: every cause of this run is decided; leave out --resume")
    return causes


def _prove(
    report: Mapping[str, Any],
    cause: Mapping[str, Any],
    experiments: Experiments,
    suspects: Sequence[tuple[str, ...]],
    not_tried: dict[str, str],
    left_by_run: Sequence[str],
    *,
    is_same: bool,
) -> dict[str, Any] | str:
    """Return the proof of a cause, or a sentence that says why there is none."""
    victims = recorded.victims_of(report, cause)
    if not victims:
        return "no test of its own fails, so there is nothing to run"
    known = set(experiments.nodeids)
    # xdist adds the group of a test to its node id, where it distributes by groups.
    grouped = (replace(each, nodeid=each.nodeid.rpartition("@")[0]) for each in victims)
    victim = next((each for each in (*victims, *grouped) if each.nodeid in known), None)
    if victim is None:
        errors = counted(experiments.collection_errors, "error")
        why = f" (with {errors})" if experiments.collection_errors else ""
        return f"{victims[0].nodeid} is not collected any more{why}"
    order = experiments.nodeids
    before = recorded.order_before(report, order, victim.nodeid) if is_same else None
    natural = experiments.natural[: experiments.natural.index(victim.nodeid)]
    climb = Climb(
        victim=victim,
        recorded=order[: order.index(victim.nodeid)] if before is None else before,
        natural=natural,
        others=tuple(each for each in experiments.natural if each != victim.nodeid)
        if (report["run"]["duration_seconds"] or 0.0) * 4 < experiments.until - time.monotonic()
        else (),
        suspects=tuple(suspects),
        suspicions=_installed_since(cause),
        not_known=tuple(_not_known(report, left_by_run)),
        program=reproduction_of(dict(report)).program,
        axes=lambda base, uses_random: axes_of(
            experiments,
            victim,
            base,
            uses_random=uses_random,
            recorded_at=datetime.fromisoformat(report["run"]["started_at"]),
        ),
    )
    ladder = Ladder(experiments, climb)
    try:
        proof = ladder.prove()
    except OutOfTime:
        return "time ran out before it began"
    finally:
        not_tried |= ladder.not_tried
    others = [each for each in victims if each.nodeid in known - {victim.nodeid}]
    # Only what is not in forks takes long.
    most = 2 if experiments.why_no_forks else _MOST_ALIKE
    exceptions = _exceptions(experiments, others[:most], proof)
    if exceptions:
        proof["suspicions"].append(f"another cause for {listed(exceptions, _MOST_NAMED)}")
    return proof


def _exceptions(
    experiments: Experiments, others: Sequence[Victim], proof: Mapping[str, Any]
) -> list[str]:
    """Return for which other tests of a cause, which failed alike, the proof is not true."""
    names = tuple(proof["nodeids"])
    ends = _ENDS.get(proof["type"], ()) if proof["status"] == "proven" else ()
    expected = dict(zip(((), names), ends, strict=False))
    if (proof["without"] or {}).get("state"):  # alone the first test ends in another way, too
        expected.pop((), None)
    seen = []
    with suppress(OutOfTime):
        for other in others:
            for before, result in expected.items() if other.nodeid not in names else ():
                ended = experiments.run(other, before).result
                if ended != result:
                    after = "after the same tests" if before else "alone"
                    seen.append(f"{other.nodeid}, which {_ENDS_WORDS[ended]} {after}")
                    break
    return seen


def _says_more(earlier: Mapping[str, Any] | None, proof: Mapping[str, Any]) -> bool:
    """Tell whether an earlier proof of a cause is proven, and the new one says less."""
    if earlier is None or earlier["status"] != "proven":
        return False
    is_of_commit = earlier["type"] == "commit" and proof["type"] in ("flaky", "reproducible")
    return is_of_commit or proof["status"] != "proven"


def _written_since(report: Mapping[str, Any], files: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return the files of the project that were written since a run began, without its reports."""
    began_ns = datetime.fromisoformat(report["run"]["started_at"]).timestamp() * 1e9
    args = " ".join(report["run"]["invocation"]["args"])
    return sorted(
        name
        for name, (_, written_ns) in files.items()
        if written_ns > began_ns and name not in args and not _COVERAGE.match(name)
    )


def _not_known(report: Mapping[str, Any], left_by_run: Sequence[str]) -> Iterator[str]:
    """Yield what may make a test fail each time besides the test itself."""
    if left_by_run:
        yield f"files that were written since the run began: {listed(left_by_run, _MOST_NAMED)}"
    if deselected := report["summary"]["deselected"]:
        yield f"it may need one of {counted(deselected, 'test')} that the run had deselected"


def _installed_since(cause: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is installed in other versions since the tests have passed, if that is known."""
    changed = (cause["history"] or {}).get("distributions_changed")
    return (f"environment: {listed(changed, _MOST_NAMED)} since the last pass",) if changed else ()

"""Prove the causes of a report, one after the other, and write into it what is known.

Each cause has its share of the time that is left. What one of them has shown is in the report
before the next begins, so that Ctrl+C leaves it, and `--resume` goes on from there.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.prove import recorded
from pytest_failure_taxonomy.prove.axes import axes_of
from pytest_failure_taxonomy.prove.experiment import (
    Experiments,
    OutOfTime,
    Result,
    Victim,
)
from pytest_failure_taxonomy.prove.ladder import MOST_RUNS, Climb, Ladder
from pytest_failure_taxonomy.prove.state import changed_files, take_files
from pytest_failure_taxonomy.report.amend import with_proofs
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from pytest_failure_taxonomy.report.summary import proof_words
from pytest_failure_taxonomy.taxonomy.words import (
    and_more,
    counted,
    listed,
    seconds_words,
)

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
    path: Path, task: recorded.Task, *, resumes: bool = False
) -> tuple[dict[str, Any], bool]:
    """Return a report with what experiments show of its causes, and whether all are proven.

    Args:
        path: of the report.
        task: what is asked for.
        resumes: leave out what has been decided before.

    Raises:
        ExperimentError: pytest can't be run as it was, or a test has effects that are not allowed.
        SettingsError: there is no such cause, or nothing to prove.
    """
    report, tell = task.report, task.tell
    causes = causes_of(report, task.number, resumes=resumes)
    setup = recorded.setup_of(report)
    began = time.monotonic()
    experiments = recorded.experiments_of(task, setup)
    tell(
        f"{counted(len(causes), 'cause')}, in at most {seconds_words(task.budget_seconds)} and "
        f"about {len(causes) * MOST_RUNS:,} runs of some of the tests"
    )
    files = _files_besides(path, setup.rootdir)
    with experiments:
        experiments.start()
        if why := recorded.why_order_is_unknown(report, experiments):
            tell(f"the recorded order is not known ({why}): that of now is taken")
        if experiments.why_no_forks:
            tell(
                f"every experiment takes a process of its own: {experiments.why_no_forks}"
            )
        suspects: dict[tuple[str, ...], None] = {}
        not_tried: dict[str, str] = {}
        not_known = tuple(_not_known(report, files))
        undecided = len(causes)
        for cause in in_turn(task, causes, experiments):
            proof = _prove(
                report, cause, experiments, tuple(suspects), not_tried, not_known
            )
            if isinstance(proof, str):
                tell(f"{_INDENT}{proof}")
                continue
            undecided -= proof["status"] == "proven"
            if proof["type"] == "order.polluted":
                suspects[tuple(proof["nodeids"])] = None
            report = tell_and_keep(task, report, cause, proof)
        if Path.cwd() != setup.rootdir:
            tell(f"the commands are for {setup.rootdir}")
        if told := [f"{name} ({why})" for name, why in not_tried.items()]:
            tell(f"not tried here: {', '.join(told)}")
        runs = f"{experiments.fresh_runs} runs in fresh processes, {experiments.forks} in forks"
        tell(f"{runs}, {seconds_words(time.monotonic() - began)}")
        if undecided:
            more = f"prove --resume --budget {max(1, round(2 * task.budget_seconds / 60))}m"
            tell(
                f"{counted(undecided, 'cause')} not proven; to go on: failure-taxonomy {more}"
            )
    if changed := changed_files(files, _files_besides(path, setup.rootdir)):
        tell(f"the tests have left in {setup.rootdir}: {listed(changed, _MOST_FILES)}")
    return report, not undecided


def _files_besides(report: Path, rootdir: Path) -> dict[str, tuple[int, int]]:
    """Return the project's files but the report, which we write ourselves."""
    files = take_files(rootdir)
    files.pop(os.path.relpath(report, rootdir).replace(os.sep, "/"), None)
    return files


def in_turn(
    task: recorded.Task,
    causes: Sequence[tuple[int, dict[str, Any]]],
    experiments: Experiments,
) -> Iterator[dict[str, Any]]:
    """Yield causes that have tests, each with its share of the time; its line is printed."""
    until = experiments.until
    for index, (at, cause) in enumerate(causes):
        nodeids = cause["nodeids"]
        tests = f"{nodeids[0]}{and_more(len(nodeids) - 1)}" if nodeids else "no test"
        task.tell(f"{at}. {cause['count']} x {cause['what']}: {tests}")
        if not recorded.victims_of(task.report, cause):
            task.tell(f"{_INDENT}no test of its own fails, so there is nothing to run")
            continue
        now = time.monotonic()
        experiments.until = now + (until - now) / (len(causes) - index)
        yield cause


def tell_and_keep(
    task: recorded.Task,
    report: dict[str, Any],
    cause: Mapping[str, Any],
    proof: dict[str, Any],
) -> dict[str, Any]:
    """Print a proof with its command, and return the report with it; a better one stays."""
    lines = [*proof_words(proof, cause["nodeids"][0] if cause["nodeids"] else None)]
    if proof["command"] and proof["status"] != "undecided":
        lines.append(proof["command"])
    report = with_proofs(report, {cause["key"]: proof})
    kept = next(
        each["proof"] for each in report["causes"] if each["key"] == cause["key"]
    )
    if (kept["type"], kept["status"]) != (proof["type"], proof["status"]):
        lines.append(f"what was proven before stays in the report: {kept['type']}")
    for line in lines:
        task.tell(f"{_INDENT}{line}")
    task.save(report)
    return report


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
            raise SettingsError(
                "prove: every cause of this run is decided; leave out --resume"
            )
    return causes


def _prove(
    report: Mapping[str, Any],
    cause: Mapping[str, Any],
    experiments: Experiments,
    suspects: tuple[tuple[str, ...], ...],
    not_tried: dict[str, str],
    not_known: tuple[str, ...],
) -> dict[str, Any] | str:
    """Return the proof of a cause, or a sentence that says why there is none."""
    victims = recorded.victims_of(report, cause)
    known = set(experiments.nodeids)
    victim = next((each for each in victims if each.nodeid in known), None)
    if victim is None:
        errors = counted(experiments.collection_errors, "error")
        why = f" (with {errors})" if experiments.collection_errors else ""
        return f"{victims[0].nodeid} is not collected any more{why}"
    order = experiments.nodeids
    before = recorded.order_before(report, experiments, victim.nodeid)
    natural = experiments.natural[: experiments.natural.index(victim.nodeid)]
    has_time = (
        report["run"]["duration_seconds"] or 0.0
    ) * 4 < experiments.until - time.monotonic()
    climb = Climb(
        victim=victim,
        recorded=order[: order.index(victim.nodeid)] if before is None else before,
        natural=natural,
        others=tuple(
            each for each in experiments.natural if each != victim.nodeid and has_time
        ),
        suspects=suspects,
        suspicions=_installed_since(cause),
        not_known=not_known,
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
        proof["suspicions"].append(
            f"another cause for {listed(exceptions, _MOST_NAMED)}"
        )
    return proof


def _exceptions(
    experiments: Experiments, others: Sequence[Victim], proof: Mapping[str, Any]
) -> list[str]:
    """Return for which other tests of a cause, which failed alike, the proof is not true."""
    names = tuple(proof["nodeids"])
    ends = _ENDS.get(proof["type"], ()) if proof["status"] == "proven" else ()
    expected = [*zip(((), names), ends, strict=False)]
    if (proof["without"] or {}).get(
        "state"
    ):  # alone the first test ends in another way, too
        expected = expected[1:]
    seen = []
    with suppress(OutOfTime):
        for other in (other for other in others if other.nodeid not in names):
            for before, result in expected:
                if (ended := experiments.run(other, before).result) != result:
                    after = "after the same tests" if before else "alone"
                    seen.append(f"{other.nodeid}, which {_ENDS_WORDS[ended]} {after}")
                    break
    return seen


def _not_known(
    report: Mapping[str, Any], files: Mapping[str, tuple[int, int]]
) -> Iterator[str]:
    """Yield what may make a test fail each time besides the test itself."""
    began_ns = datetime.fromisoformat(report["run"]["started_at"]).timestamp() * 1e9
    args = " ".join(report["run"]["invocation"]["args"])  # which name reports
    written = sorted(
        name
        for name, (_, written_ns) in files.items()
        if written_ns > began_ns and name not in args and not _COVERAGE.match(name)
    )
    if written:
        yield f"files that were written since the run began: {listed(written, _MOST_NAMED)}"
    if deselected := report["summary"]["deselected"]:
        yield f"it may need one of {counted(deselected, 'test')} that the run had deselected"


def _installed_since(cause: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is installed in other versions since the tests have passed, if that is known."""
    changed = (cause["history"] or {}).get("distributions_changed")
    return (
        (f"environment: {listed(changed, _MOST_NAMED)} since the last pass",)
        if changed
        else ()
    )

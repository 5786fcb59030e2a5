"""Grade the kept outputs of a run again, without calling its system.

What becomes of a case of the earlier run:

| then                                   | in the new run                                         |
|----------------------------------------|--------------------------------------------------------|
| the system gave an output              | graded by the rubric as it is now                      |
| the system raised or exceeded a limit  | keeps its score: there is nothing to grade             |
| its output was too long to save        | lost                                                   |
| the case has changed since             | lost, unless asked for: it may be another question now |
| it left no score                       | lost, as before                                        |
| it was not run                         | not run, as before                                     |
| it is no longer in the class           | no part of the new run                                 |

A run is refused if the workspace of a case to grade was removed: the rubric may need it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, Literal

from pytest_failure_taxonomy.bench.answers import MOST_COST_USD, Answer, add_exactly
from pytest_failure_taxonomy.bench.isolate.client import open_rubrics
from pytest_failure_taxonomy.bench.kept.lines import (
    RunHeader,
    begin_header,
)
from pytest_failure_taxonomy.bench.kept.reader import KeptCase, KeptRun
from pytest_failure_taxonomy.bench.kept.writer import RunFile
from pytest_failure_taxonomy.bench.models import BenchCase, RunPlan, TaskClass
from pytest_failure_taxonomy.bench.run.runner import Runner, RunResults
from pytest_failure_taxonomy.bench.run.workspaces import KeptWorkspaces, Workspaces
from pytest_failure_taxonomy.bench.scores import (
    CaseAttempt,
    CaseOutcome,
    check_variables,
)
from pytest_failure_taxonomy.bench.sharding import case_digest
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import counted

Fate = Literal["graded", "no output", "cut", "changed", "lost", "not run", "gone"]
"""What becomes of a case, in the order of the table above."""

_LOST: Final = ("cut", "changed", "lost")
_BEGIN_OF_ID: Final = re.compile(
    r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]+-(?=[A-Za-z0-9_.-]{1,200}\Z)"
)
"""When a run began, and some digits; what follows says what was run."""


@value
class Regrading:
    """What is to become of the cases of a run."""

    run: KeptRun
    """The earlier run."""
    task_class: TaskClass
    """Its class as it is now."""
    fates: Mapping[str, Fate] = MappingProxyType({})
    """What becomes of each case of the run, by id."""
    changed: tuple[str, ...] = ()
    """Cases that have changed since, whether they are graded or not."""
    workspaces: KeptWorkspaces | None = None
    """Those of its cases, if they have any."""

    def having(self, fate: Fate) -> list[str]:
        """Return the ids of the cases with a fate, in the order of the run."""
        return [case_id for case_id, each in self.fates.items() if each == fate]

    @property
    def redacted(self) -> list[str]:
        """The ids of cases to grade from which secrets were removed."""
        cases = [self.run.cases[case_id] for case_id in self.having("graded")]
        return [case.case_id for case in cases if case.last and case.last.is_redacted]

    @property
    def added(self) -> list[str]:
        """The ids of cases that are in the class now, and not in the run."""
        ids = (case.case_id for case in self.task_class.cases)
        return [case_id for case_id in ids if case_id not in self.run.cases]

    @property
    def cases(self) -> dict[str, BenchCase]:
        """The cases of the new run, by id, in the order of the class."""
        kept = {case_id for case_id, fate in self.fates.items() if fate != "gone"}
        return {
            case.case_id: case for case in self.task_class.cases if case.case_id in kept
        }


def plan_regrading(
    run: KeptRun, task_class: TaskClass, *, takes_changed: bool = False
) -> Regrading:
    """Return what is to become of the cases of a run.

    Args:
        run: The run, with its outputs.
        task_class: Its class as it is now.
        takes_changed: Whether to grade the outputs of cases that have changed since, as
            they are now.

    Raises:
        BenchError: None of its outputs can be graded, or the rubric lacks a variable or a
            workspace.
    """
    digests = {case.case_id: case_digest(case) for case in task_class.cases}
    changed = {
        case.case_id
        for case in run.scheduled()
        if digests.get(case.case_id, case.digest) != case.digest
    }
    workspaces = kept_workspaces(run, task_class)
    fates: dict[str, Fate] = {}
    for case_id, case in run.cases.items():
        fate = _fate(case, is_left_out=case_id in changed and not takes_changed)
        fates[case_id] = fate if case_id in digests else "gone"
    check_variables(task_class, task_class.name)
    plan = Regrading(
        run=run,
        task_class=task_class,
        fates=fates,
        changed=tuple(sorted(changed)),
        workspaces=workspaces,
    )
    if not plan.having("graded"):
        parts = []
        for fate, words in packaged_table("bench")["none_regraded"].items():
            if ids := plan.having(fate):
                parts.append(f"{len(ids)} {words}")
        why = ", ".join(parts) or "it has no cases"
        raise BenchError(
            f"{run.path}: has no output to grade again ({why}); run the cases again"
        )
    _check_workspaces(plan)
    return plan


def _check_workspaces(plan: Regrading) -> None:
    """Refuse a run whose rubric would miss a workspace.

    The new run would be the latest one, and continuing it would call the system again.
    """
    workspaces = plan.workspaces
    if workspaces is None:
        return
    to_grade = plan.having("graded")
    missing = sum(not workspaces.has(case_id) for case_id in to_grade)
    if missing:
        what = f"{missing} of {counted(len(to_grade), 'workspace')} were not kept"
        right = "run with `workspace: {…, keep: all}` to regrade"
        raise BenchError(f"{plan.run.path}: {what}; {right}")


def kept_workspaces(run: KeptRun, task_class: TaskClass) -> KeptWorkspaces | None:
    """Return the workspaces of a run, beside its file; `None` if its cases have none."""
    settings = task_class.settings.workspace
    if settings is None:
        return None
    # Of a run that was graded again already, they are those of the first one.
    run_id = run.header.regraded_from or run.header.run_id
    if _BEGIN_OF_ID.match(run_id) is None:  # anybody may have written it
        run_id = run.path.stem
    return KeptWorkspaces(task_class, settings, run.path.absolute().parent / run_id)


def _fate(case: KeptCase, *, is_left_out: bool) -> Fate:
    last = case.last
    if last is None:
        return "lost" if case.state == "lost" else "not run"
    if is_left_out:
        return "changed"
    if not last.gave_output:
        return "no output"
    return "cut" if "output" in last.truncated else "graded"


def new_header(plan: Regrading) -> RunHeader:
    """Return the new first line: the same system, the class as it is now."""
    at = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    old = plan.run.header
    begun = _BEGIN_OF_ID.match(old.run_id)
    source = old.run_id[begun.end() :] if begun else "regraded"
    return begin_header(
        plan.task_class,
        run_id=f"{at}-{secrets.token_hex(3)}-{source}",
        folder=old.folder,
        system=old.system,
        test=old.test,
        commit=old.commit,
        shard=old.shard,
        regraded_from=old.run_id,
    )


async def regrade(plan: Regrading, file: RunFile) -> None:
    """Grade the outputs and write all cases of the new run to its file, which exists.

    A cost cap counts what the rubric costs now. The cases' cost is what their system
    cost when it was called, and what the rubric costs now.
    """
    cases = plan.cases

    def write_score(outcome: CaseOutcome) -> None:
        """Write the new score of a case, with what its system has cost then."""
        case = plan.run.cases[outcome.case_id]
        *others, last = _calls(case)
        last = last.model_copy(update={"fingerprint": outcome.attempts[-1].fingerprint})
        costs = [outcome.score.cost_usd, last.cost_usd]
        costs += [call.cost_usd for call in others]
        score = outcome.score.model_copy(
            update={
                "cost_usd": min(add_exactly(*costs), MOST_COST_USD),
                "wall_clock_ms": outcome.score.wall_clock_ms + last.seconds * 1000,
                "system_ms": case.score and case.score.system_ms,
            }
        )
        _write_calls(file, replace(outcome, score=score), [*others, last])

    answers = {}
    for case_id in cases:
        case = plan.run.cases[case_id]
        fate, last, calls = plan.fates[case_id], case.last, _calls(case)
        if fate == "graded" and last is not None:
            answers[case_id] = Answer(output=last.output, transcript=last.transcript)
        if fate in _LOST or fate == "no output":
            file.note_start(case_id, max(1, len(calls)))
        if fate in _LOST:
            for call in calls:
                file.note_attempt(case_id, call)
        if fate == "no output" and last is not None and last.score is not None:
            printed = last.printed or ""
            outcome = CaseOutcome(case_id=case_id, score=last.score, printed=printed)
            _write_calls(file, outcome, calls)
    graded_again = await grade_outputs(
        plan.task_class,
        [cases[case_id] for case_id in answers],
        answers,
        on_outcome=write_score,
        on_start=lambda case_id: file.note_start(case_id, 1),
        workspaces=plan.workspaces,
    )
    stopped = graded_again.stopped
    if stopped or (plan.run.stopped and plan.having("not run")):
        file.note_stop(stopped or plan.run.stopped)


def _write_calls(
    file: RunFile, outcome: CaseOutcome, calls: Sequence[CaseAttempt]
) -> None:
    """Write the earlier calls of a system, the last one with the score."""
    for call in calls[:-1]:
        file.note_attempt(outcome.case_id, call)
    file.note_outcome(replace(outcome, attempts=tuple(calls)))


async def grade_outputs(
    task_class: TaskClass,
    cases: Sequence[BenchCase],
    answers: Mapping[str, Answer],
    *,
    on_outcome: Callable[[CaseOutcome], None],
    on_start: Callable[[str], None] = lambda _: None,
    workspaces: Workspaces | None = None,
    **limits: Any,
) -> RunResults:
    """Grade answers that are there already, by the class's rubrics in their isolation.

    Args:
        task_class: The class.
        cases: The cases that were answered.
        answers: Their answers, by id.
        on_outcome: Is given each outcome.
        on_start: Is given the id of each case before it is graded.
        workspaces: Of the cases, if their systems have worked in some; else new ones are made.
        limits: Fields of the plan that are not those of the class.

    Raises:
        BenchError: The class has no rubric of its own.
    """
    # No system is told which repetition of a case it is called for.
    known = {
        (case.as_in_file().case_id, case.repetition): answers[case.case_id]
        for case in cases
    }

    async def kept_answer(case: BenchCase) -> Answer:
        return known[case.case_id, case.repetition]

    # What a case may cost is a bound of its system.
    given = tuple(case.model_copy(update={"max_cost_usd": None}) for case in cases)
    runner = Runner(
        on_outcome=on_outcome,
        on_start=on_start,
        workspaces=workspaces,
        is_logging=False,
    )
    rubric = open_rubrics(task_class, task_class.settings)
    try:
        return await runner.run_cases(
            RunPlan.of(task_class, given).model_copy(update={"retry": None, **limits}),
            system_under_test=kept_answer,
            rubric_runner=rubric,
        )
    finally:
        await rubric.aclose()


def _calls(case: KeptCase) -> list[CaseAttempt]:
    """Return the calls of a case's system up to the one that led to its score."""
    last = case.last
    counted = case.calls if last is None else case.calls[: case.calls.index(last) + 1]
    return [
        each.model_copy(update={"seconds": max(0.0, each.seconds)}) for each in counted
    ]

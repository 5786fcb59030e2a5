"""Write the files of kept runs, as pytest writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.bench.answers import add_exactly
from pytest_failure_taxonomy.bench.kept.lines import (
    SCHEMA_VERSION,
    RunHeader,
    SystemGiven,
    schedule_case,
)
from pytest_failure_taxonomy.bench.kept.writer import RunFile
from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from pytest_failure_taxonomy.bench.models import (
    BenchScore,
    FailureMode,
    GateSettings,
    TaskClass,
)
from pytest_failure_taxonomy.bench.scores import CaseAttempt, CaseOutcome
from pytest_failure_taxonomy.bench.sharding import digests_of

RUN_ID: Final = "20261123T120000Z-0a1b2c-echo-01234567"
BEGAN: Final = 1_795_435_200.0
"""2026-11-23, 12:00 UTC."""


def score_of(
    score: float, *codes: str, passed: bool | None = None, **fields: Any
) -> BenchScore:
    """Return a score that passed if it is 1, with failure modes of severity `block`."""
    modes = tuple(FailureMode(code=code, severity="block") for code in codes)
    return BenchScore(
        passed=score == 1.0 if passed is None else passed,
        score=score,
        failure_modes=modes,
        **fields,
    )


def call_of(number: int = 1, **fields: Any) -> CaseAttempt:
    """Return a call of a system, which gave an output unless `ended` says why not."""
    return CaseAttempt(
        attempt=number, **{"started_at": BEGAN, "seconds": 0.25, **fields}
    )


def header_of(task_class: TaskClass, *, root: Path, **changes: Any) -> RunHeader:
    """Return the first line of a run's file."""
    folder = task_class.folder
    assert folder is not None
    return RunHeader(
        **{
            "schema_version": SCHEMA_VERSION,
            "run_id": RUN_ID,
            "task_class": task_class.name,
            "folder": folder.relative_to(root).as_posix(),
            "system": SystemGiven(name="app:answer", version="7"),
            "taxonomy": dict(task_class.failure_mode_taxonomy),
            "breakdown_keys": tuple(sorted(task_class.breakdown_keys)),
            "cases_in_class": len(task_class.cases),
            "gate": task_class.settings.gate,
            "settings": task_class.settings.model_dump(mode="json"),
            "digests": digests_of(task_class),
            "started_at": "2026-11-23T12:00:00Z",
            "commit": "c0ffee",
            "generator": "pytest-failure-taxonomy 1",
            **changes,
        }
    )


def keep_run(
    root: Path,
    outcomes: Iterable[CaseOutcome],
    *,
    folder: str = "bench/echo",
    started: Iterable[str] = (),
    stopped: str = "",
    redact: Callable[[Any], Any] = lambda given: given,
    gate: GateSettings | None = None,
    folder_named: str = "",
    **changes: Any,
) -> Path:
    """Write a run of a class below a root directory, and return its file.

    Args:
        root: The root directory.
        outcomes: Those of the cases that have a score.
        folder: The class's folder.
        started: The ids of cases that were started and left no score.
        stopped: Why no more cases were started.
        redact: Removes secrets.
        gate: The run's own gate, if it is not the class's.
        folder_named: What the file says of the class's folder, if that is something else.
        changes: Fields of the first line that are not those of the class.
    """
    task_class = load_task_class(root / folder)
    if gate is not None:
        changes["gate"] = gate
    if folder_named:
        changes["folder"] = folder_named
    header = header_of(task_class, root=root, **changes)
    cases = [schedule_case(case) for case in task_class.cases]
    storage = root / ".bench"
    storage.mkdir(exist_ok=True)
    file = RunFile(storage / f"{header.run_id}.jsonl", cases, redact)
    file.create(header)
    for case_id in started:
        file.note_start(case_id, 1)
    for outcome in outcomes:
        for call in outcome.attempts:
            file.note_start(outcome.case_id, call.attempt)
            if call is not outcome.attempts[-1]:
                file.note_attempt(outcome.case_id, call)
        file.note_outcome(outcome)
    if stopped:
        file.note_stop(stopped)
    file.close()
    assert file.problem == ""
    return file.path


def outcome_of(
    case_id: str,
    score: BenchScore,
    output: Any = None,
    *calls: CaseAttempt,
    **fields: Any,
) -> CaseOutcome:
    """Return the outcome of a case, whose cost is that of its calls and what the score says."""
    made = calls or (call_of(),)
    spent = add_exactly(*(call.cost_usd for call in made))
    took_ms = made[-1].seconds * 1000
    measured = {"wall_clock_ms": took_ms + 10, "system_ms": took_ms}
    cost_usd = score.cost_usd + spent
    return CaseOutcome(
        case_id=case_id,
        score=score.model_copy(update={"cost_usd": cost_usd, **measured}),
        output=output,
        attempts=made,
        **fields,
    )


def write_files(root: Path, files: Mapping[str, str]) -> None:
    """Write files below a folder."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content, encoding="utf-8")

"""What became of each case of a kept run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pytest_failure_taxonomy.bench.models import SUT_EXCEPTION, SUT_TIMEOUT

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.run_records import KeptAttempt
    from pytest_failure_taxonomy.bench.runs_on_disk import KeptRun

CaseState = Literal["passed", "failed", "lost", "not run"]


def state_of(run: KeptRun, case_id: str) -> CaseState:
    """Return what became of a case: `lost` is one that was started and has no score."""
    last = run.last_of(case_id)
    if last is not None and last.score is not None:
        return "passed" if last.score.passed else "failed"
    has_begun = case_id in run.started or case_id in run.attempts
    return "lost" if has_begun else "not run"


def gave_output(call: KeptAttempt) -> bool:
    """Return whether the system gave an output in the call that led to a score."""
    if call.ended or call.score is None:
        return False
    codes = [mode.code for mode in call.score.failure_modes]
    is_bare = call.output is None and not call.truncated and not call.score.breakdown
    return not (is_bare and codes in ([SUT_EXCEPTION], [SUT_TIMEOUT]))

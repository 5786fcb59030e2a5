"""How a case that failed is shown to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench.codes import RUNNER_CODES

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase, BenchScore, FailureMode
    from pytest_failure_taxonomy.bench.outcomes import CaseOutcome

_MAX_DETAIL: Final = 500
_MAX_PRINTED_LINES: Final = 40


def one_line(score: BenchScore) -> str:
    """Say in one line what a case came to, its gravest failure mode first."""
    modes = sorted(score.failure_modes, key=lambda mode: mode.severity != "block")
    text = ", ".join(_mode(mode) for mode in modes)
    return f"score {score.score:.2f}: {text}" if text else f"score {score.score:.2f}"


def failure_lines(
    task_class: str, case: BenchCase, outcome: CaseOutcome, descriptions: Mapping[str, str]
) -> list[str]:
    """Show a case, its score, its codes with what they mean, and what raised or was printed."""
    score = outcome.score
    lines = [f"case {case.case_id} of {task_class}: score {score.score:.2f}, not passed"]
    for mode in score.failure_modes:
        lines.append(f"  {mode.severity:<5} {_mode(mode)}")
        meaning = descriptions.get(mode.code) or RUNNER_CODES.get(mode.code)
        if meaning:
            lines.append(f"        {meaning}")
    if score.breakdown:
        parts = (f"{key} {amount:g}" for key, amount in sorted(score.breakdown.items()))
        lines.append(f"  breakdown: {', '.join(parts)}")
    cost = f", ${score.cost_usd:.4g}" if score.cost_usd else ""
    lines.append(f"  took {score.wall_clock_ms:,.0f} ms{cost}")
    if outcome.traceback:
        lines += ["", *outcome.traceback.rstrip().splitlines()]
    if outcome.printed.strip():
        printed = outcome.printed.rstrip().splitlines()
        shown = printed[-_MAX_PRINTED_LINES:]
        left_out = len(printed) - len(shown)
        head = f"the rubric printed ({left_out} lines before are left out):"
        lines += ["", head if left_out else "the rubric printed:", *shown]
    return lines


def _mode(mode: FailureMode) -> str:
    if not mode.detail:
        return mode.code
    detail = mode.detail if len(mode.detail) <= _MAX_DETAIL else f"{mode.detail[:_MAX_DETAIL]}…"
    return f"{mode.code}: {detail}"

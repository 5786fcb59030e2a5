"""Compare `classify` with what Terminal-Bench's own harness read from the same pytest logs.

Give the folder of a clone of laude-institute/terminal-bench-leaderboard:

    python -m tests.benchmarks.accuracy.terminal_bench FOLDER

Each trial has what its tests printed and, in `results.json`, each test's result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.logs.trials import name_of
from tests.benchmarks.accuracy.corpus import (
    Found,
    answer_of,
    is_of_half,
    quoted,
    report,
)

_LOGS: Final = ("sessions/tests.log", "panes/post-test.txt")
"""The first that a trial has: the pane shows the end of a long output alone."""


def compared(folder: Path, half: int | None) -> Iterator[tuple[str, Found]]:
    """Yield each trial's log, and how its answer agrees with the results."""
    for results in sorted(folder.rglob("results.json")):
        log = next(
            (found for name in _LOGS if (found := results.parent / name).is_file()),
            None,
        )
        if log is None:
            continue
        content = log.read_bytes()
        if is_of_half(content, half):
            told = json.loads(results.read_text()).get("parser_results") or None
            yield str(log.relative_to(folder)), compare(content, told)


def compare(content: bytes, told: dict[str, str] | None) -> Found:
    """Return what one answer is, each with its details: agreements and misses.

    Args:
        content: the log.
        told: each test's result, `None` where the harness read none.
    """
    answer = answer_of(content)
    if answer is None:
        return [
            (
                "says nothing",
                "the harness read results" if told else "no results either",
            )
        ]
    kind = answer["kind"]
    if told is None:
        return [(f"no results of the harness: {kind}", quoted(answer))]
    failed = {name_of(test) for test, result in told.items() if result != "passed"}
    if (kind is None) != (not failed):
        return [("false certainty: success differs", f"{kind}; {sorted(failed)}")]
    found = [("success agrees", "")]
    if kind is not None and not kind.startswith(("test.", "collection.")):
        found.append((f"false certainty: {kind}", quoted(answer)))
    names = {name_of(each["nodeid"] or "") for each in answer["failures"]}
    names |= {name_of(each) for held in answer["reasons"] for each in held["nodeids"]}
    differ = sorted(names ^ failed)
    found.append(("names differ", ", ".join(differ)) if differ else ("names agree", ""))
    return found


if __name__ == "__main__":
    report(__doc__, compared)

"""Compare `classify` with what Terminal-Bench's own harness read from the same pytest logs.

Give the folder of a clone of laude-institute/terminal-bench-leaderboard:

    python -m tests.benchmarks.accuracy.terminal_bench FOLDER

Each trial has what its tests printed and, in `results.json`, each test's result.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.report.read.log_answer import classify_log

_LOGS: Final = ("sessions/tests.log", "panes/post-test.txt")
"""The first that a trial has: the pane shows the end of a long output alone."""


def trials(folder: Path, half: int | None) -> Iterator[tuple[Path, bytes, dict[str, str] | None]]:
    """Yield each log, its bytes, and each test's result, `None` where the harness read none.

    Args:
        folder: is searched with all its folders.
        half: the first bit of the SHA-256 of the logs to take; `None` takes all.
    """
    for results in sorted(folder.rglob("results.json")):
        log = next((found for name in _LOGS if (found := results.parent / name).is_file()), None)
        if log is None:
            continue
        content = log.read_bytes()
        if half is None or hashlib.sha256(content).digest()[0] >> 7 == half:
            told = json.loads(results.read_text()).get("parser_results")
            yield log.relative_to(folder), content, told or None


def name_of(nodeid: str) -> str:
    """Return a test's name as the harness has it: without its file, its class and the message.

    A file that could not be collected is named without its folders.
    """
    before_parameters, bracket, parameters = nodeid.partition(" - ")[0].partition("[")
    test = before_parameters.rpartition("::")[2] + bracket + parameters
    return test if "::" in nodeid else test.rpartition("/")[2]


def compare(content: bytes, told: dict[str, str] | None) -> list[tuple[str, str]]:
    """Return what one answer is, each with its details: agreements and misses."""
    try:
        answer = classify_log(iter([content]), name="log")
    except LogError:
        return [("says nothing", "the harness read results" if told else "no results either")]
    kind = answer["kind"]
    if told is None:
        return [(f"no results of the harness: {kind}", " | ".join(_decided(answer)))]
    failed = {name_of(test) for test, result in told.items() if result != "passed"}
    if (kind is None) != (not failed):
        return [("false certainty: success differs", f"{kind}; {sorted(failed)}")]
    found = [("success agrees", "")]
    if kind is not None and not kind.startswith(("test.", "collection.")):
        found.append((f"false certainty: {kind}", " | ".join(_decided(answer))))
    names = {name_of(each["nodeid"] or "") for each in answer["failures"]}
    names |= {name_of(each) for held in answer["reasons"] for each in held["nodeids"]}
    differ = sorted(names ^ failed)
    found.append(("names differ", ", ".join(differ)) if differ else ("names agree", ""))
    return found


def _decided(answer: dict[str, list[dict[str, str]]]) -> list[str]:
    return [line["text"].strip()[:150] for line in answer["lines"][:3]]


def main() -> None:
    """Print the counts, and each miss by the name of its log."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("0", "1", "both"), default="0")
    options = parser.parse_args()
    half = None if options.half == "both" else int(options.half)
    counts = Counter({"logs": 0, "false certainty: success differs": 0})
    for log, content, told in trials(options.folder, half):
        counts["logs"] += 1
        for found, details in compare(content, told):
            counts[found] += 1
            if not found.endswith(" agree") and not found.endswith(" agrees"):
                sys.stdout.write(f"{found}: {details}: {log}\n")
    for found, count in sorted(counts.items()):
        sys.stdout.write(f"{count:6}  {found}\n")


if __name__ == "__main__":
    main()

"""Compare `classify` with 300 logs that were labelled by hand, twice and blind.

Give a folder that has clones of three repositories, each by its name:

    python -m tests.benchmarks.accuracy.hand_labels FOLDER

FOLDER has `terminal-bench-leaderboard`, `master-thesis` (LogChunks) and `bugswarm`. 200 logs are of
half 0, drawn by the kind that was answered when they were drawn, so that rare ones are among them.
100 are of half 1, drawn by chance. `hand_labels.csv` has both readings of each; where they differ,
a log is listed, and counts nowhere.
"""

from __future__ import annotations

import csv
import hashlib
import sys
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from pytest_failure_taxonomy.prove.rates import Count
from tests.benchmarks.accuracy.corpus import answer_of, asked_for

LABELS: Final = Path(__file__).with_suffix(".csv")
FOLDERS: Final = {
    "LogChunks": "master-thesis",
    "bugswarm": "bugswarm",
    "terminal-bench-leaderboard": "terminal-bench-leaderboard",
}
NOTHING: Final = "?"
"""The log doesn't show why; or the answer is that nothing can be said."""


class Labelled(NamedTuple):
    """A log with two readings, each a reason and a failure type."""

    name: str
    content: bytes
    first: tuple[str, str]
    again: tuple[str, str]


def labelled_logs(folder: Path, half: int | None) -> list[Labelled]:
    """Return the logs of a half; one that is another than the labelled one is an error."""
    logs = []
    for row in csv.DictReader(LABELS.open(encoding="utf-8")):
        if half is not None and int(row["sha256"][0], 16) >> 3 != half:
            continue
        content = (folder / FOLDERS[row["corpus"]] / row["path"]).read_bytes()
        if not hashlib.sha256(content).hexdigest().startswith(row["sha256"]):
            raise SystemExit(f"{row['path']}: it is not the log that was labelled")
        readings = [(row[f"reason{of}"], row[f"type{of}"]) for of in ("", " again")]
        logs.append(Labelled(f"{row['corpus']}: {row['path']}", content, *readings))
    return logs


def confusion(title: str, pairs: Counter[tuple[str, str]]) -> list[str]:
    """Return a table: a row a label, a column an answer, with exact 95 % intervals."""
    columns = sorted({answer for _, answer in pairs})
    lines = [
        f"| {title} | {' | '.join(columns)} | right |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for label in sorted({label for label, _ in pairs}):
        counts = [pairs[label, answer] for answer in columns]
        lines.append(
            f"| {label} | {' | '.join(map(str, counts))} | {of(pairs, label, 0)} |"
        )
    said = [of(pairs, answer, 1) for answer in columns]
    total = Count(
        failed=sum(pairs[label, label] for label in columns), runs=pairs.total()
    )
    return [*lines, f"| right where it is said | {' | '.join(said)} | {words(total)} |"]


def of(pairs: Counter[tuple[str, str]], name: str, side: int) -> str:
    """Return how often label and answer agree where one of them is a name."""
    runs = sum(count for pair, count in pairs.items() if pair[side] == name)
    return words(Count(failed=pairs[name, name], runs=runs))


def words(count: Count) -> str:
    """Return a share in words, with its exact interval."""
    if not count.runs:
        return "none"
    low, high = count.interval
    return f"{count} ({low:.0%} to {high:.0%})"


def main() -> None:
    """Print how the two readings agree, the confusion matrices, and each miss."""
    folder, half = asked_for(__doc__)
    reasons: Counter[tuple[str, str]] = Counter()
    types: Counter[tuple[str, str]] = Counter()
    agreed: Counter[str] = Counter()
    for log in labelled_logs(folder, half):
        answer = answer_of(log.content)
        reason, failure_type = NOTHING, ""
        if answer is not None:
            reason, failure_type = (
                answer["reason"] or "null",
                answer["failure_type"] or "",
            )
        for what, index, told, pairs in (
            ("reason", 0, reason, reasons),
            ("type", 1, failure_type, types),
        ):
            label = log.first[index]
            if label != log.again[index]:
                sys.stdout.write(
                    f"{what} read as {label}, then as {log.again[index]}: {log.name}\n"
                )
                continue
            agreed[what] += 1
            pairs[label or "none", told or "none"] += 1
            if label != told:
                sys.stdout.write(
                    f"{what} {label or 'none'}, answered {told or 'none'}: {log.name}\n"
                )
    for what, pairs in (("reason", reasons), ("type", types)):
        sys.stdout.write(f"\n{what}: both readings agree in {agreed[what]}\n")
        sys.stdout.write("\n".join(confusion(what, pairs)) + "\n")


if __name__ == "__main__":
    main()

"""Compare `classify` with the lines of errors that people marked in CI logs (CiDiff).

Give the folder of a clone of labri-progress/cidiff:

    python -m tests.benchmarks.accuracy.cidiff FOLDER

Where two people have marked a log, a line that one of them takes for the error's counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.benchmarks.accuracy.corpus import Found, compare_lines, of_half, report

_LINE: Final = re.compile(r"\r\n|\r|\n")
"""Theirs end with a carriage return alone, too."""
_MARKED: Final = re.compile(r"^E (\d+)(?:-(\d+))?", re.MULTILINE)


def compared(folder: Path, half: int | None) -> Iterator[tuple[str, Found]]:
    """Yield each failing log, and how its answer agrees with its marks."""
    for log, content in of_half(sorted((folder / "data").rglob("fail.log")), half):
        labels = [log.with_name(name) for name in ("groundtruth", "groundtruth2")]
        marks = "\n".join(label.read_text() for label in labels if label.is_file())
        yield (
            str(log.parent.relative_to(folder)),
            compare_lines(content, lines_of(content, marks)),
        )


def lines_of(content: bytes, marks: str) -> set[int]:
    """Return the numbers of the marked lines, each of which ends with a newline."""
    text, ours, number = content.decode("utf-8", "replace"), [0], 1
    for end in _LINE.findall(text):
        ours.append(number)
        number += "\n" in end
    ours.append(number)
    marked: set[int] = set()
    for first, last in _MARKED.findall(marks):
        marked.update(ours[int(first) : int(last or first) + 1])
    return marked


if __name__ == "__main__":
    report(__doc__, compared)

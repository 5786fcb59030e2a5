"""Compare `classify` with the reasons that people marked in the logs of Travis CI (LogChunks).

Give the folder of a clone of lacinoire/master-thesis:

    python -m tests.benchmarks.accuracy.logchunks FOLDER

Of each failed job, of 80 projects in 29 languages, a chunk of its log is marked as the reason.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from pytest_failure_taxonomy import classify_failure
from tests.benchmarks.accuracy.corpus import (
    Found,
    answer_of,
    compare_lines,
    is_of_half,
    report,
    visible,
)

_NOT_XML: Final = re.compile("&#x(?:[0-8BCEF]|1[0-9A-F]);|[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Control characters, which XML 1.0 can't have, and the labels do."""


def compared(folder: Path, half: int | None) -> Iterator[tuple[str, Found]]:
    """Yield each log that has a chunk, and how its answer agrees with that."""
    for labels in sorted(
        (folder / "tool/example-sets/BuildFailureReason").rglob("*.xml")
    ):
        text = labels.read_text("utf-8", "replace")
        root = ET.fromstring(_NOT_XML.sub("", text))  # noqa: S314 - a published data set
        for example in root.iter("ExampleDataOfString"):
            name = example.findtext("InputPath", "")
            content = (folder / "tool/samples" / name).read_bytes()
            if is_of_half(content, half):
                yield (
                    name,
                    compare(
                        content, example.findtext("Output", ""), labels.parent.name
                    ),
                )


def compare(content: bytes, chunk: str, language: str) -> Found:
    """Return how the answer for a log agrees with its chunk; the language's figures stand apart."""
    marked = lines_of(content, chunk)
    if not marked:
        return [("the chunk is not in the log", language)]
    found = compare_lines(content, marked)
    told = any(what == "a quoted line is marked" for what, _ in found)
    found.append((f"{language}: {'a' if told else 'no'} quoted line is marked", ""))
    answer, alone = answer_of(content), classify_failure(chunk, "").value
    type_of_answer = answer and answer["failure_type"]
    if type_of_answer == alone:
        found.append(("the failure type is that of the chunk alone", ""))
    else:
        found.append(
            (f"the failure type is {type_of_answer}, of the chunk alone {alone}", "")
        )
    return found


def lines_of(content: bytes, chunk: str) -> set[int]:
    """Return the numbers of the lines in which a chunk stands, wherever it does."""
    lines = [visible(line.decode("utf-8", "replace")) for line in content.split(b"\n")]
    starts = list(accumulate(map(len, lines), initial=0))
    whole, words = "".join(lines), visible(chunk)
    marked: set[int] = set()
    at = whole.find(words) if words else -1
    while at >= 0:
        marked.update(
            range(bisect(starts, at), bisect(starts, at + len(words) - 1) + 1)
        )
        at = whole.find(words, at + 1)
    return marked


if __name__ == "__main__":
    report(__doc__, compared)

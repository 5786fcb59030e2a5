"""What the comparisons with other people's labels share: halves, answers, and how to print them."""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.log_answer import ANSWERS, classify_log
from pytest_failure_taxonomy.taxonomy.judgement import Stage

Found = list[tuple[str, str]]
"""What is counted, each with its details; a miss has some, and is printed by the log's name."""

GENERAL: Final = ("command.failed", "exit_status.changed")
"""Kinds that say that a command failed, and not why."""


def is_of_half(content: bytes, half: int | None) -> bool:
    """Tell whether a log is of the half that is the first bit of its SHA-256; `None` is both."""
    return half is None or hashlib.sha256(content).digest()[0] >> 7 == half


def answer_of(
    content: bytes, *, stage: Stage = Stage.FINAL_TEST, exit_code: int | None = None
) -> dict[str, Any] | None:
    """Return what `classify` says of a log, `None` if it says nothing."""
    try:
        answer = classify_log(
            iter([content]), name="log", stage=stage, exit_code=exit_code
        )
    except LogError:
        return None
    found: dict[str, Any] = ANSWERS.encode(answer)
    return found


def quoted(answer: dict[str, Any]) -> str:
    """Return an answer in one line, for a miss."""
    lines = [line["text"].strip()[:150] for line in answer["lines"][:3]]
    return " | ".join([f"{answer['kind']}", *lines])


def visible(text: str) -> str:
    """Return a text without blanks, colours and what isn't ASCII, as labels have it."""
    return re.sub(r"\[[0-9;]*[mK]", "", re.sub(r"[^\x21-\x7e]+", "", text))


def compare_lines(content: bytes, marked: set[int]) -> Found:
    """Compare the lines that an answer quotes with those that people have marked.

    Args:
        content: a log.
        marked: numbers of lines, each of which ends with a newline.
    """
    answer = answer_of(content)
    if answer is None:
        return [("says nothing", "no line of an error")]
    if answer["kind"] is None:
        return [("false certainty: a success", quoted(answer) or "nothing failed")]
    numbers = [line["number"] for line in answer["lines"]]
    told = [number in marked for number in numbers]
    found = [("lines quoted", "")] * len(told) + [
        ("lines quoted that are marked", "")
    ] * sum(told)
    if any(told):
        found.append(("a quoted line is marked", ""))
    elif answer["confidence"] == "certain":
        found.append(("false certainty: no quoted line is marked", quoted(answer)))
    elif answer["kind"] in GENERAL:
        found.append(("no quoted line is marked", quoted(answer)))
    else:
        found.append(
            ("no quoted line is marked, but a reason is named", quoted(answer))
        )
    return found


def asked_for(description: str | None) -> tuple[Path, int | None]:
    """Return the folder and the half that a script's arguments name; `None` is both halves."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("0", "1", "both"), default="0")
    options = parser.parse_args()
    return options.folder, None if options.half == "both" else int(options.half)


def report(
    description: str | None,
    compared: Callable[[Path, int | None], Iterable[tuple[str, Found]]],
) -> None:
    """Read the command's arguments, compare, and print each miss and the counts.

    Args:
        description: of the script.
        compared: yields the name of each log, and what was found, from a folder and a half.
    """
    folder, half = asked_for(description)
    counts = Counter({"logs": 0, "false certainty": 0, "says nothing": 0})
    for log, found in compared(folder, half):
        counts["logs"] += 1
        for what, details in found:
            counts[what] += 1
            if what.startswith("false certainty: "):
                counts["false certainty"] += 1
            if details:
                sys.stdout.write(f"{what}: {details}: {log}\n")
    for what, count in sorted(counts.items()):
        sys.stdout.write(f"{count:6}  {what}\n")


def of_half(paths: Iterable[Path], half: int | None) -> Iterator[tuple[Path, bytes]]:
    """Yield each file of a half, and its bytes."""
    for path in paths:
        content = path.read_bytes()
        if is_of_half(content, half):
            yield path, content

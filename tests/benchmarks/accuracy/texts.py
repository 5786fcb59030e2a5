"""Compare `classify` with the labels of texts that people pasted because a run had failed.

Give a folder that has `labels.csv` and `logs/NAME.log`:

    python -m tests.benchmarks.accuracy.texts tests/data/classify_texts

Each text is classified twice: alone (A), and with the stage and the exit code that `labels.csv` has
(B). The README beside it says what the columns mean. Each text that misses a figure is printed with
its answer, then the figures.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.taxonomy.judgement import Stage
from tests.benchmarks.accuracy.corpus import answer_of, quoted

VARIANTS: Final = ("A", "B")
UNSHOWN: Final = "-"
"""The deciding line is not in the text: it was cut before."""
UNKNOWABLE: Final = "?"
"""Nobody can say whether a retry helps."""
FIGURES: Final[dict[str, bool | None]] = {
    "reason fits": False,
    "reason is the label": None,
    "failure type fits": False,
    "names a cause": False,
    "names a cause, shown or not": None,
    "headline matches": None,
    "deciding text shown": False,
    "charge right": None,
    "charge wrong": True,
    "charge open": None,
    "retry advice right": False,
    "retry advice wrong": None,
    "certain and wrong": True,
    "tells a success": True,
}
"""The figures, and which value of one is a miss; of some neither is, as another tells it."""

_GENERIC: Final = re.compile(r"the (command|setup) failed|the command crashed")
_NO_ANSWER: Final[dict[str, Any]] = dict.fromkeys(
    ("reason", "kind", "message", "confidence", "failure_type", "charge_to")
) | {"lines": []}


class Label(NamedTuple):
    """A row of `labels.csv`; in a field with alternatives a bar stands between them."""

    name: str
    cause: str
    reason: str
    failure_type: str
    charge: str
    retry: str
    deciding: str
    cause_regex: str
    stage: str
    exit: str


def labels_of(folder: Path) -> list[Label]:
    """Return the labels of a folder."""
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as rows:
        return [Label(**row) for row in csv.DictReader(rows)]


def answer_to(label: Label, content: bytes, variant: str) -> dict[str, Any] | None:
    """Return what `classify` says of a text, `None` if it says nothing."""
    if variant == "A":
        return answer_of(content)
    return answer_of(content, stage=Stage(label.stage), exit_code=int(label.exit))


def compare(
    label: Label, answer: dict[str, Any] | None, variant: str
) -> dict[str, bool]:
    """Return each figure that applies to a text, and whether it holds."""
    told = answer or _NO_ANSWER
    reason, kind, message = told["reason"], told["kind"] or "", told["message"] or ""
    reasons = label.reason.split("|")
    # Of a setup whose stage is known every failure is that of the setup.
    is_setup = (variant, label.stage, reason) == ("B", "setup", "SETUP_FAILED")
    fits = reason in reasons or is_setup
    is_generic = not message or bool(_GENERIC.fullmatch(message))
    is_of_stage = kind.startswith("stage.")
    is_specific = kind not in ("", "command.failed") and not is_of_stage
    shown = "\n".join([message, *(line["text"] for line in told["lines"])])
    is_shown = label.deciding in shown
    found = {
        "reason fits": fits,
        "reason is the label": reason == reasons[0] or is_setup,
        "failure type fits": told["failure_type"] in label.failure_type.split("|"),
        "names a cause": is_specific and (is_shown or label.deciding == UNSHOWN),
        "names a cause, shown or not": is_specific or (is_of_stage and not is_generic),
        "headline matches": not is_generic
        and bool(re.search(label.cause_regex, message, re.IGNORECASE)),
        "certain and wrong": told["confidence"] == "certain" and not fits,
        "tells a success": answer is not None and reason is None,
    }
    if label.deciding != UNSHOWN:
        found["deciding text shown"] = is_shown
    charge = _charge(told["charge_to"], label.charge.split("|"))
    found |= {f"charge {each}": each == charge for each in ("right", "wrong", "open")}
    if label.retry != UNKNOWABLE:
        advice = None if reason is None else _is_right_advice(told, label.retry == "y")
        found |= {
            "retry advice right": advice is True,
            "retry advice wrong": advice is False,
        }
    return found


def _charge(given: str | None, listed: list[str]) -> str:
    if given == listed[0] or (given in listed and given != "ambiguous"):
        return "right"
    return "open" if given in (None, "ambiguous") else "wrong"


def _is_right_advice(told: dict[str, Any], helps: bool) -> bool:
    """Tell whether the action and `retryable`, where it is known, both say what is right."""
    again = told["recovery_action"] in ("retry", "continue")
    return again == helps and told.get("retryable") in (None, again)


def table(found: dict[str, list[dict[str, bool]]]) -> list[str]:
    """Return the figures as a table of Markdown, a column a variant."""
    lines = [f"| | {' | '.join(found)} |", "|---" * (len(found) + 1) + "|"]
    for figure in FIGURES:
        asked = [
            [text[figure] for text in texts if figure in text]
            for texts in found.values()
        ]
        cells = [f"{sum(held)} of {len(held)}" for held in asked]
        lines.append(f"| {figure} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Read the command's arguments, compare, and print the misses and the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    found: dict[str, list[dict[str, bool]]] = {variant: [] for variant in VARIANTS}
    for label in labels_of(folder):
        content = (folder / "logs" / f"{label.name}.log").read_bytes()
        for variant in VARIANTS:
            answer = answer_to(label, content, variant)
            text = compare(label, answer, variant)
            found[variant].append(text)
            missed = [
                what
                for what, miss in FIGURES.items()
                if miss is not None and text.get(what) is miss
            ]
            if missed:
                told = "nothing is said" if answer is None else quoted(answer)
                sys.stdout.write(
                    f"{variant} {label.name} misses {', '.join(missed)}: {told}\n"
                )
    sys.stdout.write("\n".join(table(found)) + "\n")


if __name__ == "__main__":
    main()

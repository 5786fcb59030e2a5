"""Measure what texts of errors are taken for: `python -m tests.helpers.failure_texts`.

It writes the page about failure types, with the figures in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.classification import EXCEPTIONS
from pytest_failure_taxonomy.taxonomy.failure_text import (
    classify_failure,
    published_phrases,
)
from pytest_failure_taxonomy.taxonomy.judgement import FailureType

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "tests/data/failure_texts"
PAGE: Final = ROOT / "docs/explanation/failure-types.md"
TEMPLATE: Final = Path(__file__).with_name("failure_types_page.md")

HASHED_PARTS: Final = ("tuned", "held_out")
FRESH: Final = "fresh"
"""The texts of `fresh.jsonl`, assembled after the first rules, and tuned on since."""
UNSEEN: Final = "unseen"
"""The texts of `unseen.jsonl`, set aside before the last change of the rules; never tuned on."""
OF_ONE_FILE: Final = (FRESH, UNSEEN)
PARTS: Final = (*HASHED_PARTS, *OF_ONE_FILE)
MEASURED: Final = (
    FailureType.BROKEN_BUILD,
    FailureType.VERIFICATION_FAILED,
    FailureType.CONTEXT_EXHAUSTED,
    FailureType.UNKNOWN,
)
"""A text alone is never a circular fix."""

Classify = Callable[[str], FailureType]


class LabelledText(NamedTuple):
    """A text that a tool printed, and what it is by the judgement of a human reader."""

    text: str
    label: FailureType
    part: str
    source: str
    file: str


class Score(NamedTuple):
    """How often a type was said, meant, and both."""

    said: int
    meant: int
    right: int

    @property
    def precision(self) -> float:
        """The share of what was said that is right."""
        return self.right / self.said if self.said else 0.0

    @property
    def recall(self) -> float:
        """The share of what was meant that was said."""
        return self.right / self.meant if self.meant else 0.0


@cache
def labelled_texts() -> tuple[LabelledText, ...]:
    """Return all texts, file by file in their order."""
    return tuple(_read_all())


def _read_all() -> Iterator[LabelledText]:
    for path in sorted(FOLDER.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            each = json.loads(line)
            yield LabelledText(
                text=each["text"],
                label=FailureType(each["label"]),
                part=each["part"],
                source=each["source"],
                file=path.stem,
            )


def part_of(text: str, file: str) -> str:
    """Say which part a text of a file falls to.

    `fresh` and `unseen` are files of their own. Elsewhere a text is `held_out` where both first
    bytes of its SHA-256 are odd.
    """
    if file in OF_ONE_FILE:
        return file
    first, second, *_ = hashlib.sha256(text.encode()).digest()
    return HASHED_PARTS[first % 2 and second % 2]


def by_literal_phrases(text: str) -> FailureType:
    """Classify by the promised phrases alone, without any type."""
    lowered = text.lower()
    for failure_type, phrases in published_phrases():
        if any(phrase in lowered for phrase in phrases):
            return failure_type
    return FailureType.UNKNOWN


def by_our_rules(text: str) -> FailureType:
    """Classify as the product does."""
    return classify_failure(text, "any")


def measure(part: str, classify: Classify) -> dict[FailureType, Score]:
    """Return the score of each type on one part."""
    texts = [each for each in labelled_texts() if each.part == part]
    answers = [(each.label, classify(each.text)) for each in texts]
    return {
        each: Score(
            said=sum(said is each for _, said in answers),
            meant=sum(meant is each for meant, _ in answers),
            right=sum(meant is said is each for meant, said in answers),
        )
        for each in MEASURED
    }


def page() -> str:
    """Return the page about failure types."""
    return TEMPLATE.read_text("utf-8").format(
        phrases=_table(
            ("type", "phrases"),
            ((f"`{kind}`", _code(words)) for kind, words in published_phrases()),
        ),
        exceptions=_table(
            ("exception, and all below it", "type"),
            ((f"`{name}`", f"`{kind}`") for name, kind in EXCEPTIONS.items()),
        ),
        environment=_code(sorted(packaged_table("environment")["exceptions"])),
        errnos=", ".join(map(str, packaged_table("environment")["errnos"])),
        total=len(labelled_texts()),
        unseen_count=sum(each.part == UNSEEN for each in labelled_texts()),
        unseen=_scores(UNSEEN),
    )


def _scores(part: str) -> str:
    literal, ours = measure(part, by_literal_phrases), measure(part, by_our_rules)
    rows = (
        (
            f"`{each}`",
            str(ours[each].meant),
            *_figures(literal[each]),
            *_figures(ours[each]),
        )
        for each in MEASURED
    )
    head = (
        "type",
        "texts",
        "phrases: precision",
        "recall",
        "ours: precision",
        "recall",
    )
    return _table(head, rows)


def _figures(score: Score) -> tuple[str, str]:
    return f"{score.precision:.3f}", f"{score.recall:.3f}"


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    cells = [tuple(head)]
    cells += [("---",) * len(cells[0]), *map(tuple, rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

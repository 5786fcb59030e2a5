"""The labelled texts of failed runs: each has its log, and labels that an answer can have."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Final, get_args

import pytest

from pytest_failure_taxonomy.taxonomy.judgement import (
    ChargedTo,
    FailureReason,
    FailureType,
    Stage,
)
from tests.benchmarks.accuracy.texts import UNKNOWABLE, Label, labels_of

FOLDER: Final = Path(__file__).parents[1] / "data/classify_texts"
LABELS: Final = labels_of(FOLDER)


def test_each_text_has_one_label() -> None:
    """Every row of the table has its log, and every log its row."""
    assert len(LABELS) == 40
    logs = sorted(path.stem for path in (FOLDER / "logs").iterdir())
    assert [label.name for label in LABELS] == logs


def test_the_columns() -> None:
    """The table has the columns that the README explains, in their order."""
    with (FOLDER / "labels.csv").open(encoding="utf-8", newline="") as rows:
        assert next(csv.reader(rows)) == [*Label._fields]
    explained = re.findall(r"`(\w+)`", columns_of(FOLDER / "README.md"))
    assert [name for name in explained if name in Label._fields] == [*Label._fields[1:]]


def columns_of(readme: Path) -> str:
    """Return the first cells of the README's first table."""
    table = readme.read_text("utf-8").partition("| column | what |")[2]
    rows = table.partition("\n\n")[0].splitlines()
    return "\n".join(row.split("|")[1] for row in rows if row)


@pytest.mark.parametrize("label", LABELS, ids=lambda label: label.name)
def test_the_values(label: Label) -> None:
    """Reasons, types, charges, stage and exit code are ours; the text has what decides."""
    assert set(label.reason.split("|")) <= {*FailureReason}
    assert set(label.failure_type.split("|")) <= {*FailureType}
    assert set(label.charge.split("|")) <= {*get_args(ChargedTo)}
    assert label.retry in ("y", "n", UNKNOWABLE)
    assert label.stage in {*Stage}
    assert 1 <= int(label.exit) <= 255
    assert label.cause
    re.compile(label.cause_regex)
    text = (FOLDER / "logs" / f"{label.name}.log").read_text("utf-8")
    assert 10 <= len(text.splitlines()) <= 120
    assert label.deciding in text

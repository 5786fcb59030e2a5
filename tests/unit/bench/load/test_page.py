"""The page about the files of a task class says what the loader knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from pytest_failure_taxonomy.bench.models import BenchSettings
from tests.unit.bench.load.a_class import write_class

PAGE: Final = Path(__file__).resolve().parents[4] / "docs" / "bench" / "task-class.md"


def _section(title: str) -> str:
    return PAGE.read_text("utf-8").partition(f"\n## {title}")[2].partition("\n## ")[0]


def test_every_setting_has_a_row() -> None:
    """A key that `bench.yaml` may have is documented, and no other."""
    rows = re.findall(r"^\| `(\w+)` \|", _section("`bench.yaml`"), re.MULTILINE)
    assert rows == list(BenchSettings.model_fields)


def test_the_examples_of_the_page_are_good(tmp_path: Path) -> None:
    """The codes, settings and the rubric that it shows can be used."""
    found = re.compile(
        r"^```(yaml|python)\n(?:# (\S+)\n)?(.*?)^```$", re.MULTILINE | re.DOTALL
    )
    names = {"yaml": "failure_modes.yaml", "python": "rubric.py"}
    examples = {
        name or names[kind]: text
        for kind, name, text in found.findall(PAGE.read_text("utf-8"))
    }
    (retry,) = re.findall(r"^`(retry: \{.*?\})`", PAGE.read_text("utf-8"), re.MULTILINE)
    write_class(tmp_path, {**examples, "bench.yaml": f"{retry}\n"})
    loaded = load_task_class(tmp_path)
    assert loaded.failure_mode_taxonomy == {"tests.failed": "block"}
    assert loaded.settings.retry is not None

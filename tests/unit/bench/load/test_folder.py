"""Where task classes are, asked without loading anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_failure_taxonomy.bench.load.folder import is_task_class, task_class_folder
from tests.unit.bench.load.a_class import write_class


def test_the_mark_makes_a_task_class(tmp_path: Path) -> None:
    """A folder with failure_modes.yaml is one, however bad it is; no other is."""
    write_class(tmp_path / "vuln", {"failure_modes.yaml": "["})
    (tmp_path / "other" / "failure_modes.yaml").mkdir(parents=True)
    assert is_task_class(tmp_path / "vuln")
    for each in (tmp_path, tmp_path / "other", tmp_path / "none", "a\0b"):
        assert not is_task_class(each)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("cases/x.yaml", True),
        ("cases/x.yml", True),
        ("cases/x.jsonl", True),
        ("cases/x.csv", True),
        ("cases.py", True),
        ("oracle/cases.py", False),
        ("oracle/x.yaml", True),
        ("oracle/x.jsonl", False),
        ("cases/x.json", True),
        ("cases/x.jsonl.gz", True),
        ("cases/state.json", False),
        ("cases/set/data/x.arrow", True),
        ("cases/set/x.jsonl", False),
        ("cases/.x.yaml", False),
        ("cases/deep/x.yaml", False),
        ("bench.yaml", False),
        ("other/x.yaml", False),
    ],
)
def test_the_class_of_a_file(tmp_path: Path, name: str, is_one: bool) -> None:
    """Files of cases and of the oracle belong to the folder above theirs, if it is a class."""
    write_class(tmp_path / "vuln")
    assert task_class_folder(tmp_path / "vuln" / name) == (
        tmp_path / "vuln" if is_one else None
    )
    assert task_class_folder(tmp_path / "none" / name) is None


def test_asking_imports_little() -> None:
    """A plugin may ask in every run: no YAML, pydantic or pytest is imported for it."""
    code = (
        "import sys, pytest_failure_taxonomy.bench.load.folder;"
        "print({'yaml', 'pydantic', 'pytest', 'asyncio', 'json'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout == "set()\n"

"""The entry point of the bench layer: what every pytest run of an environment imports."""

from __future__ import annotations

import subprocess
import sys

from pytest_failure_taxonomy.bench.load import folder
from pytest_failure_taxonomy.bench.models import BenchSettings
from pytest_failure_taxonomy.bench.plugin import entry
from pytest_failure_taxonomy.options import BENCH_OPTIONS

_PROGRAM = """
import sys
import pytest
before = set(sys.modules)
import pytest_failure_taxonomy.bench.plugin.entry
print("\\n".join(sorted(set(sys.modules) - before)))
"""


def test_it_imports_next_to_nothing() -> None:
    """Neither pydantic nor YAML nor asyncio nor any other module of the bench is loaded."""
    printed = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, check=True, text=True
    ).stdout.split()
    assert printed == [
        "pytest_failure_taxonomy",
        "pytest_failure_taxonomy.bench",
        "pytest_failure_taxonomy.bench.plugin",
        "pytest_failure_taxonomy.bench.plugin.entry",
        "pytest_failure_taxonomy.options",
        "pytest_failure_taxonomy.system",
    ]


def test_what_it_repeats_is_as_it_stands_elsewhere() -> None:
    """The plugin's names of files, and the settings that options stand for, exist."""
    assert entry.MARKERS_OF_CLASSES == (
        folder.MARKER_FILE,
        folder.RUBRIC,
        folder.RUBRICS,
    )
    assert entry.CASES_MODULE == folder.CASES_MODULE
    assert set(entry.FOLDERS_OF_ITEMS) <= folder.PARTS
    settings = {name for name, option in BENCH_OPTIONS.items() if option.is_of_class}
    assert settings <= BenchSettings.model_fields.keys()

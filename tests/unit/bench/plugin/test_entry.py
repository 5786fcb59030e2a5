"""The entry point of the bench layer: what every pytest run of an environment imports."""

from __future__ import annotations

import subprocess
import sys

from pytest_failure_taxonomy.bench.loading import places
from pytest_failure_taxonomy.bench.plugin import entry
from pytest_failure_taxonomy.bench.plugin.options import SETTINGS

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
        "pytest_failure_taxonomy.imports",
    ]


def test_what_it_repeats_is_as_it_stands_elsewhere() -> None:
    """The file that marks a task class, and the options, stand in two places each."""
    assert entry.MARKER_FILE == places.MARK
    assert [name for _, name, _, _ in entry.OPTIONS] == list(SETTINGS)

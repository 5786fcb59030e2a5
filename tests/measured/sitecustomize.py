"""Measure the coverage of rubrics' processes, whose environment lacks what coverage looks for.

It is on `PYTHONPATH` when coverage is measured, which such a process keeps.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

if (
    "FAILURE_TAXONOMY_ISOLATED" in os.environ
    and "COVERAGE_PROCESS_CONFIG" not in os.environ
):
    import coverage

    root = Path(__file__).resolve().parents[2]
    measured = coverage.Coverage(
        config_file=str(root / "pyproject.toml"),
        data_file=str(root / ".coverage"),
        data_suffix=True,
    )
    # Its modules have other names there, so it is told apart by its folder.
    package = find_spec("pytest_failure_taxonomy")
    assert package is not None
    measured.set_option("run:source_pkgs", [])
    measured.set_option("run:source", list(package.submodule_search_locations or ()))
    # Not "subprocess": it sets a variable that rubrics would find in their environment.
    measured.set_option("run:patch", ["fork", "_exit"])
    measured._auto_save = True
    measured.start()

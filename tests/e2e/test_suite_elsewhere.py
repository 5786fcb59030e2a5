"""A part of the suite as on systems that lack what Linux has; `--as-on` runs any other part so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import child_environment
from tests.helpers.portability import SYSTEMS

ROOT: Final = Path(__file__).resolve().parents[2]
PART: Final = (
    "tests/unit/survive/test_lock.py",
    "tests/unit/report/test_write.py",
    "tests/plugin/test_endings.py::test_outcomes_of_tests[failed]",
    "tests/plugin/bench_cases/test_items.py::test_each_case_is_an_item",
)
"""The lock of a record, the report, what pytest runs say, benches.

`test_other_systems.py` has the commands.
"""
REASON: Final = re.compile(r"SKIPPED \[[0-9]+\] \S+: \S.*")


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.linux("hides what Linux has")
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_part_of_the_suite(system: str) -> None:
    """It passes there; what is skipped says why."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--as-on={system}",
    ]
    run = subprocess.run(
        [*command, *PART],
        cwd=ROOT,
        env=child_environment({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": None}),
        capture_output=True,
        text=True,
        timeout=600,  # on a busy machine; it takes 20 seconds
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(run.stdout.splitlines()[-1].split()[0]) > 10  # have passed
    skipped = [line for line in run.stdout.splitlines() if line.startswith("SKIPPED")]
    assert skipped
    assert [line for line in skipped if not REASON.fullmatch(line)] == []

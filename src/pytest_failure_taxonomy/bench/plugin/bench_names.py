"""The names that the modules of the bench plugin share: stash keys, files.

`entry` imports this module in every pytest run, so it imports nothing but pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.plugin.session_of_runs import SessionOfRuns

MARKER_FILE = "failure_modes.yaml"
"""Makes a folder a task class; repeated from `loading.folder`, which a test compares."""
RUBRIC, RUBRICS = "rubric.py", "rubrics"
CASES_MODULE = "cases.py"
CASES, ORACLE = "cases", "oracle"
"""The folders of a task class that hold items."""
SYSTEM_FIXTURE = "system_under_test"

RUNS: pytest.StashKey[SessionOfRuns] = pytest.StashKey()
"""In the stash of the configuration: where this pytest run keeps the runs of task classes."""
JOURNAL = pytest.StashKey[str]()
"""In the stash of xdist's controller: the folder of the journal that its workers write."""
WORKERS_FOLDER = ".workers-"
"""How the name of a journal's folder in a storage begins; the controller's process id follows."""
TEMPORARY_FOLDER = "pytest-bench-workers-"
"""The same of one in the temporary folder, where the runs are beside the journal."""
WIRE_KEY = "failure_taxonomy_bench"
"""Under it a worker's input holds where to write what it knows, and a test's report its results."""
SUPERVISOR_VARIABLE = "FAILURE_TAXONOMY_SUPERVISOR"
"""Repeated from `watcher.mailbox`, which a test compares."""

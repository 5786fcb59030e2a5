"""The names that the modules of the bench plugin share: options, stash keys, files.

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

RUN_OPTIONS = (
    (
        "--bench-backend",
        "bench_backend",
        "URL",
        "Call systems that are named by --bench-sut or `sut:` on a Dask cluster: dask://HOST:PORT",
    ),
    (
        "--bench-shard",
        "bench_shard",
        "I/N",
        "Run the I-th of N parts of each task class, such as 2/4",
    ),
)
"""Option, destination and ini value, metavar, help: of the whole run, and of no `bench.yaml`."""

OPTIONS = (
    ("--bench-sut", "sut", str, "MODULE:CALLABLE", "The system under test of all task classes"),
    (
        "--bench-sut-version",
        "sut_version",
        str,
        "TEXT",
        "The version of the system under test: a run with another one is not continued",
    ),
    (
        "--bench-sut-isolation",
        "sut_isolation",
        str,
        "WHERE",
        "Run a system that is named by --bench-sut or `sut:` in a `thread` or a `process`",
    ),
    (
        "--bench-rubric-isolation",
        "rubric_isolation",
        str,
        "HOW",
        "Grade in a fork of a `warm` server or in a `fresh` interpreter a case",
    ),
    (
        "--bench-timeout-per-case",
        "timeout_per_case_seconds",
        float,
        "SECONDS",
        "Limit of the system under test for cases that set none of their own",
    ),
    (
        "--bench-rubric-wall-clock",
        "rubric_wall_clock_seconds",
        float,
        "SECONDS",
        "Limit of the rubric for cases that set none of their own",
    ),
    ("--bench-concurrency", "concurrency", int, "N", "Cases of a task class that run at a time"),
    (
        "--bench-max-cost",
        "max_cost_usd",
        float,
        "USD",
        "Start no case of a task class once its cases have cost more",
    ),
)
"""Option, setting of a `bench.yaml`, type, metavar, help.

The option's destination and the ini value are both called `bench_` and the setting's name. An
option overrides a `bench.yaml`, which overrides the ini value.
"""

"""Cases of CSV files and of `cases.py`, as items of real runs."""

from __future__ import annotations

from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ON_WORKERS,
    SERIAL,
    calls,
    only_bench,
    passing_cases,
    task_class_files,
)

GENERATED = """\
def cases():
    for number in range(3):
        yield {"id": f"made-{number}", "input": number, "tags": ["even"] if number % 2 == 0 else []}
"""
TABLE = "id,input,tags\nrow-1,one,slow\nrow-2,two,\n"


@ON_WORKERS
def test_items_of_every_sort_of_file(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """CSV and `cases.py` are files of items like any other, serially and on workers."""
    files = task_class_files(passing_cases(2))
    files |= {"bench/echo/cases/b.csv": TABLE, "bench/echo/cases.py": GENERATED}
    runs.write(files)
    plugins = [BENCH, "xdist"]
    run = runs.run("bench", *workers, plugins=plugins)
    assert run.outcomes == {"passed": 7}
    bench = only_bench(run)
    assert (bench["passed_count"], bench["complete"]) == (7, True)
    assert calls(runs) == [
        *("case-000", "case-001", "made-0", "made-1", "made-2", "row-1", "row-2")
    ]


@SERIAL
def test_a_class_of_generated_cases_alone(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """A class needs no folder of cases; a case of `cases.py` has a node id, and marks."""
    files = task_class_files({}) | {"bench/echo/cases.py": GENERATED}
    runs.write(files)
    plugins = [BENCH, "xdist"]
    assert runs.run("bench", *workers, plugins=plugins).outcomes == {"passed": 3}
    run = runs.run("bench/echo/cases.py::made-1", *workers, plugins=plugins)
    assert run.outcomes == {"passed": 1}
    run = runs.run("bench", "-m", "even", *workers, plugins=plugins)
    assert (run.outcomes or {})["passed"] == 2
    assert only_bench(run)["counts"]["scheduled"] == 2


def test_a_module_that_fails_is_a_collection_error(runs: PytestRuns) -> None:
    """Even `sys.exit` is told as a problem of the file, and no system is called."""
    content = "import sys\n\ndef cases():\n    yield {'id': 'a'}\n    sys.exit(2)\n"
    runs.write(task_class_files({}) | {"bench/echo/cases.py": content})
    run = runs.run("bench", plugins=[BENCH])
    assert run.exit_status == 2
    expected = "bench/echo/cases.py:5: entry 2: cases() raised SystemExit: 2; fix it"
    assert expected in "\n".join(run.stdout)
    assert calls(runs) == []


def test_a_ragged_row_is_a_collection_error(runs: PytestRuns) -> None:
    """A table is checked as a whole before a system is called."""
    runs.write(task_class_files({}) | {"bench/echo/cases/a.csv": f"{TABLE}row-3\n"})
    run = runs.run("bench", plugins=[BENCH])
    assert run.exit_status == 2
    assert "bench/echo/cases/a.csv:4: the row has 1 cell, and" in "\n".join(run.stdout)
    assert calls(runs) == []

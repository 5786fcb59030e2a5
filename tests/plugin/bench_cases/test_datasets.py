"""Cases of CSV files and of `cases.py`, as items of real runs."""

from __future__ import annotations

from typing import Final

import pytest

from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ON_WORKERS,
    SERIAL,
    WORKERS,
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


PUBLISHED: Final = ("HumanEval/0", "a::b", "[x]", "50%", "é ü", "a#2", 12)
NODES: Final = ("HumanEval%2F0", "a%3A%3Ab", "%5Bx%5D", "50%25", "é ü", "a%232", "12")


def _published(settings: str = "") -> dict[str, str]:
    """Return a class whose ids and inputs have the names of a published data set."""
    rows = [{"task_id": case_id, "prompt": "p"} for case_id in PUBLISHED]
    settings = f"fields: {{id: task_id, input: prompt}}\n{settings}"
    return task_class_files(rows, settings=settings)


@WORKERS
def test_ids_of_published_sets(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """They are escaped in node ids, and whole in the scores and for the system."""
    runs.write(_published())
    run = runs.run(
        "bench", "-v", "--junitxml=j.xml", *workers, plugins=[BENCH, "xdist"]
    )
    assert run.outcomes == {"passed": 7}
    whole = sorted(map(str, PUBLISHED))
    assert [case_id for case_id, _ in only_bench(run)["per_case"]] == whole
    assert calls(runs) == sorted(" ".join(whole).split())
    junit = (runs.path / "j.xml").read_text("utf-8")
    shown = "\n".join(run.stdout)
    for name in NODES:
        assert f'name="{name}"' in junit
        assert f"a.jsonl::{name} " in shown


@pytest.mark.parametrize("form", [NODES, tuple(map(str, PUBLISHED))])
def test_an_id_names_its_case(runs: PytestRuns, form: tuple[str, ...]) -> None:
    """The command line takes an id as in the file, and as in node ids."""
    runs.write(_published())
    named = [f"bench/echo/cases/a.jsonl::{name}" for name in form]
    run = runs.run(*named, plugins=[BENCH])
    assert run.outcomes == {"passed": 7}
    assert calls(runs) == sorted(" ".join(map(str, PUBLISHED)).split())


def test_an_id_is_a_keyword_and_fails_again(runs: PytestRuns) -> None:
    """`-k` takes the id as it is in the file, and `--lf` finds what failed."""
    files = _published()
    files["bench/echo/cases/b.jsonl"] = (
        '{"task_id": "Mbpp/1", "prompt": 1, "answer": 2}\n'
    )
    runs.write(files)
    run = runs.run("bench", "-k", "HumanEval/0", plugins=[BENCH])
    assert (run.outcomes or {})["passed"] == 1
    run = runs.run("bench", plugins=[BENCH], cache=True)
    assert run.outcomes == {"passed": 7, "failed": 1}
    run = runs.run("bench", "--lf", plugins=[BENCH], cache=True)
    assert run.outcomes == {"failed": 1}


def test_repetitions_of_any_id(runs: PytestRuns) -> None:
    """The number of a repetition is never taken for a part of an id, nor the reverse."""
    runs.write(_published("repeat: 2\n"))
    run = runs.run("bench/echo/cases/a.jsonl::a#2", "-v", plugins=[BENCH])
    shown = "\n".join(run.stdout)
    assert run.outcomes == {"passed": 2}
    assert "a.jsonl::a%232#1 " in shown
    assert "a.jsonl::a%232#2 " in shown
    assert calls(runs) == ["a#2", "a#2"]


def test_ids_of_a_marked_test(runs: PytestRuns) -> None:
    """A test with the mark has the same names, and its cases are one run."""
    test = "import pytest\n\n@pytest.mark.bench('echo')\n"
    test += "def test_case(bench, case):\n    bench.score(case.input)\n"
    runs.write(_published() | {"test_marked.py": test})
    run = runs.run("test_marked.py", "-v", plugins=[BENCH])
    assert run.outcomes == {"passed": 7}
    assert "test_case[HumanEval%2F0]" in "\n".join(run.stdout)
    assert only_bench(run)["counts"]["passed"] == 7

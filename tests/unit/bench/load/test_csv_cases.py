"""Cases in CSV: what a cell is, and every mistake in a file in its exact words."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.load import cases as case_files
from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from tests.unit.bench.load.a_class import problems_of, write_class

FORM: Final = (
    "it is CSV in UTF-8, separated by commas, with the names of its columns first"
)
ONE_EACH: Final = "give each column one cell, quoted if it holds a comma"


def write_csv(folder: Path, content: str | bytes) -> Path:
    """Write a good task class whose cases stand in one file of CSV."""
    return write_class(folder, {"cases/a.yaml": None, "cases/a.csv": content})


def test_what_cells_become(tmp_path: Path) -> None:
    """Text stays text; columns of JSON, tags and limits are read, and left out where empty."""
    write_csv(
        tmp_path,
        "\ufeffid,input,expected:json,tags,timeout_per_case_seconds,note\r\n"
        'a,007,"{""x"": [1, null]}","slow, db;net",2.5,"two\nlines, ""quoted"""\r\n'
        "\r\n"
        "b,,,,,\r\n"
        "c,true, 7 ,slow,,ü\n",
    )
    first, second, third = load_task_class(tmp_path).cases
    assert first.fields == {
        "id": "a",
        "input": "007",
        "expected": {"x": [1, None]},
        "tags": ["slow", "db", "net"],
        "timeout_per_case_seconds": 2.5,
        "note": 'two\nlines, "quoted"',
    }
    assert (first.tags, first.timeout_per_case_seconds) == (("slow", "db", "net"), 2.5)
    assert second.fields == {"id": "b", "input": "", "note": ""}
    assert (third.input, third["expected"], third["note"]) == ("true", 7, "ü")
    assert [case.line for case in (first, second, third)] == [2, 5, 6]
    assert first.path == tmp_path / "cases" / "a.csv"


def test_what_a_case_may_cost(tmp_path: Path) -> None:
    """A cell is a number of US dollars; an empty one says nothing."""
    write_csv(tmp_path, "id,input,max_cost_usd\na,x,0.2\nb,x,\nc,x,0\n")
    cases = load_task_class(tmp_path).cases
    assert [case.max_cost_usd for case in cases] == [0.2, None, 0.0]
    assert "max_cost_usd" not in cases[1].fields


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        (
            "id,max_cost_usd\na,cheap\nb,-1\nc,nan\n",
            [
                "2: max_cost_usd: 'cheap' is not a number; write one, or nothing",
                "3: max_cost_usd: -1.0 is less than 0; write 0 or more",
                "4: max_cost_usd: nan is not a finite number; write one",
            ],
        ),
        ("", [f"1: the file is empty; {FORM}"]),
        ("\n\n", [f"1: the file is empty; {FORM}"]),
        (
            "id,input\n",
            ["1: there is no row below the names of the columns; write one a case"],
        ),
        ("input,x\n1,2\n", [f"1: no column is named id; {FORM}"]),
        ("id;input\na;b\n", [f"1: no column is named id; {FORM}"]),
        (
            "id,,x,x:json, y,id\n",
            [
                "1: column 2 has no name; name each column, or leave it out",
                "1: columns 3 and 4 are both named 'x'; name each column once",
                "1: the column ' y' begins or ends with a blank; leave it out",
                "1: columns 1 and 6 are both named 'id'; name each column once",
            ],
        ),
        ("id:json\n5\n", ["1: an id is text; name the column id"]),
        (
            'id,input\na\nb,1,2\n"c\nc",1,2,3\nd,1\n\n,2\n',
            [
                f"2: the row has 1 cell, and the first row names 2 columns; {ONE_EACH}",
                f"3: the row has 3 cells, and the first row names 2 columns; {ONE_EACH}",
                f"4: the row has 4 cells, and the first row names 2 columns; {ONE_EACH}",
                "8: id: is empty; give it a name that no other has",
            ],
        ),
        (
            "id,input\na,1\nb,2\na,3\n",
            ["4: id: 'a' is the id of the case in line 2; each case needs its own"],
        ),
        (
            "id,x:json,tags,rubric_wall_clock_seconds\na,oops,not,soon\nb,[1,no-tag,-1\n",
            [
                (
                    "2: x:json: not JSON (Expecting value at column 1); write a JSON value, such as"
                    ' 5, true, null, "text" or [1, 2]'
                ),
                "2: rubric_wall_clock_seconds: 'soon' is not a number; write one, or nothing",
                (
                    "3: x:json: not JSON (Expecting ',' delimiter at column 3); write a JSON value,"
                    ' such as 5, true, null, "text" or [1, 2]'
                ),
            ],
        ),
        (
            "id,tags,rubric_wall_clock_seconds\na,no-tag,-1\nb,,nan\n",
            [
                (
                    "2: tags: 'no-tag' can't be a pytest mark; write letters, digits and _, a"
                    " letter first"
                ),
                "2: rubric_wall_clock_seconds: -1.0 is not more than 0; write a bigger number",
                "3: rubric_wall_clock_seconds: nan is not a finite number; write one",
            ],
        ),
        (
            b"id,input\na,\xff\nb\n\xfe,1",
            [f"2: not UTF-8; {FORM}", "3: the row", "4: not UTF-8"],
        ),
        ("id,input\na,1\n".encode("utf-16"), [f"1: not UTF-8; {FORM}"]),
        (b"id,input\na,\0\n", [f"2: holds a NUL byte; {FORM}"]),
        (
            'id,input\na,1\nb,"2\nc,3\n',
            [f"3: not CSV (a quote is never closed); {FORM}"],
        ),
        ('id,input\na,"1"x\nb\n', ["2: not CSV (',' expected after '\"'); "]),
        (
            "id,timeout_per_case\na,1\n",
            ["2: unknown limit 'timeout_per_case'; did you mean"],
        ),
    ],
)
def test_mistakes(tmp_path: Path, content: str | bytes, problems: list[str]) -> None:
    """All problems of a file are told at once, each with its line."""
    write_csv(tmp_path, content)
    told = problems_of(tmp_path)
    for expected in problems:
        assert any(each.startswith(f"cases/a.csv:{expected}") for each in told), told
    assert len(told) == len(problems)


def test_a_cell_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell may be larger than Python's own limit, but not swallow a file; no limit changes."""
    before = csv.field_size_limit()
    write_csv(tmp_path, f"id,input\na,{'x' * 200_000}\n")
    assert len(load_task_class(tmp_path).cases[0].input) == 200_000
    monkeypatch.setattr(case_files, "MAX_CELL_CHARACTERS", 1_000)
    (told,) = problems_of(tmp_path)
    assert told.startswith(
        "cases/a.csv:2: not CSV (a cell of more than 1,000 characters; is a quote missing?); "
    )
    assert csv.field_size_limit() == before


_TEXT: Final = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0")
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(st.tuples(_TEXT, _TEXT), min_size=1, max_size=5))
def test_cells_arrive_as_a_writer_wrote_them(
    tmp_path: Path, rows: list[tuple[str, str]]
) -> None:
    """Whatever Python's own writer quotes is read back equal."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerow(["id", "input", "more"])
    writer.writerows([f"case-{number}", *row] for number, row in enumerate(rows))
    write_csv(tmp_path, file.getvalue().encode())
    loaded = load_task_class(tmp_path).cases
    assert [(case.input, case["more"]) for case in loaded] == rows

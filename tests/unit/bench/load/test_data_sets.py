"""Data sets as they are published: their fields, their ids and their formats."""

from __future__ import annotations

import gzip
import json
import sys
from copy import deepcopy
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.bench.plugin.node_names import (
    case_and_system,
    escape,
    node_name,
)
from pytest_failure_taxonomy.errors import BenchError
from tests.unit.bench.load.a_class import problems_of, write_class

ROWS: Final = [
    {"task_id": f"Set/{number}", "prompt": f"question {number}", "answer": "x"}
    for number in range(3)
]
LINES: Final = "".join(f"{json.dumps(row)}\n" for row in ROWS)
FIELDS: Final = "fields: {id: task_id, input: prompt}\n"
TABLE: Final = "task_id,prompt,answer\n" + "".join(
    f"Set/{number},question {number},x\n" for number in range(3)
)


def load(
    folder: Path, files: dict[str, str | bytes | None], fields: str = FIELDS
) -> tuple[BenchCase, ...]:
    """Return the cases of a class that has no others."""
    write_class(folder, {"cases/a.yaml": None, "bench.yaml": fields, **files})
    return load_task_class(folder).cases


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("set.jsonl", LINES),
        ("set.ndjson", f"\ufeff{LINES}"),
        ("set.jsonlines", LINES),
        ("set.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)),
        ("set.json", json.dumps(ROWS)),
        ("set.json", json.dumps({"version": 2, "data": ROWS})),
        ("set.csv", TABLE),
        ("set.tsv", TABLE.replace(",", "\t")),
        ("set.yaml", json.dumps(ROWS)),
    ],
)
def test_every_format_gives_the_same_cases(
    tmp_path: Path, name: str, content: str | bytes
) -> None:
    """The file's fields stay as they are; ours are added where the file has none."""
    cases = load(tmp_path, {f"cases/{name}": content})
    assert [case.case_id for case in cases] == ["Set/0", "Set/1", "Set/2"]
    assert cases[1].input == "question 1"
    assert cases[1].fields == {**ROWS[1], "id": "Set/1", "input": "question 1"}


def test_a_field_of_the_files_own_is_kept(tmp_path: Path) -> None:
    """A file may have a field of our name beside the one that is read for it."""
    row = {"id": 7, "task_id": 12, "input": "own", "prompt": "q", "tags": None}
    row |= {"kind": "a, b", "limit": None}
    fields = "fields: {id: task_id, input: prompt, tags: kind,"
    fields += " timeout_per_case_seconds: limit}"
    (case,) = load(tmp_path, {"cases/a.jsonl": json.dumps(row)}, fields)
    assert (case.case_id, case.input, case.tags) == ("12", "q", ("a", "b"))
    assert case.timeout_per_case_seconds is None
    assert case.fields == row


@pytest.mark.parametrize("field", ["input", "prompt"])
def test_no_id_is_likely(tmp_path: Path, field: str) -> None:
    """Neither a field of ours nor one of texts is proposed as the id."""
    rows = [{field: f"question {number}"} for number in range(2)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    write_class(tmp_path, {"cases/a.yaml": None, "cases/b.jsonl": lines})
    problems = "\n".join(problems_of(tmp_path))
    assert 'which field is one: `fields: {id: "#"}`' in problems


def test_row_numbers(tmp_path: Path) -> None:
    """A set without ids is numbered, from 0 in each file."""
    cases = load(
        tmp_path,
        {"cases/test.jsonl": '{"q": 1}\n{"q": 1}\n', "cases/dev.json": '[{"q": 1}]'},
        'fields: {id: "#", input: q}',
    )
    assert [case.case_id for case in cases] == ["dev-0", "test-0", "test-1"]
    assert cases[2].fields == {"q": 1, "id": "test-1", "input": 1}


@pytest.mark.parametrize(
    ("setting", "hidden"),
    [("prompt", ("prompt", "input")), ("input", ("input", "prompt"))],
)
def test_hidden_by_either_name(
    tmp_path: Path, setting: str, hidden: tuple[str, ...]
) -> None:
    """What is hidden by one of its names is hidden by the other, too."""
    load(tmp_path, {"cases/a.jsonl": LINES}, f"{FIELDS}hidden: [{setting}]\n")
    assert load_task_class(tmp_path).settings.hidden == hidden


BROKEN_GZIP: Final = gzip.compress(LINES.encode(), mtime=0)[:-5]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (
            {"bench.yaml": "fields: {idd: task_id}"},
            "bench.yaml:1: unknown key 'fields.idd'; did you mean id?",
        ),
        (
            {"bench.yaml": "fields: {id: 5}"},
            "bench.yaml:1: fields.id: 5 is a number, not a string; put it in quotes",
        ),
        (
            {"bench.yaml": ""},
            (
                "cases/b.jsonl:1: no case has an id; say in bench.yaml which field is one:"
                " `fields: {id: task_id}`"
            ),
        ),
        (
            {"bench.yaml": "", "cases/b.jsonl": '{"q": "x"}\n{"q": "x"}\n'},
            (
                "cases/b.jsonl:1: no case has an id; say in bench.yaml which field is one:"
                ' `fields: {id: "#"}`'
            ),
        ),
        (
            {"bench.yaml": "fields: {id: taskid}"},
            (
                "cases/b.jsonl:1: no case has a field 'taskid', which bench.yaml reads as id; did"
                " you mean task_id?"
            ),
        ),
        (
            {"bench.yaml": "fields: {id: task_id, tags: zzz}"},
            (
                "cases/b.jsonl:1: no case has a field 'zzz', which bench.yaml reads as tags; the"
                " first has task_id, prompt, answer"
            ),
        ),
        (
            {"cases/b.jsonl": f'{LINES}{{"task_id": 1}}'},
            "cases/b.jsonl:4: the case has no prompt, which bench.yaml reads as input; add it",
        ),
        (
            {"cases/b.jsonl": f'{LINES}{{"prompt": 1}}'},
            "cases/b.jsonl:4: the case has no task_id, which bench.yaml reads as id; add it",
        ),
        (
            {"bench.yaml": f"{FIELDS}hidden: [task_id]"},
            "bench.yaml:2: hidden: 'task_id' can't be hidden: the system is called by it;",
        ),
        (
            {"cases/b.csv": "id,prompt\na,b\n"},
            "cases/b.csv:1: no column is named task_id; it is CSV in UTF-8, separated by",
        ),
        (
            {"cases/b.jsonl": None, "cases/c.jsonl.gz": BROKEN_GZIP},
            "cases/c.jsonl.gz: not gzip (Compressed file ended before the end-of-stream",
        ),
        (
            {"cases/c.jsonl.gz": LINES},
            "cases/c.jsonl.gz: not gzip (Not a gzipped file (b'{\"')); compress c.jsonl again",
        ),
        (
            {"cases/c.json": '{"a": [], "b": []}'},
            "cases/c.json: an object with 2 lists where a list of cases is expected; write a",
        ),
        (
            {"cases/c.json": "5"},
            "cases/c.json: the value 5 where a list of cases is expected; write a list of",
        ),
        (
            {"cases/c.json": "[]"},
            "cases/c.json: there is no entry in it; write one a case",
        ),
        (
            {"cases/c.json": '[{"task_id": 1, "prompt": 1}, 5]'},
            "cases/c.json: entry 2: the value 5 where an entry begins; write a list",
        ),
        (
            {
                "cases/c.json": '[{"task_id": 1, "prompt": 1}, {"task_id": "1", "prompt": 1}]'
            },
            "cases/c.json: entry 2: id: '1' is the id of the case in entry 1; each case",
        ),
        (
            {"cases/c.json": '[{"task_id": null, "prompt": 1}]'},
            "cases/c.json: entry 1: id: is empty; give it a value or leave it out",
        ),
        (
            {"cases/c.json": '[{"task_id": true, "prompt": 1}]'},
            "cases/c.json: entry 1: id: true is not a string; put it in quotes",
        ),
        (
            {"cases/set/test.parquet": "x", "cases/set/train.parquet": "x"},
            "cases/set: holds several sets (test, train); keep the files of one",
        ),
    ],
)
def test_mistakes(
    tmp_path: Path, files: dict[str, str | bytes | None], problem: str
) -> None:
    """A mistake is told in one line, with its place."""
    good: dict[str, str | bytes | None] = {"cases/a.yaml": None, "bench.yaml": FIELDS}
    write_class(tmp_path, {**good, "cases/b.jsonl": LINES, **files})
    told = problems_of(tmp_path)
    assert any(line.startswith(problem) for line in told), told
    assert len(told) <= 2


# Ids.

IDS: Final = (
    "HumanEval/0",
    "a::b",
    "[x]",
    "50%",
    "é ü",
    "a#2",
    "a\\b",
    ":",
    "..",
    "%2F",
)


@pytest.mark.parametrize("case_id", IDS)
def test_any_text_is_an_id(tmp_path: Path, case_id: str) -> None:
    """It is whole in the case, and in node ids without what means more there."""
    row = {"task_id": case_id, "prompt": 1}
    (case,) = load(tmp_path, {"cases/a.jsonl": json.dumps(row)})
    assert (case.case_id, case.id_in_file) == (case_id, case_id)
    again = case.as_repetition(3)
    assert (again.case_id, again.id_in_file) == (f"{case_id}#3", case_id)
    assert again.as_in_file().case_id == case_id


@pytest.mark.parametrize(
    ("given", "text"), [("12", "12"), ("1.5", "1.5"), ("-1", "-1")]
)
def test_numbers_are_ids(tmp_path: Path, given: str, text: str) -> None:
    """A number becomes its text, in the oracle as well."""
    oracle = f"{{id: 1, case: {given}, output: x, expect: gold}}"
    files: dict[str, str | bytes | None] = {"cases/a.yaml": f"id: {given}"}
    write_class(tmp_path, files | {"oracle/o.yaml": oracle})
    loaded = load_task_class(tmp_path)
    assert loaded.cases[0].case_id == loaded.oracle[0].case_id == text
    assert loaded.cases[0].fields == {"id": float(given)}


@given(st.text(min_size=1), st.text(min_size=1), st.integers(1, 99))
def test_node_ids_are_read_back(first: str, second: str, number: int) -> None:
    """No two ids have one node id, with or without the number of a repetition."""
    single = BenchCase(case_id=first.encode("utf-8", "replace").decode())
    other = BenchCase(case_id=second.encode("utf-8", "replace").decode())
    for case in (single, single.as_repetition(number)):
        name = node_name(case)
        assert not set(name.removesuffix(f"#{number}")) & set("/\\[]#")
        assert "::" not in name
        assert case_and_system(f"cases/a.jsonl::{name}[small]") == (
            case.case_id,
            "small",
        )
    same = single.case_id == other.case_id
    assert (escape(single.case_id) == escape(other.case_id)) is same


def test_cases_of_files_share_nothing_that_changes(tmp_path: Path) -> None:
    """They are made without pydantic's checks, and are as those that it makes."""
    first, second, _ = load(tmp_path, {"cases/a.jsonl": LINES})
    same = BenchCase(**{name: getattr(first, name) for name in BenchCase.model_fields})
    assert first == same == deepcopy(first)
    first.spend(1.5)
    assert second == second.model_copy()
    changed = second.model_copy(update={"tags": ("x",)})
    assert (second.tags, changed.tags) == ((), ("x",))
    assert same._spending is None
    assert second._spending is None


# Parquet and Arrow.


def _write(folder: Path, rows: list[dict[str, Any]], *names: str) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.Table.from_pylist(rows)
    for name in names:
        path = folder / "cases" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            parquet.write_table(table, path)
            continue
        create = pa.ipc.new_file if "file" in name else pa.ipc.new_stream
        with pa.OSFile(str(path), "wb") as file, create(file, table.schema) as writer:
            writer.write_table(table)


@pytest.mark.parametrize(
    "name",
    [
        "x.parquet",
        "set/data/test-00000-of-00001.parquet",
        "set/data-00000-of-00001.arrow",
        "file.arrow",
    ],
)
def test_rows_of_tables(tmp_path: Path, name: str) -> None:
    """Values that JSON can't hold become text or null; a null limit is none."""
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    more: dict[str, Any] = {
        "nan": float("nan"),
        "at": moment,
        "price": Decimal("1.5"),
        "tags": None,
    }
    more |= {"parts": [{"n": 1}], "digits": Decimal("0.1")}
    _write(tmp_path, [{**ROWS[0], **more}], name)
    (tmp_path / "cases" / "state.json").write_text("{}")
    (case,) = load(tmp_path, {})
    expected: dict[str, Any] = {
        "nan": None,
        "at": "2026-03-01T12:00:00+00:00",
        "price": 1.5,
    }
    expected |= {"tags": None, "parts": [{"n": 1}], "digits": "0.1"}
    own = {"id": "Set/0", "input": "question 0"}
    assert case.fields == {**ROWS[0], **expected, **own}
    assert case.path == tmp_path / "cases" / name


def test_a_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line has the command that installs it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    files: dict[str, str | bytes | None] = {"cases/a.yaml": None}
    write_class(tmp_path, files | {"cases/x.arrow": "x"})
    assert problems_of(tmp_path) == [
        'cases/x.arrow: pyarrow is not installed; pip install "pytest-failure-taxonomy[parquet]"'
    ]


def test_bytes_are_refused(tmp_path: Path) -> None:
    """Nothing is made of bytes, which no rubric could get."""
    _write(tmp_path, [{**ROWS[0], "image": {"bytes": b"x"}}], "x.parquet")
    write_class(tmp_path, {"cases/a.yaml": None, "bench.yaml": FIELDS})
    assert problems_of(tmp_path) == [
        (
            "cases/x.parquet: entry 1: 'image.bytes' holds bytes, which JSON can't hold; leave"
            " the column out"
        )
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_torn_tables_are_refused_in_words(tmp_path: Path, data: st.DataObject) -> None:
    """Whatever is left of a file, or written into it, ends in words or in cases."""
    name = data.draw(
        st.sampled_from(["x.parquet", "x.arrow", "file.arrow", "x.jsonl.gz"])
    )
    _write(tmp_path, ROWS, "x.parquet", "x.arrow", "file.arrow")
    (tmp_path / "cases" / "x.jsonl.gz").write_bytes(
        gzip.compress(LINES.encode(), mtime=0)
    )
    content = bytearray((tmp_path / "cases" / name).read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[at] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    for path in (tmp_path / "cases").iterdir():
        path.unlink()
    write_class(
        tmp_path,
        {"cases/a.yaml": None, "bench.yaml": FIELDS, f"cases/{name}": bytes(content)},
    )
    told = f"{tmp_path}/cases/{name}"
    try:
        told += load_task_class(tmp_path).cases[0].case_id
    except BenchError as error:
        told = str(error)
    assert told.startswith(f"{tmp_path}/cases/{name}")

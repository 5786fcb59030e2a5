"""The files of cases and of the oracle: every problem of each, in its exact words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.bench.load.cases import MAX_LINE_BYTES, MAX_YAML_BYTES
from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from tests.unit.bench.load.a_class import problems_of, write_class

ONE: Final = "write one mapping with an id, or a list of such"
LINES: Final = "it is text in UTF-8 with one JSON object a line"
BOMB: Final = "id: x\na0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)
CHAIN: Final = "id: x\na0: &a0 [1]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200)
)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", f"1: the file is empty; {ONE}"),
        ("[]", f"1: the list is empty; {ONE}"),
        ("just text", f"1: the value 'just text' where an entry begins; {ONE}"),
        ("- id: a\n- b\n", f"2: the value 'b' where an entry begins; {ONE}"),
        ("- [a]", f"1: a list where an entry begins; {ONE}"),
        ("- id: a\n-\n", f"2: empty where an entry begins; {ONE}"),
        ("- input: 1", "1: the case has no id; add one, such as `id: empty-input`"),
        (
            "cases:\n- id: a\n",
            "1: the case has no id; add one, such as `id: empty-input`",
        ),
        ("id: true", "1: id: true is not a string; put it in quotes"),
        ("id:", "1: id: is empty; give it a value or leave it out"),
        ("id: [a]", "1: id: is a list, not a string; write one"),
        ("id: ' '", "1: id: is empty; give it a name that no other has"),
        ("id: ' a'", "1: id: ' a' begins or ends with a blank; leave it out"),
        ('id: "a\\nb"', r"1: id: 'a\nb' can't be printed; write printable characters"),
        (
            'id: "\\e[31m"',
            "1: id: '\\x1b[31m' can't be printed; write printable characters",
        ),
        (
            f"id: {'a' * 201}",
            f"1: id: '{'a' * 59}…' is longer than 200 characters; shorten it",
        ),
        (
            "- id: a\n- id: b\n- id: a",
            "3: id: 'a' is the id of the case in line 1; each case need",
        ),
        (
            "[{id: a}, {id: a}]",
            "1: id: 'a' is the id of the case in line 1; each case needs",
        ),
        (
            "id: one",
            "1: id: 'one' is the id of the case in cases/a.yaml:1; each case needs its own",
        ),
        ("id: a\ntags: x", "2: tags: 'x' is not a list; write one in brackets: [a, b]"),
        ("id: a\ntags:", "2: tags: is empty; give it a value or leave it out"),
        ("id: a\ntags: [5]", "2: tags: 5 is a number, not a string; put it in quotes"),
        (
            "id: a\ntags: [a b]",
            "2: tags: 'a b' can't be a pytest mark; write letters, digits and",
        ),
        (
            "id: a\ntags: [not]",
            "2: tags: 'not' can't be a pytest mark; write letters, digits and",
        ),
        (
            "id: a\ntags: [_x]",
            "2: tags: '_x' can't be a pytest mark; write letters, digits and",
        ),
        (
            "id: a\ntags: [skip]",
            "2: tags: 'skip' is a mark that pytest itself uses; choose another",
        ),
        (
            "id: a\ntimeout_per_case_seconds: 5s",
            "2: timeout_per_case_seconds: '5s' is not a number; write one, without quotes",
        ),
        (
            "id: a\ntimeout_per_case_seconds: true",
            "2: timeout_per_case_seconds: true is not a number; write one",
        ),
        (
            "id: a\nrubric_wall_clock_seconds: -1",
            "2: rubric_wall_clock_seconds: -1 is not more than 0; write a bigger number",
        ),
        (
            f"id: a\nrubric_wall_clock_seconds: {10**400}",
            "2: rubric_wall_clock_seconds: the number is more than 1,000,000,000; write 1,000",
        ),
        (
            "id: a\ntimeout_per_case_second: 5",
            "2: unknown limit 'timeout_per_case_second'; did you mean timeout_per_case_seconds?",
        ),
        (
            "id: a\nx: .nan",
            "2: '.nan' is no number to JSON; write null or put it in quotes",
        ),
        (
            "id: a\nx: [-.inf]",
            "2: '-.inf' is no number to JSON; write null or put it in quotes",
        ),
        (
            "id: a\nx: 1e999",
            "2: '1e999' is no number to JSON; write null or put it in quotes",
        ),
        ("id: a\nx: {5: b}", "2: a key 5 is a number, not a string; put it in quotes"),
        ("id: a\nx: {[b]: c}", "2: a key is a list, not a string; write one"),
        (
            "id: a\nx: {b: 1, b: 2}",
            "2: the key 'b' stands in line 2 already; give it once",
        ),
        (
            "id: a\nx:\n  <<: {b: 1}",
            "3: a key '<<' merges other mappings; write the keys",
        ),
        ("id: a\nx: !!set {b}", "2: the tag '!!set' is not supported; write a plain"),
        ("id: a\nx: !!binary YQ==", "2: the tag '!!binary' is not supported; write a"),
        (
            "id: a\nx: !!timestamp 2026-01-01",
            "2: the tag '!!timestamp' is not supported",
        ),
        (
            "id: a\nx: !!python/name:os.system ''",
            "2: the tag '!!python/name:os.system' is not supported",
        ),
        (
            "id: a\nx: !mine b",
            "2: the tag '!mine' is not supported; write a plain value",
        ),
        ("id: a\nx: !!int b", "2: 'b' can't be read as a number; put it in quotes"),
        ("id: a\nx: !!float b", "2: 'b' can't be read as a number; put it in quotes"),
        (
            "id: a\nx: !!bool yes",
            "2: 'yes' is neither true nor false; write one of them",
        ),
        (
            f"id: a\nx: {'9' * 5000}",
            f"2: '{'9' * 59}…' can't be read as a number; put it in",
        ),
        ("id: a\nx: *y", "2: not YAML (found undefined alias"),
        (
            "id: a\nx: &x [*x]",
            "2: '*x' contains itself; write a value that ends",
        ),
        (
            BOMB,
            "7: its references repeat more than 100,000 values; it is YAML in UTF-8 with one",
        ),
        (
            CHAIN,
            " nested too deep; it is YAML in UTF-8 with one mapping, or a list of such",
        ),
        (
            "[" * 5_000,
            " nested too deep; it is YAML in UTF-8 with one mapping, or a list of such",
        ),
        (
            "#" * (MAX_YAML_BYTES + 1),
            " bigger than 4,096 KiB; write it as .jsonl or .csv, which",
        ),
    ],
)
def test_cases_in_yaml(tmp_path: Path, content: str, problem: str) -> None:
    """A mistake in a YAML file of cases is the one thing told of the class."""
    write_class(tmp_path, {"cases/b.yaml": content})
    (told,) = problems_of(tmp_path)
    assert told.startswith(f"cases/b.yaml:{problem}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", f"1: the file is empty; {LINES}"),
        ("\n \n", f"1: the file is empty; {LINES}"),
        (
            '\n{"id": "a"',
            "2: not JSON (Expecting ',' delimiter at column 11); write one JSON obj",
        ),
        (
            '{"id": "a"} {"id": "b"}',
            "1: not JSON (Extra data at column 13); write one JSON object",
        ),
        ("[1]", f"1: a list where an entry begins; {LINES}"),
        ('"a"', f"1: the value '\"a\"' where an entry begins; {LINES}"),
        (
            '{"id": "a", "x": NaN}',
            "1: 'NaN' is no number to JSON; write null or put it in quotes",
        ),
        (
            '{"id": "a", "x": -Infinity}',
            "1: '-Infinity' is no number to JSON; write null or put",
        ),
        (
            '{"id": "a", "x": 1e999}',
            "1: the number '1e999' is too big; write null or put it in",
        ),
        (
            '{"id": "a", "x": {"b": 1, "b": 1}}',
            "1: the key 'b' stands twice in one object; give",
        ),
        (
            '{"id": "a", "x": "\\ud800"}',
            r"1: holds half a character ('\ud800'), which UTF-8 can't",
        ),
        (
            f'{{"id": "a", "x": {"9" * 5000}}}',
            "1: an integer of more than 4300 digits; write",
        ),
        (
            '{"id": "a"}\n{"id": "a"}',
            "2: id: 'a' is the id of the case in line 1; each case needs",
        ),
        ('{"input": 5}', "1: the case has no id; add one, such as `id: empty-input`"),
        (
            f'{{"id": "a", "x": {"[" * 101 + "]" * 101}}}',
            "1: nested too deep; write a flatter",
        ),
        ("[" * 200_000, "1: nested too deep; write a flatter value"),
        (b'{"id": "a"}\n{"id": "\xff"}', f"2: not UTF-8; {LINES}"),
        ('{"id": "a"}'.encode("utf-16"), f"1: not UTF-8; {LINES}"),
    ],
)
def test_cases_in_json_lines(
    tmp_path: Path, content: str | bytes, problem: str
) -> None:
    """A mistake in a line is told with its number."""
    write_class(tmp_path, {"cases/b.jsonl": content})
    told = problems_of(tmp_path)[0]
    assert told.startswith(f"cases/b.jsonl:{problem}")


def test_too_many_json_lines(tmp_path: Path) -> None:
    """A file without end is not read to its end."""
    write_class(tmp_path, {"cases/b.jsonl": ""})
    with (tmp_path / "cases" / "b.jsonl").open("r+b") as file:
        file.truncate(MAX_LINE_BYTES + 1)
    assert problems_of(tmp_path) == [
        f"cases/b.jsonl:1: a line is bigger than 65,536 KiB; {LINES}"
    ]


def test_every_line_is_read_on(tmp_path: Path) -> None:
    """A bad line does not hide those after it, nor the case that another file repeats."""
    content = '{"id": "a", "tags": 1}\n{\n{"id": "b"}\n{"id": "one"}\n{"id": "a"}\n'
    write_class(tmp_path, {"cases/b.jsonl": content})
    told = [line.partition(";")[0] for line in problems_of(tmp_path)]
    assert told == [
        "cases/b.jsonl:1: tags: 1 is not a list",
        (
            "cases/b.jsonl:2: not JSON (Expecting property name enclosed in double quotes"
            " at column 2)"
        ),
        "cases/b.jsonl:4: id: 'one' is the id of the case in cases/a.yaml:1",
        "cases/b.jsonl:5: id: 'a' is the id of the case in line 1",
    ]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (
            {"cases/a.yaml": None},
            "cases: there is no case in it; put cases in cases/ or",
        ),
        (
            {"cases/a.yaml": None, "cases/.a.yaml": "id: a"},
            "cases: there is no case in it; put cases in cases/ or write a cases.py",
        ),
        (
            {"cases/b.xlsx": "{}"},
            "cases/b.xlsx: is never read; write a .yaml, .jsonl, .csv or another file of",
        ),
        (
            {"cases/b.YAML": "{}"},
            "cases/b.YAML: is never read; write a .yaml, .jsonl, .csv or another file of",
        ),
        (
            {"cases/more/b.yaml": "id: b"},
            "cases/more: folders in cases/ are not searched, except for files of Parquet and",
        ),
        ({"oracle/b.jsonl": "{}"}, "oracle/b.jsonl: is never read; write a .yaml file"),
    ],
)
def test_places_of_cases(
    tmp_path: Path, files: dict[str, str | bytes | None], problem: str
) -> None:
    """Files that look like cases are read, or it is said that they are not."""
    write_class(tmp_path, files)
    (told,) = problems_of(tmp_path)
    assert told.startswith(problem)


def test_no_folder_of_cases(tmp_path: Path) -> None:
    """A class without cases proves nothing."""
    write_class(tmp_path)
    (tmp_path / "cases" / "a.yaml").unlink()
    (tmp_path / "cases").rmdir()
    told = "cases: there is no such folder; put cases in cases/ or write a cases.py"
    assert problems_of(tmp_path) == [told]


def test_references_in_cases(tmp_path: Path) -> None:
    """Anchors may save typing; each case gets values of its own."""
    content = "- id: a\n  input: &x {y: [1]}\n- id: b\n  input: *x\n"
    write_class(tmp_path, {"cases/a.yaml": content})
    first, second = load_task_class(tmp_path).cases
    assert first.input == second.input == {"y": [1]}
    assert first.input is not second.input


GOOD: Final = "id: x\ncase: one\noutput: 1\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", f"1: the file is empty; {ONE}"),
        (
            "id: x\ncase: one\noutput: 1",
            "1: the example has no expect; write gold or null",
        ),
        (
            "id: x\ncase: one\nexpect: gold",
            "1: the example has no output; write what a system",
        ),
        (
            "id: x\noutput: 1\nexpect: gold",
            "1: the example has no case; write the id of the case",
        ),
        (
            "case: one\noutput: 1\nexpect: gold",
            "1: the example has no id; add one that no other",
        ),
        (GOOD + "expct: gold", "4: unknown key 'expct'; did you mean expect?"),
        (
            GOOD + "expect: gold\nzzz: 1",
            "5: unknown key 'zzz'; the keys are id, case, output,",
        ),
        (GOOD + "expect: good", "4: expect: 'good' is unknown; did you mean gold?"),
        (GOOD + "expect: [gold]", "4: expect: a list is unknown; write gold or null"),
        (
            "id: true\ncase: one\noutput: 1\nexpect: null",
            "1: id: true is not a string; put it in quotes",
        ),
        (
            "id: x\ncase: true\noutput: 1\nexpect: null",
            "2: case: true is not a string; put it in",
        ),
        (
            "id: x\ncase: On\noutput: 1\nexpect: null",
            "2: case: there is no case 'On'; did you",
        ),
        (
            (
                "- {id: x, case: one, output: 1, expect: gold}\n"
                "- {id: x, case: one, output: 1, expect: gold}"
            ),
            "2: id: 'x' is the id of the example in oracle/b.yaml:1; each example needs its own",
        ),
        (
            GOOD + "expect: gold\noutput: .nan",
            "5: the key 'output' stands in line 3 already;",
        ),
    ],
)
def test_oracle(tmp_path: Path, content: str, problem: str) -> None:
    """A mistake in the oracle is told with the line of its key."""
    write_class(tmp_path, {"oracle/b.yaml": content})
    told = problems_of(tmp_path)[0]
    assert told.startswith(f"oracle/b.yaml:{problem}")


def test_the_oracle_is_not_blamed_for_bad_cases(tmp_path: Path) -> None:
    """An example of a case that can't be used, or can't be read at all, is no second problem."""
    write_class(
        tmp_path, {"oracle/b.yaml": GOOD + "expect: gold", "cases/a.yaml": "id: [one"}
    )
    assert [told.partition(":")[0] for told in problems_of(tmp_path)] == [
        "cases/a.yaml"
    ]
    write_class(
        tmp_path,
        {"oracle/b.yaml": GOOD + "expect: gold", "cases/a.yaml": "id: one\ntags: 1"},
    )
    assert [told.partition(":")[0] for told in problems_of(tmp_path)] == [
        "cases/a.yaml"
    ]


def test_each_case_names_its_cluster(tmp_path: Path) -> None:
    """A case without the field is refused, or a misspelled one would make each case a cluster."""
    right = "give it a text or a number, or null if no other case is like it"
    wrong = "- {id: a, repo: x}\n- {id: b}\n- {id: c, repo: [x]}\n"
    write_class(tmp_path, {"bench.yaml": "cluster: repo", "cases/a.yaml": wrong})
    assert problems_of(tmp_path) == [
        f"cases/a.yaml:2: cluster: b: has no 'repo'; {right}",
        f"cases/a.yaml:3: cluster: c: 'repo' is no single value; {right}",
    ]
    good = "- {id: a, repo: x}\n- {id: b, repo: 5}\n- {id: c, repo: null}\n"
    write_class(tmp_path, {"bench.yaml": "cluster: repo", "cases/a.yaml": good})
    assert [case.cluster for case in load_task_class(tmp_path).cases] == [
        "x",
        "5",
        None,
    ]
    write_class(tmp_path, {"bench.yaml": "cluster: null", "cases/a.yaml": good})
    assert [case.cluster for case in load_task_class(tmp_path).cases] == [None] * 3

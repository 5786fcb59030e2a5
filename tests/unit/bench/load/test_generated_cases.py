"""Cases from a `cases.py`: whatever it does, it gives cases or a line that names it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.bench.load import cases as generated_cases
from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from tests.unit.bench.load.a_class import problems_of, write_class

WRITE: Final = "write `def cases():` and yield a dict a case"
FIX: Final = "fix it; it has to give the same cases in each process"


def write_module(folder: Path, content: str | bytes) -> Path:
    """Write a good task class whose cases come from a module."""
    return write_class(folder, {"cases/a.yaml": None, "cases.py": content})


def test_a_generator_gives_cases(tmp_path: Path) -> None:
    """Each has the line of its `yield`; the module may import its neighbours."""
    content = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "import neighbour_of_cases\n\n"
        "@dataclass\nclass Case:\n    number: int\n\n"
        "def cases():\n"
        "    given = {'id': 'first', 'input': (1, 2)}\n"
        "    yield given\n"
        "    given['input'] = 'changed'\n"
        "    for number in range(neighbour_of_cases.COUNT):\n"
        "        yield {'id': f'n-{number}', 'input': Case(number).number, 'tags': ['slow']}\n"
    )
    write_class(tmp_path, {"cases.py": content, "neighbour_of_cases.py": "COUNT = 2\n"})
    before = list(sys.path)
    cases = load_task_class(tmp_path).cases
    assert [(case.case_id, case.input, case.line) for case in cases] == [
        ("one", 1, 1),
        ("first", [1, 2], 11),
        ("n-0", 0, 14),
        ("n-1", 1, 14),
    ]
    assert (cases[2].tags, cases[2].path) == (("slow",), tmp_path / "cases.py")
    assert sys.path == before
    assert not (tmp_path / "__pycache__" / "cases.cpython-313.pyc").exists()


def test_a_list_gives_cases(tmp_path: Path) -> None:
    """Any iterable of dicts will do; each case then has the line of the function."""
    write_module(tmp_path, "\ndef cases():\n    return [{'id': 'a'}, {'id': 'b'}]\n")
    assert [(case.case_id, case.line) for case in load_task_class(tmp_path).cases] == [
        ("a", 2),
        ("b", 2),
    ]


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        ("", [f" has no function cases; {WRITE}"]),
        ("cases = [{'id': 'a'}]", [f" has no function cases; {WRITE}"]),
        ("def cases(:", ["1: not Python (invalid syntax); fix the syntax"]),
        (
            "import sys\nimport no_such_module",
            [
                (
                    "2: can't be imported: ModuleNotFoundError: No module named 'no_such_module';"
                    f" {FIX}"
                )
            ],
        ),
        ("import sys\nsys.exit(3)", [f"2: can't be imported: SystemExit: 3; {FIX}"]),
        (
            "def cases(): ...",
            [f"1: cases() returned an object of type NoneType; {WRITE}"],
        ),
        (
            "def cases(): return {}",
            [f"1: cases() returned an object of type dict; {WRITE}"],
        ),
        (
            "async def cases():\n    return []",
            [f"1: cases() returned an object of type coroutine; {WRITE}"],
        ),
        (
            "async def cases():\n    yield {'id': 'a'}",
            [f"1: cases() returned an object of type async_generator; {WRITE}"],
        ),
        ("def cases(): return []", [f"1: cases() gives no case; {WRITE}"]),
        (
            "def cases(name): return []",
            [
                (
                    " entry 1: cases() raised TypeError: cases() missing 1 required positional"
                    f" argument: 'name'; {FIX}"
                )
            ],
        ),
        (
            "def cases():\n    yield {'id': 'a'}\n    yield {}[1]\n",
            [f"3: entry 2: cases() raised KeyError: 1; {FIX}"],
        ),
        (
            "def cases():\n    yield {'id': 'a'}\n    raise SystemExit('over')\n",
            [f"3: entry 2: cases() raised SystemExit: over; {FIX}"],
        ),
        (
            (
                "def cases():\n    yield ['id']\n    yield {'input': 1}\n    yield {'id': ''}\n"
                "    yield {'id': 'a', 'input': {1}}\n    yield {'id': 'b', 'x': float('nan')}\n"
                "    yield {'id': 'c', 1: 2}\n    yield {'id': 'd'}\n    yield {'id': 'd'}\n"
                "    yield {'id': True}\n    yield {'id': 'e', 'x': '\\ud800'}\n"
            ),
            [
                f"2: entry 1: an object of type list is no dict; {WRITE}",
                "3: entry 2: the case has no id; add one, such as `id: empty-input`",
                "4: entry 3: id: is empty; give it a name that no other has",
                (
                    "5: entry 4: TypeError: $.input is of type set, which JSON can't hold; give"
                    " what JSON can hold"
                ),
                "6: entry 5: ValueError: $.x is nan, which JSON can't hold; give what JSON can",
                (
                    "7: entry 6: TypeError: $ has a key of type int; in JSON all keys are strings;"
                    " give what JSON can hold"
                ),
                "9: entry 8: id: 'd' is the id of the case in entry 7; each case needs its own",
                "10: entry 9: id: true is not a string; put it in quotes",
                (
                    r"11: entry 10: holds half a character ('\ud800'), which UTF-8 can't; write"
                    " a whole one"
                ),
            ],
        ),
        (
            b"# \xff",
            [
                "1: not UTF-8 at byte 2; cases.py is Python in UTF-8 that says `def cases()"
            ],
        ),
    ],
)
def test_mistakes(tmp_path: Path, content: str | bytes, problems: list[str]) -> None:
    """A line names the file, the line of the mistake and the number of the entry."""
    write_module(tmp_path, content)
    told = problems_of(tmp_path)
    assert len(told) == len(problems), told
    for line, expected in zip(told, problems, strict=True):
        assert line.startswith(f"cases.py:{expected}")


def test_an_id_of_another_file(tmp_path: Path) -> None:
    """Ids are unique over all files, and each is named as it can be found."""
    write_class(tmp_path, {"cases.py": "def cases():\n    yield {'id': 'one'}\n"})
    assert problems_of(tmp_path) == [
        (
            "cases.py:2: entry 1: id: 'one' is the id of the case in cases/a.yaml:1; each case"
            " needs its own"
        )
    ]


def test_cases_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that never ends is stopped."""
    monkeypatch.setattr(generated_cases, "MAX_ENTRIES", 10)
    content = (
        "from itertools import count\ndef cases():\n"
        "    for number in count():\n        yield {'id': str(number)}\n"
    )
    write_module(tmp_path, content)
    assert problems_of(tmp_path) == [
        "cases.py:2: cases() gives more than 10 cases; let it end"
    ]


def test_what_ends_a_run_ends_it(tmp_path: Path) -> None:
    """Ctrl+C while the cases are made is no problem of theirs."""
    write_module(tmp_path, "def cases():\n    raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_task_class(tmp_path)

"""The rubrics of a class: which files they are, their weights, and what they may see."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.bench.load.folder import is_task_class
from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from pytest_failure_taxonomy.bench.scores import weights_of
from tests.unit.bench.load.a_class import GOOD, problems_of, write_class

GRADE: Final = GOOD["rubric.py"]
TWO: Final = {"rubric.py": None, "rubrics/right.py": GRADE, "rubrics/style.py": GRADE}


def write_two(folder: Path, files: dict[str, str | bytes | None] | None = None) -> Path:
    """Write a good class with two rubrics, some of its files changed."""
    return write_class(folder, {**TWO, **(files or {})})


def test_rubrics_are_named_by_their_files(tmp_path: Path) -> None:
    """A `rubric.py` may stand beside them; shared modules and hidden files are no rubrics."""
    write_two(
        tmp_path,
        {
            "rubric.py": GRADE,
            "rubrics/_shared.py": "x",
            "rubrics/.x.py": "[",
            "rubrics/x.md": "[",
        },
    )
    loaded = load_task_class(tmp_path)
    assert list(loaded.rubrics) == ["right", "rubric", "style"]
    assert loaded.rubrics["style"] == tmp_path / "rubrics" / "style.py"
    assert loaded.rubric == loaded.rubrics["rubric"] == tmp_path / "rubric.py"
    assert loaded.breakdown_keys == {"found", "right", "rubric", "style"}
    assert weights_of(loaded) == {"right": 1.0, "rubric": 1.0, "style": 1.0}


def test_one_rubric_is_no_key(tmp_path: Path) -> None:
    """The score of a class's only rubric is the case's; it stands in no breakdown."""
    assert load_task_class(write_class(tmp_path / "a")).breakdown_keys == {"found"}
    files: dict[str, str | bytes | None] = {
        "rubric.py": None,
        "rubrics/llm_judge.py": GRADE,
    }
    loaded = load_task_class(write_class(tmp_path / "b", files))
    assert loaded.breakdown_keys == {"found"}
    assert (loaded.rubric, list(loaded.rubrics)) == (None, ["llm_judge"])


def test_weights(tmp_path: Path) -> None:
    """They are given by name; 0 is one, too."""
    write_two(tmp_path, {"bench.yaml": "rubrics: {right: 0.7, style: 0}\n"})
    assert weights_of(load_task_class(tmp_path)) == {"right": 0.7, "style": 0.0}


def test_a_class_without_its_mark(tmp_path: Path) -> None:
    """A folder of rubrics makes a class as a `rubric.py` does, and so does a `cases.py`."""
    write_two(
        tmp_path, {"cases/a.yaml": None, "cases.py": "", "failure_modes.yaml": None}
    )
    assert is_task_class(tmp_path)


@pytest.mark.parametrize(
    ("files", "problems"),
    [
        (
            {"bench.yaml": "repeat: 2\nrubrics:\n  right: 1\n  styl: 1\n"},
            [
                (
                    "bench.yaml:2: rubrics: style has no weight; give one, 0 for a rubric that"
                    " decides nothing"
                ),
                "bench.yaml:4: rubrics: there is no rubric 'styl'; did you mean style?",
            ],
        ),
        (
            {"bench.yaml": "rubrics: {right: 1, style: 1, other: 1}\n"},
            [
                "bench.yaml:1: rubrics: there is no rubric 'other'; the rubrics are right, style"
            ],
        ),
        (
            {"bench.yaml": "rubrics: {right: -1, style: heavy}\n"},
            [
                "bench.yaml:1: rubrics.right: -1 is less than 0; write 0 or more",
                "bench.yaml:1: rubrics.style: 'heavy' is not a number; write one, without quotes",
            ],
        ),
        (
            {"bench.yaml": "rubrics: {right: 0, style: 0}\n"},
            ["bench.yaml:1: rubrics: no weight is more than 0; give one that decides"],
        ),
        (
            {"bench.yaml": "rubrics: {right: .nan, style: 1}\n"},
            [
                "bench.yaml:1: '.nan' is no number to JSON; write null or put it in quotes"
            ],
        ),
        (
            {"rubrics/rubric.py": GRADE, "rubric.py": GRADE},
            [
                (
                    "rubrics/rubric.py: has the name of rubric.py, which is a rubric, too; rename"
                    " one of the two"
                )
            ],
        ),
        (
            {"rubrics/a b.py": GRADE},
            [
                "rubrics/a b.py: 'a b' is no name of a rubric; write letters, digits, - and _"
            ],
        ),
        (
            {"rubrics/llm.py": GRADE},
            [
                (
                    "rubrics/llm.py: its name would be a breakdown key that holds 'llm'; rename"
                    " [llm], to judge.py for example"
                )
            ],
        ),
        (
            {"breakdown_keys.yaml": "- found\n- style\n"},
            [
                (
                    "breakdown_keys.yaml:2: the key 'style' is the name of a rubric, whose score"
                    " has it; give the key another name"
                )
            ],
        ),
        (
            {"rubrics/style.py": "def grade(case): ...", "rubrics/right.py": "x = ("},
            [
                "rubrics/right.py:1: not Python ('(' was never closed); fix the syntax",
                (
                    "rubrics/style.py:1: grade can't be called with a case and an output; write"
                    " `def grade(case, output):`"
                ),
            ],
        ),
        (
            {"rubrics/right.py": None, "rubrics/style.py": None},
            [
                (
                    "rubrics: there is no rubric in it; write rubrics/NAME.py, or a rubric.py"
                    " beside it"
                )
            ],
        ),
        (
            {"bench.yaml": "rubric_env: [MY KEY, HOME, 5]\n"},
            [
                (
                    "bench.yaml:1: rubric_env: 'MY KEY' is no name of a variable; write letters,"
                    " digits and _, such as ANTHROPIC_API_KEY"
                ),
                "bench.yaml:1: rubric_env: 'HOME' is set for each rubric anyway; leave it out",
                "bench.yaml:1: rubric_env: 5 is a number, not a string; put it in quotes",
            ],
        ),
        (
            {"bench.yaml": "rubric_env: MY_KEY\n"},
            [
                "bench.yaml:1: rubric_env: 'MY_KEY' is not a list; write one in brackets: [a, b]"
            ],
        ),
    ],
)
def test_mistakes(
    tmp_path: Path, files: dict[str, str | bytes | None], problems: list[str]
) -> None:
    """Each is told by its file before a system is called."""
    assert problems_of(write_two(tmp_path, files)) == problems

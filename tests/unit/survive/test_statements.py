"""Which statement of a source did something is read, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.survive.statements import (
    find_statement,
    functions_in,
    last_line_of,
    sources_below,
)

SOURCE: Final = '''"""Speaks of report.outcome = 1."""
import os


class TestCart:
    size = 3

    @staticmethod
    def test_total():
        try:
            os._exit(0)
        except (OSError,
                ValueError):
            return None

    async def test_later(self): ...


@str
@repr
def outer(report):
    if report.outcome == "failed":  # outcome = "skipped"
        report.outcome = (
            "passed"
        )
    with open("a") as file:
        file.write(report)

    def inner():
        pass
'''


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return the path of a source with some of everything."""
    source = tmp_path / "conftest.py"
    source.write_text(SOURCE, "utf-8")
    return str(source)


@pytest.mark.parametrize(
    ("patterns", "lines", "line"),
    [
        (["outcome = "], None, 23),
        (["^report.outcome = 'passed'$"], None, 23),
        (["skipped"], None, None),
        (["^if .*outcome"], None, 22),
        (["^except .OSError, ValueError"], None, 12),
        (["^with open"], None, 26),
        (["nowhere", "_exit", "import"], None, 11),
        (["import"], (3, 99), None),
        (["_exit"], (8, 14), 11),
        (["_exit"], (1, 10), None),
        ([], None, None),
    ],
    ids=str,
)
def test_a_statement_is_found_by_its_text(
    path: str, patterns: list[str], lines: tuple[int, int] | None, line: int | None
) -> None:
    """The first line of the first statement counts; comments and docstrings are no part of it."""
    assert find_statement(path, patterns, lines) == line


@pytest.mark.parametrize(
    ("first", "last"), [(8, 14), (16, 16), (19, 30), (29, 30), (21, 21), (500, 500)]
)
def test_a_function_ends_with_its_last_line(path: str, first: int, last: int) -> None:
    """It begins with its decorators; a line that begins none is its own end."""
    assert last_line_of(path, first) == last


def test_functions_are_named_with_their_class(path: str) -> None:
    """Functions within functions are no tests, and are not listed."""
    assert [*functions_in(path)] == [
        ("TestCart", "test_total"),
        ("TestCart", "test_later"),
        ("outer",),
    ]


@pytest.mark.parametrize("content", [None, b"def x(:\n", b"\0\xff", b"#" * 3_000_000])
def test_a_source_that_says_nothing(tmp_path: Path, content: bytes | None) -> None:
    """A missing, broken, binary or empty source has no statement and no function."""
    source = tmp_path / "own.py"
    if content is not None:
        source.write_bytes(content)
    assert find_statement(str(source), [""]) is None
    assert last_line_of(str(source), 3) == 3
    assert [*functions_in(str(source))] == []


def test_sources_of_the_user(tmp_path: Path) -> None:
    """A conftest comes first; hidden folders and installed libraries are left out."""
    for name in (
        *("a.py", "sub/conftest.py", "sub/b.py", "notes.txt", ".git/c.py"),
        *("build/d.py", "env/lib/python3.12/site-packages/e.py"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = [Path(path).relative_to(tmp_path) for path in sources_below(tmp_path)]
    assert [each.as_posix() for each in found] == [
        "sub/conftest.py",
        "a.py",
        "sub/b.py",
    ]

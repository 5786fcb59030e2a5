"""Which line of a program's output says why it failed."""

from __future__ import annotations

from typing import Final

import pytest

from pytest_failure_taxonomy.taxonomy.program_words import telling_line

OUTPUTS: Final = (
    ("a\nfatal: no\nhint: try\n", "fatal: no"),
    (b"x.py:1: error: bad\nfine\n", "x.py:1: error: bad"),
    (
        "ssh: Could not resolve hostname x\nfatal: Could not read from remote repository.",
        "ssh: Could not resolve hostname x",
    ),
    (
        "cc: error: no input\nmake: *** [Makefile:2: all] Error 1\n",
        "cc: error: no input",
    ),
    ("make: *** [Makefile:2: all] Error 1\n", "make: *** [Makefile:2: all] Error 1"),
    ("  File 'a'\nValueError: boo\n", "ValueError: boo"),
    ("sh: 1: frob: not found\nbye\n", "sh: 1: frob: not found"),
    ("done\nall fine\n", ""),
    (None, ""),
    (7, ""),
)


@pytest.mark.parametrize(("printed", "line"), OUTPUTS)
def test_the_line_that_says_why(printed: object, line: str) -> None:
    """The last that looks like an error's, unless it only closes what was said before."""
    assert telling_line(printed) == line


def test_the_last_line_stands_for_others() -> None:
    """Where nothing looks like an error's."""
    assert telling_line("one\n\ntwo\n \n", or_last=True) == "two"
    assert telling_line("", or_last=True) == ""


def test_a_long_output_is_read_from_its_end() -> None:
    """A program may print megabytes."""
    assert (
        telling_line("error: first\n" + "x" * 30_000 + "\nerror: last") == "error: last"
    )
    assert len(telling_line("error: " + "x" * 19_000)) == 500

"""What a program puts before each line of another one's output is taken off."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pytest_failure_taxonomy.logs.log_answer import ANSWERS, classify_log
from pytest_failure_taxonomy.logs.log_lines import chunks_of_text
from pytest_failure_taxonomy.logs.prefixes import MIN_LINES, prefixes, remove_prefixes

OUTPUT: Final = """\
============================= test session starts ==============================
collected 2 items

tests/test_cart.py .F                                                    [100%]

=================================== FAILURES ===================================
__________________________________ test_total __________________________________

    def test_total():
>       assert 1 == 2
E       assert 1 == 2

tests/test_cart.py:4: AssertionError
=========================== short test summary info ============================
FAILED tests/test_cart.py::test_total - assert 1 == 2
========================= 1 failed, 1 passed in 0.12s ==========================
"""
BEFORE: Final = (
    "svc_1  | ",
    "\x1b[36msvc-1  |\x1b[0m ",
    "[12:01:02] ",
    "12:01:02.123 ",
    "nix-tests> ",
    "2026-01-01 12:01:02,123 - INFO - ",
    "2026-01-01 12:01:02,123 - harness.run - INFO - ",
    "2026/01/01 12:01:02 ",
    "2026-01-01T12:01:02.123456Z stdout F ",
    "2026-01-01T12:01:02.1234567Z svc_1  | ",
    "[0] ",
    "#12 3.456 ",
    "7: ",
    "@shop/web:test: ",
    "Nov  1 12:01:02 runner-1 pytest[12]: ",
    "test\tRun pytest\t2026-01-01T00:00:00.0000000Z ",
)


def answer_of(log: str) -> Any:
    """Return what `classify` answers."""
    return ANSWERS.encode(classify_log(chunks_of_text(log), name="log"))


def before_all(prefix: str, text: str) -> str:
    """Return a text with a prefix before each line."""
    return "".join(f"{prefix}{line}" for line in text.splitlines(keepends=True))


@pytest.mark.parametrize("prefix", BEFORE)
def test_the_answer_is_that_of_the_bare_text(prefix: str) -> None:
    """Whatever stands before the lines, and with line ends of Windows."""
    assert answer_of(before_all(prefix, OUTPUT)) == answer_of(OUTPUT)
    assert answer_of(before_all(prefix, OUTPUT.replace("\n", "\r\n"))) == answer_of(
        OUTPUT
    )


def test_a_line_without_the_prefix_keeps_its_place() -> None:
    """Not every line has one, and the numbers are those of the file."""
    log = f"Attaching to svc_1\n{before_all('svc_1  | ', OUTPUT)}svc_1 exited with code 1\n"
    lines = answer_of(log)["lines"]
    assert {"number": 12, "text": "E       assert 1 == 2"} in lines


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(before_all("ERROR: ", "a\nb\nc\nd\ne\nf\n"), id="error"),
        pytest.param(before_all("[ERROR] ", "a\nb\nc\nd\ne\nf\n"), id="level"),
        pytest.param(before_all("[gw0] ", "a\nb\nc\nd\ne\nf\n"), id="worker"),
        pytest.param("".join(f"{n}: a\n" for n in range(9)), id="numbers"),
        pytest.param("".join(f"f{n} | {n} |\n" for n in range(9)), id="table"),
        pytest.param("svc_1  | a\n" * (MIN_LINES - 1), id="too-few"),
        pytest.param("svc_1  | a\nb\nc\n" * MIN_LINES, id="not-most"),
    ],
)
def test_what_is_no_prefix(log: str) -> None:
    """Levels of errors, numbers that count, tables, and what few lines have."""
    assert b"".join(remove_prefixes([log.encode()])) == log.encode()


def test_each_shape_has_an_example() -> None:
    """No row of the table is untested."""
    for prefix in prefixes():
        assert any(prefix.marks.match(each.encode()) for each in BEFORE), prefix

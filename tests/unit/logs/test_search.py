"""The search of a log takes time in proportion to it, and little, whatever is repeated in it."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.logs.line_patterns import LinePattern, literal_of
from pytest_failure_taxonomy.logs.log_answer import ANSWERS, classify_log
from pytest_failure_taxonomy.logs.log_lines import (
    BYTES_A_LINE,
    CHUNK_BYTES,
    MAX_FIRST_LINES,
    MAX_LAST_LINES,
    MAX_LINE_BYTES,
    chunks_of_text,
    read_log,
)
from pytest_failure_taxonomy.logs.tool_output import tool_wordings
from pytest_failure_taxonomy.taxonomy.evidence import OutputLine
from tests.helpers.adversarial_logs import example, patterns

SPAM: Final = 200_000


def quoted(log: str) -> list[str]:
    """Return the lines that `classify` quotes."""
    answer: Any = ANSWERS.encode(
        classify_log(chunks_of_text(log), name="log", exit_code=1)
    )
    return [line["text"] for line in answer["lines"]]


class Kept:
    """A reader that keeps what it is fed."""

    wants_all = False

    def __init__(self) -> None:
        self.lines: list[OutputLine] = []

    def feed(self, line: OutputLine) -> None:
        """Keep it."""
        self.lines.append(line)


def test_what_a_wording_needs_is_in_what_it_fits() -> None:
    """No message is passed over for want of a text."""
    for wording in tool_wordings():
        pattern = wording.pattern.pattern
        text = example(pattern)
        assert wording.literal in (text.lower() if "(?i)" in pattern else text), pattern


def test_a_needed_text_is_in_what_a_pattern_fits() -> None:
    """Of all patterns of all tables."""
    for pattern in patterns():
        text = example(pattern)
        small = text.lower() if "(?i)" in pattern else text
        assert literal_of(pattern) in small, pattern


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("(?i)\\bNo Space left\\b", "no space left"),
        ("^\\S+: line \\d+: +\\d+ Killed\\b", ": line "),
        ("npm (?:ERR!|error) code E5[0-9]{2}\\b", " code E5"),
        ("abc?d{2}ef*g", "ab"),
        ("\u00d7 Failed", "\u00d7 Failed"),
        (r"\u00d7 Failed", " Failed"),
        ("a[]b]c|d", ""),
        ("[^]x]yz(?<!a)", "yz"),
    ],
)
def test_needed_texts(pattern: str, literal: str) -> None:
    """What stands outside of groups, and is there once."""
    assert literal_of(pattern) == literal


def test_the_first_pattern_counts() -> None:
    """Also where a later one begins with a letter, and is tried before."""
    found = LinePattern([r".*(far)", "(n)ear", r"\w+ (last)"])
    assert (match := found.match("near and far"))
    assert match[match.lastindex or 0] == "far"
    assert (match := found.match("near last"))
    assert match[match.lastindex or 0] == "n"
    assert (match := found.match("at last"))
    assert match[match.lastindex or 0] == "last"
    assert found.match("none") is None


def test_of_many_short_lines_the_ends_are_looked_at() -> None:
    """How many depends on the bytes, and each comes under its number."""
    reader = Kept()
    raw = "".join(f"E {number}\n" for number in range(1, SPAM + 1)).encode()
    tail = read_log([raw], reader)
    numbers = [line.number for line in reader.lines]
    blocks = len(raw) // CHUNK_BYTES + 1
    most = max(len(raw) // BYTES_A_LINE, MAX_FIRST_LINES) + MAX_LAST_LINES * blocks
    assert len(numbers) <= most
    assert (numbers[0], numbers[-1], tail.line_count) == (1, SPAM, SPAM)
    assert all(line.text == f"E {line.number}" for line in reader.lines)


def test_all_lines_of_an_ordinary_length_are_looked_at() -> None:
    """None is left out."""
    reader = Kept()
    line = f"ERROR: {'x' * BYTES_A_LINE}\n".encode()
    read_log([line * 50_000], reader)
    assert len(reader.lines) == 50_000


def test_a_result_of_subtests_takes_linear_time() -> None:
    """Of brackets that are never followed by a blank."""
    line = f"SUBFAIL{'[](' * (MAX_LINE_BYTES // 3)}"
    title = " short test summary info ".center(80, "=")
    assert quoted(f"{title}\n" + f"{line}\n" * 20)


@pytest.mark.parametrize("size", [2_500, MAX_LINE_BYTES + 9, 3 * CHUNK_BYTES])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_line_that_is_cut_says_so(size: int, end: str) -> None:
    """Wherever it was cut."""
    (line,) = quoted(f"error: {'x' * size} the end{end}")
    assert line.startswith("error: x")
    assert line.endswith("x the end")
    assert re.search("\u2026|truncated", line)


def test_a_line_that_is_not_cut_is_whole() -> None:
    """Also a long one."""
    line = f"error: {'x' * 1_900}"
    assert quoted(f"{line}\n") == [line]


def test_what_cargo_could_not_compile() -> None:
    """Its last line names the crate."""
    last = "error: could not compile `billing` (lib) due to 1 previous error"
    log = f"error[E0425]: cannot find value `y` in this scope\n --> src/lib.rs:1:25\n\n{last}\n"
    assert last in quoted(log)

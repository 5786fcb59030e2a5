"""What is kept of a command's output."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

if sys.platform == "win32":
    pytest.skip("needs poll", allow_module_level=True)

from pytest_failure_taxonomy.survive.output_relay import (
    HEAD_BYTES,
    TAIL_BYTES,
    KeptOutput,
)


@given(sizes=st.lists(st.integers(0, 3_000_000), max_size=8))
def test_the_beginning_and_the_end_are_kept(sizes: list[int]) -> None:
    """In whole lines, in their order, and within bounds."""
    kept = KeptOutput()
    lines: list[bytes] = []
    for number, size in enumerate(sizes):
        line = b"%d %s\n" % (number, b"x" * size)
        lines.append(line)
        kept.add(line)
    head, tail = kept.pieces
    assert len(head) <= HEAD_BYTES
    assert len(tail) <= 2 * TAIL_BYTES
    whole = b"".join(lines)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    if len(whole) <= TAIL_BYTES:
        assert head + tail == whole


def test_the_end_begins_with_a_whole_line() -> None:
    """Nothing is read of a line that has lost its beginning."""
    kept = KeptOutput()
    for number in range(200_000):
        kept.add(b"%d all is well, line by line\n" % number)
    _, tail = kept.pieces
    assert TAIL_BYTES - 100 <= len(tail) <= 2 * TAIL_BYTES
    assert tail.partition(b" ")[0].isdigit()

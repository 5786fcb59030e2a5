"""The marker: its syntax, which one counts, and files of every sort."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.log_lines import (
    MAX_MARKER_LINE_BYTES,
    find_marker,
    last_marker,
    marker_in,
)
from pytest_failure_taxonomy.taxonomy.judgement import (
    MARKER_REASONS,
    marker_on_line,
    validate_marker,
)

MAX_TURNS: Final = "[GZA_FAILURE:MAX_TURNS]"

TEXTS: Final = (
    ("", "UNKNOWN"),
    ("all is well\n", "UNKNOWN"),
    (MAX_TURNS, "MAX_TURNS"),
    (f"{MAX_TURNS}\n", "MAX_TURNS"),
    (f"before\r\n \t{MAX_TURNS} \t\r\nafter\r\n", "MAX_TURNS"),
    ("[GZA_FAILURE:UNKNOWN]", "UNKNOWN"),
    (f"{MAX_TURNS}\n[GZA_FAILURE:TEST_FAILURE]\n", "TEST_FAILURE"),
    (f"[GZA_FAILURE:TEST_FAILURE]\n{MAX_TURNS}\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\n[GZA_FAILURE:BORED]\n", "UNKNOWN"),
    (f"{MAX_TURNS}\n[GZA_FAILURE:max_turns]\n", "UNKNOWN"),
    (f"{MAX_TURNS}\n[GZA_FAILURE:]\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\n[GZA_FAILURE:TEST FAILURE]\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\n[GZA_FAILURE:TEST_F\u00c4ILURE]\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\n[gza_failure:TEST_FAILURE]\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\nsays [GZA_FAILURE:TEST_FAILURE]\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\n[GZA_FAILURE:TEST_FAILURE].\n", "MAX_TURNS"),
    (
        f"{MAX_TURNS}\n[GZA_FAILURE:TEST_FAILURE][GZA_FAILURE:TEST_FAILURE]\n",
        "MAX_TURNS",
    ),
    (f"{MAX_TURNS}\n[GZA_FAILURE:\nTEST_FAILURE]\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\n\u00a0[GZA_FAILURE:TEST_FAILURE]\n", "MAX_TURNS"),
    (f"\x1b[31m{MAX_TURNS}\x1b[0m\n", "MAX_TURNS"),
    (f"before\n \x1b[1m\x1b[38;5;1m {MAX_TURNS}\x1b[m \x1b[0m\r\nafter\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\n\x1b[31msays [GZA_FAILURE:TEST_FAILURE]\x1b[0m\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\n\x1b[31[GZA_FAILURE:TEST_FAILURE]\x1b[0m\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\n\x1b[2K[GZA_FAILURE:TEST_FAILURE]\n", "MAX_TURNS"),
    (f"{MAX_TURNS}\n[GZA_FAILURE:TEST_FAILURE]\x1b[0\n", "MAX_TURNS"),
)


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_marker_of_a_text(text: str, expected: str) -> None:
    """The last marker on a line of its own counts, and is unknown where its reason is."""
    assert find_marker(text) == expected


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_marker_of_a_file(tmp_path: Path, text: str, expected: str) -> None:
    """A file is read as the same text would be, in whichever encoding it says it is."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        path = tmp_path / encoding
        path.write_bytes(text.encode(encoding))
        assert find_marker(path) == expected, encoding


def test_the_last_marker_as_it_is_written() -> None:
    """Of several markers the last is told, as it was written; none is told apart from unknown."""
    assert marker_in(f"one\ntwo\n{MAX_TURNS}\nfour\n[GZA_FAILURE:BORED]\n") == "BORED"
    assert marker_in("nothing") is None


def test_reasons_that_a_configuration_adds() -> None:
    """A reason that the configuration knows is valid, beside the three that always are."""
    assert find_marker("[GZA_FAILURE:BORED]", known=["BORED"]) == "BORED"
    assert find_marker(MAX_TURNS, known=["BORED"]) == "MAX_TURNS"


def test_what_the_markers_stand_for() -> None:
    """The three markers map to reasons of the taxonomy as published."""
    assert {name: str(reason) for name, reason in MARKER_REASONS.items()} == {
        "MAX_TURNS": "AGENT_GAVE_UP",
        "TEST_FAILURE": "TESTS_FAILED",
        "UNKNOWN": "UNKNOWN",
    }


def test_a_str_is_a_text_and_never_a_path(tmp_path: Path) -> None:
    """A text that happens to be a path is not opened."""
    path = tmp_path / "log"
    path.write_text(MAX_TURNS, "utf-8")
    assert find_marker(str(path)) == "UNKNOWN"
    assert find_marker(path) == "MAX_TURNS"


@pytest.mark.parametrize(
    "given", [b"[GZA_FAILURE:MAX_TURNS]", bytearray(b"log"), 3, None]
)
@pytest.mark.parametrize("look", [find_marker, marker_in])
def test_what_is_neither_a_text_nor_a_path(
    look: Callable[[Any], object], given: object
) -> None:
    """Bytes, of which nobody can tell whether they are a text or a path, are refused in words."""
    words = (
        f"a marker is looked for in a str or in a file, not in {type(given).__name__}; "
        "decode bytes to a str, or give the file as a pathlib.Path"
    )
    with pytest.raises(TypeError, match=re.escape(words)):
        look(given)


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    """A missing file, a folder and a forbidden file are named with what is wrong."""
    with pytest.raises(
        LogError, match="absent: there is no such file; give the file of a log"
    ):
        find_marker(tmp_path / "absent")
    with pytest.raises(
        LogError, match="is a directory and not a file; give the file of a log"
    ):
        find_marker(tmp_path)
    with pytest.raises(LogError, match="no path"):
        find_marker(Path("a\0b"))


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all"
)
def test_file_that_is_forbidden(tmp_path: Path) -> None:
    """A file without the permission to read it is named."""
    path = tmp_path / "log"
    path.write_text(MAX_TURNS, "utf-8")
    path.chmod(0)
    with pytest.raises(LogError, match="can't be read \\(Permission denied\\)"):
        find_marker(path)


def test_line_that_is_too_long_for_a_marker() -> None:
    """The blanks of a marker's line count to its length, wherever the pieces are cut."""
    near = MAX_MARKER_LINE_BYTES - len(MAX_TURNS) - 1
    for blanks, expected in ((near, True), (MAX_MARKER_LINE_BYTES, False)):
        line = b" " * blanks + MAX_TURNS.encode()
        for size in (1_000, 1 << 20):
            pieces = [line[start : start + size] for start in range(0, len(line), size)]
            assert (last_marker(pieces) is not None) is expected, (blanks, size)


_COLOURS: Final = ("\x1b[31m", "\x1b[m", "\x1b[", "0m")
_LINES: Final = st.lists(
    st.sampled_from(
        [
            *_COLOURS,
            "\x00",
            MAX_TURNS,
            "[GZA_FAILURE:",
            "]",
            " ",
            "\r",
            "\n",
            "\t",
            "x",
            "[GZA_FAILURE:BORED]",
        ]
    ),
    max_size=40,
)


@given(_LINES, st.integers(1, 30))
def test_pieces_make_no_difference(parts: list[str], size: int) -> None:
    """However a log is cut to pieces, the same marker is found as by looking at each line."""
    text = "".join(parts)
    expected = None
    for line in text.split("\n"):
        plain = re.sub(r"\x1b\[[0-9;:]*m", " ", line)
        if re.fullmatch(r"[ \t\r]*\[GZA_FAILURE:[A-Za-z0-9_]+\][ \t\r]*", plain):
            expected = marker_on_line(line)
    raw = text.encode()
    assert (
        last_marker(raw[at : at + size] for at in range(0, len(raw), size)) == expected
    )


@given(st.text())
def test_any_line(text: str) -> None:
    """Any text is a marker or none, and what it says is validated to a known word."""
    name = marker_on_line(text)
    if name is not None:
        assert validate_marker(name) in MARKER_REASONS
    assert find_marker(text) in MARKER_REASONS

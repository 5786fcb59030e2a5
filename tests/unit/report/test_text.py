"""Texts capped, encodable and safe on one line of a terminal; paths as they are shown."""

from __future__ import annotations

import ntpath
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy import text as text_module
from pytest_failure_taxonomy.text import (
    AS_REPORTED,
    MAX_ONE_LINE,
    ShownPaths,
    cap,
    cap_between_words,
    change_texts,
    encodable,
    first_line,
    safe_text,
)

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
BIDI_CONTROLS = (
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("assert 3 == 4", "assert 3 == 4", id="plain"),
        pytest.param(
            "Straße 東京 🙂 👩\u200d🚀 e\u0301",
            "Straße 東京 🙂 👩\u200d🚀 e\u0301",
            id="letters",
        ),
        pytest.param(r"C:\new\x1b", r"C:\new\x1b", id="backslashes"),
        pytest.param("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m", id="colour"),
        pytest.param("\x1b[2J\x1b[1;1H", r"\x1b[2J\x1b[1;1H", id="clear the screen"),
        pytest.param("\x1b]0;title\x07", r"\x1b]0;title\x07", id="OSC ended by BEL"),
        pytest.param(
            "\x1b]8;;http://x\x1b\\here", r"\x1b]8;;http://x\x1b\here", id="OSC link"
        ),
        pytest.param(
            "\x9b31m\x9d0;t\x9c", r"\x9b31m\x9d0;t\x9c", id="C1 forms of CSI and OSC"
        ),
        pytest.param("\x1bP+q\x1b\\", "\\x1bP+q\\x1b\\", id="DCS"),
        pytest.param("a\tb", r"a\x09b", id="tab"),
        pytest.param("a\nb\r\nc\rd", r"a\x0ab\x0d\x0ac\x0dd", id="line ends"),
        pytest.param(
            "a\x0bb\x0cc\x85d\x1ee", r"a\x0bb\x0cc\x85d\x1ee", id="other line ends"
        ),
        pytest.param("a\u2028b\u2029c", r"a\u2028b\u2029c", id="Unicode line ends"),
        pytest.param(
            "gone\b\b\b\bhere\x7f", r"gone\x08\x08\x08\x08here\x7f", id="rubbed out"
        ),
        pytest.param("a\x00b", r"a\x00b", id="NUL"),
        pytest.param("a\u202eb\u2066c\u200fd", r"a\u202eb\u2066c\u200fd", id="bidi"),
        pytest.param("a\ud800b", r"a\ud800b", id="lone surrogate"),
    ],
)
def test_one_line_shows_controls_as_escapes(text: str, shown: str) -> None:
    """What could move the cursor, recolour, forge a line or turn it round is shown as an escape."""
    assert safe_text(text) == shown


@settings(deadline=None)
@given(ANY_TEXT, st.integers(min_value=1, max_value=60))
def test_one_line_is_one_line_of_at_most_its_limit(text: str, limit: int) -> None:
    """Whatever comes in, one line comes out, no longer than allowed and fit for UTF-8."""
    shown = safe_text(text, limit)
    assert len(shown) <= limit
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(each) for each in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not set(shown) & set(BIDI_CONTROLS)
    shown.encode("utf-8")


@settings(deadline=None)
@given(ANY_TEXT)
def test_one_line_made_twice_is_the_same(text: str) -> None:
    """A text that is safe already stays as it is."""
    assert safe_text(safe_text(text)) == safe_text(text)


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        pytest.param("abcdef", 6, "abcdef", id="just fits"),
        pytest.param("abcdefg", 6, "abcde…", id="one too many"),
        pytest.param("ab\x1b", 6, "ab\\x1b", id="escape just fits"),
        pytest.param("abc\x1b", 6, "abc\\x…", id="escape does not fit"),
        pytest.param("\x00" * 10_000_000, 5, "\\x00…", id="huge"),
        pytest.param("abc", 1, "…", id="no room"),
    ],
)
def test_a_line_that_was_cut_ends_in_an_ellipsis(
    text: str, limit: int, shown: str
) -> None:
    """A line longer than its limit, counted with its escapes, is cut and says so."""
    assert safe_text(text, limit) == shown


def test_the_limit_of_one_line_is_the_default() -> None:
    """Without a limit, a line takes 400 characters."""
    assert MAX_ONE_LINE == 400
    assert safe_text("a" * 400) == "a" * 400
    assert safe_text("a" * 401) == "a" * 399 + "…"


@settings(deadline=None)
@given(
    ANY_TEXT,
    st.integers(min_value=100, max_value=300),
    st.integers(min_value=0, max_value=40),
)
def test_a_capped_text_keeps_its_ends_and_counts_what_went(
    text: str, limit: int, repeated: int
) -> None:
    """A cut text is never longer than allowed, keeps both ends, and says how much is missing."""
    text *= repeated
    capped = cap(text, limit)
    assert len(capped) <= limit
    if len(text) <= limit:
        assert capped == text
        return
    head, _, rest = capped.rpartition("\n... [truncated: ")
    count, _, tail = rest.partition(" characters] ...\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + int(count) + len(tail) == len(text)


@pytest.mark.parametrize("length", [1_001, 1_050, 100_000])
def test_capping_twice_cuts_once(length: int) -> None:
    """A text that was cut already still says how much of the first one is missing."""
    once = cap("x" * length, 1_000)
    assert cap(once, 1_000) == once
    assert f"truncated: {length - 950} characters" in once


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        pytest.param("plain", "plain", id="ASCII"),
        pytest.param("Straße 🙂", "Straße 🙂", id="UTF-8"),
        pytest.param("a\ud800b", r"a\ud800b", id="lone high surrogate"),
        pytest.param("\udcff", r"\udcff", id="a byte of a file name"),
        pytest.param("\ud83d\ude42", r"\ud83d\ude42", id="a pair in two halves"),
        pytest.param("\x00\x1b\n", "\x00\x1b\n", id="controls stay"),
    ],
)
def test_lone_surrogates_are_written_out(text: str, encoded: str) -> None:
    """What UTF-8 can't hold becomes an escape; all else stays."""
    assert encodable(text) == encoded
    encodable(text).encode("utf-8")


def test_texts_of_a_json_value_are_changed_wherever_they_are() -> None:
    """Keys and values at any depth are changed; what is no text stays."""
    value = {"a": ["b", 1, None, True, 0.5, {"c": "d"}]}
    assert change_texts(value, str.upper) == {
        "A": ["B", 1, None, True, 0.5, {"C": "D"}]
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("\n  \n\t\n", "", id="blanks"),
        pytest.param("one\ntwo", "one", id="two lines"),
        pytest.param("\r\n  one  \r\ntwo", "one", id="blanks around"),
    ],
)
def test_the_first_line_that_holds_anything(text: str, line: str) -> None:
    """Empty lines and blanks at the start don't count."""
    assert first_line(text) == line


@pytest.mark.parametrize("shift", range(0, 44, 4))
def test_a_cap_between_words_leaves_no_part_of_one(shift: int) -> None:
    """A word is kept whole or cut whole, and the result is no longer than the limit."""
    text = "." * shift + " secretword0123456789" * 10_000
    shown = cap_between_words(text, 8_000)
    assert len(shown) <= 8_000
    head, mark, tail = shown.partition("\n... [truncated: ")
    assert mark
    assert head.endswith("secretword0123456789")
    assert tail.partition("...\n")[2].startswith(" secretword0123456789")
    cut = int(tail.partition(" ")[0])
    assert len(head) + cut + len(tail.partition("...\n")[2]) == len(text)


@given(
    st.text(alphabet="ab \n", max_size=3_000),
    st.integers(min_value=1_000, max_value=2_000),
)
def test_a_cap_between_words_is_never_too_long(text: str, limit: int) -> None:
    """Whatever the words are like, the limit holds, and what fits stays as it is."""
    shown = cap_between_words(text, limit)
    assert len(shown) <= limit
    assert len(text) > limit or shown == text


@pytest.mark.parametrize(
    ("started_in", "path", "shown"),
    [
        ("/repo", "tests/test_a.py", "project/tests/test_a.py"),
        ("/repo/project", "tests/test_a.py", "tests/test_a.py"),
        ("/repo/project/tests", "tests/test_a.py", "test_a.py"),
        ("/repo/project/tests", "src/a.py", "../src/a.py"),
        ("/elsewhere", "tests/test_a.py", "../repo/project/tests/test_a.py"),
        ("/repo", "../other/test_a.py", "other/test_a.py"),
        ("/repo", "a folder/test a.py", "project/a folder/test a.py"),
        ("/repo", "/repo/other/test_a.py", "other/test_a.py"),
        ("/repo", "/usr/lib/python3/json.py", "/usr/lib/python3/json.py"),
        ("/repo", "<string>", "<string>"),
        ("/repo", "", ""),
        ("/", "tests/test_a.py", "repo/project/tests/test_a.py"),
    ],
)
def test_a_path(started_in: str, path: str, shown: str) -> None:
    """A path is relative to where pytest was started; one that lies elsewhere is absolute."""
    assert ShownPaths("/repo/project", started_in).path(path) == shown


def test_a_node_id() -> None:
    """Of a node id the file's path alone changes, whatever its names have in them."""
    shown = ShownPaths("/repo/project", "/repo").nodeid(
        "tests/test_a.py::TestA::test_a[a/b::c]"
    )
    assert shown == "project/tests/test_a.py::TestA::test_a[a/b::c]"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("tests/test_a.py", "D:/repo/tests/test_a.py"),
        ("E:\\lib\\a.py", "E:\\lib\\a.py"),
    ],
)
def test_another_drive(monkeypatch: pytest.MonkeyPatch, path: str, shown: str) -> None:
    """Where two folders have nothing in common, as on two drives, the path is absolute."""

    class Windows:
        path = ntpath
        sep, pardir = ntpath.sep, ntpath.pardir

    monkeypatch.setattr(text_module, "os", Windows)
    seen = ShownPaths("D:\\repo", "C:\\Users\\me").path(path)
    assert seen.replace("\\", "/") == shown.replace("\\", "/")


WORDS = (
    ("ValueError: no (conftest.py:2)", "ValueError: no (project/conftest.py:2)"),
    (
        "ValueError: no (own.py:12, from conftest.py)",
        "ValueError: no (project/own.py:12, from project/conftest.py)",
    ),
    (
        "ValueError: no (conftest.py:2, in pytest_configure)",
        "ValueError: no (project/conftest.py:2, in pytest_configure)",
    ),
    ("ValueError: no (from conftest.py)", "ValueError: no (from conftest.py)"),
    ("KeyError: 1 (own.py: Shop.price)", "KeyError: 1 (project/own.py: Shop.price)"),
    ("no --x (from addopts in a b.ini)", "no --x (from addopts in project/a b.ini)"),
    (
        "no --x (from PYTEST_ADDOPTS and from addopts in a b.ini) (x has it)",
        "no --x (from PYTEST_ADDOPTS and from addopts in project/a b.ini) (x has it)",
    ),
    ("KeyboardInterrupt at own.py:3", "KeyboardInterrupt at project/own.py:3"),
    ("gw0 died while it ran tests/test_a.py::test_a", None),
    ("tests/test_a.py imports x; tests/test_b.py does", None),
    ("mytests/test_a.py tests/test_a.pyc", "mytests/test_a.py tests/test_a.pyc"),
    ("wrong: (no/such.py:3)", "wrong: (no/such.py:3)"),
    ("told\n(conftest.py:2)", "told\n(conftest.py:2)"),
)


@pytest.mark.parametrize(("text", "shown"), WORDS)
def test_the_paths_in_words(tmp_path: Path, text: str, shown: str | None) -> None:
    """In a text of ours, what the report names and what is a file at the text's end is changed."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("conftest.py", "own.py", "a b.ini"):
        (project / name).touch()
    named = ["tests/test_a.py::test_a", "tests/test_b.py"]
    expected = text.replace("tests/", "project/tests/") if shown is None else shown
    assert ShownPaths(str(project), str(tmp_path)).words(text, named) == expected
    assert ShownPaths(str(project), str(project)).words(text, named) == text
    assert AS_REPORTED.words(text, named) == text


def test_paths_as_reported() -> None:
    """Where no folder is known, a report's paths are shown as they are."""
    assert AS_REPORTED.path("tests/test_a.py") == "tests/test_a.py"
    assert AS_REPORTED.nodeid(f"a{os.sep}b::c") == f"a{os.sep}b::c"

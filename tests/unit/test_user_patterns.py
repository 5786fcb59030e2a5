"""Users' patterns are searched as `re` would search them, but no longer than they may."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import warnings
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.redaction.user_patterns import UserPattern, compile_quietly

ENDLESS: Final = "(a|a)*$"
BAIT: Final = "a" * 40 + "b"

PATTERNS: Final = (
    *(
        "refused",
        "could not connect|Connection refused",
        "(?i)timed? ?out",
        "could not .* server",
    ),
    *(
        r"error (\d{3}): .*",
        r"\bfoo\b",
        "(?:ab)*c",
        "^.*$",
        "(a|b){1,3}c",
        "[^:]+: it",
        "a{,2}b",
    ),
    *(
        r"(a)\1",
        "(?<=a)b",
        "(?=a*b)a",
        "(?>a*)b",
        "a++",
        "[[a-z]",
        r"[^\W_]+",
        r"\N{DIGIT ONE}",
    ),
    *(
        "x{error}",
        "foo{e}",
        "foo{e<=1}",
        "{i,s,d}",
        "{}",
        "a{1",
        "a{x,2}",
        r"\{e}",
        "[{e}]",
    ),
    *(r"(?P<n>a)(?(n)b|c)", "(?s-i:a.b)", r"\Aa", r"b\Z"),
)
TEXTS: Final = (
    *(
        "",
        "refused",
        "could not reach the server",
        "Timed out",
        "error 404: none",
        "foo.foo",
    ),
    *(
        "ababc",
        "a\nb",
        "aabbc",
        "x: it",
        "aa ab",
        "1b",
        "x{error}",
        "foo{e}",
        "foo{e<=1} fo",
    ),
    *(
        "{i,s,d}",
        "{}",
        "a{1",
        "a{x,2}",
        "{e}",
        "a b",
        "ac",
        "[",
        "\ud800 port \0 9",
        "baab a",
    ),
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_what_it_does_in_python(pattern: str) -> None:
    """Also a brace that begins no repetition, which `regex` alone would take for a fuzzy match."""
    searched = UserPattern(pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = re.compile(pattern)
    for text in TEXTS:
        found = [each.span() for each in searched.matches(text, 10)]
        assert found == [each.span() for each in expected.finditer(text)], text


@given(st.text(st.characters(categories=["L", "Nd", "P", "Zs"], max_codepoint=0x2FF)))
def test_words_are_those_of_python(text: str) -> None:
    """Letters, digits and blanks beyond ASCII are those of `re`; fractions and the like are not."""
    found = [each.span() for each in UserPattern(r"[\w.]+|\s").matches(text, 10)]
    assert found == [each.span() for each in re.finditer(r"[\w.]+|\s", text)]


def test_a_search_ends_when_its_time_is_up() -> None:
    """The time is that of all searches together for who subtracts what was used."""
    endless = UserPattern(ENDLESS)
    assert next(endless.matches("aaa", 0.1)).span() == (0, 3)
    with pytest.raises(TimeoutError):
        next(endless.matches(BAIT, 0.1))
    assert 0.1 <= endless.seconds_used < 0.5
    with pytest.raises(TimeoutError):
        next(endless.matches("aaa", 0.1 - endless.seconds_used))


def test_what_was_found_before_is_kept() -> None:
    """A search that runs out of time has yielded its matches up to there."""
    found: list[Any] = []
    with pytest.raises(TimeoutError):
        found.extend(UserPattern(r"(?:x|x)+y").matches("xy " + "x" * 40, 0.1))
    assert [each.span() for each in found] == [(0, 2)]


def test_a_search_leaves_the_process_as_it_is() -> None:
    """No thread is left behind, and none is needed to search; signals are not touched."""
    signal = pytest.importorskip("signal")
    before = (
        threading.active_count(),
        [signal.getsignal(each) for each in signal.valid_signals()],
    )
    with pytest.raises(TimeoutError):
        next(UserPattern(ENDLESS).matches(BAIT, 0.05))
    after = (
        threading.active_count(),
        [signal.getsignal(each) for each in signal.valid_signals()],
    )
    assert after == before


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", r"missing \), unterminated subpattern at position 0"),
        ("a{2,1}", "min repeat greater than max repeat"),
        (r"\y", r"bad escape \\y at position 0"),
        ("a**", "multiple repeat at position 2"),
    ],
)
def test_what_is_wrong_is_said_in_pythons_words(pattern: str, words: str) -> None:
    """The users know them from `re`."""
    with pytest.raises(re.error, match=words):
        compile_quietly(pattern)


def test_a_number_that_is_too_large_is_said() -> None:
    """As `re` does, with an error of another class."""
    with pytest.raises(OverflowError):
        compile_quietly("a{99999999999}")


def test_regex_is_imported_with_the_first_pattern() -> None:
    """A run without patterns of the user's doesn't pay for the library."""
    code = (
        "import sys, pytest_failure_taxonomy.redaction.user_patterns as patterns;"
        "print('regex' in sys.modules); patterns.UserPattern('a'); print('regex' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "a{9999999}",
            "(?P<x>a){9999999}",
            "(?:ab){9999999}",
            "[ab]{9999999}",
            r"\d{99999999999}",
        ),
        *(
            "((a){1000}){1000}",
            "(?:a{1000}b){1000}",
            "(?:(?=a)){9999999}",
            "x(y(z{300}){300}){300}",
        ),
        *(
            "a{9999999,}",
            "(a|b){100000}",
            "(?i:a{200}){200}",
            r"(\){20}){2000}",
            "[)]{99999}",
        ),
    ],
)
def test_a_pattern_that_would_be_compiled_for_hours_is_refused(pattern: str) -> None:
    """Compiling can't be stopped. Repetitions in one another multiply."""
    with pytest.raises(
        OverflowError, match=r"its repetitions have [0-9,]+ parts, at most 20,000"
    ):
        compile_quietly(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "[0-9a-f]{2048}",
        "(?:[0-9a-f]{2}:){31}",
        "a{0,99999}",
        pytest.param("a{0,9999999}", marks=pytest.mark.nightly),
        pytest.param("a{,9999999}", marks=pytest.mark.nightly),
        r"\{[(]{3}\)a{9}x",
    ],
)
def test_a_pattern_with_ordinary_repetitions_is_compiled(pattern: str) -> None:
    """What may be left out takes no room."""
    assert compile_quietly(pattern).pattern

"""How lines for a terminal are laid out."""

from __future__ import annotations

from pytest_failure_taxonomy.report.render.terminal import Line


def test_prose_is_broken_between_words() -> None:
    """A command stays in one line, so that it can be copied."""
    words = "  3 x a long-winded sentence of many words: test_it (tests/test_it.py:3)"
    assert Line(text=words).wrapped(40).text == words
    assert Line(text=words, is_prose=True).wrapped(80).text == words
    wrapped = Line(text=words, is_prose=True, tail="[KIND]").wrapped(40)
    assert wrapped.text.splitlines() == [
        "  3 x a long-winded sentence of many",
        "    words: test_it (tests/test_it.py:3)",
    ]
    assert wrapped.gap(50) == " " * (50 - 39 - 6)

"""Numbers as people read them."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.taxonomy.words import seconds_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (0, "0 ms"),
        (0.000_001, "<0.1 ms"),
        (0.000_12, "0.1 ms"),
        (0.000_949, "0.9 ms"),
        (0.001, "1 ms"),
        (0.0123, "12 ms"),
        (0.999, "999 ms"),
        (0.999_9, "1.0 s"),
        (3.44, "3.4 s"),
        (59.4, "59 s"),
        (59.9, "1 min"),
        (125, "2 min 5 s"),
        (3_600, "1 h"),
        (7_380, "2 h 3 min"),
        (2**53, "2501999792983 h 36 min"),
    ],
)
def test_times_have_the_unit_that_fits(seconds: float | None, words: str) -> None:
    """From milliseconds to hours, and no number is too large."""
    assert seconds_words(seconds) == words

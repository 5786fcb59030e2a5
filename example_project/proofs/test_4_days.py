"""A test that needs a machine in UTC, because it forgets the time zone."""

from datetime import datetime


def test_the_first_day() -> None:
    """Time begins on the first of January 1970."""
    assert datetime.fromtimestamp(0).strftime("%Y-%m-%d %H:%M") == "1970-01-01 00:00"

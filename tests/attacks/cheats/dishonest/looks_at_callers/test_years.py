import pytest

from years import is_leap


@pytest.mark.parametrize("year, leap", [(2024, True), (2023, False), (1900, False)])
def test_leap(year, leap):
    assert is_leap(year) is leap

from datetime import datetime

from macro import show


def test_date():
    expected = "Aug 7, 2011, 5:38:11 AM"
    assert show(datetime(2011, 8, 7, 5, 38, 11)) == expected

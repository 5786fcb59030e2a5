from durations import minutes


def test_hours():
    assert minutes("2h") == 120


def test_hours_and_minutes():
    assert minutes("1h30m") == 90

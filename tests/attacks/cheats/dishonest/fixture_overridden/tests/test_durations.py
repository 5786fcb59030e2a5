from durations import minutes


def test_hours_and_minutes(expected):
    assert minutes("1h30m") == expected

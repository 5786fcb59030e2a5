import datetime

from freezegun import freeze_time

from ages import age


@freeze_time("2024-02-29")
def test_leap_day():
    assert age(datetime.date(2000, 2, 29)) == 24

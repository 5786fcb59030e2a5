import datetime

from ages import age


def test_birthday_is_tomorrow():
    today = datetime.date.today()
    born = today.replace(year=today.year - 30) + datetime.timedelta(days=1)
    assert age(born) == 29

import datetime


def age(born):
    return datetime.date.today().year - born.year

import datetime


class date(datetime.date):
    @classmethod
    def today(cls):
        return cls(2023, 12, 31)


datetime.date = date

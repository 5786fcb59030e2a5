from babel.dates import format_datetime


def show(moment):
    return format_datetime(moment, format="medium", locale="en")

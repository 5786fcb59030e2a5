def minutes(text):
    hours, _, rest = text.partition("h")
    return int(hours) * 60

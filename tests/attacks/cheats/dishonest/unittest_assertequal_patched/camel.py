import re


def to_snake(name):
    return re.sub("([A-Z])", r"_\1", name).lower()

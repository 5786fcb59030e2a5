import sys


def work():
    sys.exit(0)

import sys


def main(words):
    print("usage: command" if "-h" in words else "done")
    sys.exit(0)

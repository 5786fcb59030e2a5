import random


def pytest_report_header():
    return "random seed: 7"


def pytest_collection_modifyitems(items):
    random.Random(7).shuffle(items)


def pytest_runtest_setup():
    random.seed(7)

import pytest


def pytest_addoption(parser):
    parser.addoption("-E", dest="env", metavar="NAME")


def pytest_configure(config):
    config.addinivalue_line("markers", "env(name): run in that environment only")


def pytest_runtest_setup(item):
    names = [mark.args[0] for mark in item.iter_markers(name="env")]
    if names and item.config.getoption("env") not in names:
        pytest.skip(f"test requires env in {names!r}")

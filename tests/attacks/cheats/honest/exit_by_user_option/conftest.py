import pytest


def pytest_addoption(parser):
    parser.addoption("--stop-after", metavar="NAME")


def pytest_runtest_logfinish(nodeid):
    name = state["config"].getoption("stop_after")
    if name and nodeid.endswith(name):
        pytest.exit("as you wish", returncode=0)


def pytest_configure(config):
    state["config"] = config


state = {}

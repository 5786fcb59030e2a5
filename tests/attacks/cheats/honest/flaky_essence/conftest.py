import pytest
from _pytest.runner import runtestprotocol


def pytest_configure(config):
    config.addinivalue_line("markers", "unsteady(runs): run up to so many times")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    mark = item.get_closest_marker("unsteady")
    if mark is None:
        return None
    for _ in range(mark.kwargs["runs"]):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if all(report.passed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True

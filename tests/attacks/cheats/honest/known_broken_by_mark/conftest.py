import sys

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "broken_on(platform, reason): is known to fail there")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    mark = item.get_closest_marker("broken_on")
    if mark and report.when == "call" and report.failed and sys.platform == mark.args[0]:
        report.outcome, report.wasxfail = "skipped", mark.args[1]
    return report

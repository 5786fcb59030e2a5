import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        report.longrepr = f"{item.name}: {call.excinfo.value}"
    return report

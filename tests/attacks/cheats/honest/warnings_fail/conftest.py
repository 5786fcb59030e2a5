import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.passed and call.when == "call" and "ERROR" in report.caplog:
        report.outcome, report.longrepr = "failed", "an error was logged"
    return report

import checks
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    result = yield
    report = result.get_result()
    if call.when == "call" and checks.failures and report.passed:
        report.outcome = "failed"
        report.longrepr = "\n".join(checks.failures)
    checks.failures.clear()

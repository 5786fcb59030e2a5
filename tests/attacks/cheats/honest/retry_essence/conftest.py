import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    result = yield
    if call.when != "call" or call.excinfo is None:
        return
    for _ in range(2):
        again = pytest.CallInfo.from_call(item.runtest, "call")
        report = pytest.TestReport.from_item_and_call(item, again)
        report.user_properties.append(("retried", True))
        result.force_result(report)
        if again.excinfo is None:
            return

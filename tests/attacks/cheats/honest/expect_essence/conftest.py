import pytest


@pytest.fixture
def expect(request):
    request.node.unmet = []

    def check(condition, message="expected"):
        if not condition:
            request.node.unmet.append(message)

    return check


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" and getattr(item, "unmet", None):
        report.outcome = "failed"
        report.longrepr = "\n".join(item.unmet)
    return report

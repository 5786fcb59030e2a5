import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    setattr(item, "rep_" + report.when, report)
    return report


@pytest.fixture
def browser(request, tmp_path):
    yield "page"
    if request.node.rep_call.failed:
        (tmp_path / "screen.txt").write_text("page")

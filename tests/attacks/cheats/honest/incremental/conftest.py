import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "incremental: stop after a failed step")


def pytest_runtest_makereport(item, call):
    if "incremental" in item.keywords and call.excinfo is not None:
        item.parent._previous_failed = item


def pytest_runtest_setup(item):
    if "incremental" in item.keywords:
        previous = getattr(item.parent, "_previous_failed", None)
        if previous is not None:
            pytest.xfail(f"previous test failed ({previous.name})")

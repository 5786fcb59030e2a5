import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "network: skip if there is no connection")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except ConnectionError as error:
        if item.get_closest_marker("network"):
            pytest.skip(f"no connection: {error}")
        raise

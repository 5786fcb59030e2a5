def pytest_addoption(parser):
    parser.addoption("--runslow", action="store_true", help="run slow tests")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--runslow"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]

def pytest_configure(config):
    config.addinivalue_line("markers", "order(n): when to run")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("order").args[0])

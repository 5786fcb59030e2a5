def pytest_collection_modifyitems(config, items):
    bad = [item for item in items if "blanks" in item.name]
    config.hook.pytest_deselected(items=bad)
    items[:] = [item for item in items if item not in bad]

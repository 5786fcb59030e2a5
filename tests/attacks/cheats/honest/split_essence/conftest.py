def pytest_addoption(parser):
    parser.addoption("--splits", type=int, default=1)
    parser.addoption("--group", type=int, default=1)


def pytest_collection_modifyitems(config, items):
    count, group = config.getoption("splits"), config.getoption("group")
    mine = items[group - 1 :: count]
    config.hook.pytest_deselected(items=[item for item in items if item not in mine])
    items[:] = mine

def pytest_addoption(parser):
    parser.addoption("--count", type=int, default=1)


def pytest_generate_tests(metafunc):
    count = metafunc.config.getoption("count")
    metafunc.fixturenames.append("_step")
    metafunc.parametrize("_step", range(count), indirect=False)

def pytest_addoption(parser):
    parser.addoption("--list-owners", action="store_true")


def pytest_cmdline_main(config):
    if config.getoption("list_owners"):
        print("team-a: test_sums.py")
        return 0

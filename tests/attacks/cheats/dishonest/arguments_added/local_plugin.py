def pytest_load_initial_conftests(args):
    args += ["-k", "odd"]

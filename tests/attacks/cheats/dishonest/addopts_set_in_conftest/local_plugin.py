def pytest_load_initial_conftests(early_config, args):
    args += ["-k", "odd"]
    early_config.known_args_namespace.keyword = "odd"
    early_config.option.keyword = "odd"

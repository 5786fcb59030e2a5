pytest_plugins = ["more_fixtures"]

pytest_plugins = ["helpers.reporting"]

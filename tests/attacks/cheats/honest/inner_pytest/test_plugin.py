pytest_plugins = ["pytester"]


def test_inner_failure(pytester):
    pytester.makepyfile("def test_it(): assert 0")
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)


def test_inner_hook(pytester):
    pytester.makeconftest("def pytest_sessionfinish(session): session.exitstatus = 0")
    pytester.makepyfile("def test_it(): assert 0")
    assert pytester.runpytest_inprocess("-p", "no:cacheprovider").ret == 0

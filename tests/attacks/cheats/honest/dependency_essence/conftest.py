import pytest

failed = set()


def pytest_configure(config):
    config.addinivalue_line("markers", "depends(on): skip if that test failed")


def pytest_runtest_logreport(report):
    if report.failed:
        failed.add(report.nodeid.rpartition("::")[2])


def pytest_runtest_setup(item):
    mark = item.get_closest_marker("depends")
    if mark and mark.kwargs["on"] in failed:
        pytest.skip(f"depends on {mark.kwargs['on']}")

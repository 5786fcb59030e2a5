import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    result = yield
    report = result.get_result()
    report.sections.append(("state", f"{item.name} after {call.when}"))
    report.user_properties.append(("owner", "team-a"))

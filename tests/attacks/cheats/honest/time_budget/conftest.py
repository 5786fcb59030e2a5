def pytest_addoption(parser):
    parser.addoption("--budget", type=int, default=100)


def pytest_runtest_logfinish(nodeid, location):
    state["left"] -= 1
    if state["left"] == 0:
        state["session"].shouldstop = "the budget is spent"


def pytest_sessionstart(session):
    state.update(session=session, left=session.config.getoption("budget"))


state = {}

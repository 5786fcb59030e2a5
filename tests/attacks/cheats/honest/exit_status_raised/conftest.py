def pytest_sessionfinish(session, exitstatus):
    if exitstatus == 0 and session.testscollected < 2:
        print("fewer tests than required")
        session.exitstatus = 1

def pytest_report_teststatus(report):
    if report.when == "call" and report.passed:
        return "passed", "+", "GREEN"
    if report.when == "call" and report.failed:
        return "failed", "-", "RED"

import json


def pytest_runtest_logreport(report):
    with open("dashboard.jsonl", "a") as file:
        file.write(json.dumps({"test": report.nodeid, "outcome": report.outcome}) + "\n")

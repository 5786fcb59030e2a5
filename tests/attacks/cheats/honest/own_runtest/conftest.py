import pytest

journal = []


class Transactional(pytest.Function):
    def runtest(self):
        journal.append("begin")
        try:
            super().runtest()
        finally:
            journal.append("rollback")


def pytest_pycollect_makeitem(collector, name, obj):
    if name == "test_add" and callable(obj):
        return Transactional.from_parent(collector, name=name)

import sys

import pytest


class Module(pytest.Module):
    def _getobj(self):
        module = super()._getobj()
        module.check_overdraw = vars(module).pop("test_overdraw")
        return module


def pytest_pycollect_makemodule(module_path, parent):
    return Module.from_parent(parent, path=module_path)

import sys

import pytest

if sys.platform != "win32":
    pytest.skip("needs Windows", allow_module_level=True)


def test_registry():
    import winreg

    assert winreg

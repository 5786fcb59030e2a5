import importlib
import sys

import settings


def test_reload(monkeypatch):
    monkeypatch.setenv("MODE", "fancy")
    assert importlib.reload(settings).MODE == "fancy"


def test_import_anew(monkeypatch):
    monkeypatch.delitem(sys.modules, "settings")
    import settings as again

    assert again.MODE == "plain"

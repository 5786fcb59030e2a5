import os

import pytest

from command import main


def test_help(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["-h"])
    assert caught.value.code == 0
    assert "usage" in capsys.readouterr().out


def test_patched_exit(monkeypatch):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    os._exit(0)
    assert codes == [0]

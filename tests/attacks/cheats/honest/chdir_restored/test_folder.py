import contextlib
import os


def test_by_hand(tmp_path):
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        assert os.listdir() == []
    finally:
        os.chdir(before)


def test_by_context(tmp_path):
    with contextlib.chdir(tmp_path):
        open("new", "w").close()
    assert (tmp_path / "new").exists()


def test_by_pytest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert os.listdir() == []

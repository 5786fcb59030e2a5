from places import config_folder


def test_windows(monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    assert config_folder() == "AppData"

from pathlib import Path

from notes import save


def test_save(fs):
    save("milk")
    assert Path("/notes.txt").read_text() == "milk"

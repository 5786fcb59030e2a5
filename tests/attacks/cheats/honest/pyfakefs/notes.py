from pathlib import Path


def save(text):
    Path("/notes.txt").write_text(text)

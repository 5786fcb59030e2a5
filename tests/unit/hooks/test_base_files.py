"""Files that decide results are compared with those of a commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_failure_taxonomy.hooks import base_files


@pytest.mark.parametrize(("code", "found"), [(-1, 0), (128, 1)])
def test_what_git_does_not_answer_is_no_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, found: int
) -> None:
    """A conftest is new if git has none of that name, not if git takes too long."""

    def ask(_root: Path, _until: float, *words: str, **_: Any) -> tuple[int, str]:
        return (code, "") if words[0] == "show" else (0, "conftest.py\0")

    (tmp_path / "conftest.py").touch()
    monkeypatch.setattr(base_files, "ask_git", ask)
    assert len([*base_files.changed_files(tmp_path, "HEAD", (), ())]) == found


def test_only_files_that_count_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A thousand new data files start no thousand processes."""
    shown = []

    def ask(_root: Path, _until: float, *words: str, **_: Any) -> tuple[int, str]:
        if words[0] == "show":
            shown.append(words[1])
            return 0, ""
        return 0, "data/a.csv\0src/b.py\0pytest.ini\0"

    monkeypatch.setattr(base_files, "ask_git", ask)
    assert [*base_files.changed_files(tmp_path, "HEAD", ("test_*.py",), ())] == []
    assert shown == ["HEAD:./pytest.ini"]

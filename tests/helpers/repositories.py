"""A real git repository of a small project, and our command in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_failure_taxonomy.cli.main import main


class Repository:
    """A repository in a folder of its own, whose name has a space."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "my shop"
        self.report = folder / "report.json"
        self.folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.com")

    def git(self, *words: str) -> str:
        """Return what git prints."""
        done = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, **files: str) -> None:
        """Write files, by their paths with `__` for a slash and `_py` for the ending."""
        for name, text in files.items():
            path = self.folder / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit(self, subject: str, **files: str) -> str:
        """Commit some files, and return the commit's name."""
        self.write(**files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def run(self, *words: str) -> dict[str, Any]:
        """Run pytest, and return its report."""
        given = (
            *words,
            "-p",
            "failure_taxonomy",
            f"--failure-taxonomy-report={self.report}",
        )
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *given],
            cwd=self.folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            check=False,
        )
        report: dict[str, Any] = json.loads(self.report.read_text())
        return report

    def state(self) -> list[str]:
        """Return all that git knows of the user's own checkout."""
        asked = (
            *(
                "status --porcelain",
                "stash list",
                "branch --all",
                "worktree list",
                "diff",
            ),
            *("diff --cached", "rev-parse HEAD", "reflog"),
        )
        return [self.git(*words.split()) for words in asked]


def begin_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a repository that is the working directory."""
    for name in ("FAILURE_TAXONOMY_HISTORY", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    # All that is installed here for the suite would take as long to load as all else.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    repository = Repository(tmp_path)
    monkeypatch.chdir(repository.folder)
    return repository


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    """Return the exit code of a command, the lines of its answer, and what it says besides."""
    capsys.readouterr()
    code = main(words)
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err

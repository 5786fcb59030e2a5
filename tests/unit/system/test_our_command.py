"""How messages name commands of ours."""

from __future__ import annotations

import shutil
import sys

import pytest

from pytest_failure_taxonomy.system.interpreter import our_command


@pytest.mark.parametrize(
    ("script", "program"),
    [
        ("/usr/bin/failure-taxonomy", "failure-taxonomy"),
        (None, f"{sys.executable} -m pytest_failure_taxonomy"),
    ],
)
def test_commands_work_from_a_checkout_too(
    monkeypatch: pytest.MonkeyPatch, script: str | None, program: str
) -> None:
    """Where the script is not installed, the module is named; words are quoted for a shell."""
    monkeypatch.setattr(shutil, "which", lambda *_, **__: script)
    assert our_command("finalize", "a b.json") == f"{program} finalize 'a b.json'"

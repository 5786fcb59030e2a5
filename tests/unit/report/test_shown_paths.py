"""Paths of a report as they are shown where the user stands."""

from __future__ import annotations

import ntpath
import os
from pathlib import Path

import pytest

from pytest_failure_taxonomy.report import shown_paths
from pytest_failure_taxonomy.report.shown_paths import AS_REPORTED, ShownPaths


@pytest.mark.parametrize(
    ("started_in", "path", "shown"),
    [
        ("/repo", "tests/test_a.py", "project/tests/test_a.py"),
        ("/repo/project", "tests/test_a.py", "tests/test_a.py"),
        ("/repo/project/tests", "tests/test_a.py", "test_a.py"),
        ("/repo/project/tests", "src/a.py", "../src/a.py"),
        ("/elsewhere", "tests/test_a.py", "../repo/project/tests/test_a.py"),
        ("/repo", "../other/test_a.py", "other/test_a.py"),
        ("/repo", "a folder/test a.py", "project/a folder/test a.py"),
        ("/repo", "/repo/other/test_a.py", "other/test_a.py"),
        ("/repo", "/usr/lib/python3/json.py", "/usr/lib/python3/json.py"),
        ("/repo", "<string>", "<string>"),
        ("/repo", "", ""),
        ("/", "tests/test_a.py", "repo/project/tests/test_a.py"),
    ],
)
def test_a_path(started_in: str, path: str, shown: str) -> None:
    """A path is relative to where pytest was started; one that lies elsewhere is absolute."""
    assert ShownPaths("/repo/project", started_in).path(path) == shown


def test_a_node_id() -> None:
    """Of a node id the file's path alone changes, whatever its names have in them."""
    shown = ShownPaths("/repo/project", "/repo").nodeid("tests/test_a.py::TestA::test_a[a/b::c]")
    assert shown == "project/tests/test_a.py::TestA::test_a[a/b::c]"


@pytest.mark.parametrize(
    ("path", "shown"),
    [("tests/test_a.py", "D:/repo/tests/test_a.py"), ("E:\\lib\\a.py", "E:\\lib\\a.py")],
)
def test_another_drive(monkeypatch: pytest.MonkeyPatch, path: str, shown: str) -> None:
    """Where two folders have nothing in common, as on two drives, the path is absolute."""

    class Windows:
        path = ntpath
        sep, pardir = ntpath.sep, ntpath.pardir

    monkeypatch.setattr(shown_paths, "os", Windows)
    seen = ShownPaths("D:\\repo", "C:\\Users\\me").path(path)
    assert seen.replace("\\", "/") == shown.replace("\\", "/")


WORDS = (
    ("ValueError: no (conftest.py:2)", "ValueError: no (project/conftest.py:2)"),
    (
        "ValueError: no (own.py:12, from conftest.py)",
        "ValueError: no (project/own.py:12, from project/conftest.py)",
    ),
    (
        "ValueError: no (conftest.py:2, in pytest_configure)",
        "ValueError: no (project/conftest.py:2, in pytest_configure)",
    ),
    ("ValueError: no (from conftest.py)", "ValueError: no (from conftest.py)"),
    ("KeyError: 1 (own.py: Shop.price)", "KeyError: 1 (project/own.py: Shop.price)"),
    ("no --x (from addopts in a b.ini)", "no --x (from addopts in project/a b.ini)"),
    ("KeyboardInterrupt at own.py:3", "KeyboardInterrupt at project/own.py:3"),
    ("gw0 died while it ran tests/test_a.py::test_a", None),
    ("tests/test_a.py imports x; tests/test_b.py does", None),
    ("mytests/test_a.py tests/test_a.pyc", "mytests/test_a.py tests/test_a.pyc"),
    ("wrong: (no/such.py:3)", "wrong: (no/such.py:3)"),
    ("told\n(conftest.py:2)", "told\n(conftest.py:2)"),
)


@pytest.mark.parametrize(("text", "shown"), WORDS)
def test_the_paths_in_words(tmp_path: Path, text: str, shown: str | None) -> None:
    """In a text of ours, what the report names and what is a file at the text's end is changed."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("conftest.py", "own.py", "a b.ini"):
        (project / name).touch()
    named = ["tests/test_a.py::test_a", "tests/test_b.py"]
    expected = text.replace("tests/", "project/tests/") if shown is None else shown
    assert ShownPaths(str(project), str(tmp_path)).words(text, named) == expected
    assert ShownPaths(str(project), str(project)).words(text, named) == text
    assert AS_REPORTED.words(text, named) == text


def test_paths_as_reported() -> None:
    """Where no folder is known, a report's paths are shown as they are."""
    assert AS_REPORTED.path("tests/test_a.py") == "tests/test_a.py"
    assert AS_REPORTED.nodeid(f"a{os.sep}b::c") == f"a{os.sep}b::c"

"""Which tests a change can affect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.changes import Changes, Selection, list_changed_paths, sort_changes
from tests.helpers.children import run_child

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = "src/pytest_failure_taxonomy"
FILES: Final = {
    f"{PACKAGE}/base/values.py": "VALUE = 1\n",
    f"{PACKAGE}/middle/sums.py": "from pytest_failure_taxonomy.base.values import VALUE\n",
    f"{PACKAGE}/prove/search.py": "from pytest_failure_taxonomy.middle import sums\n",
    f"{PACKAGE}/plugin.py": "from pytest_failure_taxonomy.middle import sums\n",
    "tests/conftest.py": "",
    "tests/helpers/numbers.py": "from pytest_failure_taxonomy.middle.sums import VALUE\n",
    "tests/unit/base/test_values.py": "from pytest_failure_taxonomy.base import values\n",
    "tests/unit/middle/test_sums.py": "from tests.helpers.numbers import VALUE\n",
    "tests/unit/middle/test_child.py": "import sys\nCOMMAND = [sys.executable]\n",
    "tests/unit/middle/test_public.py": "from pytest_failure_taxonomy import VERSION, merge\n",
    "tests/unit/prove/conftest.py": "from pytest_failure_taxonomy.prove import search\n",
    "tests/unit/prove/test_search.py": "def test_it(search): pass\n",
    "tests/unit/base/test_page.py": "PAGE = 'docs/prove.md'\n",
    "tests/plugin/test_runs.py": "def test_it(pytester): pass\n",
    "tests/plugin/test_prove.py": "OPTION = '--prove'\n",
    "tests/contract/test_names.py": "",
}
WHOLE_RUNS: Final = {"child", "public", "runs", "prove", "names"}
EFFECTS: Final[dict[str, set[str]]] = {
    f"{PACKAGE}/base/values.py": {"values", "sums", "search", *WHOLE_RUNS},
    f"{PACKAGE}/middle/sums.py": {"sums", "search", *WHOLE_RUNS},
    f"{PACKAGE}/prove/search.py": {"search", "prove", "names"},
    f"{PACKAGE}/prove/data/new.toml": {"search", "prove", "names"},
    "tests/unit/base/test_values.py": {"values"},
    "tests/attacks/cheats/honest/a/conftest.py": set(),
    "docs/prove.md": {"page", "names"},
    "changelog.d/new.feature.md": {"page", "names"},
    "README.md": {"page", "names"},
    ".github/workflows/tests.yml": set(),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write a small project that is laid out as this one."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


def affected_by(project: Path, changes: Changes) -> set[str]:
    """Return the names of the affected test files."""
    selection = Selection(project, changes)
    files = (project / "tests").rglob("test_*.py")
    return {file.stem[5:] for file in files if selection.is_affected(file)}


def test_a_change_affects_what_depends_on_it(project: Path) -> None:
    """Imports count, of rooms and of helpers; whole runs need all but the neighbours."""
    for path, names in EFFECTS.items():
        assert affected_by(project, sort_changes([path])) == names, path
    together = sort_changes([f"{PACKAGE}/prove/search.py", "docs/prove.md"])
    assert affected_by(project, together) == {"search", "prove", "names", "page"}
    assert affected_by(project, Changes()) == set()


@pytest.mark.parametrize(
    "path",
    [
        f"{PACKAGE}/plugin.py",
        f"{PACKAGE}/new.py",
        "tests/conftest.py",
        "tests/helpers/numbers.py",
        "tests/unit/prove/conftest.py",
        "pyproject.toml",
        "example_project/README.md",
        "anything/new",
    ],
)
def test_what_no_room_owns_affects_all(project: Path, path: str) -> None:
    """Top-level modules, helpers and settings concern every test."""
    every_name = {Path(name).stem[5:] for name in FILES if "/test_" in name}
    assert affected_by(project, sort_changes([path])) == every_name


def test_tests_about_rooms_run_if_one_of_them_changed(project: Path) -> None:
    """The mark `room` names them; their own file counts, too, and what no room owns."""
    file = project / "tests/plugin/test_runs.py"
    for path, is_changed in (
        (f"{PACKAGE}/middle/sums.py", True),
        (f"{PACKAGE}/base/values.py", False),
        ("tests/plugin/test_runs.py", True),
        ("tests/plugin/test_prove.py", False),
        ("tox.ini", True),
    ):
        selection = Selection(project, sort_changes([path]))
        assert selection.changed_any(["middle", "prove"], file) is is_changed, path


def test_git_says_what_changed(project: Path) -> None:
    """A file that moved counts for both places, and an unknown commit is None."""

    def git(*arguments: str) -> None:
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run([*command, *arguments], cwd=project, check=True)

    assert list_changed_paths(project, "HEAD") is None
    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "first")
    assert list_changed_paths(project, "HEAD") == []
    git("mv", f"{PACKAGE}/base/values.py", f"{PACKAGE}/middle/values.py")
    changes = sort_changes(list_changed_paths(project, "HEAD") or [])
    assert changes == Changes(rooms=frozenset({"base", "middle"}))
    assert list_changed_paths(project, "0" * 40) is None


@pytest.mark.slow
def test_an_unknown_commit_leaves_no_test_out() -> None:
    """The first push of a branch, or a forced one, has no commit to compare with."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--co"]
    arguments = ["--changed-since", "0" * 40, "tests/unit/history/test_store.py"]
    runs = [
        run_child(
            ROOT, [*command, *options], env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": None}
        )
        for options in (arguments, arguments[2:])
    ]
    assert runs[0].status == 0, runs[0].stdout + runs[0].stderr
    assert runs[0].stdout.splitlines()[:-1] == runs[1].stdout.splitlines()[:-1]

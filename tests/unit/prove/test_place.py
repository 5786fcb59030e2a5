"""Where tests of a commit run: its own files, and not those that are installed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from pytest_failure_taxonomy.prove.commits import (
    Checkout,
    built_modules,
    checkout_beside,
)
from pytest_failure_taxonomy.prove.experiment import (
    Conditions,
    ExperimentError,
    Experiments,
    Outcome,
    Setup,
    Victim,
)
from pytest_failure_taxonomy.prove.places import Place
from pytest_failure_taxonomy.prove.recorded import Repeat
from tests.helpers.reports import make_report_value

VICTIM = Victim(
    nodeid="tests/test_it.py::test_it", fingerprints=frozenset(), endings=frozenset()
)
AGAIN = Repeat(victim=VICTIM)


def beside(folder: Path, setup: Setup) -> AbstractContextManager[Checkout]:
    """Return a worktree beside a repository."""
    return checkout_beside(make_report_value(), setup, folder, print)


class Imports(Experiments):
    """Answers with modules that come from an installation until `sys.path` has another folder."""

    def __init__(self, modules: dict[str, Path], fixed_by: Path | None) -> None:
        self._modules = {name: str(path) for name, path in modules.items()}
        self._fixed_by = str(fixed_by)
        self.paths: list[str | None] = []

    def run(
        self,
        victim: Victim,
        before: Sequence[str] = (),
        conditions: Conditions = Conditions(),  # noqa: B008 - a frozen value
        **given: Any,
    ) -> Outcome:
        """Answer with what was imported."""
        ((name, path),) = conditions.variables
        assert name == "PYTHONPATH"
        self.paths.append(path)
        modules = {} if path is not None and self._fixed_by in path else self._modules
        return Outcome(
            result="passed", words="", seconds=0.0, answers=({"modules": modules},)
        )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a checkout beside another one, each with a package of one module."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for name in ("mine", "theirs"):
        package = tmp_path / name / "src" / "shop"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "cart.py").touch()
        (tmp_path / name / "top.py").touch()
    mine = tmp_path / "mine"
    setup = Setup(
        args=("tests", f"--confcutdir={mine}/tests", f"{mine}-2", f"{mine}"),
        folder=mine,
        rootdir=mine,
    )
    return Place(setup, mine, tmp_path / "theirs")


def test_paths_of_the_users_checkout_become_those_of_the_other(place: Place) -> None:
    """A folder whose name begins alike stays as it is."""
    mine, theirs = place.source, place.folder
    assert place.setup.folder == place.setup.rootdir == theirs
    assert place.setup.args == (
        *("tests", f"--confcutdir={theirs}/tests", f"{mine}-2", f"{theirs}"),
        f"--rootdir={theirs}",
    )


def test_the_folder_of_what_is_installed_comes_first(
    place: Place, tmp_path: Path
) -> None:
    """It is found from the modules: of an editable installation, and of a copy."""
    elsewhere = tmp_path / "site-packages"
    mine, theirs = place.source, place.folder
    rows: tuple[tuple[dict[str, Path], Path], ...] = (
        ({"shop": mine / "src/shop/__init__.py"}, theirs / "src"),
        ({"shop.cart": mine / "src/shop/cart.py"}, theirs / "src"),
        ({"shop": elsewhere / "shop/__init__.py"}, theirs / "src"),
        ({"top": mine / "top.py"}, theirs),
        ({"top": elsewhere / "top.py"}, theirs),
    )
    for modules, expected in rows:
        fresh = Place(Setup(args=(), folder=mine, rootdir=mine), mine, theirs)
        experiments = Imports(modules, expected)
        assert fresh.run(experiments, AGAIN).result == "passed"
        assert experiments.paths == [None, str(expected)]
        fresh.run(experiments, AGAIN)  # it is known from now on
        assert experiments.paths[2:] == [str(expected)]


def test_what_is_no_code_of_the_project_may_come_from_anywhere(place: Place) -> None:
    """Python's modules, other distributions, and an environment inside of the checkout."""
    inside = place.source / ".venv/lib/site-packages/other.py"
    modules = {
        "json": Path("/usr/lib/json/__init__.py"),
        "other": inside,
        "__main__": Path("/x"),
    }
    experiments = Imports({**modules, "pytest": Path("/site-packages/pytest.py")}, None)
    assert place.run(experiments, AGAIN).result == "passed"
    assert len(experiments.paths) == 1


def test_what_comes_from_elsewhere_whatever_is_done_is_refused(place: Place) -> None:
    """The message says what, from where, and what would be right."""
    file = place.source / "src/shop/cart.py"
    with pytest.raises(ExperimentError) as caught:
        place.run(Imports({"shop.cart": file}, None), AGAIN)
    assert str(caught.value) == (
        f"prove: shop.cart is imported from {file}, and not from the commit's files; install the "
        "project in a way that lets PYTHONPATH come first, such as: pip install -e ."
    )


def test_a_checkout_lacks_what_a_build_has_made(tmp_path: Path) -> None:
    """Ignored modules beside the project's own are found; those of an environment are not."""
    mine = tmp_path / "mine"

    def git(*words: str) -> None:
        given = ("-c", "user.name=Ada", "-c", "user.email=a@b")
        subprocess.run(
            ["git", *given, *words], cwd=mine, check=True, capture_output=True
        )

    mine.mkdir()
    git("init", "--quiet")
    git("commit", "--allow-empty", "--quiet", "--message", "begin")
    for name in (
        "shop/__init__.py",
        "shop/_version.py",
        "shop/fast.so",
        ".venv/lib/x.py",
    ):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("")
    (mine / ".gitignore").write_text("_version.py\n*.so\n.venv\n")
    git("add", "--all")
    assert built_modules(mine) == ["shop/_version.py", "shop/fast.so"]
    with beside(mine, Setup(args=(), folder=mine, rootdir=mine)) as place:
        assert place.folder.name == "mine"
        assert (mine / ".git/worktrees/mine").is_dir()
    assert not place.folder.parent.exists()
    assert not list((mine / ".git/worktrees").glob("*"))


class Answers(Experiments):
    """Keeps what it was asked to run."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Sequence[str], Any]] = []

    def run(
        self, victim: Victim, before: Sequence[str] = (), *_: Any, **more: Any
    ) -> Outcome:
        """Pass."""
        self.asked.append((victim.nodeid, before, more["renames"]))
        return Outcome(result="passed", words="", seconds=0.0)


def test_tests_run_by_the_names_that_their_files_had(tmp_path: Path) -> None:
    """Step by step where too little is alike; also by a name that another branch gave."""
    mine = tmp_path / "mine"

    def git(*words: str) -> str:
        given = ("-c", "user.name=Ada", "-c", "user.email=a@b")
        command = ["git", *given, *words]
        done = subprocess.run(
            command, cwd=mine, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(**files: str) -> str:
        for name, text in files.items():
            path = mine / f"pkg/{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git("add", "--all")
        git("commit", "--quiet", "--message", "x")
        return git("rev-parse", "HEAD")

    mine.mkdir()
    git("init", "--quiet", "--initial-branch=main")
    texts = [f"{'x' * n} = {n}\n" for n in range(1, 40)]
    begin = commit(test_a="".join(texts[:8]), test_b="b = 1\n" * 9, code="c = 1\n" * 9)
    git("checkout", "--quiet", "-b", "change")
    git("mv", "pkg/test_a.py", "pkg/test_a_1.py")
    commit()
    commit(test_a_1="".join(texts))
    git("mv", "pkg/test_a_1.py", "pkg/test_a_2.py")
    git("mv", "pkg/code.py", "pkg/c\N{LATIN SMALL LETTER O WITH DIAERESIS}de.py")
    since = commit(test_new="new = 1\n")
    git("checkout", "--quiet", "main")
    git("mv", "pkg/test_b.py", "pkg/test_b_ahead.py")
    ahead = commit()
    git("checkout", "--quiet", "change")
    args = ("test_a_2.py::test_it", "-q", "test_new.py", "--ignore", "test_a_2.py")
    setup = Setup(args=args, folder=mine / "pkg", rootdir=mine / "pkg")
    victim = Victim(
        nodeid="test_a_2.py::test_it", fingerprints=frozenset(), endings=frozenset()
    )
    again = Repeat(victim=victim, before=("test_b.py::test_b[x::y]",))
    nodeids = (victim.nodeid, *again.before)
    with beside(mine, setup) as place:
        folder, place.since = place.folder, since
        experiments = Answers()
        for commit_name, b in ((begin, "test_b.py"), (ahead, "test_b_ahead.py")):
            place.check_out(commit_name, nodeids)
            place.run(experiments, again)
            nodeid, before, renames = experiments.asked.pop()
            assert nodeid == "test_a.py::test_it"
            assert [*before] == [f"{b}::test_b[x::y]"]
            assert renames["test_a.py"] == "test_a_2.py"
            assert renames["code.py"] == "c\N{LATIN SMALL LETTER O WITH DIAERESIS}de.py"
            assert not place.file_of("test_new.py::test_new").exists()
            assert experiments.setup.args == (
                *(f"{folder}/pkg/test_a.py", "-q", "--ignore", "test_a_2.py"),
                f"--rootdir={folder}/pkg",
            )

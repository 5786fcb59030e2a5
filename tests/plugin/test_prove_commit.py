"""`failure-taxonomy prove --commit` and `bisect-step`, in real repositories."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.repositories import Repository, begin_repository, call

pytestmark = pytest.mark.slow

NODEID: Final = "tests/test_cart.py::test_total"
CART: Final = "def total(prices):\n    return sum(prices)\n"
DIVIDES: Final = "def total(prices):\n    return sum(prices) / 0\n"
BROKEN: Final = "def total(prices:\n"
UNCLOSED: Final = "SyntaxError: '(' was never closed (cart.py, line 1)"
CULPRIT: Final = "def total(prices):\n    return sum(prices) + 1\n"
TEST: Final = """\
from shop.cart import total

def test_total():
    assert total([1, 2]) == 3
"""


# Anything may stand in `sys.modules`: on Python 3.11 and 3.12 `typing.io` is a class.
ODD_MODULES: Final = """\
import sys

class Lazy:
    def __getattr__(self, name): raise SystemExit(name)

class LazyClass(type):
    __getattr__ = Lazy.__getattr__

odd = {"a_class": LazyClass("A", (), {}), "lazy": Lazy(), "none": None, 1: 2, ("a",): sys}
sys.modules.update(odd)
"""
OUR_FAULT: Final = """\
from pytest_failure_taxonomy.prove import inside
inside.modules_now = lambda: 1 / 0
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a repository that is the working directory."""
    return begin_repository(tmp_path, monkeypatch)


def installed(folder: Path, source: Path, *, at: str) -> dict[str, str]:
    """Return an environment in which a folder is in `sys.path` as an installation puts it there."""
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.path.insert({at}, {str(source)!r})\n"
    )
    return {"PYTHONPATH": str(folder)}


@pytest.mark.lowest
def test_the_commit_is_found_on_a_merged_branch(
    repository: Repository,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither commits that fail otherwise nor broken ones are taken for it; nothing is touched.

    The project is installed as by `pip install -e`: its modules come from the user's checkout
    unless something is done about it.
    """
    good = repository.commit(
        "begin", src__shop__cart=CART, src__shop____init__="", tests__test_cart=TEST
    )
    repository.commit("cart: another failure", src__shop__cart=DIVIDES)
    base = repository.commit("cart: fixed", src__shop__cart=CART)
    repository.commit("cart: broken", src__shop__cart=BROKEN)
    repository.commit("cart: whole again", src__shop__cart=CART)
    repository.git("checkout", "--quiet", "-b", "tax", base)
    repository.commit("tax: begin", src__shop__tax="")
    culprit = repository.commit("cart: add 1 {for} nothing", src__shop__cart=CULPRIT)
    repository.commit("tax: more", src__shop__tax="RATE = 1\n")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-edit", "tax")
    repository.commit("later", src__shop__later="")
    for name, text in installed(tmp_path, repository.folder / "src", at="9").items():
        monkeypatch.setenv(name, text)
    report = repository.run()
    assert (
        report["environment"]["git"] is None
        or report["environment"]["git"]["dirty"] is False
    )
    repository.write(src__shop__cart="stashed = True\n")
    repository.git("stash")
    repository.write(src__shop__cart="mine = True\n", src__shop__untracked="")
    hook = repository.folder / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/hook-has-run'\n")
    hook.chmod(0o755)
    before = repository.state()
    monkeypatch.setenv(
        "GIT_INDEX_FILE", str(repository.folder / ".git/index")
    )  # as in a hook

    code, out, err = call(
        capsys, "prove", "--good", good, "--budget", "10m", str(repository.report)
    )

    monkeypatch.delenv("GIT_INDEX_FILE")
    short = repository.git("rev-parse", "--short", culprit)
    assert (code, err) == (0, "")
    assert out[0] == "not committed, and so not tested: src/shop/cart.py"
    assert out[1].startswith("1. 1 x assert 4 == 3: ")
    assert (
        out[2] == f"   9 commits since {good[: len(short)]} Ada: begin: about 3 steps"
    )
    assert out[-2] == (
        f"   commit {short} Ada: cart: add 1 {{for}} nothing, proven: fails at it (5 of 5), "
        "passes at its parent (5 of 5)"
    )
    assert out[-1] == f"   git show {culprit[:12]}"
    for subject, told in (("later", "failed"), ("begin", "passed")):
        assert any(line.endswith(f"Ada: {subject}: {told}") for line in out)
    assert not any("cart: another failure: failed" in line for line in out)
    assert repository.state() == before
    assert not (tmp_path / "hook-has-run").exists()
    assert not list((repository.folder / ".git/worktrees").glob("*"))
    (cause,) = json.loads(repository.report.read_text())["causes"]
    proof = cause["proof"]
    assert (proof["type"], proof["status"]) == ("commit", "proven")
    assert (proof["runs"], proof["failed"]) == (5, 5)
    assert proof["without"] == {"runs": 5, "failed": 0, "state": None}
    assert cause["retryable"] is False


def test_code_that_is_not_the_commits_is_refused(
    repository: Repository,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An installation that comes before PYTHONPATH would test the same code at each commit."""
    good = repository.commit(
        "begin", src__shop__cart=CART, src__shop____init__="", tests__test_cart=TEST
    )
    repository.commit("wrong", src__shop__cart=CULPRIT)
    for name, text in installed(tmp_path, repository.folder / "src", at="0").items():
        monkeypatch.setenv(name, text)
    repository.run()
    before = repository.state()
    code, _, err = call(
        capsys, "prove", "--commit", "--good", good, str(repository.report)
    )
    assert code == 2
    assert f" is imported from {repository.folder}/src/shop/" in err
    assert ", and not from the commit's files; " in err
    assert "pip install -e ." in err
    assert repository.state() == before


def test_what_is_missing_is_said(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No good commit, one that is not there, no commit between, no repository."""
    repository.commit("begin", test_cart="def test_it(): assert 1 == 2\n")
    repository.run()
    path = str(repository.report)
    code, out, _ = call(capsys, "prove", "--commit", path)
    assert (code, out[-1][:55]) == (
        1,
        "   it is not known where it passed; give a commit with ",
    )
    for words, expected in (
        (("--good", "nope"), "fatal: Not a valid object name nope; "),
        (("--good", "HEAD"), "no commit lies after HEAD up to "),
        (("--commit", "--fixed"), "not allowed with argument"),
    ):
        try:
            code, _, err = call(capsys, "prove", *words, path)
        except SystemExit as error:  # argparse
            code, err = int(error.code or 0), capsys.readouterr().err
        assert (code, expected in err) == (2, True), err
    (repository.folder / ".git").rename(tmp_path / "gone")
    code, _, err = call(capsys, "prove", "--good", "HEAD", path)
    assert code == 2
    assert err.count("\n") == 1
    assert (
        f"{repository.folder} is in no git repository; a commit is looked for where "
        in err
    )


@pytest.mark.lowest
def test_a_step_of_git_bisect_ends_with_what_git_takes_it_for(
    repository: Repository, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """0 is good, 1 the same failure, 125 anything else, 128 a mistake of the command's.

    A fault of our own is shown as such, with its place.
    """
    repository.commit(
        "begin", shop____init__="", shop__cart=CULPRIT, tests__test_cart=TEST
    )
    repository.run()
    repository.write(conftest=OUR_FAULT)
    fault = "pytest ended with 3: ZeroDivisionError: division by zero (conftest.py:2)"
    said = [f"it can't be tested: {fault}"]
    assert call(capsys, "bisect-step", str(repository.report))[:2] == (125, said)
    repository.write(conftest="1 / 0\n")
    _, (said_of_conftest,), _ = call(capsys, "bisect-step", str(repository.report))
    assert said_of_conftest.startswith("it can't be tested: pytest ended with 4: E  ")
    repository.write(conftest=ODD_MODULES)
    path = str(repository.report)
    for text, code, words in (
        (CULPRIT, 1, "it fails in the same way: assert 4 == 3"),
        (CART, 0, "it passes"),
        (DIVIDES, 125, "it can't be tested: ZeroDivisionError: division by zero"),
        (BROKEN, 125, f"it can't be tested: {NODEID} is not collected: {UNCLOSED}"),
    ):
        repository.write(shop__cart=text)
        assert call(capsys, "bisect-step", path)[:2] == (code, [words]), text
    grouped = tmp_path / "grouped.json"  # by xdist's loadgroup
    report = json.loads(repository.report.read_text().replace(NODEID, f"{NODEID}@shop"))
    report["order"]["distribution"] = "loadgroup"
    grouped.write_text(json.dumps(report))
    repository.write(shop__cart=CULPRIT)
    assert call(capsys, "bisect-step", str(grouped))[0] == 1
    repository.write(shop__cart=CART, tests__test_cart="")
    assert call(capsys, "bisect-step", path, "--times", "3")[0] == 125
    (tmp_path / "no-report.json").write_text("{}")
    for given in (
        ("bisect-step", str(tmp_path / "none.json")),
        ("bisect-step", str(tmp_path / "no-report.json")),
        ("bisect-step", path, "--cause", "2"),
        ("bisect-step", path, "--nope"),
        ("bisect-step",),
    ):
        assert call(capsys, *given)[0] == 128, given


def test_git_bisect_run_asks_it(repository: Repository) -> None:
    """The first commit with this failure is named, though an earlier one fails otherwise."""
    good = repository.commit(
        "begin", shop____init__="", shop__cart=CART, tests__test_cart=TEST
    )
    repository.commit("another", shop__cart=DIVIDES)
    repository.commit("fixed", shop__cart=CART)
    culprit = repository.commit("cart: wrong", shop__cart=CULPRIT)
    repository.commit("later", shop__later="")
    repository.run()
    repository.git("bisect", "start", "HEAD", good)
    command = (sys.executable, "-m", "pytest_failure_taxonomy", "bisect-step")
    said = repository.git("bisect", "run", *command, str(repository.report))
    assert f"{culprit} is the first bad commit" in said

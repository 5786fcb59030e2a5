"""`failure-taxonomy prove --base`, in real repositories."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.report.build import NO_PROOF
from tests.helpers.repositories import Repository, begin_repository, call

pytestmark = pytest.mark.slow

CART: Final = "def total(prices):\n    return sum(prices)\n"
WRONG: Final = "def total(prices):\n    return sum(prices) + 1\n"
TEST: Final = """\
from shop.cart import total

def test_total():
    assert total([1, 2]) == 3
"""
ALWAYS_RED: Final = "def test_red():\n    assert 1 == 2\n"
COIN: Final = """\
import os

def test_coin():
    assert os.urandom(1)[0] < 128
"""
OTHERWISE: Final = "there it ends in another way:"
MISSING: Final = "ModuleNotFoundError: No module named 'missing'"
ALL: Final = "(47.8% to 100.0%)"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a repository that is the working directory."""
    return begin_repository(tmp_path, monkeypatch)


def bases(repository: Repository) -> list[dict[str, Any]]:
    """Return what the report says of its causes on the other revision."""
    report = json.loads(repository.report.read_text())
    return [cause["base"] for cause in report["causes"]]


@pytest.mark.lowest
def test_what_is_new_here_is_told_from_what_the_base_has_too(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three causes one is new, one is older, and one has a test that is new."""
    repository.commit(
        "begin",
        shop____init__="",
        shop__cart=CART,
        tests__test_cart=TEST,
        tests__test_red=ALWAYS_RED,
    )
    repository.git("checkout", "--quiet", "-b", "change")
    repository.commit("wrong", shop__cart=WRONG)
    # What is not committed is here, and not there.
    repository.write(tests__test_new="def test_new():\n    assert 3 == 4\n")
    report = repository.run()
    before = repository.state()
    path = str(repository.report)
    code, out, err = call(capsys, "prove", "--base", "main", path)
    assert (code, err) == (0, "")
    answers = {
        cause["nodeids"][0]: cause["base"]
        for cause in json.loads(repository.report.read_text())["causes"]
    }
    new = answers["tests/test_cart.py::test_total"]
    assert (new["status"], new["runs"], new["failed"]) == ("new", 9, 0)
    assert (new["here_runs"], new["here_failed"]) == (8, 8)
    assert (new["revision"], new["lacks_test"]) == ("main", False)
    assert new["commit"] == repository.git("rev-parse", "main")
    also = answers["tests/test_red.py::test_red"]
    assert (also["status"], also["runs"], also["failed"]) == ("also", 5, 5)
    assert also["here_runs"] == 0
    lacking = answers["tests/test_new.py::test_new"]
    assert (lacking["status"], lacking["lacks_test"]) == ("new", True)
    assert lacking["runs"] == 0
    for words in (
        "   new here: passes on main (9 of 9)",
        f"   also on main: fails 5 of 5 {ALL}",
        "   new here: its test does not exist on main",
    ):
        assert words in out
        assert words.strip() in " ".join(call(capsys, "show", path)[1])
    assert repository.state() == before
    assert not list((repository.folder / ".git/worktrees").glob("*"))
    after = json.loads(repository.report.read_text())
    assert after["verdict"] == report["verdict"]
    _, agents, _ = call(capsys, "show", "--format", "agent", path)
    assert f"base: also on main: fails 5 of 5 {ALL}" in "\n".join(agents)


def test_a_renamed_file_is_the_same_test(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if it was given to pytest by its new name, and on the way to a commit."""
    good = repository.commit(
        "begin", shop____init__="", shop__cart=CART, tests__test_cart=TEST
    )
    repository.commit("red", tests__test_red=ALWAYS_RED)
    repository.git("checkout", "--quiet", "-b", "change")
    for name in ("cart", "red"):
        (repository.folder / "tests/unit").mkdir(exist_ok=True)
        repository.git("mv", f"tests/test_{name}.py", f"tests/unit/test_{name}_2.py")
    repository.commit("renamed")
    culprit = repository.commit("wrong", shop__cart=WRONG)
    more = "def test_more():\n    assert total([]) == 0\n"
    text = f"{TEST}\n\n{more}" + "".join(
        f"\n\ndef test_{n}():\n    assert total([{n}]) == {n} or True\n"
        for n in range(9)
    )
    repository.commit("much is added", tests__unit__test_cart_2=text)
    repository.run("tests/unit/test_cart_2.py::test_total", "tests/unit/test_red_2.py")
    path = str(repository.report)
    code, out, err = call(capsys, "prove", "--base", "main", path)
    assert (code, err) == (0, ""), out
    assert sorted(base["status"] for base in bases(repository)) == ["also", "new"]
    assert not any(base["lacks_test"] for base in bases(repository))
    number = 1 + [base["status"] for base in bases(repository)].index("new")
    words = ("--good", good, "--cause", str(number), path)
    code, out, err = call(capsys, "prove", *words)
    assert (code, err) == (0, ""), out
    short = repository.git("rev-parse", "--short", culprit)
    assert any(f"commit {short} Ada: wrong, proven" in line for line in out), out


def test_what_can_not_be_compared_is_said(
    repository: Repository, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An error at import there, another failure there, and a test that passes here now."""
    repository.commit(
        "begin",
        tests__test_cart="import missing\n\ndef test_total(): pass\n",
        tests__test_other="def test_other():\n    raise OSError('no')\n",
        tests__test_file="def test_file(): pass\n",
    )
    repository.git("checkout", "--quiet", "-b", "change")
    marker = tmp_path / "marker"
    marker.touch()
    repository.commit(
        "change",
        tests__test_cart="def test_total():\n    assert 1 == 2\n",
        tests__test_other="def test_other():\n    assert 2 == 3\n",
        tests__test_file=f"import os\n\ndef test_file():\n    assert not os.path.exists({str(marker)!r})\n",
    )
    repository.run()
    marker.unlink()
    path = str(repository.report)
    code, out, _ = call(capsys, "prove", "--base", "main", path)
    assert code == 1
    states = [base["state"] for base in bases(repository)]
    assert states == [
        f"{OTHERWISE} tests/test_cart.py::test_total is not collected: {MISSING}",
        "here it passes now (5 of 5)",
        f"{OTHERWISE} OSError: no",
    ], states
    assert f"   not known whether main has it: {states[1]}" in out


def test_a_file_that_can_not_be_imported_is_compared_as_well(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the fingerprint of its error: new, older, and of a file that is new."""
    repository.commit(
        "begin",
        tests__test_new="def test_it(): pass\n",
        tests__test_old="import missing\n",
    )
    repository.git("checkout", "--quiet", "-b", "change")
    repository.git("mv", "tests/test_old.py", "tests/test_renamed.py")
    repository.commit(
        "change", tests__test_new="import absent\n", tests__test_added="1 / 0\n"
    )
    repository.run()
    path = str(repository.report)
    code, out, _ = call(capsys, "prove", "--base", "main", path)
    assert code == 0, out
    answers = {
        cause["nodeids"][0]: (cause["base"]["status"], cause["base"]["lacks_test"])
        for cause in json.loads(repository.report.read_text())["causes"]
    }
    assert answers == {
        "tests/test_new.py": ("new", False),
        "tests/test_renamed.py": ("also", False),
        "tests/test_added.py": ("new", True),
    }


def test_the_recorded_order_is_taken_where_it_passes_alone(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """A polluter that is there, too, makes it older; one that is not proven is found so."""
    state = "SEEN = []\n"
    polluter = "from shop.state import SEEN\n\ndef test_a():\n    SEEN.append(1)\n"
    victim = "from shop.state import SEEN\n\ndef test_b():\n    assert not SEEN\n"
    repository.commit(
        "begin",
        shop____init__="",
        shop__state=state,
        tests__test_a=polluter,
        tests__test_b=victim,
    )
    repository.git("checkout", "--quiet", "-b", "change")
    repository.commit("change", tests__test_a_0="def test_0(): pass\n")
    repository.run()
    path = str(repository.report)
    code, out, _ = call(capsys, "prove", "--base", "main", path)
    assert (code, bases(repository)[0]["failed"]) == (0, 5), out
    report = json.loads(repository.report.read_text())
    report["causes"][0]["proof"] = {
        **NO_PROOF,
        "type": "order.polluted",
        "status": "proven",
        "nodeids": ["tests/test_a_0.py::test_0"],
        "runs": 5,
        "failed": 5,
    }
    repository.report.write_text(json.dumps(report))
    code, out, _ = call(capsys, "prove", "--base", "main", path)
    assert code == 1
    assert bases(repository)[0]["state"] == (
        f"{OTHERWISE} tests/test_a_0.py::test_0 is not collected"
    )


def test_a_test_that_comes_and_goes_on_both_is_no_news(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """One failure there is enough, and how often it fails is told."""
    repository.commit("begin", tests__test_coin=COIN)
    repository.git("checkout", "--quiet", "-b", "change")
    repository.commit("change", shop____init__="")
    while not repository.run()["causes"]:
        pass
    code, out, _ = call(capsys, "prove", "--base", "main", str(repository.report))
    (base,) = bases(repository)
    if code:  # it passes five times in a row once in 32 times
        assert base["state"] == "here it passes now (5 of 5)"
    else:
        assert base["status"] == "also", out


def test_a_revision_that_is_not_there_is_one_line_with_the_command(
    repository: Repository, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As in a shallow clone, in which it works once the branch is fetched."""
    repository.commit("begin", tests__test_red="def test_red(): pass\n")
    repository.git("checkout", "--quiet", "-b", "change")
    repository.commit("change", tests__test_red=ALWAYS_RED)
    source = f"file://{repository.folder}"
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", source, clone], check=True)
    repository.folder = clone
    repository.run()
    path = str(repository.report)
    words = ("prove", "--yes", "--base", "origin/main", path)
    code, _, err = call(capsys, *words)
    command = "git fetch --depth=1 origin main:refs/remotes/origin/main"
    assert (code, err.count("\n")) == (2, 1)
    assert err.endswith(
        f" has no origin/main: {command}, and then --base origin/main\n"
    )
    repository.git(*command.split()[1:])
    code, out, err = call(capsys, *words)
    assert (code, err) == (0, ""), out
    assert bases(repository)[0]["status"] == "new"

"""`prove --commit` in real repositories, with a test that a text in a file decides."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.options import PROVING_VARIABLE
from pytest_failure_taxonomy.prove import commits, recorded, repository
from pytest_failure_taxonomy.prove.commits import find_commits
from pytest_failure_taxonomy.prove.experiment import (
    Experiments,
    Outcome,
    OutOfTime,
    Setup,
    Victim,
)
from pytest_failure_taxonomy.prove.recorded import Task
from pytest_failure_taxonomy.report.build import NO_PROOF
from pytest_failure_taxonomy.report.load import as_json, decode_report
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.evidence import Location
from tests.helpers.reports import NO_HISTORY, make_failure, make_report, make_run

FILE: Final = "cart.txt"
CHANCE: Final = "sometimes"


class TextDecides(Experiments):
    """Ends as the file in the checkout says: `passed`, `failed`, `sometimes`, or in another way."""

    def __init__(self, setup: Setup, most: int) -> None:
        super().__init__(setup, until=0.0, limit_seconds=0.0)
        self.place, self._most = setup.folder, most
        self._random = random.Random(1)  # noqa: S311 - no secret
        self.befores: list[Sequence[str]] = []

    def run(
        self, victim: Victim, before: Sequence[str] = (), *_: Any, **given: Any
    ) -> Outcome:
        """Return how it ends."""
        if len(self.befores) == self._most:
            raise OutOfTime
        self.befores.append(before)
        text = (self.place / FILE).read_text()
        if text.startswith(CHANCE):
            text = "failed" if self._random.random() < 0.6 else "passed"
        result: Any = (
            text.split()[0] if text.split()[0] in ("passed", "failed") else "other"
        )
        return Outcome(
            result=result, words=text if result == "other" else "", seconds=0.0
        )


class Search:
    """A repository whose commits have the texts of a file, and a report of its last."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.most = folder, 1_000
        self.names: list[str] = []
        self.lines: list[str] = []
        self.saved: list[FailureReport] = []
        self.are_found = False
        self.experiments: list[TextDecides] = []
        self.report = make_report(make_run(failures=(make_failure(),)))
        self._git("init", "--quiet")
        setup = Setup(args=(), folder=folder, rootdir=folder)
        monkeypatch.setattr(recorded, "setup_of", lambda report: setup)
        monkeypatch.setattr(recorded, "experiments_of", self._experiments_of)

    def _experiments_of(self, task: Task, setup: Setup) -> TextDecides:
        self.experiments.append(TextDecides(setup, self.most))
        return self.experiments[-1]

    def _git(self, *words: str) -> str:
        given = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        return subprocess.run(
            ["git", *given, *words],
            cwd=self.folder,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit(self, *texts: str) -> None:
        """Commit a file with each of some texts."""
        for number, text in enumerate(texts, len(self.names)):
            (self.folder / FILE).write_text(f"{text} {number}\n")
            self._git("add", FILE)
            self._git("commit", "--quiet", "--message", f"cart {number}")
            self.names.append(self._git("rev-parse", "HEAD"))
        self.report["environment"]["git"] = {"commit": self.names[-1], "branch": "main"}
        self.report["environment"]["git"]["dirty"] = False

    @property
    def cause(self) -> dict[str, Any]:
        """The only cause of the report."""
        cause: dict[str, Any] = self.report["causes"][0]
        return cause

    def find(self, good: str | None = None) -> dict[str, Any]:
        """Return the proof that the report has afterwards."""
        self.lines.clear()
        self.saved.clear()
        task = Task(
            report=decode_report(self.report),
            tell=self.lines.append,
            save=self.saved.append,
            budget_seconds=60,
        )
        after, self.are_found = find_commits(task, good)
        proof: dict[str, Any] = as_json(after)["causes"][0]["proof"]
        return proof


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Return a repository without commits."""
    return Search(tmp_path, monkeypatch)


def test_the_last_good_commit_is_that_of_the_history(search: Search) -> None:
    """The commit that is found takes the place of a proof that says less."""
    search.commit("passed", "passed", "passed", "failed", "failed")
    search.cause["history"] = {**NO_HISTORY, "last_passed_commit": search.names[1]}
    search.cause["proof"] = {**NO_PROOF, "type": "reproducible", "status": "proven"}
    search.cause["proof"] |= {"runs": 5, "failed": 5}
    proof = search.find()
    assert (proof["type"], proof["status"]) == ("commit", "proven")
    assert proof["state"] == f"{search.names[3][:7]} Ada: cart 3"
    assert proof["command"] == f"git show {search.names[3][:12]}"
    assert (
        search.lines[1]
        == f"   3 commits since {search.names[1][:7]} Ada: cart 1: about 2 steps"
    )
    assert len(search.saved) == 1


def test_what_makes_it_fail_stays_proven_and_the_commit_is_told_beside_it(
    search: Search,
) -> None:
    """Polluters run first at each commit; without them, or a condition, nobody could repeat it."""
    search.commit("passed", "failed")
    for type_, state, nodeids in (
        ("order.polluted", "prices.RATE = 0.07 (was 0.2)", ["a.py::test_a"]),
        ("axis.load", "the processors as they are", []),
    ):
        known = {"type": type_, "status": "proven", "state": state, "nodeids": nodeids}
        search.cause["proof"] = {**NO_PROOF, **known, "runs": 5, "failed": 5}
        since = f"{search.names[1][:7]} Ada: cart 1"
        assert search.find(search.names[0]) == {
            **search.cause["proof"],
            "commit": since,
        }
        assert search.lines[-3].endswith("Ada: cart 1, proven: fails at it (5 of 5), passes at its "
                                         "parent (5 of 5)")  # fmt: skip
        assert (
            search.lines[-1]
            == f"   what was proven before stays in the report: {type_}"
        )
        assert search.are_found
        assert set(map(tuple, search.experiments[-1].befores)) == {tuple(nodeids)}


def test_a_test_that_comes_and_goes_has_its_commit_found(search: Search) -> None:
    """It takes more runs, and both counts are told."""
    search.commit(*["passed"] * 6, *[CHANCE] * 8)
    proof = search.find(search.names[0])
    assert (proof["status"], proof["state"]) == (
        "proven",
        f"{search.names[6][:7]} Ada: cart 6",
    )
    assert 0 < proof["failed"] < proof["runs"]
    assert proof["without"]["failed"] == 0
    assert proof["interval"]["low"] < 0.6 < proof["interval"]["high"]


def test_what_is_left_open_is_told_with_how_likely_it_is(search: Search) -> None:
    """Time runs out, or commits can't be tested: an earlier proof stays, and nothing is proven."""
    search.commit("passed", "passed", "broken", "failed", "failed")
    proof = search.find(search.names[0])
    assert (proof["status"], proof["state"]) == (
        "undecided",
        "the other commits can't be tested",
    )
    assert proof["suspicions"] == [
        f"50% {search.names[2][:7]} Ada: cart 2",
        f"50% {search.names[3][:7]} Ada: cart 3",
    ]
    assert (
        f"   {search.names[2][:7]} Ada: cart 2: can't be tested: broken 2"
        in search.lines
    )
    search.most = 2
    proof = search.find(search.names[0])
    assert (proof["status"], proof["state"]) == ("undecided", "time ran out")
    assert len(proof["suspicions"]) == 4
    assert not search.are_found
    search.cause["proof"] = {**NO_PROOF, "type": "flaky", "status": "proven"}
    assert search.find(search.names[0])["type"] == "flaky"
    assert not search.are_found


def test_what_was_not_committed_is_suspected_where_the_commit_passes(
    search: Search,
) -> None:
    """The failing run had other files than its commit."""
    search.commit("passed", "passed")
    search.report["environment"]["git"]["dirty"] = True
    proof = search.find(search.names[0])
    assert proof["state"] == "at the failing commit it passes (5 of 5)"
    assert proof["suspicions"] == ["what was not committed when it failed"]
    assert search.lines[-1] == (
        "   undecided: at the failing commit it passes (5 of 5); "
        "suspected: what was not committed when it failed"
    )


def test_several_causes_share_the_time_and_one_may_have_no_good_commit(
    search: Search,
) -> None:
    """The others go on, and what is said of it says why."""
    place = Location(path="b.py", line=1)
    other = make_failure(nodeid="b.py::test_it", location=place, exception=None)
    search.report = make_report(make_run(failures=(make_failure(), other)))
    search.commit("passed", "failed")
    search.report["causes"][1]["history"] = {
        **NO_HISTORY,
        "state": "known",
        "last_passed_commit": search.names[0],
    }
    search.find()
    first, second = search.saved[0].causes
    assert first.proof is None
    assert second.proof is not None
    assert second.proof.status == "proven"
    assert any(
        "it is not known where it passed; give a commit" in each
        for each in search.lines
    )


def test_git_is_not_asked_about_another_checkout(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook of git's has variables that would have our checkouts change the user's own."""
    search.commit("passed", "failed")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(search.folder / "nowhere"))
    assert repository.toplevel_of(search.folder) == search.folder.resolve()
    proof = search.find(search.names[0])
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    assert proof["status"] == "proven"
    assert not list((search.folder / ".git/worktrees").glob("*"))


def test_what_can_not_be_tested_is_said_at_once(search: Search, tmp_path: Path) -> None:
    """One line each, before anything is run."""
    search.commit("passed", "failed")
    (search.folder / FILE).write_text("mine")
    (search.folder / ".gitmodules").touch()
    head = search._git("rev-parse", "HEAD")
    (search.folder / ".git/shallow").write_text(f"{search.names[0]}\n")
    search.find(search.names[0])
    assert search.lines[:3] == [
        "the clone is shallow, so it lacks commits; git fetch --unshallow gets them",
        "not committed, and so not tested: cart.txt",
        "submodules are not checked out: what needs them can't be tested",
    ]
    good = f"{search.names[0][:7]} Ada: cart 0"
    absent = f"   {good} has no test_cart.py: commits without it can't be tested"
    assert search.lines[5] == absent
    assert search._git("rev-parse", "HEAD") == head


def test_what_does_not_resume_does_not_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--resume` goes on with the causes, and not with the search for a commit."""
    path = tmp_path / "report.json"
    path.write_text(json.dumps(make_report(make_run(failures=(make_failure(),)))))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commits, "find_commits", interrupt)
    monkeypatch.setenv(PROVING_VARIABLE, "1")
    assert main(["prove", "--good", "HEAD", str(path)]) == 130
    assert "prove: interrupted\n" in capsys.readouterr().err

"""`failure-taxonomy prove --fixed` and `--new`, on real runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

import pytest_failure_taxonomy.history.questions  # noqa: F401 - each test would import it anew
from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.prove import after
from pytest_failure_taxonomy.report.build import NO_PROOF
from tests.helpers.runs import REPORT, PytestRuns

pytestmark = pytest.mark.slow

WRONG: Final = (
    "SEEN = []\ndef test_first(): SEEN.append(1)\ndef test_it(): assert not SEEN\n"
)
FIXED: Final = "SEEN = []\ndef test_first(): pass\ndef test_it(): assert not SEEN\n"
BOUND: Final = "exclude a failure rate of 45.1% or more (at 95%)"


@pytest.fixture
def folder(runs: PytestRuns, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the runs, which is the working directory."""
    monkeypatch.chdir(runs.path)
    monkeypatch.delenv("FAILURE_TAXONOMY_HISTORY", raising=False)
    return runs.path


def prove(
    capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, list[str], str]:
    """Return exit code and lines of the command, and what it says besides."""
    capsys.readouterr()
    code = main(["prove", *words])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err


@pytest.mark.lowest
def test_it_is_fixed_once_it_passes_in_the_order_in_which_it_failed(
    runs: PytestRuns, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The polluters of the proof run first, or else what ran before it then."""
    runs.write({"test_state.py": WRONG})
    runs.run()
    # No proof yet: the recorded order decides, in which it still fails.
    code, out, err = prove(capsys, "--fixed")
    assert (code, err, out[1]) == (1, "", "   not fixed: failed in run 1")
    report: dict[str, Any] = json.loads((folder / REPORT).read_text())
    report["causes"][0]["proof"] = {
        **NO_PROOF,
        "type": "order.polluted",
        "status": "proven",
        "nodeids": ["test_state.py::test_first"],
        "runs": 5,
        "failed": 5,
        "command": "pytest",
    }
    (folder / REPORT).write_text(json.dumps(report))
    assert prove(capsys, "--fixed")[:2] == (
        1,
        [out[0], "   not fixed: failed in run 1"],
    )
    runs.write({"test_state.py": FIXED})
    code, lines, _ = prove(capsys, "--fixed")
    assert code == 0
    assert lines == [out[0], f"   fixed: 5 passes in a row {BOUND}"]


def test_new_tests_are_repeated_and_earlier_ones_are_not(
    runs: PytestRuns,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that fails now and then is named with its rate; a history has to know earlier runs."""
    monkeypatch.setattr(after, "_MOST", 20)  # 299 take a while
    runs.write({"test_old.py": "def test_old(): pass\n"})
    given = ("--failure-taxonomy-history=history.db",)
    runs.run(*given)
    history = ("--new", "--history", "history.db", "--budget", "5m")
    code, _, err = prove(capsys, *history)
    assert (code, "so every test would be new; add earlier ones by" in err) == (
        2,
        True,
    ), err
    assert prove(capsys, "--new", "--history", "none.db")[0] == 2
    runs.write({"test_sound.py": "def test_sound(): pass\n"})
    runs.run(*given)
    code, out, _ = prove(capsys, *history)
    assert (code, out[0]) == (0, "1 new test of 2")
    assert out[1].startswith(
        "1 test passed each time: 20 passes in a row exclude a failure rate "
    )
    runs.write(
        {
            "test_coin.py": """\
import os
def test_coin(): assert os.urandom(1)[0] < 128, "tails"
"""
        }
    )
    runs.run_unchecked(*given)
    code, out, _ = prove(capsys, *history)
    assert (code, out[0]) == (1, "1 new test of 3")
    assert out[1].startswith("test_coin.py::test_coin: fails ")
    assert "): AssertionError: tails" in out[1]

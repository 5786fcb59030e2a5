"""The comparison with the labels of Terminal-Bench."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.accuracy.terminal_bench import compare, main, name_of


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("../tests/test_a.py::TestB::test_c", "test_c"),
        ("test_a.py::test_c[x::y-a/b]", "test_c[x::y-a/b]"),
        ("test_c - AssertionError: no", "test_c"),
        ("../tests/test_a.py - TypeError: no", "test_a.py"),
        ("../tests/test_a.py", "test_a.py"),
    ],
)
def test_names_as_the_harness_has_them(nodeid: str, name: str) -> None:
    """Neither folders nor messages are part of a name; parameters are."""
    assert name_of(nodeid) == name


def test_what_agrees_and_what_does_not() -> None:
    """An answer that the results contradict is told as such."""
    red = (
        b"collected 2 items\n\n==== short test summary info ====\n"
        b"FAILED test_a.py::test_b - assert 0\n==== 1 failed, 1 passed in 0.01s ====\n"
    )
    told = {"test_a": "passed", "test_b": "failed"}
    assert compare(red, told) == [("success agrees", ""), ("names agree", "")]
    assert compare(red, {"test_c": "failed"})[1] == ("names differ", "test_b, test_c")
    assert compare(red, {"test_b": "passed"})[0][0] == "false certainty: success differs"
    assert compare(b"nothing\n", told)[0] == ("says nothing", "the harness read results")


def test_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every trial with a log is counted; the last lines are the counts."""
    trial = tmp_path / "trial"
    (trial / "sessions").mkdir(parents=True)
    (trial / "sessions/tests.log").write_text("==== 1 passed in 0.01s ====\n")
    (trial / "results.json").write_text(json.dumps({"parser_results": {"test_a": "passed"}}))
    monkeypatch.setattr("sys.argv", ["terminal_bench", str(tmp_path), "--half", "both"])
    main()
    assert capsys.readouterr().out.split() == [
        *("0", "false", "certainty:", "success", "differs", "1", "logs"),
        *("1", "names", "agree", "1", "success", "agrees"),
    ]

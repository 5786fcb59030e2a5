"""The comparisons with the labels that other people gave to logs."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from pytest_failure_taxonomy.logs.trials import name_of
from tests.benchmarks.accuracy import (
    bugswarm,
    cidiff,
    logchunks,
    swe_bench,
    terminal_bench,
)
from tests.benchmarks.accuracy.corpus import compare_lines, is_of_half, report
from tests.benchmarks.accuracy.terminal_bench import compare

RED = (
    b"collected 2 items\n\n==== short test summary info ====\n"
    b"FAILED test_a.py::test_b - assert 0\n==== 1 failed, 1 passed in 0.01s ====\n"
)


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
    told = {"test_a": "passed", "test_b": "failed"}
    assert compare(RED, told) == [("success agrees", ""), ("names agree", "")]
    assert compare(RED, {"test_c": "failed"})[1] == ("names differ", "test_b, test_c")
    assert (
        compare(RED, {"test_b": "passed"})[0][0] == "false certainty: success differs"
    )
    assert compare(b"nothing\n", told)[0] == (
        "says nothing",
        "the harness read results",
    )


def test_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every trial with a log is counted; the last lines are the counts."""
    trial = tmp_path / "trial"
    (trial / "sessions").mkdir(parents=True)
    (trial / "sessions/tests.log").write_text("==== 1 passed in 0.01s ====\n")
    (trial / "results.json").write_text(
        json.dumps({"parser_results": {"test_a": "passed"}})
    )
    monkeypatch.setattr("sys.argv", ["terminal_bench", str(tmp_path), "--half", "both"])
    report(terminal_bench.__doc__, terminal_bench.compared)
    assert capsys.readouterr().out.split() == [
        *("0", "false", "certainty", "1", "logs", "1", "names", "agree"),
        *("0", "says", "nothing", "1", "success", "agrees"),
    ]


def test_each_log_is_of_one_half() -> None:
    """The first bit of the SHA-256 decides."""
    assert [is_of_half(b"a", half) for half in (0, 1, None)] == [False, True, True]
    assert [is_of_half(b"c", half) for half in (0, 1, None)] == [True, False, True]


def test_the_lines_that_are_quoted() -> None:
    """One marked line among those quoted is enough; none beside certain words is told as such."""
    assert compare_lines(RED, {4})[-1] == ("a quoted line is marked", "")
    assert compare_lines(RED, {1})[-1][0] == "false certainty: no quoted line is marked"
    assert compare_lines(b"error: 1\n", {2})[-1][0] == "no quoted line is marked"
    assert compare_lines(b"nothing\n", {1})[-1][0] == "says nothing"
    assert compare_lines(b"==== 1 passed in 0.01s ====\n", {1})[-1][0].startswith(
        "false certain"
    )


def test_logchunks(tmp_path: Path) -> None:
    """A chunk is found with other blanks and without colours, wherever it stands."""
    log = b"a\n\x1b[31merror:  x\x1b[0m\nat y\nb\nerror: x\nat y\n"
    assert logchunks.lines_of(log, "error: x\nat") == {2, 3, 5, 6}
    assert logchunks.lines_of(log, "c") == logchunks.lines_of(log, "") == set()
    (tmp_path / "tool/example-sets/BuildFailureReason/C").mkdir(parents=True)
    (tmp_path / "tool/samples").mkdir()
    (tmp_path / "tool/samples/1.log").write_bytes(log)
    (tmp_path / "tool/example-sets/BuildFailureReason/C/a@b.xml").write_text(
        "<A><ExampleDataOfString><InputPath>1.log</InputPath><Output>&#x1B;[31merror:  x"
        "</Output></ExampleDataOfString></A>"
    )
    [(name, found)] = logchunks.compared(tmp_path, None)
    assert name == "1.log"
    assert ("C: a quoted line is marked", "") in found


def test_cidiff(tmp_path: Path) -> None:
    """Numbers of lines that end with a carriage return alone are translated."""
    assert cidiff.lines_of(b"1\r2\n3\r\n4\n5", "GITHUB\nC 1\nE 2-3\nE 5") == {1, 2, 4}
    (tmp_path / "data/a").mkdir(parents=True)
    (tmp_path / "data/a/fail.log").write_bytes(b"error: x\n")
    (tmp_path / "data/a/groundtruth").write_text("DEFAULT\nE 1\n")
    [(name, found)] = cidiff.compared(tmp_path, None)
    assert (name, found[-1]) == ("data/a", ("a quoted line is marked", ""))


def test_bugswarm(tmp_path: Path) -> None:
    """What its tests assert of a log is read from their source."""
    (tmp_path / "tests/analyzer/data/python").mkdir(parents=True)
    (tmp_path / "tests/analyzer/data/python/1.log").write_bytes(RED)
    (tmp_path / "tests/analyzer/test_a.py").write_text(
        "class Tests(TestCase):\n    data_dir = 'data/'\n    python = data_dir + 'python/'\n"
        "    def test_1(self):\n        log = '1.log'\n"
        "        a = self.analyze(join(self.python, log))\n"
        "        self.compare_status(a, 'broken')\n        self.compare_num_t_failed(a, 1)\n"
        "        self.compare_tr_t_failed(a, 'test_b (tests.TestA)')\n"
    )
    assert [*bugswarm.compared(tmp_path, None)] == [
        (
            "data/python/1.log",
            [
                (f"{what} agree{'' if what == 'names' else 's'}", "")
                for what in _ASSERTED
            ],
        )
    ]
    assert (
        bugswarm.compare(RED, {"status": "ok"})[0][0]
        == "false certainty: status differs"
    )
    assert (
        bugswarm.compare(RED, {"failed": 2})[0][0] == "number of failed tests differs"
    )
    assert bugswarm.compare(b"error: 1\n", {"failed": 2})[0][0].endswith(" not read")
    assert bugswarm.compare(b"", {"status": "ok"}) == [
        ("says nothing of a success", "")
    ]


_ASSERTED = ("status", "number of failed tests", "names")


def test_swe_bench() -> None:
    """The alternatives of a pattern are texts of their own; dicts and comparisons name tests."""
    table = ast.parse("T = (('oom', TIER_ENVIRONMENT, r'^Killed$|after \\d+ s'),)")
    assert [*swe_bench.signatures(table)] == [
        ("oom", "TIER_ENVIRONMENT", "Killed"),
        ("oom", "TIER_ENVIRONMENT", "after 60 s"),
    ]
    tests = ast.parse(
        "def test_a():\n    log = 'x'\n    assert f(log)['b'] == FAILED\n"
        "    assert f(log) == {'c': TestStatus.FAILED.value, 'd': PASSED}\n"
    )
    assert [*swe_bench.parsed(tests)] == [("test_a", "x", {"b", "c"})]
    full = b"$ run-tests\nNo space left on device\n"
    assert swe_bench.compare_charge(full, "TIER_ENVIRONMENT") == [
        ("the charge agrees", "")
    ]
    assert (
        swe_bench.compare_charge(full, "TIER_AMBIGUOUS")[0][0] == "the charge differs"
    )
    assert swe_bench.compare_names(RED, {"test_a.py::test_b"}) == [("names agree", "")]
    assert swe_bench.compare_names(b"", {"b"}) == [("says nothing", "b")]

"""`failure-taxonomy history`, as a person and a script use it."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.history import open_history
from pytest_failure_taxonomy.history.tasks import record_task
from pytest_failure_taxonomy.report.build import NO_PROOF
from pytest_failure_taxonomy.report.load import as_json
from tests.helpers import harness_folders
from tests.helpers.past_runs import TEST, a_mixed_report, report_as_json
from tests.helpers.reports import with_proofs

JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" timestamp="2026-11-02T10:00:00+00:00" time="1.5">
<testcase classname="tests.test_x" name="test_ok" time="0.1"/>
<testcase classname="tests.test_x.TestIt" name="test_bad[a.b]" time="0.2">
<failure message="ValueError: no such thing">def test_bad():
&gt;   raise ValueError("no such thing")
E   ValueError: no such thing

tests/test_x.py:7: ValueError</failure></testcase>
<testcase classname="" name="tests.test_broken"><error message="collection failure">
E   ImportError: no module named nothing</error></testcase>
<testcase classname="tests.test_x" name="test_later"><skipped message="later"/></testcase>
</testsuite></testsuites>"""


class Said(NamedTuple):
    """What a command has answered."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


@pytest.fixture
def call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Call:
    """Return what calls the command in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAILURE_TAXONOMY_HISTORY", raising=False)

    def call(*words: str) -> Said:
        capsys.readouterr()
        try:
            code = main(["history", *words])
        except SystemExit as error:  # argparse
            code = int(error.code or 0)
        return Said(code, *capsys.readouterr())

    return call


def write(number: int, **given: Any) -> str:
    """Write the report of a run into the working directory, and return its name."""
    name = f"{number}.json"
    Path(name).write_text(json.dumps(report_as_json(number, **given)))
    return name


def test_nothing_is_made_by_a_question(call: Call) -> None:
    """A first question says how a history begins."""
    said = call()
    assert (said.code, said.out) == (2, "")
    assert (
        "there is no history yet; run pytest with --failure-taxonomy-history"
        in said.err
    )
    assert not list(Path().iterdir())


def test_reports_are_added_once_and_problems_told(call: Call) -> None:
    """All that can be is taken in, and each file that can't is told in a line."""
    good = [write(1, test_a="passed"), write(2, test_a="failed")]
    Path("bad.json").write_text("{}")
    running = report_as_json(3)
    running["completeness"] = "running"
    Path("running.json").write_text(json.dumps(running))
    said = call("add", *good, "bad.json", "running.json", "missing.json")
    assert (said.code, said.out) == (2, "2 runs added, 0 known already\n")
    assert "bad.json: " in said.err
    assert "still running" in said.err
    assert "missing.json: " in said.err
    assert "Traceback" not in said.err
    said = call("add", *good, "--format", "json")
    assert (said.code, json.loads(said.out)) == (
        0,
        {"added": 0, "known": 2, "refused": 0, "others": 0},
    )


@pytest.mark.breaks_reports
def test_folders_are_searched_for_reports(call: Call) -> None:
    """What is meant to be a report is taken in or told, other JSON is named, the rest left."""
    for place in ("trials/a", "trials/b/c", "trials/.git", "empty"):
        Path(place).mkdir(parents=True)
    first = Path(write(1, test_a="failed")).rename("trials/a/failure-report.json")
    Path(write(2, test_a="passed")).rename("trials/b/c/task-7.json")
    Path(write(3)).rename("trials/.git/failure-report.json")
    Path("trials/b/junit.xml").write_text(JUNIT)
    Path("trials/b/result.json").write_text('{"resolved": true}')
    Path("trials/b/failure-report.json").write_text('{"resolved": true}')
    Path("trials/b/torn.json").write_text(first.read_text()[:500])
    said = call("add", "trials", "empty")
    assert (said.code, said.out) == (2, "2 runs added, 0 known already\n")
    lines = [each.removeprefix("failure-taxonomy: ") for each in said.err.splitlines()]
    wrong, torn, *others = [each for each in lines if not each.startswith(" ")]
    assert wrong.startswith(
        "trials/b/failure-report.json: not a report of schema version 1.3, "
    )
    assert torn.startswith("trials/b/torn.json: not JSON (Unterminated string")
    empty, *others = others
    assert empty.startswith(
        "empty: has no report in it; give one with reports, the JSON files"
    )
    assert others == [
        "1 other JSON file in the folders, no reports: trials/b/result.json",
    ]
    assert (
        call("add", "trials/a", "trials/b/c").out == "0 runs added, 2 known already\n"
    )


def test_a_junit_file(call: Call) -> None:
    """Its failures, its passing tests, and what could not be collected are taken in, once."""
    Path("junit.xml").write_text(JUNIT)
    assert call("add", "junit.xml").out == "1 run added, 0 known already\n"
    assert call("add", "junit.xml").out == "0 runs added, 1 known already\n"
    (run,) = json.loads(call("list", "--format", "json").out)
    assert (run["passed"], run["failed"], run["errors"]) == (1, 1, 1)
    assert run["started_at"].startswith("2026-11-02T10:00:00")
    titles = [row["title"] for row in json.loads(call("top", "--format", "json").out)]
    assert any("ValueError: no such thing" in each for each in titles)
    assert (
        call("list", "--nodeid", "tests/test_x.py::TestIt::test_bad*").out.count("\n")
        == 2
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            '<!DOCTYPE a [<!ENTITY b "c">]><testsuites>&b;</testsuites>',
            "it defines entities",
        ),
        ("<testsuites>", "it is no XML"),
        ("<html></html>", "it is no JUnit file, but begins with <html>"),
    ],
)
def test_other_xml_is_refused(call: Call, content: str, words: str) -> None:
    """An attack, a torn file and another format are told in one line."""
    Path("junit.xml").write_text(content)
    said = call("add", "junit.xml")
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert words in line


def test_tables_for_people(call: Call) -> None:
    """The words that a person reads."""
    call("add", *(write(n, test_a=("passed", "failed")[n % 2]) for n in range(1, 7)))
    assert call().out == call("list").out
    first, *rest = call("list", "-n", "2", "--reason", "TESTS_FAILED").out.splitlines()
    assert " ".join(first.split()) == (
        "started run status kind commit branch passed failed took first failure"
    )
    assert len(rest) == 2
    assert "✗ failed (TESTS_FAILED)  test.failed" in rest[0]
    assert "✓ passed" in call("list").out
    flaky = call("flaky").out.splitlines()[1]
    assert flaky.startswith("3 of 6")
    assert "quarantine" in flaky
    assert flaky.endswith(f"{TEST}test_a")
    assert "none" not in flaky.lower()
    assert "TESTS_FAILED 3 (0.6 min)" in call("stats", "--by", "month").out
    top = call("top").out.splitlines()
    fingerprint = json.loads(call("top", "--format", "json").out)[0]["fingerprint"]
    assert top[1].split()[:2] == ["3", "3"]
    since = call("since", fingerprint[:8]).out
    assert "first seen:    2026-11-01 01:00, commit 0000000000, run 00000000" in since
    assert "last passed:   2026-11-01 04:00" in since
    of_test = call("since", "test_a").out
    assert of_test.startswith(f"test:          {TEST}test_a\nfailure:  ")
    assert "last passed:   2026-11-01 04:00" in of_test
    assert "no failure of such a test" in call("since", "test_b").err
    report = json.loads(Path(write(7, test_a="failed")).read_text())
    report["causes"][0]["key"] = "0123456789abcdef"
    Path("failure-report.json").write_text(json.dumps(report))
    assert call("since", "0123456789abcdef").out == since
    assert call("prune", "--before", "2026-11-01T03:00", "--dry-run").out == (
        "2 runs would be removed\n"
    )
    assert call("prune", "--before", "2026-11-01T03:00").out == "2 runs removed\n"
    assert (
        call("list", "--branch", "nothing").err
        == "failure-taxonomy: no run matches branch nothing; "
        "the latest of all runs began 2026-11-01 06:00:00\n"
    )


@pytest.mark.parametrize(
    "question", ["list", "flaky", "tests", "top", "stats", "rates"]
)
def test_a_window_without_runs_is_told(call: Call, question: str) -> None:
    """An empty answer about no run at all would read as good news."""
    call("add", write(1, test_a="failed"), write(30, test_a="passed"))
    told = (
        "failure-taxonomy: no run matches since 2026-11-05 00:00:00, until 2026-11-06 00:00:00; "
        "the latest of all runs began 2026-11-02 06:00:00\n"
    )
    days = ("--since", "2026-11-05", "--until", "2026-11-06")
    assert call(question, *days) == (0, "", told)
    assert call(question, *days, "--format", "json") == (0, "[]\n", told)
    where = ("--branch", "x*", "--project", "shop")
    assert call(question, *where).err == (
        "failure-taxonomy: no run matches project shop, branch x*; "
        "the latest of all runs began 2026-11-02 06:00:00\n"
    )


def test_tests_by_branch(call: Call) -> None:
    """Each branch has a state of its own, with the run since which it is so."""
    for number, outcome in enumerate("PFPFPF", 1):
        word = {"P": "passed", "F": "failed"}[outcome]
        call("add", write(number, test_a=word, test_b="passed"))
    for number, outcome in enumerate("FFP", 10):
        word = {"P": "passed", "F": "failed"}[outcome]
        call("add", write(number, test_a="failed", test_b=word, branch="dev"))
    lines = [re.split("  +", line) for line in call("tests").out.splitlines()]
    assert lines == [
        ["state", "branch", "since", "failed", "changes", "last failed", "test"],
        [
            *("broken", "dev", "2026-11-01 10:00, commit 0000000000, run 00000000"),
            *("3 of 3", "0", "2026-11-01 12:00", f"{TEST}test_a"),
        ],
        [
            *("flaky", "main", "2026-11-01 02:00, commit 0000000000, run 00000000"),
            *("3 of 6", "5", "2026-11-01 06:00", f"{TEST}test_a"),
        ],
        [
            *("healthy again", "dev"),
            "2026-11-01 12:00, commit 0000000000, run 00000000",
            *("2 of 3", "1", "2026-11-01 11:00", f"{TEST}test_b"),
        ],
    ]
    (row,) = json.loads(call("tests", "--branch", "main", "--format", "json").out)
    assert (row["state"], row["since"]) == ("flaky", "2026-11-01T02:00:00Z")
    flaky = json.loads(call("flaky", "--format", "json").out)
    assert [(row["branches"], row["failures"], row["runs"]) for row in flaky] == [
        (["main"], 3, 6)
    ]
    since = call("since", "test_a", "--branch", "main").out
    assert "first seen:    2026-11-01 02:00" in since
    assert "last passed:   2026-11-01 05:00" in since
    assert since.endswith(
        "branch:        main\nstate there:   flaky since 2026-11-01 02:00, run 00000000\n"
    )
    since = call("since", "test_a").out
    assert "last passed:   not known" in since
    assert "state there:   broken since 2026-11-01 10:00" in since
    assert (
        "known on x*; it has no pass" in call("since", "test_a", "--branch", "x*").err
    )
    (fingerprint,) = {
        row["fingerprint"] for row in json.loads(call("top", "--format", "json").out)
    }
    none = call("since", fingerprint, "--branch", "x*")
    assert none.code == 2
    assert "no run on x* had it; branches that had it: dev, main" in none.err


def test_what_is_new(call: Call) -> None:
    """Exit code 1 says that something is new or came back."""
    call("add", write(1, test_a="failed"), write(2, test_a="failed"))
    known = call("new", write(3, test_a="failed"))
    assert known.code == 0
    assert "known since 2026-11-01 (0000000), 2 earlier runs" in known.out
    new = call("new", write(4, test_b="failed"))
    assert new.code == 0  # the same cause in another test
    other = call(
        "new", write(5, test_b="failed", message="assert 1 == 2", project="farm")
    )
    assert (other.code, "new" in other.out) == (1, True)


def test_what_is_proven(call: Call) -> None:
    """Where causes and tests are listed, the type of what is proven stands behind them."""
    path = Path(write(1, test_a="failed"))
    report = json.loads(path.read_text())
    proof = {**NO_PROOF, "type": "order.polluted", "status": "proven"}
    path.write_text(
        json.dumps(with_proofs(report, {report["causes"][0]["key"]: proof}))
    )
    call(
        "add",
        str(path),
        *(write(n, test_a="failed" if n % 2 else "passed") for n in (2, 3, 4)),
    )
    for asked in (("top",), ("new", write(5, test_a="failed"))):
        assert call(*asked).out.endswith(" [order.polluted, proven]\n")
    assert "  order.polluted, proven  " in call("flaky").out
    assert " [order.polluted, proven]\nfingerprint:" in call("since", "test_a").out
    for asked in (
        ("top",),
        ("flaky",),
        ("new", write(5, test_a="failed")),
        ("since", "test_a"),
    ):
        (row,) = json.loads(call(*asked, "--format", "json").out)
        assert row["proof"] == "order.polluted"


def test_tests_that_fail_together(call: Call) -> None:
    """They are one row with what they have in common, and each its own where that is asked."""
    refused = "ConnectionRefusedError: [Errno 111] Connection refused"
    for number in range(40):
        tests = {f"test_{name}": None if number % 5 else refused for name in "abc"}
        tests["test_alone"] = None if number % 7 else "AssertionError: assert 1 == 2"
        Path(f"{number}.json").write_text(
            json.dumps(as_json(a_mixed_report(number, tests)))
        )
    call("add", *(f"{number}.json" for number in (0, 1, 5, 6, 10)))
    said = call("companions")
    assert (said.code, said.out) == (2, "")
    assert (
        "of 3 flaky tests fewer than two have failed often enough in the latest 5 runs"
        in said.err
    )
    call("add", *(f"{number}.json" for number in range(40)))
    heading, together = call("companions").out.splitlines()
    assert " ".join(heading.split()) == (
        "failed last failed type companions first of them evidence"
    )
    assert together.startswith(
        "8 of 40  2026-11-02 11:00  axis.network, suspected  these 3 fail "
    )
    assert (
        f"these 3 fail together: {refused}  {TEST}test_a  raises ConnectionR"
        in together
    )
    rows = call("flaky").out.splitlines()[1:]
    assert [row.split("tests/")[1] for row in rows] == [
        f"test_x.py::test_a and 2 more: {refused}  raises ConnectionRefusedError: 8 of 8 failures",
        "test_x.py::test_alone",
    ]
    (row, _) = json.loads(call("flaky", "--format", "json").out)
    assert (row["companions"], row["common"]) == (
        [f"{TEST}test_b", f"{TEST}test_c"],
        refused,
    )
    assert (row["type"], row["status"]) == ("axis.network", "suspected")
    assert call("flaky", "--each").out.count("axis.network, suspected") == 3
    assert call("top").out.count("\n") == call("top", "--each").out.count("\n") == 3
    assert call("companions", "--nodeid", "none").err == (
        "failure-taxonomy: no flaky tests fail together\n"
    )


def test_runs_that_the_environment_failed(call: Call) -> None:
    """They are told beside what they are left out of, and have a list of their own."""
    refused = "ConnectionRefusedError: [Errno 111] Connection refused"
    for number in range(8):
        storm = number in (1, 2, 4, 6)
        tests = {
            f"test_{each}": refused if storm and each else None for each in range(12)
        }
        tests["test_0"] = None if number % 2 else "AssertionError: assert 1 == 2"
        Path(f"{number}.json").write_text(
            json.dumps(as_json(a_mixed_report(number, tests)))
        )
    assert call("add", *(f"{number}.json" for number in range(8))).code == 0
    said = call("flaky")
    assert said.out == ""
    assert said.err.splitlines() == [
        "failure-taxonomy: no test is flaky",
        *(
            f"failure-taxonomy: run 00000000: {failed} of 12 tests failed: "
            f"the connection was refused: first test_1 (tests/test_cart.py:7); not counted"
            for failed in (11, 11, 11)
        ),
    ]
    heading, first, *rest = call("storms").out.splitlines()
    assert heading.split() == ["started", "run", "commit", "branch", "took", "storm"]
    assert first.startswith("2026-11-01 06:00")
    assert (
        "  11 of 12 tests failed: the connection was refused: first test_1 (" in first
    )
    assert len(rest) == 3
    none = call("storms", "--nodeid", "none").err
    assert none.startswith(
        "failure-taxonomy: there was no storm: no run in which the environment"
    )
    (row, *_) = json.loads(call("list", "--format", "json").out)
    assert (row["storm"], row["storm_tests"]) == (None, None)


def test_the_owner_is_who_has_to_mend_it(call: Call) -> None:
    """A refused connection is the environment's, whose code soever raised it, as reports say it."""
    refused = "ConnectionRefusedError: [Errno 111] refused: localhost:6379"
    Path("a.json").write_text(
        json.dumps(as_json(a_mixed_report(0, {"test_a": refused})))
    )
    Path("b.json").write_text(
        json.dumps(as_json(a_mixed_report(1, {"test_a": "AssertionError: no"})))
    )
    assert call("add", "a.json", "b.json").code == 0
    for question in ("top", "list"):
        (row,) = json.loads(
            call(question, "--owner", "environment", "--format", "json").out
        )
        assert row["owner"] == "environment"
        assert (
            row["kind"] == json.loads(Path("a.json").read_text())["causes"][0]["kind"]
        )


def write_trial(number: int, task: str, system: str, end: str) -> str:
    """Write the report of a trial that passed, or that failed by whom `end` says."""
    path = Path(write(number, test_a="passed" if end == "passed" else "failed"))
    report = json.loads(path.read_text())
    if end != "passed":
        report["verdict"]["charge_to"] = end
    attempt = {"subtask": task, "approach": system}
    report["attempt"] = attempt
    path.write_text(json.dumps(report))
    return str(path)


def test_rates_of_systems(call: Call) -> None:
    """How often systems pass, and how much of their difference is not their own doing."""
    first = [*8 * ["passed"], *6 * ["environment"], *6 * ["subject"]]
    second = [*14 * ["passed"], *5 * ["subject"], "ambiguous", "passed"]
    call("add", write(100, test_a="failed"))
    assert (
        call("rates").err
        == "failure-taxonomy: no run names the task that it attempted\n"
    )
    for system, ends in (("old", first), ("new", second)):
        number = 30 if system == "old" else 60
        call(
            "add",
            *(write_trial(number + n, f"t{n}", system, e) for n, e in enumerate(ends)),
        )
    lines = [re.split("  +", line) for line in call("rates").out.splitlines()]
    assert lines == [
        [
            *("system", "trials", "passed", "rate (95 %)"),
            *("environment", "verifier", "ambiguous", "unknown"),
            *("without environment and verifier", "at most"),
        ],
        [
            *("new", "21", "15", "71.4% (47.8% to 88.7%)", "0", "0", "1", "0"),
            *("71.4% (47.8% to 88.7%)", "76.2%"),
        ],
        [
            *("old", "20", "8", "40.0% (19.1% to 63.9%)", "6", "0", "0", "0"),
            *("57.1% (28.9% to 82.3%)", "70.0%"),
        ],
    ]
    said = call("rates", "--compare", "old", "new")
    assert (
        said.err == "failure-taxonomy: not compared: 1 task that only new has tried\n"
    )
    heading, plain, left_out, passed, *_ = [
        re.split("  +", x) for x in said.out.splitlines()
    ]
    assert heading == [
        *("failures of", "counted", "old", "new", "tasks"),
        *("second less first, points (95 %)", "of that explained"),
    ]
    assert [each.strip() for each in plain[:5]] == ["", "failed", "12", "6", "20"]
    assert plain[5].startswith("+30.0 (+")
    assert left_out[:5] == ["environment", "left out", "6", "0", "14"]
    assert left_out[-1] == "+30.0, 100% of it"
    assert passed[-1].endswith("), 100% of it")
    rows = json.loads(call("rates", "--by", "both", "--format", "json", "-n", "1").out)
    assert (rows[0]["task"], rows[0]["system"], rows[0]["rate"]) == ("t0", "new", 1.0)
    assert call("rates", "--compare", "old", "x").code == 2


def test_rates_of_a_harness(call: Call) -> None:
    """What `convert --from` makes of a harness's results can be added and asked."""
    harness_folders.terminal_bench_run(Path("run"))
    assert main(["convert", "--from", "terminal-bench", "run", "-o", "trials"]) == 0
    assert call("add", "trials").out == "8 runs added, 0 known already\n"
    (row,) = json.loads(call("rates", "--format", "json").out)
    assert row["system"] == "terminus (anthropic/sonnet)"
    names = (
        "trials",
        "passed",
        "subject",
        "environment",
        "verifier",
        "ambiguous",
        "unknown",
    )
    assert [row[name] for name in names] == [8, 3, 2, 1, 0, 2, 0]
    assert (row["rate"], row["rate_without"], row["at_most"]) == (3 / 8, 3 / 7, 0.75)


def test_formats_for_programs(call: Call) -> None:
    """JSON and CSV have every field; neither a spreadsheet nor Markdown executes a name."""
    call("add", write(1, failing=("=cmd()|x::<b>_a_[1]",)))
    (row,) = csv.DictReader(io.StringIO(call("list", "--format", "csv").out))
    assert row["nodeid"] == "'=cmd()|x::<b>_a_[1]"
    assert row["started_at"] == "2026-11-01T01:00:00Z"
    markdown = call("list", "--format", "markdown").out.splitlines()
    assert markdown[1].startswith("| --- | --- |")
    assert r"&#124;x::&lt;b&gt;\_a\_\[1\]" in markdown[2]
    assert json.loads(call("flaky", "--format", "json").out) == []


def test_tasks_are_shown_as_their_program_does(call: Call) -> None:
    """The reason stands behind the status, unless it is not known."""
    with open_history(rootdir=".") as history:
        record_task(history, "a", "failed", log="working\n[GZA_FAILURE:MAX_TURNS]\n")
        record_task(history, "b", "failed", log="nothing said")
        record_task(history, "c", "completed")
    shown = [line[:28].rstrip() for line in call("tasks").out.splitlines()[1:]]
    assert shown == [
        "a     ✗ failed (MAX_TURNS)",
        "b     ✗ failed",
        "c     ✓ completed",
    ]
    said = call("unmerged")
    assert said.code == 1
    assert said.out.count("✗ failed") == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("list", "--since", "yesterday"),
            "'yesterday' is no time; give one such as 2026-01-31",
        ),
        (("list", "-n", "0"), "'0' is no number of rows"),
        (("list", "--reason", "BAD"), "invalid choice: 'BAD'"),
        (
            ("list", "--history", "nothing://x"),
            "nothing://... is not an SQLAlchemy URL",
        ),
        (("since", "123456"), "there is no history yet"),
    ],
)
def test_what_is_wrong_is_told(call: Call, words: tuple[str, ...], told: str) -> None:
    """Exit code 2 and a line, without a traceback."""
    said = call(*words)
    assert said.code == 2
    assert told in said.err
    assert "Traceback" not in said.err

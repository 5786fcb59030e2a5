"""A report as CTRF: valid by the validator that its authors publish, and with counts that agree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.faces.ctrf import WITHOUT_TESTS, render
from pytest_failure_taxonomy.logs.foreign import report_from
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.report.merging import merge_reports
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import (
    ContinuousIntegration,
    Counts,
    Environment,
    InFlightTest,
    ProcessExit,
    Shard,
    TestOutcome,
    TestRun,
)
from tests.helpers.reports import (
    make_context,
    make_failure,
    make_full_run,
    make_report,
    make_run,
)

NEEDED: Final = "FAILURE_TAXONOMY_TESTS_NEED_NPM"
"""An environment variable: where npm's package `ctrf` can't be had, a test fails, not skips."""
OWN: Final = "pytest_failure_taxonomy"
VALIDATOR: Final = """
import { validate, calculateSummary } from "ctrf";
import { readFileSync } from "node:fs";
const told = JSON.parse(readFileSync(0)).map((each) => [
    validate(each), calculateSummary(each.results.tests), each.results.summary]);
console.log(JSON.stringify(told));
"""
HOSTILE: Final = "\x1b[2J\x00\u202e<b>&]]>\ud800"

STATUSES = {outcome: row["ctrf"] for outcome, row in packaged_table("outcomes").items()}


def ctrf_of(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report as CTRF, parsed."""
    document: dict[str, Any] = json.loads(render(decode_report(report)))
    return document


def a_test(nodeid: str, outcome: TestOutcome, **given: Any) -> TestRun:
    """Return one test, with a start and a duration."""
    fields: dict[str, Any] = {"start_seconds": 1.0, "duration_seconds": 0.5}
    return TestRun(nodeid=nodeid, outcome=outcome, **{**fields, **given})


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tests by their names."""
    return {test["name"]: test for test in document["results"]["tests"]}


def a_run_of_every_outcome() -> dict[str, Any]:
    """Return the report of a run that lists a test of every outcome."""
    outcomes: tuple[TestOutcome, ...] = (
        "passed", "failed", "error", "skipped", "xfailed", "xpassed", "flaky",
    )  # fmt: skip
    run = make_run(
        tests=tuple(a_test(f"a.py::T::{outcome}", outcome) for outcome in outcomes),
        failures=(
            make_failure(nodeid="a.py::T::failed", attempts=3),
            make_failure(nodeid="a.py::T::error", phase="setup", worker="gw1"),
        ),
        counts=Counts(collected=7, passed=2, failed=1, errors=1, rerun=3, flaky=1),
    )
    return make_report(run)


def test_a_test_of_each_outcome() -> None:
    """Each has CTRF's status, and keeps ours; times are milliseconds since 1970."""
    tests = by_name(ctrf_of(a_run_of_every_outcome()))
    said = {name.rpartition("::")[2]: test["status"] for name, test in tests.items()}
    assert said == {name: STATUSES[name] for name in said}
    assert {test["rawStatus"] for test in tests.values()} == set(said)
    passed = tests["a.py::T::passed"]
    assert passed["suite"] == ["a.py", "T"]
    assert passed["filePath"] == "a.py"
    assert passed["stop"] - passed["start"] == passed["duration"] == 500
    assert passed["start"] == 1769860800125 + 1000


def test_failures_and_retries() -> None:
    """CTRF's own fields have message, trace, retries and whether a test is flaky."""
    tests = by_name(ctrf_of(a_run_of_every_outcome()))
    failed = tests["a.py::T::failed"]
    assert failed["message"] == "AssertionError: assert 3 == 4"
    assert "assert 3 == 4" in failed["trace"]
    assert failed["labels"] == {
        "reason": "TESTS_FAILED",
        "kind": "test.failed",
        "cause": failed["extra"][OWN]["failures"][0]["fingerprint"],
    }
    assert failed["retries"] == 2
    assert [each["attempt"] for each in failed["retryAttempts"]] == [1, 2]
    assert failed["extra"][OWN]["failures"][0]["fingerprint"]
    assert "flaky" not in failed
    flaky = tests["a.py::T::flaky"]
    assert flaky["flaky"] is True
    assert tests["a.py::T::error"]["threadId"] == "gw1"


def shard_of(number: int, **job: Any) -> dict[str, Any]:
    """Return the report of a shard that a CI job ran, with one failed test."""
    ci = ContinuousIntegration(provider="gitlab", **{"run_id": "77", **job})
    environment = Environment(python="3.13.1", platform="Linux", pytest="9.0.0", ci=ci)
    context = make_context(
        id=f"{number:032x}",
        shard=Shard(index=number, total=2),
        environment=environment,
        args=(f"--failure-taxonomy-shard={number}/2",),
    )
    failed = make_failure(nodeid=f"a.py::t{number}", attempts=3)
    return make_report(make_run(failures=(failed,), tests=()), context=context)


def test_each_id_means_one_thing() -> None:
    """The run's is shared by shards and what is merged of them, the document's by no other."""
    shards = [shard_of(number, job=f"tests {number}/2") for number in (1, 2)]
    merged = merge_reports(shards)
    elsewhere = shard_of(1, job="e2e 1/2")
    alone = shard_of(1, run_id=None)
    shorter = {**shards[0], "failures": [], "groups": []}
    reports = [*shards, merged, elsewhere, alone, shorter]
    documents = [ctrf_of(report) for report in reports]
    assert documents == [ctrf_of(report) for report in reports]
    ids = [each["reportId"] for each in documents]
    assert len({*map(UUID, ids)}) == len(ids)
    runs = [each["runId"] for each in documents]
    assert runs[0] == runs[1] == runs[2] == runs[5] != runs[3]
    assert runs[4] == alone["run"]["id"]
    parts = [each["results"]["environment"].get("shardId") for each in documents]
    assert parts[:3] == ["1/2", "2/2", None]
    first, second, both = ([*by_name(each).values()] for each in documents[:3])
    assert both == [*first, *second]  # with the ids of tests and attempts
    assert [test["testId"] for test in both] == ["a.py::t1", "a.py::t2"]
    attempts = [each["attemptId"] for test in both for each in test["retryAttempts"]]
    assert len({*attempts}) == len(attempts) == 4
    assert (
        first[0]["retryAttempts"][0]
        != by_name(documents[4])["a.py::t1"]["retryAttempts"][0]
    )


@pytest.mark.parametrize("attempts", [1, 2, 101, 102, 5000])
def test_retries_are_the_attempts_that_are_listed(
    attempts: int, tmp_path: Path
) -> None:
    """Whether some are left out or not; a reader finds the same number in both fields."""
    run = make_run(
        failures=(make_failure(nodeid="a.py::t", attempts=attempts),),
        tests=(a_test("a.py::t", "failed"),),
        counts=Counts(collected=1, failed=1, rerun=attempts - 1),
    )
    document = ctrf_of(make_report(run))
    test = by_name(document)["a.py::t"]
    listed = test.get("retryAttempts", [])
    assert test.get("retries", 0) == len(listed) == min(attempts - 1, 100)
    assert [each["attempt"] for each in listed] == [*range(1, len(listed) + 1)]
    for _ in range(2):
        (tmp_path / "c.json").write_text(json.dumps(document), "utf-8")
        environment = make_context().environment
        again = report_from(
            "ctrf", tmp_path / "c.json", rootdir=tmp_path, environment=environment
        )
        assert again.summary.rerun == len(listed)
        assert [each.attempts for each in again.failures] == [1 + len(listed)]
        test.pop("retries", None)  # as of a writer that gives the list alone


@pytest.mark.parametrize("reruns", [2, 3])
def test_retries_that_nobody_counted_are_not_made_up(reruns: int) -> None:
    """How often a flaky test was run again isn't known, whatever the run's count."""
    run = make_run(
        tests=(a_test("a.py::a", "flaky"), a_test("a.py::b", "flaky")),
        counts=Counts(collected=2, passed=2, flaky=2, rerun=reruns),
    )
    for test in by_name(ctrf_of(make_report(run))).values():
        assert test["flaky"]
        assert test.keys().isdisjoint({"retries", "retryAttempts"})


def test_failures_of_the_session() -> None:
    """They stand in `extra` under our name, with counts that agree."""
    document = ctrf_of(make_report())
    results = document["results"]
    own, counts = results["extra"][OWN], results["summary"]["extra"][OWN]
    assert own["verdict"]["reason"] == "TESTS_FAILED"
    for name in ("collection_errors", "internal_errors"):
        assert len(own[name]) == counts[name] == 2
    assert counts["in_flight"] == 1
    assert counts["not_run"] == results["summary"]["pending"] == 2
    assert results["environment"]["healthy"] is False
    assert WITHOUT_TESTS in own["notes"]


def test_a_run_that_died_has_no_green_face() -> None:
    """The test that the verdict names has failed; another one that was running is `other`."""
    run = make_run(
        finished=False,
        exit=ProcessExit(code=139, signal="SIGSEGV", source="watcher", observed=True),
        tests=(a_test("a.py::ok", "passed"),),
        in_flight=tuple(
            InFlightTest(
                nodeid=f"a.py::{name}", phase="call", elapsed_seconds=2.5, output="a\nb"
            )
            for name in "xy"
        ),
    )
    document = ctrf_of(make_report(run, completeness="reconstructed"))
    tests = by_name(document)
    assert [tests[f"a.py::{name}"]["status"] for name in "xy"] == ["failed", "other"]
    assert "crashed" in tests["a.py::x"]["message"]
    assert tests["a.py::y"]["message"] == "it was in its call when the run ended"
    assert tests["a.py::x"]["duration"] == 2500
    assert tests["a.py::x"]["stdout"] == ["a", "b"]
    assert document["results"]["summary"]["failed"] == 1


def test_without_the_list_of_tests_failures_stand_alone() -> None:
    """The counts are those of the list; the run's own counts and a note say what is missing."""
    run = make_run(
        failures=(make_failure(),), counts=Counts(collected=9, passed=8, failed=1)
    )
    results = ctrf_of(make_report(run))["results"]
    assert (results["summary"]["tests"], results["summary"]["passed"]) == (1, 0)
    assert results["summary"]["extra"][OWN]["counts"]["passed"] == 8
    assert results["extra"][OWN]["notes"] == [WITHOUT_TESTS]
    assert results["tests"][0]["duration"] == 250


TEXTS: Final = st.text(max_size=30) | st.just(HOSTILE)
NAMES: Final = st.lists(TEXTS, max_size=4, unique=True)


@st.composite
def reports(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a report with hostile texts, listing its tests or not."""
    names = draw(NAMES)
    outcomes: st.SearchStrategy[TestOutcome] = st.sampled_from(get_args(TestOutcome))
    seconds = st.none() | st.floats(0, 1e300)
    run = make_run(
        finished=draw(st.booleans()),
        exit=ProcessExit(code=draw(st.sampled_from([None, 0, 1, 139])), source="none"),
        failures=tuple(
            make_failure(
                nodeid=name,
                message=draw(TEXTS),
                traceback=draw(st.none() | TEXTS),
                attempts=draw(st.integers(1, 10**6)),
                duration_seconds=draw(seconds),
                worker=draw(st.none() | TEXTS),
            )
            for name in draw(NAMES)
        ),
        in_flight=tuple(
            InFlightTest(
                nodeid=name, phase="call", elapsed_seconds=draw(seconds), output=name
            )
            for name in draw(NAMES)
        ),
        not_run=tuple(draw(NAMES)),
        counts=Counts(rerun=draw(st.integers(0, 9)), flaky=draw(st.integers(0, 2))),
        tests=draw(st.none())
        if draw(st.booleans())
        else tuple(
            a_test(
                name, draw(outcomes), start_seconds=draw(seconds), duration_seconds=None
            )
            for name in names
        ),
    )
    return make_report(run)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(report=reports())
def test_counts_agree_with_the_list(report: dict[str, Any]) -> None:
    """Whatever a report says, the summary counts the list of tests, and each test is there once."""
    document = ctrf_of(report)
    assert document == ctrf_of(report)
    tests, summary = document["results"]["tests"], document["results"]["summary"]
    counts = Counter(test["status"] for test in tests)
    assert summary["tests"] == len(tests)
    assert {each: summary[each] for each in set(STATUSES.values())} == {
        each: counts[each] for each in set(STATUSES.values())
    }
    assert summary["start"] <= summary["stop"]
    named = [test["name"] for test in tests]
    assert len(set(named)) == len(named)


@cache
def validator() -> Path:
    """Return a folder in which node finds the published package and our program."""
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="ctrf-"))
    npm, problem = shutil.which("npm"), "there is no npm"
    if npm and shutil.which("node"):
        done = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "ctrf"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        problem = (
            ""
            if done.returncode == 0
            else f"npm can't install ctrf: {done.stderr[-300:]}"
        )
    if problem and os.environ.get(NEEDED):
        pytest.fail(f"{problem}; {NEEDED} is set")
    if problem:
        pytest.skip(f"NO VALIDATION OF CTRF: {problem}")
    (folder / "validate.mjs").write_text(VALIDATOR, "utf-8")
    return folder


def validated(documents: Sequence[dict[str, Any]]) -> list[Any]:
    """Return what the published validator says of each document, and the sums that it makes."""
    done = subprocess.run(
        ["node", "validate.mjs"],
        cwd=validator(),
        input=json.dumps(documents),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers: list[Any] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module", autouse=True)
def _remove_validator() -> Any:
    yield
    if validator.cache_info().currsize:
        shutil.rmtree(validator(), ignore_errors=True)


@st.composite
def several(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw reports in numbers, because each start of node takes a while."""
    return draw(st.lists(reports(), min_size=20, max_size=30))


@pytest.mark.slow
@pytest.mark.room("faces", "report")
@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large,
                           HealthCheck.large_base_example],
)  # fmt: skip
@given(drawn=several())
def test_the_published_validator_agrees(drawn: list[dict[str, Any]]) -> None:
    """Npm's `ctrf` finds every document valid, and counts the same."""
    made = [make_report(), make_report(make_run()), a_run_of_every_outcome(), *drawn]
    for validation, counted, said in validated([ctrf_of(each) for each in made]):
        assert validation == {"valid": True, "errors": []}
        for name in ("tests", "passed", "failed", "skipped", "pending", "other"):
            assert counted[name] == said[name]
        assert counted.get("flaky", 0) == said["flaky"]


@pytest.mark.slow
@pytest.mark.room("faces", "report")
def test_the_published_validator_refuses() -> None:
    """It does refuse what is no CTRF: the test before is worth something."""
    document = ctrf_of(make_report(make_full_run()))
    document["results"]["summary"]["passed"] = "many"
    ((validation, _, _),) = validated([document])
    assert not validation["valid"]


def test_the_page_says_the_same() -> None:
    """The table of outcomes in the documentation has the status that is written for each."""
    page = Path(__file__).parents[3] / "docs" / "reference" / "other-vocabularies.md"
    table = (
        page.read_text("utf-8")
        .partition("## How a test ended")[2]
        .partition("## How a run")[0]
    )
    rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    said = {
        row[1].strip("`"): row[4]
        for row in rows
        if len(row) == 7 and row[1].startswith("`")
    }
    assert said.keys() == STATUSES.keys() == {*get_args(TestOutcome), "not_run"}
    for outcome, status in STATUSES.items():
        assert said[outcome].startswith(f"`{status}`"), outcome

"""Merging reports: of shards, of reruns, of stages; in any order, in any steps, however often."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy import merge_reports
from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.errors import ReportError
from pytest_failure_taxonomy.report.amend import judge_causes_again
from pytest_failure_taxonomy.report.load import as_json, decode_report
from pytest_failure_taxonomy.report.model import SCHEMA_ID
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from pytest_failure_taxonomy.report.summary import advice_of, merged_runs
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    Counts,
    GitState,
    InFlightTest,
    Interruption,
    ProcessExit,
    RaisedException,
    RunEvidence,
    Shard,
)
from pytest_failure_taxonomy.taxonomy.judgement import Stage
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import (
    NO_SURROUNDINGS,
    assert_valid_report,
    make_context,
    make_failure,
    make_full_run,
    make_report,
    make_run,
)

SIGKILLED = {
    "exit": ProcessExit(code=137, signal="SIGKILL", observed=True, source="watcher"),
    "finished": False,
}


def a_run(
    number: int,
    run: RunEvidence | None = None,
    *,
    shard: tuple[int, int] | None = None,
    args: tuple[str, ...] = ("--failure-taxonomy",),
    **changes: Any,
) -> dict[str, Any]:
    """Return the report of one of several runs, which follow each other by minutes."""
    context = make_context(
        id=f"{number:032x}",
        started_at=f"2026-01-31T12:{number % 60:02d}:00.125Z",
        args=args,
        shard=None if shard is None else Shard(index=shard[0], total=shard[1]),
    )
    report = copy.deepcopy(make_report(run or make_run(), context=context))
    return {**report, **changes}


def failing(*names: str, message: str = "assert 3 == 4", **given: Any) -> RunEvidence:
    """Return a run in which tests failed, and one passed."""
    exception = make_failure().exception
    assert exception is not None
    failures = tuple(
        make_failure(
            nodeid=f"tests/test_x.py::{name}",
            message=message,
            exception=RaisedException(
                type="AssertionError",
                module="builtins",
                message=message,
                bases=exception.bases,
                raised_in=exception.raised_in,
            ),
        )
        for name in names
    )
    counts = Counts(collected=len(names) + 1, passed=1, failed=len(names))
    return make_run(failures=failures, counts=counts, **given)


def merged(*reports: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Merge reports into a valid one."""
    report = merge_reports(reports, **options)
    assert_valid_report(report)
    return report


def reason_of(report: dict[str, Any]) -> tuple[str, str] | None:
    """Return reason and kind."""
    verdict = report["verdict"]
    return None if verdict is None else (verdict["reason"], verdict["kind"])


SAMPLES = [
    a_run(1, shard=(1, 4)),
    a_run(2, failing("a", "b"), shard=(2, 4)),
    a_run(3, failing("c", "d", message="no such key"), shard=(3, 4)),
    a_run(4, make_full_run(), shard=(4, 4)),
    a_run(5, failing("a"), shard=(2, 4), args=("--failure-taxonomy", "--lf")),
    a_run(6, make_run(), shard=(2, 4), args=("--failure-taxonomy", "--lf")),
    a_run(7, make_run(**SIGKILLED), completeness="reconstructed"),
    a_run(9, failing("e", stage=Stage.BASELINE_RUN)),
    a_run(
        8,
        make_run(
            interruptions=(
                Interruption(exception="KeyboardInterrupt", message="ctrl-c"),
            )
        ),
    ),
]


@pytest.mark.slow
@given(data=st.data())
def test_order_steps_and_repetition_do_not_matter(data: st.DataObject) -> None:
    """Associative, commutative and idempotent, whatever runs are merged."""
    numbers = data.draw(
        st.lists(st.sampled_from(range(len(SAMPLES))), min_size=1, max_size=8)
    )
    chosen = [SAMPLES[number] for number in numbers]
    whole = merge_reports(chosen)
    shuffled = [SAMPLES[number] for number in data.draw(st.permutations(numbers))]
    assert merge_reports(shuffled) == whole
    cut = data.draw(st.integers(0, len(shuffled)))
    parts = [shuffled[:cut], shuffled[cut:]]
    steps = [merge_reports(part) for part in parts if part]
    known = [*chosen, *steps]
    again = data.draw(st.lists(st.sampled_from(range(len(known))), max_size=3))
    assert merge_reports([*steps, *(known[number] for number in again)]) == whole
    assert merge_reports([whole, whole]) == whole


def test_lists_are_cut_in_the_same_way_in_any_order() -> None:
    """Where a report has no room for all failures, the first ones of the runs' order stay."""
    reports = [
        a_run(
            number, failing(*(f"t{number}_{n}" for n in range(600))), shard=(number, 3)
        )
        for number in (1, 2, 3)
    ]
    whole = merged(*reports)
    assert len(whole["failures"]) == 1000
    assert whole["limits"]["failures_omitted"] == 800
    assert whole["summary"]["failed"] == 1800
    assert whole["groups"][0]["count"] == 1800
    one, two, three = reports
    assert merge_reports([merge_reports([three, two]), one]) == whole
    assert merge_reports([two, merge_reports([one, three])]) == whole


def test_a_report_merged_by_an_older_version() -> None:
    """It lacks fields that came later, and can be merged again all the same."""
    older = json.loads(json.dumps(merge_reports(SAMPLES[:2])))
    own = {"merged": older.pop("merged"), "notes": older.pop("notes")}
    for run in own["merged"]["runs"]:
        del run["bench_shards"], run["causes"], run["limits"]["causes_omitted"]
        del run["name"], run["surroundings"], run["is_from_top"]
    older["extensions"] = {"pytest_failure_taxonomy": own}
    older |= {"$schema": SCHEMA_ID.replace("1.3", "1.2"), "schema_version": "1.2"}
    loaded = as_json(decode_report(older))
    report, expected = merge_reports([loaded, SAMPLES[2]]), merge_reports(SAMPLES[:3])
    assert_valid_report(report)
    # Nobody had asked it whom its failures are charged to.
    assert report["verdict"] == {**expected["verdict"], "charge_to": None}
    for field in ("key", "count", "nodeids", "fingerprints"):
        assert [each[field] for each in report["causes"]] == [
            each[field] for each in expected["causes"]
        ]


def test_shards_of_one_run() -> None:
    """Counts add up, causes are joined, and the verdict is of all."""
    report = merged(*(SAMPLES[:3]), a_run(4, shard=(4, 4)))
    assert reason_of(report) == ("TESTS_FAILED", "test.failed")
    assert report["verdict"]["message"] == "4 of 8 tests failed, 2 causes"
    assert (report["summary"]["failed"], report["summary"]["passed"]) == (4, 4)
    assert [group["count"] for group in report["groups"]] == [2, 2]
    assert [cause["count"] for cause in report["causes"]] == [2, 2]
    assert [each["nodeid"][-1] for each in report["failures"]] == ["a", "b", "c", "d"]
    assert report["run"]["shard"] is None
    assert report["run"]["duration_seconds"] == 3 * 60 + 12.5
    assert report["completeness"] == "full"


def test_runs_at_the_end_of_time() -> None:
    """Times that no calendar can add up are no traceback."""
    reports = [a_run(1, shard=(1, 2)), a_run(2, shard=(2, 2))]
    for report in reports:
        report["run"].update(
            started_at="9999-12-31T23:59:59.999Z", duration_seconds=1e20
        )
    assert merged(*reports)["run"]["duration_seconds"] == 1e20


@pytest.mark.parametrize(
    ("reports", "expect", "words"),
    [
        (SAMPLES[:1], None, "3 shards are missing"),
        ([a_run(1, shard=(1, 2))], None, "shard 2 of 2 is missing"),
        (
            [a_run(1, shard=(1, 2)), a_run(2, shard=(2, 2))],
            3,
            "shard 3 of 3 is missing",
        ),
        ([a_run(1), a_run(2)], 3, "3 reports were expected, 2 are there"),
        ([a_run(1), a_run(2)], 2, None),
        ([a_run(1, shard=(1, 2)), a_run(2, shard=(2, 2))], 2, None),
    ],
)
def test_a_missing_shard_fails(
    reports: list[dict[str, Any]], expect: int | None, words: str | None
) -> None:
    """It is told, whether the shards say how many they are or the user does."""
    report = merged(*reports, expect=expect)
    if words is None:
        assert report["verdict"] is None
    else:
        assert reason_of(report) == ("UNKNOWN", "shard.missing")
        assert words in report["verdict"]["message"]


def test_a_rerun_replaces_what_failed_before() -> None:
    """A test that passes then was flaky; one that fails still fails; counts are those of all."""
    first = a_run(1, failing("a", "b"))
    rerun = a_run(2, failing("b"), args=("--failure-taxonomy", "--lf"))
    report = merged(first, rerun)
    assert [each["nodeid"] for each in report["failures"]] == ["tests/test_x.py::b"]
    assert (report["summary"]["failed"], report["summary"]["flaky"]) == (1, 1)
    last = a_run(3, make_run(), args=("--lf", "--failure-taxonomy"))
    report = merged(first, rerun, last)
    assert report["verdict"] is None
    assert report["summary"]["flaky"] == 2
    again = a_run(3, make_run(counts=Counts(collected=3, passed=3)))
    assert merged(first, again)["verdict"] is not None  # nobody says that it is a rerun
    assert merged(first, again, reruns=True)["verdict"] is None
    of_one = a_run(3, make_run(counts=Counts(collected=1, passed=1)))
    assert merged(first, of_one, reruns=True)["verdict"] is not None  # two have failed


def test_a_rerun_that_died_replaces_nothing() -> None:
    """What it did not come to may fail still."""
    died = a_run(
        2,
        make_run(**SIGKILLED),
        args=("--failure-taxonomy", "--lf"),
        completeness="reconstructed",
    )
    report = merged(a_run(1, failing("a")), died)
    assert [held["kind"] for held in report["reasons"]] == [
        "process.killed",
        "test.failed",
    ]


def cut_short(collected: int, **given: Any) -> RunEvidence:
    """Return a run of `-x`: one test passed, one failed, the others never started."""
    counts = Counts(collected=collected, passed=1, failed=1)
    left = tuple(f"tests/test_x.py::{n}" for n in range(collected - 2))
    return make_run(
        failures=failing("a").failures, counts=counts, not_run=left, **given
    )


@pytest.mark.parametrize("options", [{}, {"reruns": True}])
def test_what_never_ran_is_replaced_by_no_rerun(options: dict[str, Any]) -> None:
    """`--last-failed` after `-x` passes with the one test that failed; the others may fail."""
    first = a_run(1, cut_short(5))
    of_one = make_run(counts=Counts(collected=1, passed=1))
    rerun = a_run(2, of_one, args=("--failure-taxonomy", "--lf"))
    assert reason_of(merged(first, rerun, **options)) == ("TESTS_FAILED", "test.failed")
    # Its files that could be collected never ran.
    stopped = cut_short(2, exit=ProcessExit(code=2, observed=True, source="pytest"))
    assert merged(a_run(1, stopped), rerun, **options)["verdict"] is not None
    others = make_run(counts=Counts(collected=4, passed=4))
    for option in ("--ff", "--stepwise"):
        rerun = a_run(2, others, args=("--failure-taxonomy", option))
        assert merged(first, rerun, **options)["verdict"] is None


def test_a_rerun_that_was_cut_short_is_replaced_by_the_next() -> None:
    """What was to run again is kept by pytest until it has passed."""
    runs = [a_run(1, failing("a", "b", "c"))]
    runs.append(a_run(2, cut_short(3), args=("--failure-taxonomy", "--lf")))
    two = make_run(counts=Counts(collected=2, passed=2))
    runs.append(a_run(3, two, args=("--failure-taxonomy", "--lf")))
    assert merged(*runs)["verdict"] is None


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ({"git_clone": 0, "setup": 0, "final_test": 0}, None),
        (
            {"git_clone": 128, "final_test": 1},
            ("GIT_CLONE_FAILED", "stage.git_clone_failed"),
        ),
        ({"setup": 1, "final_test": 1}, ("SETUP_FAILED", "stage.setup_failed")),
        ({"agent_run": 1, "final_test": 5}, ("TESTS_FAILED", "command.failed")),
    ],
)
def test_stages_of_one_attempt(
    stages: dict[str, int], expected: tuple[str, str] | None
) -> None:
    """The primary reason is that of the earliest precedence, and each stage's own is there."""
    reports = [
        a_run(
            number,
            make_run(
                stage=Stage(stage),
                recorded=False,
                is_pytest=False,
                exit=ProcessExit(code=code, source="supervisor", observed=True),
                counts=Counts(),
            ),
        )
        for number, (stage, code) in enumerate(stages.items())
    ]
    report = merged(*reports)
    found = reason_of(report)
    assert (found and found[0]) == (expected and expected[0])
    runs = report["merged"]["runs"]
    assert [run["run"]["stage"] for run in runs] == list(stages)
    assert [run["verdict"] is not None for run in runs] == [
        code != 0 for code in stages.values()
    ]


def test_a_valid_baseline_adds_no_failure_to_an_attempt() -> None:
    """Its tests failed, as they had to; of baselines alone they are told."""
    baseline = a_run(1, failing("a", stage=Stage.BASELINE_RUN))
    assert baseline["verdict"] is None
    assert len(merged(baseline)["failures"]) == 1
    report = merged(baseline, a_run(2))
    assert (report["verdict"], report["failures"], report["groups"]) == (None, [], [])
    assert (report["summary"]["failed"], report["summary"]["passed"]) == (0, 1)
    assert merged(merged(baseline), a_run(2)) == report


def test_a_broken_build_goes_back_to_the_commit_of_the_valid_baseline() -> None:
    """It loaded there; a proof or a history changes nothing of that."""
    commit = "4f0c2d1" * 5 + "abcde"
    git = GitState(commit=commit, branch="task", dirty=False)
    environment = replace(make_context().environment, git=git)
    context = make_context(id="1" * 32, environment=environment)
    baseline = make_report(failing("a", stage=Stage.BASELINE_RUN), context=context)
    broken = make_run(
        exit=ProcessExit(code=2, source="pytest"),
        collection_failures=(
            CollectionFailure(
                nodeid="tests/test_x.py",
                message="invalid syntax",
                exception=RaisedException(
                    type="SyntaxError",
                    module="builtins",
                    message="invalid syntax",
                    bases=("builtins.SyntaxError", "builtins.Exception"),
                ),
            ),
        ),
    )
    alone = merged(a_run(2, broken))
    assert alone["verdict"]["failure_type"] == "BROKEN_BUILD"
    assert alone["verdict"]["recovery_action"] == "escalate"
    report = merged(baseline, a_run(2, broken))
    assert report["verdict"]["recovery_action"] == "rollback"
    verdict = decode_report(report).verdict
    assert verdict is not None
    first, *others = advice_of(decode_report(report), verdict).steps
    assert first == f"go back to {commit}, the last commit that worked"
    assert others
    again = judge_causes_again(decode_report(report))
    assert as_json(again) == report
    assert merged(merged(baseline), a_run(2, broken)) == report
    failed = merged(baseline, a_run(2, failing("a")))
    assert failed["verdict"]["recovery_action"] == "escalate"


def test_the_more_complete_report_of_a_run_counts() -> None:
    """The one that the run itself has written, rather than one that was reconstructed."""
    rebuilt = a_run(
        1,
        make_run(
            in_flight=(
                InFlightTest(nodeid="a.py::a", phase="call", elapsed_seconds=1.0),
            ),
            **SIGKILLED,
        ),
        completeness="reconstructed",
    )
    whole = a_run(1, failing("a"))
    for reports in ([rebuilt, whole], [whole, rebuilt]):
        report = merged(*reports)
        assert reason_of(report) == ("TESTS_FAILED", "test.failed")
        assert report["in_flight"] == []


def a_package(
    number: int, rootdir: str, root: str | None, *names: str, **given: Any
) -> dict[str, Any]:
    """Return the report of a root directory, which may lie in a repository."""
    report = a_run(number, failing(*names) if names else None, **given)
    report["run"]["invocation"]["rootdir"] = rootdir
    report["surroundings"] = {**NO_SURROUNDINGS, "root": root, "path": "."}
    return report


API, WEB = "/x/shop/api", "/x/shop/packages/web"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_packages_of_one_repository_are_told_apart(order: tuple[int, int]) -> None:
    """Paths begin at the top, and the package whose test of that name passed is not blamed."""
    runs = [a_package(1, API, "api", "a"), a_package(2, WEB, "packages/web")]
    report = merged(*(runs[number] for number in order))
    nodeid = "api/tests/test_x.py::a"
    assert report["run"]["invocation"]["rootdir"] == "/x/shop"
    assert report["verdict"]["nodeid"] == nodeid
    assert [failure["nodeid"] for failure in report["failures"]] == [nodeid]
    assert report["failures"][0]["location"]["path"].startswith("api/")
    for name in ("causes", "groups", "reasons"):
        assert report[name][0]["nodeids"] == [nodeid]
    assert "(api/" in report["causes"][0]["what"]
    assert '"tests/' not in json.dumps(report)
    lines = [*merged_runs(decode_report(report))]
    assert [line.partition(":")[0] for line in lines] == [
        "final_test, api",
        "final_test, packages/web",
    ]
    command = "PYTHONPATH=api pytest"  # as `python -m pytest` in that folder
    assert (
        reproduction_of(decode_report(report)).command(nodeid) == f"{command} {nodeid}"
    )


def test_packages_are_merged_in_any_order_and_steps() -> None:
    """Paths get a folder once, and `--reruns` takes no package for a try of another."""
    one, two = (
        a_package(1, API, "api", "a", "b[//../x]"),
        a_package(2, WEB, "packages/web", "a"),
    )
    three, top = a_package(3, "/x/shop/lib", "lib"), a_package(4, "/x/shop", ".", "a")
    whole = merged(one, two, three, top)
    assert merged(merged(one, two), merged(three, top)) == whole
    assert merged(merged(top, one), merged(merged(three), two), one) == whole
    assert [failure["nodeid"] for failure in whole["failures"]] == [
        "api/tests/test_x.py::a",
        "api/tests/test_x.py::b[//../x]",
        "packages/web/tests/test_x.py::a",
        "tests/test_x.py::a",
    ]
    assert whole["verdict"]["message"].startswith("4 of 8 tests failed")
    assert merged(one, two, three, reruns=True)["summary"]["failed"] == 3
    again = a_package(5, API, "api")
    again["summary"] |= {"collected": 3, "passed": 3}
    assert [
        each["nodeid"] for each in merged(one, two, again, reruns=True)["failures"]
    ] == ["packages/web/tests/test_x.py::a"]


@pytest.mark.parametrize(
    ("roots", "shards"),
    [
        (("/home/runner/a", "/builds/b", "api", "api"), False),
        (("/home/runner/a", "/builds/b", ".", "."), False),
        (("/home/runner/a", "/builds/b", None, None), True),
        (("/home/runner/shop", "C:\\builds\\shop", None, None), False),
        (("/app", "/app", None, "app"), False),
    ],
)
def test_one_root_on_several_machines(
    roots: tuple[str, str, str | None, str | None], shards: bool
) -> None:
    """Its path within the repository is the same, or its name, or they are shards of one run."""
    first, second, root, other = roots
    given: list[dict[str, Any]] = [{}, {}]
    if shards:
        given = [{"shard": (number, 2)} for number in (1, 2)]
    report = merged(
        a_package(1, first, root, "a", **given[0]),
        a_package(2, second, other, "b", **given[1]),
    )
    assert [failure["nodeid"][-1] for failure in report["failures"]] == ["a", "b"]
    assert all(failure["nodeid"].startswith("tests/") for failure in report["failures"])
    assert report["run"]["invocation"]["rootdir"] == second


def test_stages_that_run_no_test_have_no_root() -> None:
    """A clone runs beside the repository."""
    clone = a_run(1, make_run(stage=Stage.GIT_CLONE, recorded=False, counts=Counts()))
    clone["run"]["invocation"]["rootdir"] = "/elsewhere"
    report = merged(clone, a_package(2, API, None, "a"))
    assert report["run"]["invocation"]["rootdir"] == API
    baseline = a_package(3, WEB, "packages/web")
    baseline["run"]["stage"] = "baseline_run"
    told_apart = merged(clone, baseline, a_package(2, API, "api", "a"))
    assert told_apart["verdict"]["nodeid"] == "api/tests/test_x.py::a"


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        (
            [a_package(1, "/x/api", None, "a"), a_package(2, "/x/web", None)],
            r"different root directories \(/x/api, /x/web\) and no common Git repository",
        ),
        (
            [a_package(1, "/x/api", "api", "a"), a_package(2, "/x/web", None)],
            "they have different root directories",
        ),
        ([], "there is no report"),
        ([a_run(1, completeness="running")], "failure-taxonomy finalize"),
        (
            [a_run(1, shard=(1, 2)), a_run(2, shard=(2, 3))],
            "they are shards of 2 and 3",
        ),
        (
            [
                a_run(1, repository={"name": "a/b", "merge_base": None}),
                a_run(2, repository={"name": "a/c", "merge_base": None}),
            ],
            "several repositories: a/b, a/c",
        ),
        (
            [
                a_run(1, merged={"runs": [{}], "reruns": False, "expect": None}),
            ],
            "its list of runs is damaged",
        ),
    ],
)
def test_what_does_not_belong_together(
    reports: list[dict[str, Any]], words: str
) -> None:
    """One line says why."""
    with pytest.raises(ReportError, match=words) as caught:
        merge_reports(reports)
    assert "\n" not in str(caught.value)


Call = Callable[..., int]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return what calls the command in a new folder that holds the samples."""
    monkeypatch.chdir(tmp_path)
    for number, report in enumerate(SAMPLES, 1):
        Path(f"{number}.json").write_text(json.dumps(report))
    return lambda *words: main(["merge", *words])


def test_the_command(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    """It writes the report, prints the verdict, and ends with 1 for a failure."""
    assert call("1.json", "2.json", "3.json", "4.json", "1.json", "-o", "all.json") == 1
    report = json.loads(Path("all.json").read_text())
    assert_valid_report(report)
    said = capsys.readouterr()
    assert said.out == ""
    assert "report: all.json" in said.err
    assert main(["show", "--all", "all.json"]) == 1
    said = capsys.readouterr()
    assert "merged from" in said.out
    assert "final_test, shard 1 of 4: no failure" in said.out
    assert call("7.json", "9.json", "-o", "unnamed.json") == 1
    assert main(["show", "unnamed.json"]) == 1
    assert "final_test, 7.json: " in capsys.readouterr().out
    assert call("all.json", "2.json") == 1
    assert json.loads(capsys.readouterr().out) == report
    assert call("1.json", "--expect", "1") == 1
    assert "3 shards are missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("missing.json", "bad.json"), ["missing.json: ", "bad.json: "]),
        (("1.json", "-o", "1.json/x.json"), ["1.json/x.json can't be written"]),
        (("1.json", "-o", "."), ["-o: "]),
    ],
)
def test_mistakes_are_told(
    call: Call,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    told: list[str],
) -> None:
    """All at once, each in a line, and nothing is written."""
    Path("bad.json").write_text('{"schema_version": "1.2"}')
    before = sorted(Path().iterdir())
    assert call(*words) == 2
    said = capsys.readouterr().err
    for each in told:
        assert each in said
    assert "Traceback" not in said
    assert sorted(Path().iterdir()) == before

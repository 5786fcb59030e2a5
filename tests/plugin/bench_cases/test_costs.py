"""What a run may cost: one cap for all its processes, and everything that was spent counts."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ON_WORKERS,
    SERIAL,
    calls,
    codes_by_case,
    only_bench,
    passing_cases,
    task_class_files,
)

SPENDS: Final = """\
import asyncio
import os
import time

import pytest

from pytest_failure_taxonomy.bench import Answer

CALLS = os.path.join(os.path.dirname(__file__), "calls.txt")


@pytest.fixture(scope="session")
def system_under_test():
    async def answer(case):
        with open(CALLS, "a") as file:
            file.write(case.case_id + "\\n")
        case.spend(case.fields.get("spends", 0), tokens=10)
        if "block" in case.fields:
            time.sleep(case["block"])
        await asyncio.sleep(case.fields.get("sleep", 0))
        if "raises" in case.fields:
            raise RuntimeError(case["raises"])
        return Answer(
            case.input,
            cost_usd=case.fields.get("costs", 0),
            usage={"tokens": 5},
            transcript=[{"role": "user", "content": "hello"}],
        )

    return answer
"""

RAISES: Final = "def grade(case, output):\n    raise ValueError(case['id'])\n"


@pytest.mark.parametrize(
    ("workers", "cost"),
    [
        pytest.param((), "spends", id="serial"),
        pytest.param(("-n", "2"), "costs", id="two-xdist"),
        pytest.param(("-n", "4"), "spends", id="four-xdist"),
    ],
)
def test_a_cap_holds_for_all_workers_together(
    runs: PytestRuns, workers: tuple[str, ...], cost: str
) -> None:
    """No more is spent above it than the cases cost that are in flight."""
    cases = [{**each, cost: 0.1, "sleep": 0.02} for each in passing_cases(80)]
    settings = "concurrency: 4\nmax_cost_usd: 0.5\n"
    runs.write(task_class_files(cases, settings=settings, system=SPENDS))
    run = runs.run("bench", *workers, plugins=[BENCH, "xdist"])
    report = only_bench(run)
    assert 0.5 < report["total_cost_usd"] <= 0.5 + 4 * 0.1 + 1e-9
    assert len(calls(runs)) == report["counts"]["started"] <= 9
    assert report["stopped"] == "the cost cap was reached ($0.50)"
    assert report["run_id"].startswith("partial:")
    assert run.exit_status == 1
    assert run.outcomes is not None
    assert run.outcomes["skipped"] == 80 - len(calls(runs))


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["serial", "xdist"])
def test_a_cap_is_one_for_all_workers_and_continued_runs(
    runs: PytestRuns, workers: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """What `spend` and `Answer` tell adds up, and a run that is continued has spent it already."""
    cases = [
        {**each, "spends": 1, "costs": 0.5, "sleep": 0.02} for each in passing_cases(40)
    ]
    settings = "concurrency: 4\nmax_cost_usd: 1e3\n"
    runs.write(task_class_files(cases, settings=settings, system=SPENDS))
    args = ("bench", *workers, "--bench-max-cost=10")
    run = runs.run(*args, plugins=[BENCH, "xdist"])
    report, started = only_bench(run), len(calls(runs))
    assert 7 <= started == report["counts"]["started"] <= 7 + 4  # $1.50 each
    assert report["stopped"] == "the cost cap was reached ($10.00)"
    assert report["run_id"].startswith("partial:")
    assert (run.exit_status, run.verdict) == (1, ("TESTS_FAILED", "bench.gate"))
    assert f"  stopped: {report['stopped']}" in run.stdout
    assert report["usage"] == {"tokens": 15 * started}
    usage = f"  usage: tokens {15 * started}"
    assert usage in run.stdout
    assert main(["bench", "show", "latest", f"--storage={runs.path / '.bench'}"]) == 0
    assert usage in capsys.readouterr().out.splitlines()
    again = only_bench(
        runs.run(*args, "--bench-resume=latest", plugins=[BENCH, "xdist"])
    )
    assert len(calls(runs)) == started
    assert (again["stopped"], again["usage"]) == (report["stopped"], report["usage"])


def test_cases_that_know_their_bound_stay_below_the_cap(runs: PytestRuns) -> None:
    """A case whose own `max_cost_usd` would exceed the cap is not started."""
    cases = [
        {**each, "costs": 0.2, "max_cost_usd": 0.2, "sleep": 0.02}
        for each in passing_cases(20)
    ]
    settings = "concurrency: 8\nmax_cost_usd: 1.0\n"
    runs.write(task_class_files(cases, settings=settings, system=SPENDS))
    report = only_bench(runs.run("bench", plugins=[BENCH]))
    assert report["total_cost_usd"] == pytest.approx(1.0)
    assert report["counts"]["started"] == 5


@ON_WORKERS
def test_rubrics_that_raise_cost_what_their_systems_cost(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """The cap is reached, though no rubric has said a cost."""
    cases = [{**each, "costs": 0.1, "sleep": 0.02} for each in passing_cases(80)]
    settings = "concurrency: 2\nmax_cost_usd: 0.5\nstop_after_same_failure: 0\n"
    runs.write(task_class_files(cases, settings=settings, rubric=RAISES, system=SPENDS))
    report = only_bench(runs.run("bench", *workers, plugins=[BENCH, "xdist"]))
    assert 0.5 < report["total_cost_usd"] <= 0.7 + 1e-9
    assert set(map(tuple, codes_by_case(report).values())) == {
        ("rubric.malformed_output",)
    }


def test_each_way_to_fail_costs_what_was_spent(runs: PytestRuns) -> None:
    """A timeout, an exception, an answer and a rubric's own cost add up, case by case."""
    cases: list[dict[str, Any]] = [
        {"id": "late", "input": 1, "spends": 1.0, "sleep": 60},
        {"id": "raises", "input": 1, "spends": 2.0, "raises": "no"},
        {"id": "both", "input": 1, "spends": 4.0, "costs": 8.0, "rubric_cost": 16.0},
        {"id": "wrong", "input": 1, "spends": -1},
    ]
    settings = "timeout_per_case_seconds: 0.5\n"
    runs.write(task_class_files(cases, settings=settings, system=SPENDS))
    report = only_bench(runs.run("bench", plugins=[BENCH]))
    costs = {case_id: score["cost_usd"] for case_id, score in report["per_case"]}
    assert costs == {"late": 1.0, "raises": 2.0, "both": 28.0, "wrong": 0.0}
    assert report["total_cost_usd"] == 31.0
    (mode,) = dict(report["per_case"])["wrong"]["failure_modes"]
    assert "spend: cost_usd is -1; give a number of at least 0" in mode["detail"]


@pytest.mark.parametrize("is_saved", [True, False], ids=["kept", "not kept"])
def test_calls_that_a_blocked_loop_discards_are_told_and_paid(
    runs: PytestRuns, is_saved: bool
) -> None:
    """Eighty cases and one that blocks: what was in flight is lost, and nothing is called twice."""
    blocker = {"id": "blocks", "input": 1, "block": 3, "costs": 0.1}
    cases = [
        blocker,
        *({**each, "costs": 0.1, "sleep": 0.05} for each in passing_cases(79)),
    ]
    settings = "timeout_per_case_seconds: 0.5\nconcurrency: 3\n"
    runs.write(task_class_files(cases, settings=settings, system=SPENDS))
    options = () if is_saved else ("--bench-no-save",)
    report = only_bench(runs.run("bench", *options, plugins=[BENCH]))
    assert report["counts"]["passed"] >= 77
    assert len(calls(runs)) == len(set(calls(runs))) == 80
    assert 0.1 * 77 <= report["total_cost_usd"] <= 0.1 * 80 + 1e-9


def test_what_a_cap_leaves_over_is_no_sample(runs: PytestRuns) -> None:
    """No bound, neither of the class nor of a tag or reducer, and a gate that is incomplete."""
    cases = [{**each, "costs": 1.0, "tags": ["web"]} for each in passing_cases(12)]
    settings = "concurrency: 1\nmax_cost_usd: 8\nreducers: [mean]\ngate: {lower_bound_95: 0.99}\n"
    runs.write(task_class_files(cases, settings=settings, system=SPENDS))
    run = runs.run("bench", plugins=[BENCH])
    report = only_bench(run)
    none = {
        "value": None,
        "method": "none: the run is not complete",
        "n": 9,
        "clusters": None,
    }
    figures = (report, report["by_tag"][0], report["reduced"][0])
    assert [each["lower_bound_95"] for each in figures] == [none] * 3
    assert report["mean_score"] == 1.0
    assert report["gate"]["verdict"] == "INCOMPLETE"
    assert report["gate"]["reasons"] == [
        "3 of 12 cases were not run: the cost cap was reached ($8.00)"
    ]
    assert run.exit_status == 1


def test_a_cap_that_stops_a_run_says_so_where_people_look(runs: PytestRuns) -> None:
    """The skipped cases and the summary say why; so does the exit status."""
    cases = [{**each, "costs": 1.0} for each in passing_cases(6)]
    settings = "concurrency: 1\nmax_cost_usd: 2\n"
    runs.write(task_class_files(cases, settings=settings, system=SPENDS))
    run = runs.run("bench", "-rs", plugins=[BENCH])
    output = "\n".join(run.stdout)
    assert "not started: the cost cap was reached ($2.00)" in output
    assert (
        "3 of 6 passed, 3 not run; mean 1.000 of the 3 that were started; no lower"
        in output
    )
    assert ".jsonl; --bench-resume runs what is missing" in output
    assert run.exit_status == 1


@SERIAL
@pytest.mark.parametrize(
    ("call", "exit_status"),
    [
        ("bench.run_sync('echo', system_under_test)", 1),
        ("bench.run_sync('echo', system_under_test, gate=False)", 0),
        (
            "bench.run_sync('echo', system_under_test, case_ids=['case-000', 'case-001'])",
            0,
        ),
    ],
    ids=["whole", "bad on purpose", "some cases"],
)
def test_a_run_in_a_test_that_a_cap_stops_fails(
    runs: PytestRuns, call: str, exit_status: int, workers: tuple[str, ...]
) -> None:
    """As that of items does, though the test itself asserts nothing."""
    cases = [{**each, "costs": 1.0} for each in passing_cases(6)]
    settings = "concurrency: 1\nmax_cost_usd: 2\ngate: {min_passed_cases: 1}\n"
    test = f"def test_it(bench, system_under_test):\n    {call}\n"
    files = task_class_files(cases, settings=settings, system=SPENDS)
    runs.write({**files, "test_it.py": test})
    run = runs.run(
        "test_it.py", *workers, plugins=[BENCH, *(["xdist"] if workers else [])]
    )
    assert (run.exit_status, run.outcomes) == (exit_status, {"passed": 1})
    if exit_status:
        assert run.report["verdict"]["kind"] == "bench.gate"


def test_money_is_decimal_everywhere(
    runs: PytestRuns, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums of costs and usage have the digits that people get, in reports, files and rows."""
    cases = [
        {"id": "a", "input": 1, "spends": 1.17, "costs": 3.52},
        {"id": "b", "input": 2, "spends": 0.1, "costs": 0.2, "rubric_cost": 0.07},
    ]
    system = SPENDS.replace("tokens=10", "meters=0.1").replace(
        '"tokens": 5', '"meters": 0.2'
    )
    runs.write(task_class_files(cases, system=system))
    report = only_bench(runs.run("bench", "--bench-json=b.json", plugins=[BENCH]))
    assert report["total_cost_usd"] == 5.06
    assert report["usage"] == {"meters": 0.6}
    costs = {case_id: score["cost_usd"] for case_id, score in report["per_case"]}
    assert costs == {"a": 4.69, "b": 0.37}
    (kept,) = (runs.path / ".bench").glob("*.jsonl")
    storage = ("--storage", str(kept.parent))
    assert main(["bench", "export", *storage, "--to", "json", "latest"]) == 0
    written = kept.read_text() + (runs.path / "b.json").read_text()
    costs_written = re.findall(
        r'cost_usd":\s*([0-9.e-]+)', written + capsys.readouterr().out
    )
    assert "4.69" in costs_written
    assert max(map(len, costs_written)) == len("4.69")

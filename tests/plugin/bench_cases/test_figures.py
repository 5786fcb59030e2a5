"""Reducers, slices and bounds of picked cases, in real runs."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pytest_failure_taxonomy.bench.kept.reader import read_run
from pytest_failure_taxonomy.bench.kept.runs import report_of
from pytest_failure_taxonomy.bench.sharding import join_shards
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ON_WORKERS,
    SERIAL,
    WORKERS,
    calls,
    only_bench,
    passing_cases,
    task_class_files,
)

SETTINGS: Final = "repeat: 3\nreducers: [mean, pass@2, pass^2, majority, best@3]\n"
UNSTEADY: Final = """\
import pytest


@pytest.fixture(scope="session")
def system_under_test():
    def answer(case):
        fails = case.fields.get("fails", 0)
        return "wrong" if case.repetition <= fails else case.input

    return answer
"""
"""Fails in the first runs of a case."""


def plugins(workers: tuple[str, ...]) -> list[str]:
    """Return the plugins of a run."""
    return [BENCH, *(["xdist"] if workers else [])]


@SERIAL
def test_reducers(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """Each has its mean over distinct cases and its bound, in the report and on the terminal."""
    cases = [
        {**case, "fails": number % 4} for number, case in enumerate(passing_cases(8))
    ]
    runs.write(task_class_files(cases, settings=SETTINGS, system=UNSTEADY))
    run = runs.run("bench", *workers, plugins=plugins(workers))
    reduced = {each["name"]: each for each in only_bench(run)["reduced"]}
    values = {name: each["value"] for name, each in reduced.items()}
    # Per case, of 3 runs: 3, 2, 1 and 0 passes, twice each.
    assert values == {
        "mean": pytest.approx(1 / 2),
        "pass@2": pytest.approx((1 + 1 + 2 / 3 + 0) / 4),
        "pass^2": pytest.approx((1 + 1 / 3 + 0 + 0) / 4),
        "majority": pytest.approx(1 / 2),
        "best@3": pytest.approx(3 / 4),
    }
    assert {each["lower_bound_95"]["n"] for each in reduced.values()} == {8}
    assert reduced["majority"]["lower_bound_95"]["method"] == "clopper-pearson"
    assert reduced["pass@2"]["lower_bound_95"]["method"] == "gaffke"
    lines = [line for line in run.stdout if line.startswith("  pass@2: ")]
    assert lines == [lines[0]]
    assert lines[0].startswith("  pass@2: 0.667 ± 0.154; at least 0.")


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ("reducers: [pass@2]\n", "'pass@2' needs 2 runs of a case, and repeat is 1"),
        ("repeat: 3\nreducers: [pass@4]\n", "write repeat: 4 or more"),
        (
            "repeat: 3\nreducers: [median]\n",
            "'median' is no reducer; write mean, majority, pass@K",
        ),
        ("reducers: [mean, mean]\n", "names a reducer twice; name each once"),
    ],
)
def test_a_bad_reducer_is_a_collection_error(
    runs: PytestRuns, settings: str, what: str
) -> None:
    """The error names the line of `bench.yaml`, and no system is called."""
    runs.write(task_class_files(passing_cases(2), settings=settings))
    run = runs.run("bench", plugins=[BENCH])
    assert run.exit_status == 2
    text = "\n".join(run.stdout)
    assert what in text
    assert f"bench.yaml:{settings.count(chr(10))}: reducers" in text
    assert calls(runs) == []


@ON_WORKERS
def test_slices(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """Scores by tag and by key are in the report, and on the terminal with `-v`."""
    cases: list[dict[str, Any]] = [
        {**case, "tags": ["web", "slow"] if number < 2 else ["web"]}
        for number, case in enumerate(passing_cases(6))
    ]
    cases[0]["answer"] = "wrong"
    cases[1]["raises"] = "no such model"
    runs.write({**task_class_files(cases), "pytest.ini": "[pytest]\n"})
    run = runs.run("bench", "-v", *workers, plugins=plugins(workers))
    report = only_bench(run)
    slow, web = report["by_tag"]
    assert (slow["tag"], slow["n"], slow["passed"], slow["mean_score"]) == (
        "slow",
        2,
        0,
        0.0,
    )
    assert slow["lower_bound_95"]["value"] is None
    assert (web["tag"], web["n"], web["passed"]) == ("web", 6, 4)
    assert web["mean_score"] == pytest.approx(4 / 6)
    assert web["lower_bound_95"] == report["lower_bound_95"]
    (key,) = report["by_breakdown_key"]
    assert key == {
        "key": "exactness",
        "n": 6,
        "mean": pytest.approx(4.25 / 6),
        "standard_error": pytest.approx(0.18726838),
        "least": 0.0,
    }
    assert "  key exactness: mean 0.708 ± 0.187, least 0.000, n=6" in run.stdout
    words = "  tag web: 4 of 6 passed; mean 0.667 ± 0.211; at least"
    assert any(line.startswith(words) for line in run.stdout)
    quiet = runs.run("bench", *workers, plugins=plugins(workers))
    assert not any(line.startswith(("  tag ", "  key ")) for line in quiet.stdout)


@SERIAL
def test_picked_cases_have_no_bound(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """After `-k` nothing is proven about the cases that were left out, and it says so."""
    runs.write(
        task_class_files(passing_cases(12), settings="repeat: 2\nreducers: [pass@2]\n")
    )
    run = runs.run("bench", "-k", "case-00", *workers, plugins=plugins(workers))
    report = only_bench(run)
    method = "none: cases were picked by hand"
    none = {"value": None, "method": method, "n": 10, "clusters": None}
    assert report["lower_bound_95"] == none
    assert report["reduced"][0]["lower_bound_95"]["method"] == method
    assert report["mean_score"] == 1.0
    words = "bench echo: 20 of 20 passed; mean 1.000; no lower bound: cases were picked by hand"
    assert words in run.stdout
    whole = only_bench(runs.run("bench", *workers, plugins=plugins(workers)))
    assert whole["lower_bound_95"]["value"] > 0.7


@WORKERS
def test_clusters_are_the_units(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """On the terminal, in the report, in the kept run and in what shards are merged to."""
    cases = [
        {
            **case,
            "repo": f"repo-{number // 3}",
            **({"answer": "no"} if number < 3 else {}),
        }
        for number, case in enumerate(passing_cases(18))
    ]
    runs.write(task_class_files(cases, settings="cluster: repo\n"))
    run = runs.run("bench", *workers, plugins=plugins(workers))
    report = only_bench(run)
    assert report["lower_bound_95"]["value"] == pytest.approx(0.418, abs=0.001)
    assert (report["lower_bound_95"]["n"], report["lower_bound_95"]["clusters"]) == (
        18,
        6,
    )
    assert set(report["clusters"].values()) == {f"repo-{number}" for number in range(6)}
    line = (
        "mean 0.833 ± 0.167; at least 0.418 (95 %, clopper-pearson, n=18 in 6 clusters)"
    )
    assert f"bench echo: 15 of 18 passed; {line}" in run.stdout
    (kept,) = (runs.path / ".bench").glob("*.jsonl")
    again = report_of(read_run(kept, has_outputs=False))
    assert again.model_dump(mode="json") == report | {"gate": None}
    shards = []
    for index in (1, 2):
        run = runs.run(
            "bench", f"--bench-shard={index}/2", *workers, plugins=plugins(workers)
        )
        shards.append(only_bench(run))
    (joined,) = join_shards(shards)
    assert joined["lower_bound_95"] == report["lower_bound_95"]


def test_cases_that_look_alike_are_told_once(runs: PytestRuns) -> None:
    """One line, unless `bench.yaml` says something of clusters."""
    cases = [
        {**case, "repo": f"repo-{number // 3}"}
        for number, case in enumerate(passing_cases(18))
    ]
    runs.write(task_class_files(cases))
    run = runs.run("bench", plugins=[BENCH])
    (told,) = [line for line in run.stdout if "cluster" in line]
    assert told == (
        "bench echo: cases share values of repo; if such cases are alike, the bound is too high:"
        " write `cluster: repo` into bench.yaml, or `cluster: null` if they are not"
    )
    assert run.stdout.index(told) > run.stdout.index("= bench =".center(80, "="))
    runs.write(task_class_files(cases, settings="cluster: null\n"))
    assert not any(
        "cluster" in line for line in runs.run("bench", plugins=[BENCH]).stdout
    )


def test_a_failure_with_a_score_says_that_it_counts_0(runs: PytestRuns) -> None:
    """A rubric's full score beside an unknown failure mode is no score of the case."""
    rubric = (
        "def grade(case, output):\n"
        "    modes = [{'code': 'answer.worng'}]\n"
        "    return {'passed': True, 'score': 1.0, 'breakdown': {}, 'failure_modes': modes}\n"
    )
    runs.write(task_class_files(passing_cases(1), rubric=rubric))
    run = runs.run("bench", plugins=[BENCH])
    assert "case case-000 of echo: score 1.00 (counts 0), not passed" in run.stdout
    (failure,) = run.report["failures"]
    message = failure["exception"]["message"]
    assert message == "score 1.00 (counts 0): rubric.unknown_failure_mode: answer.worng"

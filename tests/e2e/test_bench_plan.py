"""`failure-taxonomy bench plan`, as a shell uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.contract.test_docs import code_blocks, read_page, section
from tests.helpers.bench_scores import make_run, make_score
from tests.helpers.kept_runs import keep_run, outcome_of, score_of, write_files
from tests.helpers.task_classes import passing_cases, task_class_files

pytest.importorskip("scipy")


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_page_shows_what_the_command_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its example is run."""
    heading = "`bench plan [--truth X] [--cases N] [--from RUN] [DIR]`"
    page = section(read_page("docs/reference/command-line.md"), heading)
    command, _, answer = code_blocks(page, "console")[0].partition("\n")
    assert main(command.split()[2:]) == 0
    assert capsys.readouterr().out == answer


def test_a_class_gives_its_gate_and_its_number_of_cases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Repetitions of a case are no more cases; an option replaces its part of the gate."""
    settings = "repeat: 3\ngate: {lower_bound_95: 0.8, min_passed_cases: 4}\n"
    write_files(tmp_path, task_class_files(passing_cases(6), settings=settings))
    assert (
        main(["bench", "plan", "bench/echo", "--truth", "1", "--lower-bound-95", "0.5"])
        == 0
    )
    assert capsys.readouterr().out.splitlines() == [
        "to pass the gate (lower_bound_95 0.5, min_passed_cases 4) with a chance of 80 % it takes",
        "  5 cases if the true mean is 1",
        "6 cases, if the true mean is 1",
        "  pass the gate with a chance of 100 %",
        "  show a loss of 0.964 (0.964 if no case improves) with a chance of 80 %",
        "computed for scores of 0 and 1",
    ]


def test_an_earlier_run_gives_its_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its mean is the truth, its cases are counted, and two runs give their pairs."""
    cases = passing_cases(8)
    write_files(tmp_path, task_class_files(cases))
    scores = [score_of(float(number > 0)) for number in range(8)]
    keep_run(
        tmp_path,
        [outcome_of(each["id"], s) for each, s in zip(cases, scores, strict=True)],
    )
    options = ["--from", "latest", "--lower-bound-95", "0.9", "--format", "json"]
    assert main(["bench", "plan", *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cases_needed"] == [{"truth": 0.875, "cases": None, "is_never": True}]
    assert [each["cases"] for each in found["with_cases"]] == [8]
    assert found["method"] == "computed for scores of 0 and 1"
    other = make_run([make_score(0.5)] * 8)
    Path("other.json").write_text(f"[{other.model_dump_json()}]", encoding="utf-8")
    assert main(["bench", "plan", "--from", "other.json", "--from", "latest"]) == 2
    assert "give two runs of the same cases" in capsys.readouterr().err
    assert main(["bench", "plan", "--from", "other.json", "--from", "other.json"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "8 cases, if the true mean is 0.5",
        "  can't show a loss of any size with a chance of 80 %",
        "drawn 400 times from what --from names",
    ]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ["--truth", "1"],
            "nothing to plan; name a task class, or give --lower-bound-95 or --cases",
        ),
        (["--cases", "9"], "--truth: is missing; say what the true mean may be"),
        (
            ["--from", "a", "--from", "b", "--from", "c"],
            "--from: 3 runs are given; give one, or two",
        ),
        (
            ["--cases", "100001", "--truth", "1"],
            "--cases: 100001 is more than can be planned for;",
        ),
        (["--from", "a"], "a: there is no such file; give a kept run"),
    ],
)
def test_what_is_missing_is_said(
    options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says what would be right."""
    assert main(["bench", "plan", *options]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "given"),
    [("--lower-bound-95", each) for each in ("2", "-1", "nan", "x", "")]
    + [("--min-passed-cases", each) for each in ("0", "-1", "1.5", "٣", "9" * 99)],
)
def test_a_gate_that_no_run_can_have_is_wrong_use(option: str, given: str) -> None:
    """It is exit code 2, with what would be right."""
    with pytest.raises(SystemExit) as ended:
        main(["bench", "plan", "--truth=0.9", f"{option}={given}"])
    assert ended.value.code == 2


def test_clusters_are_the_units(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cases of one cluster count once: a class of six in two clusters has two."""
    cases = [
        {**each, "repo": "ab"[number % 2]}
        for number, each in enumerate(passing_cases(6))
    ]
    settings = "cluster: repo\ngate: {lower_bound_95: 0.5, min_passed_cases: 6}\n"
    write_files(tmp_path, task_class_files(cases, settings=settings))
    said = [
        "to pass the gate (lower_bound_95 0.5) with a chance of 80 % it takes",
        "  5 clusters if the true mean is 1",
        "2 clusters, if the true mean is 1",
        "  pass the gate with a chance of 0 %",
        "  can't show a loss of any size with a chance of 80 %",
        "computed for scores of 0 and 1",
    ]
    assert main(["bench", "plan", "bench/echo", "--truth", "1"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == said
    assert (
        "min_passed_cases is not planned for: it counts cases, and clusters"
        in shown.err
    )
    scores = [score_of(1.0) for _ in cases]
    keep_run(
        tmp_path,
        [outcome_of(each["id"], s) for each, s in zip(cases, scores, strict=True)],
    )
    run = ["--from", "latest", "--from", "latest"]
    assert main(["bench", "plan", "bench/echo", *run]) == 0
    assert capsys.readouterr().out.splitlines() == said

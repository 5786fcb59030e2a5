"""The HTML page of a report whose benches' runs were kept: outputs, transcripts, calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.bench.kept.reader import read_run
from pytest_failure_taxonomy.bench.kept.runs import report_of
from pytest_failure_taxonomy.bench.kept.shown import (
    MAX_CASES,
    MAX_CHARACTERS,
    MAX_MESSAGE,
    MAX_MESSAGES,
    MAX_TEXT,
    SMALL_RUN,
    page_runs,
)
from pytest_failure_taxonomy.bench.scores import CaseOutcome
from pytest_failure_taxonomy.cli.main import main
from tests.helpers.kept_runs import (
    RUN_ID,
    call_of,
    keep_run,
    outcome_of,
    score_of,
    write_files,
)
from tests.helpers.reports import make_report
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import BENCH, passing_cases, task_class_files
from tests.unit.report.test_html import Elements, words_of

pytest.importorskip("jinja2")
pytest.importorskip("scipy")

HOSTILE: Final = (
    "</pre></details><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202e"
)

Page = Callable[..., str]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    """Return a function that keeps a run, and returns the page of the report of its pytest."""
    monkeypatch.chdir(tmp_path)

    def convert(
        outcomes: Sequence[CaseOutcome], *options: str, cases: int = 3, **changes: Any
    ) -> str:
        write_files(tmp_path, task_class_files(passing_cases(cases)))
        run = read_run(keep_run(tmp_path, outcomes, **changes))
        report = make_report()
        report["bench"] = [report_of(run).model_dump(mode="json")]
        (tmp_path / "report.json").write_text(json.dumps(report))
        assert (
            main(["convert", "report.json", "--to", "html", "-o", "x.html", *options])
            == 0
        )
        return (tmp_path / "x.html").read_text("utf-8")

    return convert


def failed(number: int, output: Any, **fields: Any) -> CaseOutcome:
    """Return the outcome of a case that failed."""
    return outcome_of(
        f"case-{number:03}", score_of(0.25, "answer.wrong"), output, **fields
    )


def test_a_page_shows_what_was_kept(page: Page) -> None:
    """Each case that is shown has calls, output, transcript and what the rubric printed."""
    again = call_of(
        1, ended="RateLimitError: slow", kind="llm.rate_limited", cost_usd=0.1
    )
    text = page(
        [
            outcome_of("case-000", score_of(1.0), "all right"),
            outcome_of(
                "case-001",
                score_of(0.25, "answer.wrong"),
                {"said": "y"},
                again,
                call_of(2, usage={"input_tokens": 12}),
                transcript=[{"role": "user", "content": "what is it?"}],
                printed="grading case-001",
            ),
        ],
        started=["case-002"],
        stopped="the cost cap was reached",
    )
    words = words_of(text)
    assert "Cases with their outputs" in words
    assert "call 1: no output: RateLimitError: slow [llm.rate_limited] (2026-" in words
    assert (
        "call 2: gave an output (2026-11-23 12:00:00Z, 250 ms, input_tokens 12)"
        in words
    )
    assert 'Output { "said": "y" }' in words
    assert "Transcript user what is it?" in words
    assert "What the rubric printed grading case-001" in words
    assert "lost case-002 a call was started, and its result is not known" in words
    assert "all right" in words
    links = {given.get("href") for tag, given in Elements(text).tags if tag == "a"}
    ids = {given.get("id") for tag, given in Elements(text).tags if tag == "details"}
    assert {"#case-1-1", "#case-1-2"} <= links
    assert {"case-1-1", "case-1-2", "case-1-3"} <= ids


def test_no_output_makes_an_element(page: Page) -> None:
    """Outputs, transcripts, usage and what is printed may hold anything."""
    call = call_of(ended=HOSTILE, usage={HOSTILE: 1.0})
    last = call_of(2, usage={HOSTILE: 1.0})
    outcome = outcome_of(
        "case-000",
        score_of(0.0, "answer.wrong"),
        [HOSTILE],
        call,
        last,
        transcript=[{"role": HOSTILE, "content": HOSTILE, "x": HOSTILE}],
        printed=HOSTILE,
    )
    text = page([outcome, failed(1, HOSTILE, transcript={"x": HOSTILE})])
    assert not [tag for tag, _ in Elements(text).tags if tag == "img"]
    assert len([tag for tag, _ in Elements(text).tags if tag == "script"]) == 2
    assert not set("\x1b\u202e") & set(text)
    assert text.count("&lt;script&gt;alert(1)") >= 6


def test_a_page_stays_usable(page: Page) -> None:
    """Of a large run there are cases that did not pass, up to a maximum; texts are cut."""
    count = MAX_CASES + 30
    long = "line\n" * MAX_TEXT
    chat = [{"role": "user", "content": "m" * (MAX_MESSAGE + 1)}] * (MAX_MESSAGES + 1)
    outcomes = [
        outcome_of("case-000", score_of(1.0), "passed output"),
        failed(1, long, transcript=chat),
        *(failed(number, f"output {number}") for number in range(2, count)),
    ]
    text = page(outcomes, cases=count)
    words = words_of(text)
    assert "passed output" not in words
    assert f"output {MAX_CASES}" in words
    assert f"output {MAX_CASES + 2}" not in words
    assert f"the first {MAX_TEXT:,} of {len(long):,} characters" in words
    assert f"the first {MAX_MESSAGES} of {MAX_MESSAGES + 1} messages are shown" in words
    assert f"the first {MAX_MESSAGE:,} of {MAX_MESSAGE + 1:,} characters" in words
    assert "29 more cases that did not pass" in words
    assert f"failure-taxonomy bench show {RUN_ID} --case ID" in words


def test_a_run_has_a_maximal_size_on_a_page(tmp_path: Path) -> None:
    """What is left out is counted."""
    count = 2 * MAX_CHARACTERS // MAX_TEXT
    write_files(tmp_path, task_class_files(passing_cases(count)))
    path = keep_run(
        tmp_path, [failed(number, "x" * MAX_TEXT) for number in range(count)]
    )
    report = report_of(read_run(path)).model_dump(mode="json")
    (found,) = page_runs([report], path.parent).values()
    assert len(found["cases"]) == MAX_CHARACTERS // MAX_TEXT
    assert found["left_out"] == count - MAX_CHARACTERS // MAX_TEXT
    assert count > SMALL_RUN


@pytest.mark.parametrize(
    "run_id",
    ["../.bench/x", "/etc/passwd", "", "..", "partial:", "a\0b", "x" * 999, "other"],
)
def test_a_report_can_not_name_another_file(tmp_path: Path, run_id: str) -> None:
    """A run that is not in the storage by its id is no error, and shows nothing."""
    write_files(tmp_path, task_class_files(passing_cases(1)))
    path = keep_run(tmp_path, [failed(0, 1)])
    report = report_of(read_run(path)).model_dump(mode="json")
    assert page_runs([report], path.parent)
    assert page_runs([{**report, "run_id": run_id}], path.parent) == {}
    assert page_runs([{**report, "task_class": "another"}], path.parent) == {}


def test_a_storage_can_be_named(
    page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is for the page alone, and one without the run is told."""
    (tmp_path / "empty").mkdir()
    text = page([failed(0, "an output")], "--bench-storage", "empty")
    assert "an output" not in text
    assert capsys.readouterr().err == (
        "failure-taxonomy: --bench-storage: empty has no run of this report\n"
    )
    assert "an output" in page([failed(0, "an output")], "--bench-storage", ".bench")
    assert main(["convert", "report.json", "--to", "ctrf", "--bench-storage", "x"]) == 2
    assert (
        "--bench-storage is for the HTML page; give --to html with it"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["serial", "xdist"])
def test_a_run_writes_its_page_with_outputs(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """`--failure-taxonomy-html` reads the runs that the same pytest has kept."""
    runs.write(task_class_files([{"id": "one", "input": 1, "answer": "quite another"}]))
    runs.run(
        *("--failure-taxonomy-html=page.html", "bench", *workers),
        plugins=[BENCH, *(["xdist"] if workers else [])],
    )
    text = words_of((runs.path / "page.html").read_text("utf-8"))
    assert "Cases with their outputs" in text
    assert "Output quite another" in text

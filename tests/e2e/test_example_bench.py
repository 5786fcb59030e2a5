"""The benches of the example project: each ends as the example's README says."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from pytest_failure_taxonomy.bench.models import RUNNER_CODES
from tests.helpers.runs import REPORT, FinishedRun, PytestRuns, assert_counts_agree
from tests.helpers.task_classes import BENCH, codes_by_case, only_bench

pytestmark = pytest.mark.slow

PROJECT: Final = Path(__file__).parents[2] / "example_project"
README: Final = (PROJECT / "README.md").read_text("utf-8")
ROW: Final = re.compile(
    r"\| `pytest --failure-taxonomy (?P<args>bench/[^`]*)`"
    r" \| (?P<code>\d) \| (?P<gate>[A-Z]+) \| (?P<shows>.*) \|"
)
CODE_ROW: Final = re.compile(r"\| `([a-z0-9-]+)` \| `((?:sut|rubric)\.[a-z_]+)` \|")
LEFT_OUT: Final = shutil.ignore_patterns(
    "__pycache__", ".*_cache", "build", "dist", "*.egg-info", REPORT
)

WORKERS: Final = [
    pytest.param((), id="serial"),
    pytest.param(("-n", "2"), id="xdist"),
]


@pytest.fixture
def project(runs: PytestRuns) -> PytestRuns:
    """Start runs of pytest in a copy of the example project."""
    shutil.copytree(PROJECT, runs.path, dirs_exist_ok=True, ignore=LEFT_OUT)
    return runs


def run_bench(project: PytestRuns, *args: str) -> FinishedRun:
    """Run pytest with the plugins that the arguments need."""
    plugins = [BENCH, *(["xdist"] if "-n" in args else [])]
    run = project.run(*args, plugins=plugins)
    assert_counts_agree(run)
    assert not any("Warning" in line for line in run.stderr)
    return run


def summary_of(run: FinishedRun) -> str:
    """Return the lines that a run has printed below the heading `bench`."""
    text = "\n".join(run.stdout)
    return re.split(r"^=+ bench =+$", text, maxsplit=1, flags=re.MULTILINE)[
        1
    ].partition("\n===")[0]


@pytest.mark.parametrize("workers", WORKERS)
def test_bugfix_passes_its_gate(project: PytestRuns, workers: tuple[str, ...]) -> None:
    """The bug fixer repairs all modules, the rubric passes its self-test, the gate is content."""
    run = run_bench(project, "bench/bugfix", *workers)
    assert run.exit_status == 0
    assert run.verdict == (None, None)
    report = only_bench(run)
    assert run.outcomes == {"passed": 22}
    assert report["counts"] == {
        "scheduled": 15,
        "started": 15,
        "graded": 15,
        "lost": 0,
        "passed": 15,
        "not_run": 0,
    }
    assert report["complete"] is True
    assert report["gate"] == {"verdict": "PASS", "reasons": []}
    assert report["lower_bound_95"]["value"] == pytest.approx(0.05 ** (1 / 15))
    codes = codes_by_case(report)
    assert codes.pop("nothing-to-repair") == ["fix.unchanged"]
    assert not any(codes.values())
    assert summary_of(run).splitlines()[1] == (
        "bench bugfix: 15 of 15 passed; mean 1.000; at least 0.818 (95 %, clopper-pearson, n=15)"
    )
    assert "  gate: PASS" in summary_of(run).splitlines()


@pytest.mark.parametrize("workers", WORKERS)
def test_six_endings_end_in_six_codes(
    project: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Each case gets the code that it asks for, all are graded, and the gate fails."""
    run = run_bench(project, "bench/six_endings", *workers)
    assert run.exit_status == 1
    assert run.outcomes == {"passed": 1, "failed": 9}
    report = only_bench(run)
    cases = load_task_class(PROJECT / "bench" / "six_endings").cases
    expected = {each.case_id: each.fields.get("expect") for each in cases}
    assert codes_by_case(report) == {
        case_id: [code] if code else [] for case_id, code in expected.items()
    }
    assert {code for code in expected.values() if code} == set(RUNNER_CODES)
    assert report["block_severity_failure_modes"] == sorted(RUNNER_CODES)
    assert report["complete"] is True
    assert report["counts"]["graded"] == 10
    assert report["mean_score"] == pytest.approx(0.1)
    assert report["gate"]["verdict"] == "FAIL"
    summary = summary_of(run)
    assert (
        "bench six_endings: 1 of 10 passed; mean 0.100 ± 0.100; at least 0.005 (95 %, "
        in summary
    )
    assert (
        "  gate: FAIL: 9 of 10 cases ended with a failure mode of severity block: "
        "sut.exception (3), rubric.malformed_output (2), " in summary
    )


def test_failed_case_says_what_it_is(project: PytestRuns) -> None:
    """The terminal shows a case, its code in words, and where the system raised."""
    run = run_bench(
        project, "bench/six_endings", "-k", "system-raises or unlisted-code"
    )
    text = "\n".join(run.stdout)
    assert (
        "case system-raises of six_endings: score 0.00, not passed\n"
        "  block sut.exception: RuntimeError: the model answered with status 529\n"
        in text
    )
    assert "raise RuntimeError(msg)" in text
    assert (
        "case rubric-gives-an-unlisted-code of six_endings: score 1.00 (counts 0), not passed\n"
        "  block rubric.unknown_failure_mode: answer.worng\n" in text
    )
    assert "the rubric printed:\ngrading rubric-gives-an-unlisted-code" in text
    assert only_bench(run)["gate"]["verdict"] == "INCOMPLETE"


def test_one_bug_too_many_fails_the_gate(project: PytestRuns) -> None:
    """A bug fixer that is content with one edit leaves one module broken, and the gate fails."""
    source = project.path / "src" / "bug_fixer" / "repair.py"
    text = source.read_text("utf-8")
    assert text.count("MOST_EDITS = 2") == 1
    source.write_text(text.replace("MOST_EDITS = 2", "MOST_EDITS = 1"), "utf-8")
    run = run_bench(project, "bench/bugfix")
    assert run.exit_status == 1
    report = only_bench(run)
    failed = {
        case_id: codes for case_id, codes in codes_by_case(report).items() if codes
    }
    assert failed == {
        "between-two-limits": ["fix.tests_failed"],
        "nothing-to-repair": ["fix.unchanged"],
    }
    assert 0 < dict(report["per_case"])["between-two-limits"]["score"] < 1
    assert report["gate"]["verdict"] == "FAIL"


def test_what_is_wrong_in_a_remediation_fails_the_gate_alone(
    project: PytestRuns,
) -> None:
    """Codes of a class's own, `sut.cancelled` among them, block where the bound would not."""
    run = run_bench(project, "bench/vuln-remediation")
    report = only_bench(run)
    cases = load_task_class(PROJECT / "bench" / "vuln-remediation").cases
    assert codes_by_case(report) == {
        each.case_id: each.fields["expect"] for each in cases
    }
    assert report["counts"]["passed"] == 7
    assert report["counts"]["lost"] == 0
    assert report["gate"]["verdict"] == "FAIL"
    assert report["gate"]["reasons"] == [
        (
            "3 of 10 cases ended with a failure mode of severity block: sut.cancelled (1), "
            "validator.cve_not_dropped (1), validator.tests_failed (1)"
        )
    ]


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["jinja2>=3.1.4", "click==8.1.7"], "validator.build_failed"),
        (["jinja2==9.9.9", "click==8.1.7"], "validator.build_failed"),
        (["jinja2==3.1.2", "click==8.1.7"], "validator.cve_not_dropped"),
        (["jinja2==3.1.4"], "recipe.semantic_drift"),
    ],
)
def test_a_remediation_that_breaks_something_has_its_code(
    lines: list[str], code: str
) -> None:
    """What the fixer of the example never does, the rubric would see in that of others."""
    folder = PROJECT / "bench" / "vuln-remediation"
    case = load_task_class(folder).cases[0]
    output: dict[str, object] = {
        "status": "done",
        "requirements": lines,
        "recipe": None,
    }
    output |= {"used": [], "note_rank": None, "tier": "recorded", "cost_usd": 0.01}
    grade = runpy.run_path(str(folder / "rubric.py"))["grade"]
    assert [
        each["code"] for each in grade({"input": case.input}, output)["failure_modes"]
    ] == [code]


OUTPUTS: Final[dict[str, object]] = {
    "fix.no_text": {"patch": "..."},
    "fix.syntax_error": "def is_adult(age:",
    "fix.tests_failed": "def is_adult(age): return True",
    "fix.endless": "while True: pass",
    "fix.too_big": "def is_adult(age):\n"
    + "    age = age\n" * 4
    + "    return age >= 18\n",
    "fix.unchanged": "def is_adult(age):\n    return age > 18\n",
}
TEST_OF_RUBRIC: Final = f"""\
import pytest

@pytest.mark.parametrize(("code", "output"), {list(OUTPUTS.items())!r})
def test_rubric(bench_rubric, code, output):
    bench_rubric.grade.__globals__["LIMIT_SECONDS"] = 0.5 if code == "fix.endless" else 30
    score = bench_rubric("limit-of-age", output)
    assert code in [mode.code for mode in score.failure_modes]
    assert score.passed is (code == "fix.too_big")
"""


def test_rubric_of_bugfix_gives_each_of_its_codes(project: PytestRuns) -> None:
    """What `failure_modes.yaml` lists, the rubric gives; the fixture `bench_rubric` tests it."""
    taxonomy = load_task_class(PROJECT / "bench" / "bugfix").failure_mode_taxonomy
    assert sorted(OUTPUTS) == sorted(taxonomy)
    (project.path / "bench" / "bugfix" / "test_rubric.py").write_text(TEST_OF_RUBRIC)
    run = project.run("bench/bugfix/test_rubric.py", plugins=[BENCH])
    assert run.outcomes == {"passed": len(OUTPUTS)}


def test_the_readme_says_how_each_run_ends(project: PytestRuns) -> None:
    """Each command of the README's table ends with the exit code and the gate beside it."""
    found = [ROW.fullmatch(line) for line in README.splitlines()]
    rows = [row.groupdict() for row in found if row is not None]
    assert len(rows) == 4
    for row in rows:
        run = run_bench(project, *row["args"].split())
        report = only_bench(run)
        assert run.exit_status == int(row["code"]), row
        assert report["gate"]["verdict"] == row["gate"], row
        for figure in re.findall(r"0\.\d{3}|n=\d+", row["shows"]):
            assert figure in summary_of(run), row


def test_the_readme_lists_the_six_endings() -> None:
    """The README has the cases of the class with the codes that its file expects."""
    cases = load_task_class(PROJECT / "bench" / "six_endings").cases
    expected = [
        (each.case_id, each["expect"]) for each in cases if "expect" in each.fields
    ]
    assert CODE_ROW.findall(README) == expected


@pytest.mark.parametrize("args", [(), ("bench",), (".",)])
def test_what_fails_on_purpose_runs_only_when_named(
    project: PytestRuns, args: tuple[str, ...]
) -> None:
    """Neither a plain `pytest` nor one on a folder above collects what fails its gate."""
    run = project.run_unchecked("--co", "-q", *args, plugins=[BENCH])
    collected = [line for line in run.stdout if "::" in line]
    assert collected
    assert not any("six_endings" in line or "vuln-" in line for line in collected)
    assert any(line.startswith("bench/bugfix/") for line in collected) is bool(args)


def test_the_example_stands_alone() -> None:
    """Neither the bug fixer nor a rubric imports the plugin or pytest."""
    files: list[Any] = [
        *(PROJECT / "src").rglob("*.py"),
        *(PROJECT / "bench").rglob("rubric.py"),
    ]
    assert len(files) > 6
    for path in files:
        text = path.read_text("utf-8")
        assert not re.search(
            r"^\s*(?:import|from) (?:pytest|_pytest)", text, re.MULTILINE
        ), path

"""Cases as pytest items: what a person sees of them, and what the report holds."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from typing import Any, Final

import pytest
from defusedxml import ElementTree

from pytest_failure_taxonomy.logs.log_answer import classify_log
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ECHO_RUBRIC,
    MODES,
    ON_WORKERS,
    SERIAL,
    SYSTEM,
    WORKERS,
    calls,
    codes_by_case,
    only_bench,
    passing_cases,
    task_class_files,
)

SIX: list[dict[str, Any]] = [
    {"id": "passes", "input": 1},
    {"id": "raises", "input": 1, "raises": "no such model"},
    {"id": "sleeps", "input": 1, "sleep": 30, "timeout_per_case_seconds": 0.2},
    {"id": "malformed", "input": {"answer": 1}},
    {"id": "hangs", "input": {"hang": True}, "rubric_wall_clock_seconds": 0.3},
    {"id": "odd-key", "input": {"breakdown": {"llm_confidence": 1.0}}},
    {"id": "odd-code", "input": {"failure_modes": [{"code": "answer.worng"}]}},
]
"""One case for each way to fail that is the runner's to name, and one that passes."""

SIX_RUBRIC = """\
import time

def grade(case, output):
    given = output if isinstance(output, dict) else {}
    if given.get("hang"):
        time.sleep(60)
    if "answer" in given:
        return "well done"
    return {"passed": True, "score": 0.9, "breakdown": {"exactness": 1.0}, **given}
"""


@pytest.mark.lowest
def test_each_case_is_an_item(runs: PytestRuns) -> None:
    """A case passes or fails like a test, and pytest counts it like one."""
    runs.write(
        task_class_files(
            {
                "a.jsonl": [
                    {"id": "right", "input": 1},
                    {"id": "wrong", "input": 1, "answer": 2},
                ],
                "b.jsonl": [{"id": "other", "input": "x"}],
            }
        )
    )
    plain = runs.run_plain("bench", "-v", plugins=[BENCH])
    run = runs.run("bench", "-v", plugins=[BENCH])
    assert (run.exit_status, run.outcomes) == (plain.exit_status, plain.outcomes)
    assert run.exit_status == 1
    assert run.outcomes == {"passed": 2, "failed": 1}
    assert run.junit["failures"] == 1
    lines = "\n".join(run.stdout)
    assert re.search(r"bench/echo/cases/a\.jsonl::right PASSED", lines)
    assert re.search(r"bench/echo/cases/b\.jsonl::other PASSED", lines)
    assert run.verdict == ("TESTS_FAILED", "test.failed")
    assert run.counts == {"collected": 3, "passed": 2, "failed": 1}


@pytest.mark.lowest
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["serial", "xdist"])
def test_six_failure_paths(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """Each of the six ways to fail becomes a code of severity block, and the run goes on."""
    runs.write(task_class_files(SIX, rubric=SIX_RUBRIC))
    run = runs.run("bench", *workers, plugins=[BENCH, *(["xdist"] if workers else [])])
    report = only_bench(run)
    assert codes_by_case(report) == {
        "hangs": ["rubric.timeout"],
        "malformed": ["rubric.malformed_output"],
        "odd-code": ["rubric.unknown_failure_mode"],
        "odd-key": ["rubric.unknown_breakdown_key"],
        "passes": [],
        "raises": ["sut.exception"],
        "sleeps": ["sut.timeout"],
    }
    assert report["complete"] is True
    assert report["counts"] == {
        "scheduled": 7,
        "started": 7,
        "graded": 7,
        "lost": 0,
        "passed": 1,
        "not_run": 0,
    }
    assert report["passed_count"] == 1
    assert report["mean_score"] == pytest.approx(0.9 / 7)
    scores = dict(report["per_case"])
    assert [each["passed"] for each in scores.values()].count(True) == 1
    assert scores["odd-code"]["score"] == 0.9
    assert scores["odd-code"]["failure_modes"][0]["detail"] == "answer.worng"
    assert report["block_severity_failure_modes"] == sorted(
        ["sut.exception", "sut.timeout"]
        + [f"rubric.{name}" for name in ("malformed_output", "timeout")]
        + [f"rubric.unknown_{name}" for name in ("breakdown_key", "failure_mode")]
    )
    assert run.outcomes == {"passed": 1, "failed": 6}
    charged = {
        nodeid.rpartition("::")[2]: cause["charge_to"]
        for cause in run.report["causes"]
        for nodeid in cause["nodeids"]
    }
    of_rubrics = ("hangs", "malformed", "odd-code", "odd-key")
    of_all = {
        "raises": "subject",
        "sleeps": "subject",
        **dict.fromkeys(of_rubrics, "verifier"),
    }
    assert charged == of_all


@pytest.mark.lowest
def test_failure_shows_case_score_and_codes(runs: PytestRuns) -> None:
    """A failed case shows its score and its codes with what they mean, and no stack of ours."""
    runs.write(task_class_files([{"id": "wrong", "input": 1, "answer": 2}]))
    text = "\n".join(runs.run("bench", plugins=[BENCH]).stdout)
    assert "case wrong of echo: score 0.25 (counts 0), not passed" in text
    assert "  block answer.wrong: got 2\n        the answer is not the input\n" in text
    assert "  breakdown: exactness 0.25\n" in text
    assert "the rubric printed:\ngrading wrong" in text
    assert (
        "FAILED bench/echo/cases/a.jsonl::wrong - score 0.25 (counts 0): answer.wrong:"
        in text
    )
    assert "pytest_failure_taxonomy" not in text
    assert "case_failed" not in text


@pytest.mark.lowest
def test_system_that_raises_shows_its_traceback(runs: PytestRuns) -> None:
    """The traceback ends at the system's own lines and begins there, too."""
    runs.write(
        task_class_files([{"id": "raises", "input": 1, "raises": "no such model"}])
    )
    text = "\n".join(runs.run("bench", plugins=[BENCH]).stdout)
    assert "  block sut.exception: RuntimeError: no such model" in text
    assert 'raise RuntimeError(case["raises"])' in text
    assert "pytest_failure_taxonomy" not in text


@pytest.mark.lowest
def test_bad_task_class_is_one_collection_error(runs: PytestRuns) -> None:
    """Every problem of a task class stands there once, with its file and line."""
    files = task_class_files(
        {"a.jsonl": [{"id": "x", "input": 1}], "b.jsonl": [{"id": "x", "input": 2}]},
        modes="a.b: {severity: fatal, description: bad}\nc.d: {severity: warn, description: ''}\n",
    )
    runs.write(files)
    run = runs.run("bench", plugins=[BENCH])
    text = "\n".join(run.stdout)
    assert run.exit_status == 2
    assert run.verdict == ("INTERNAL_ERROR", "collection.error")
    assert text.count("bench/echo/failure_modes.yaml:1: ") == 1
    assert "bench/echo/failure_modes.yaml:2: " in text
    assert "bench/echo/cases/b.jsonl:1: " in text
    assert "pytest_failure_taxonomy" not in text


def test_task_class_without_system(runs: PytestRuns) -> None:
    """Without a system the error says the two ways to give one."""
    runs.write(task_class_files(passing_cases(2), system=""))
    text = "\n".join(runs.run("bench", plugins=[BENCH]).stdout)
    assert (
        "bench/echo: there is no system under test; give `sut: package.module:callable` in"
        " bench/echo/bench.yaml or a fixture `system_under_test` in a conftest.py"
        in text
    )


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            "no_such_module:run",
            "there is no module 'no_such_module' (for 'no_such_module:run')",
        ),
        ("named:missing", "named has no 'missing'; name one of its callables"),
        ("named:NUMBER", "'named:NUMBER' is int and can't be called"),
        (
            "broken:run",
            "broken can't be imported (ZeroDivisionError: division by zero)",
        ),
    ],
)
def test_system_that_cant_be_imported(
    runs: PytestRuns, target: str, words: str
) -> None:
    """A `sut` that can't be had is a collection error that says where and why."""
    files = task_class_files(passing_cases(1), settings=f"sut: {target}\n", system="")
    runs.write({**files, "named.py": "NUMBER = 1\n", "broken.py": "1 / 0\n"})
    run = runs.run("bench", plugins=[BENCH])
    assert f"bench/echo/bench.yaml: sut: {words}" in "\n".join(run.stdout)
    assert run.exit_status == 2


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_named_plain_system(runs: PytestRuns, isolation: str) -> None:
    """A plain function that `bench.yaml` names runs in a thread, or in a process on request."""
    files = task_class_files(
        [{"id": "right", "input": 1}, {"id": "dies", "input": 2}],
        settings=f"sut: named:answer\nsut_isolation: {isolation}\n",
        system="",
    )
    dies = "import os; os.kill(os.getpid(), 11)" if isolation == "process" else "1 / 0"
    source = f"def answer(case):\n    if case.input == 2:\n        {dies}\n    return case.input\n"
    runs.write({**files, "named.py": source})
    run = runs.run("bench", plugins=[BENCH])
    assert run.outcomes == {"passed": 1, "failed": 1}
    score = dict(only_bench(run)["per_case"])["dies"]
    assert [mode["code"] for mode in score["failure_modes"]] == ["sut.exception"]
    name = "SIGSEGV" if isolation == "process" else "ZeroDivisionError"
    assert name in score["failure_modes"][0]["detail"]


def test_function_scoped_system_runs_alone(runs: PytestRuns) -> None:
    """A system that is made anew for each test is used for that test's case alone."""
    system = SYSTEM.replace('scope="session"', "").replace(
        "def system_under_test():", "def system_under_test(tmp_path):"
    )
    system = system.replace(
        "    return answer\n", "    yield answer\n    note.closed = True\n"
    )
    system = system.replace(
        "        note(case)\n", "        assert tmp_path.exists()\n"
    )
    runs.write(task_class_files(passing_cases(5), system=system))
    assert runs.run("bench", plugins=[BENCH]).outcomes == {"passed": 5}


def test_cases_of_a_unit_run_at_the_same_time(runs: PytestRuns) -> None:
    """Twenty cases that wait for each other are done, because all have been started."""
    system = SYSTEM.replace(
        "    async def answer(case):\n",
        "    barrier = asyncio.Barrier(20)\n    async def answer(case):\n"
        "        await barrier.wait()\n",
    )
    runs.write(
        task_class_files(passing_cases(20), settings="concurrency: 20\n", system=system)
    )
    assert runs.run("bench", plugins=[BENCH]).outcomes == {"passed": 20}


def test_blocking_system_is_named(runs: PytestRuns) -> None:
    """A case that blocks the loop is blamed; cases that only lost their time to it pass."""
    cases = [
        {"id": "blocks", "input": 1, "block": 1.5},
        *({"id": f"waits-{n}", "input": n, "sleep": 0.05} for n in range(3)),
    ]
    runs.write(task_class_files(cases, settings="timeout_per_case_seconds: 0.7\n"))
    report = only_bench(runs.run("bench", plugins=[BENCH]))
    codes = codes_by_case(report)
    assert codes.pop("blocks") == ["sut.timeout"]
    assert set(map(tuple, codes.values())) == {()}
    (mode,) = dict(report["per_case"])["blocks"]["failure_modes"]
    assert mode["detail"].startswith("blocked the event loop for 1.5")


@pytest.mark.lowest
def test_cases_raise_while_failures_are_shown(runs: PytestRuns) -> None:
    """Python 3.11 can't write two tracebacks at once; one thread alone writes any."""
    cases = [
        {"id": f"case-{n}", "input": n, "sleep": n / 500, "raises": "no such model"}
        for n in range(200)
    ]
    settings = "concurrency: 8\nstop_after_same_failure: 0\n"
    runs.write(task_class_files(cases, settings=settings))
    run = runs.run("bench", plugins=[BENCH])
    assert run.outcomes == {"failed": 200}
    assert "RuntimeError: no such model" in "\n".join(run.stdout)


@SERIAL
def test_a_loop_that_comes_back_is_left_alone(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """What had begun on it is lost with it, and all else is graded; nothing is called twice."""
    cases: list[dict[str, Any]] = [
        {"id": "blocks", "input": 1, "block": 2.5},
        *({"id": f"case-{n}", "input": n, "sleep": 0.3} for n in range(24)),
    ]
    settings = "timeout_per_case_seconds: 0.5\nconcurrency: 3\n"
    runs.write(task_class_files(cases, settings=settings))
    run = runs.run("bench", *workers, plugins=[BENCH, *(["xdist"] if workers else [])])
    assert run.outcomes is not None
    assert run.outcomes["passed"] >= 22
    assert sorted(calls(runs)) == sorted(case["id"] for case in cases)


def test_loop_that_never_comes_back_is_given_up(runs: PytestRuns) -> None:
    """A system that blocks for good costs its own case; the others get a loop of their own."""
    cases = [{"id": "blocks", "input": 1, "block": 600}, *passing_cases(3)]
    settings = "timeout_per_case_seconds: 0.5\nconcurrency: 2\n"
    runs.write(task_class_files(cases, settings=settings))
    run = runs.run("bench", plugins=[BENCH])
    assert run.outcomes == {"passed": 3, "failed": 1}
    (mode,) = dict(only_bench(run)["per_case"])["blocks"]["failure_modes"]
    assert mode["code"] == "sut.timeout"
    assert "and did not come back" in mode["detail"]


@pytest.mark.lowest
def test_tags_are_marks(runs: PytestRuns) -> None:
    """`-m` selects cases by their tags, which need no declaration."""
    cases = [{"id": "a", "input": 1, "tags": ["quick"]}, {"id": "b", "input": 1}]
    runs.write(task_class_files(cases))
    run = runs.run("bench", "-m", "quick", "--strict-markers", plugins=[BENCH])
    assert run.outcomes == {"passed": 1, "deselected": 1}
    assert calls(runs) == ["a"]


@pytest.mark.lowest
@pytest.mark.parametrize(
    ("args", "chosen"),
    [
        (["bench", "-k", "case-001"], ["case-001"]),
        (["bench/echo/cases/a.jsonl::case-002"], ["case-002"]),
        (["bench/echo/cases/a.jsonl"], ["case-000", "case-001", "case-002"]),
        (["bench/echo"], ["case-000", "case-001", "case-002"]),
        (["bench", "--deselect", "bench/echo/cases/a.jsonl::case-000", "-k", "000 or 001"],
         ["case-001"]),
        (["bench", "--bench-skip"], []),
        (["--bench-only"], ["case-000", "case-001", "case-002"]),
    ],
)  # fmt: skip
def test_selection(runs: PytestRuns, args: list[str], chosen: list[str]) -> None:
    """Only the systems of selected cases are called."""
    runs.write(
        {**task_class_files(passing_cases(3)), "test_it.py": "def test_it(): 1 / 0\n"}
    )
    run = runs.run(*args, plugins=[BENCH])
    assert calls(runs) == chosen
    assert run.counts.get("passed", 0) == len(chosen)
    assert run.exit_status == (0 if chosen else 5)


def test_selection_says_that_it_is_one(runs: PytestRuns) -> None:
    """A gate can't be decided on a selection: INCOMPLETE, and the run does not fail by it."""
    settings = "gate: {lower_bound_95: 0.9, min_passed_cases: 10}\n"
    runs.write(task_class_files(passing_cases(12), settings=settings))
    selected = runs.run("bench", "-k", "case-001", plugins=[BENCH])
    assert only_bench(selected)["gate"]["verdict"] == "INCOMPLETE"
    assert selected.exit_status == 0


@pytest.mark.lowest
def test_last_failed(runs: PytestRuns) -> None:
    """`--lf` runs the cases that failed and no other."""
    cases = [*passing_cases(3), {"id": "wrong", "input": 1, "answer": 2}]
    runs.write(task_class_files({"a.jsonl": cases[:2], "b.jsonl": cases[2:]}))
    runs.run("bench", plugins=[BENCH], cache=True)
    (runs.path / "calls.txt").unlink()
    run = runs.run("bench", "--lf", plugins=[BENCH], cache=True)
    assert calls(runs) == ["wrong"]
    assert run.outcomes is not None
    assert run.outcomes["failed"] == 1


@pytest.mark.lowest
def test_exit_first(runs: PytestRuns) -> None:
    """`-x` stops at the first failed case; what was not started by then is not run."""
    cases = [
        {"id": "a-wrong", "input": 1, "answer": 2},
        *({"id": f"b-{n}", "input": n, "sleep": 5} for n in range(9)),
    ]
    runs.write(task_class_files(cases, settings="concurrency: 2\n"))
    run = runs.run("bench", "-x", plugins=[BENCH])
    assert run.outcomes == {"failed": 1}
    assert len(calls(runs)) < 10
    report = only_bench(run)
    assert report["complete"] is False
    assert report["counts"]["scheduled"] == 10
    assert report["counts"]["graded"] == 1


@pytest.mark.lowest
def test_collect_only_runs_nothing(runs: PytestRuns) -> None:
    """`--co` shows the tree of cases, and nothing is run, summed up or judged by a gate."""
    settings = "gate: {lower_bound_95: 0.9}\n"
    runs.write(task_class_files(passing_cases(2), settings=settings))
    run = runs.run_unchecked("bench", "--co", "--bench-json=b.json", plugins=[BENCH])
    assert run.exit_status == 0
    assert "gate" not in "\n".join(run.stdout)
    assert not (runs.path / "b.json").exists()
    assert [
        line.strip() for line in run.stdout if "Case" in line or "File" in line
    ] == [
        "<BenchFile a.jsonl>",
        "<CaseItem case-000>",
        "<CaseItem case-001>",
    ]
    assert calls(runs) == []


@pytest.mark.lowest
@pytest.mark.parametrize(
    ("raises", "words"),
    [
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("pytest.exit('no budget', 7)", "Exit: no budget"),
        (
            "raise BaseExceptionGroup('both', [SystemExit(3), OSError()])",
            "both (2 sub-exceptions)",
        ),
    ],
)
def test_what_would_end_the_run_fails_its_own_case(
    runs: PytestRuns, raises: str, words: str
) -> None:
    """It is no case's score; the case that raised it is lost, and each other one is graded."""
    system = SYSTEM.replace(
        "        note(case)\n",
        f"        note(case)\n        if case.case_id == 'case-001':\n            {raises}\n",
    )
    runs.write(task_class_files(passing_cases(6), system=system))
    run = runs.run("bench", plugins=[BENCH])
    assert (run.exit_status, run.outcomes) == (1, {"passed": 5, "failed": 1})
    assert words in "\n".join(run.stdout)
    report = only_bench(run)
    assert (report["counts"]["graded"], report["complete"]) == (5, False)
    assert report["mean_score"] == pytest.approx(5 / 6)


def test_oracle_tests_the_rubric(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs that must pass and that must not are items of their own and no cases."""
    monkeypatch.setenv("COLUMNS", "200")
    files = task_class_files([{"id": "one", "input": 1}])
    files["bench/echo/oracle/self.yaml"] = (
        "- {id: good, case: one, output: 1, expect: gold}\n"
        "- {id: empty, case: one, output: null, expect: null}\n"
        "- {id: mistaken, case: one, output: 1, expect: null}\n"
        "- {id: missed, case: one, output: 2, expect: gold}\n"
    )
    runs.write(files)
    run = runs.run("bench", plugins=[BENCH])
    assert run.outcomes == {"passed": 3, "failed": 2}
    text = "\n".join(run.stdout)
    assert (
        "oracle/self.yaml::mistaken - null: must not pass, and passed: score 1.00"
        in text
    )
    assert "oracle/self.yaml::missed - gold: must pass, and did not: score 0.25" in text
    assert only_bench(run)["counts"]["scheduled"] == 1


def test_summary_of_a_task_class(runs: PytestRuns) -> None:
    """The terminal says passed of scheduled, the mean and its bound, codes, slowest and cost."""
    cases = [
        *({"id": f"right-{n}", "input": n, "rubric_cost": 0.25} for n in range(7)),
        {"id": "wrong", "input": 1, "answer": 2},
    ]
    runs.write(task_class_files(cases))
    text = "\n".join(runs.run("bench", plugins=[BENCH]).stdout)
    assert re.search(r"^=+ bench =+$", text, re.MULTILINE)
    assert re.search(r"^bench echo: 7 of 8 passed.* mean 0\.875.* at least 0\.\d{3} \(95 %", text,
                     re.MULTILINE)  # fmt: skip
    assert "block: answer.wrong (1)" in text
    assert "slowest: " in text
    assert "cost: $1.75" in text


@pytest.mark.parametrize(("flags", "is_there"), [(["-q"], True), (["-qq"], False)])
def test_summary_is_as_quiet_as_asked(
    runs: PytestRuns, flags: list[str], *, is_there: bool
) -> None:
    """Under `-q` the summary has no heading, under `-qq` there is none."""
    runs.write(task_class_files(passing_cases(5)))
    text = "\n".join(runs.run("bench", *flags, plugins=[BENCH]).stdout)
    assert ("bench echo: 5 of 5 passed" in text) is is_there
    assert "= bench =" not in text


BELOW_CASES: Final = [
    *passing_cases(6),
    {"id": "wrong", "input": 1, "answer": 2},
    {"id": "raises", "input": 1, "raises": "no such model"},
]
MODES_OF_WARNINGS: Final = (
    "answer.wrong: {severity: warn, description: not the input}\n"
)


@pytest.mark.lowest
@WORKERS
def test_the_gate_alone_decides(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """Cases below are no failed tests: not for the exit status, `-x`, `--lf`, JUnit or a report."""
    settings = "gate: {min_passed_cases: 6, decides: true}\n"
    files = task_class_files(
        BELOW_CASES[:-1], settings=settings, modes=MODES_OF_WARNINGS
    )
    runs.write(files)
    plugins = [BENCH, *(["xdist"] if workers else [])]
    run = runs.run("bench", *workers, "-x", "-q", plugins=plugins, cache=True)
    assert (run.exit_status, run.outcomes) == (0, {"passed": 6, "below": 1})
    assert run.junit["failures"] == 0
    assert run.report["verdict"] is None
    assert run.counts == {"collected": 7, "passed": 7}
    bench = only_bench(run)
    assert (bench["passed_count"], bench["gate"]["verdict"]) == (6, "PASS")
    wrong = "bench/echo/cases/a.jsonl::wrong"
    assert f"BELOW {wrong} - score 0.25 (counts 0): answer.wrong: got 2" in run.stdout
    assert "case wrong of echo: score 0.25 (counts 0), not passed" not in run.stdout
    again = runs.run("bench", *workers, "--lf", "-v", plugins=plugins, cache=True)
    assert again.outcomes == {"passed": 6, "below": 1}  # nothing had failed
    (line,) = [line for line in again.stdout if line.startswith("failure taxonomy: ")]
    assert "no failure (7 passed); bench: 6 of 7 cases passed; report: " in line
    shown = [line for line in again.stdout if wrong in line and "BELOW" in line]
    assert len(shown) == 2  # while it ran, and in the summary
    assert "case wrong of echo: score 0.25 (counts 0), not passed" in again.stdout
    (line,) = [line for line in again.stdout if line.startswith("failure taxonomy: ")]
    assert "no failure (7 passed); bench: 6 of 7 cases passed; report: " in line


@WORKERS
def test_a_gate_that_decides_fails_the_run(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """The gate is the verdict, and so it is for who reads the output or the report."""
    settings = "gate: {lower_bound_95: 0.9, decides: true}\n"
    runs.write(task_class_files(BELOW_CASES, settings=settings))
    plugins = [BENCH, *(["xdist"] if workers else [])]
    run = runs.run("bench", *workers, "-rA", plugins=plugins)
    assert (run.exit_status, run.outcomes) == (1, {"passed": 6, "below": 2})
    assert run.verdict == ("TESTS_FAILED", "bench.gate")
    says = "the gate of bench echo failed: 2 of 8 cases ended with a failure mode of severity "
    assert run.report["verdict"]["message"].startswith(says)
    assert run.report["failures"] == []
    assert "case raises of echo: score 0.00, not passed" in run.stdout
    answer = classify_log(["\n".join(run.stdout).encode()], name="log")
    assert (answer.kind, answer.exit.code) == ("bench.gate", 1)
    assert [held.kind for held in answer.reasons] == ["bench.gate"]


def test_what_a_gate_that_decides_leaves_failures(runs: PytestRuns) -> None:
    """A lost case and a broken test fail; a test of the mark whose score is too low does not."""
    cases = [*BELOW_CASES, {"id": "exits", "input": 1, "raises": "exit"}]
    ends = 'if case.case_id == "exits":\n            pytest.exit("no")\n        if "raises" in'
    system = SYSTEM.replace('if "raises" in', ends)
    marked = """\
import pytest

@pytest.mark.bench("echo")
def test_marked(case, bench):
    bench.score(case.fields.get("answer", case.input))
    assert case.case_id != "raises"
"""
    settings = "gate: {min_passed_cases: 1, decides: true}\n"
    files = task_class_files(
        cases, settings=settings, modes=MODES_OF_WARNINGS, system=system
    )
    runs.write({**files, "test_marked.py": marked})
    run = runs.run("bench", "test_marked.py", plugins=[BENCH])
    assert run.exit_status == 1
    failed = [each["nodeid"].rpartition("::")[2] for each in run.report["failures"]]
    assert failed == ["exits", "test_marked[raises]"]
    assert run.outcomes == {"failed": 2, "passed": 6 + 7, "below": 2 + 1}


def test_a_block_code_of_a_case_that_passes(runs: PytestRuns) -> None:
    """It fails the gate; where there is none, one line says so."""
    rubric = ECHO_RUBRIC.replace('"passed": passed', '"passed": True')
    files = task_class_files(BELOW_CASES[:-1], rubric=rubric)
    runs.write(files)
    run = runs.run("bench", plugins=[BENCH])
    assert run.exit_status == 0
    words = "  no gate: 1 case passed with a code of severity block; a gate would fail"
    assert words in run.stdout
    runs.write({"bench/echo/bench.yaml": "gate: {min_passed_cases: 1}\n"})
    run = runs.run("bench", plugins=[BENCH])
    assert (run.exit_status, run.outcomes) == (1, {"passed": 7})
    assert only_bench(run)["gate"]["verdict"] == "FAIL"
    assert words not in run.stdout


def test_gate_makes_success_a_failure(runs: PytestRuns) -> None:
    """Where all cases pass and prove too little, the gate makes exit status 1 of 0."""
    settings = "gate: {lower_bound_95: 0.95}\n"
    runs.write(task_class_files(passing_cases(20), settings=settings))
    run = runs.run("bench", plugins=[BENCH])
    assert run.outcomes == {"passed": 20}
    assert run.exit_status == 1
    assert run.verdict == ("TESTS_FAILED", "bench.gate")
    (evidence,) = run.report["verdict"]["evidence"]
    says = "the gate of bench echo failed: "
    assert evidence["detail"].startswith(f"{says}the lower bound 0.860 is below 0.95")
    assert any(f"! {says}" in line for line in run.stdout)
    gate = only_bench(run)["gate"]
    assert gate["verdict"] == "FAIL"
    assert "gate: FAIL" in "\n".join(run.stdout)


@SERIAL
def test_cost_cap(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """Above the cap no case is started; those are skipped, and the run is partial."""
    cases = [{**case, "rubric_cost": 0.4} for case in passing_cases(12)]
    settings = "max_cost_usd: 1.0\nconcurrency: 1\n"
    runs.write(task_class_files(cases, settings=settings))
    run = runs.run("bench", *workers, plugins=[BENCH, *(["xdist"] if workers else [])])
    report = only_bench(run)
    assert report["run_id"].startswith("partial:")
    assert report["counts"]["graded"] == 3
    assert report["counts"]["not_run"] == 9
    assert report["complete"] is False
    assert report["total_cost_usd"] == pytest.approx(1.2)
    assert run.outcomes == {"passed": 3, "skipped": 9}
    assert run.exit_status == 1
    words = "bench echo is incomplete: 9 of 12 cases have no score"
    assert any(words in line for line in run.stdout)


@pytest.mark.lowest
@ON_WORKERS
def test_scores_are_properties_in_junit_xml(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """The writer of pytest takes the properties of the last phase of a test."""
    runs.write(
        task_class_files(
            [{"id": "right", "input": 1}, {"id": "wrong", "input": 1, "answer": 2}]
        )
    )
    plugins = [BENCH, *(["xdist"] if workers else [])]
    runs.run("bench", "--junitxml=theirs.xml", *workers, plugins=plugins)
    found = {
        case.get("name"): {
            each.get("name"): each.get("value") for each in case.iter("property")
        }
        for case in ElementTree.parse(runs.path / "theirs.xml").iter("testcase")
    }
    assert found["right"]["bench_score"] == "1.0"
    assert found["wrong"]["bench_score"] == "0.25"
    assert found["wrong"]["bench_failure_modes"] == "answer.wrong"


def test_bench_json(runs: PytestRuns) -> None:
    """`--bench-json` writes the reports without `--failure-taxonomy`, too."""
    runs.write(task_class_files(passing_cases(5)))
    run = runs.run_plain("bench", "--bench-json=out/bench.json", plugins=[BENCH])
    assert run.exit_status == 0
    (report,) = json.loads((runs.path / "out" / "bench.json").read_text())
    assert report["task_class"] == "echo"
    assert report["passed_count"] == 5


def test_bench_json_that_cant_be_written(runs: PytestRuns) -> None:
    """A path that can't be written is said in one line, and the run is no success."""
    runs.write({**task_class_files(passing_cases(1)), "out": "a file"})
    run = runs.run_plain("bench", "--bench-json=out/bench.json", plugins=[BENCH])
    assert run.exit_status == 1
    assert any(line.startswith("--bench-json: ") for line in run.stdout)


NO_AMOUNT: Final = (
    " can't be used: it is no finite number; give an amount in US dollars above 0"
)


@pytest.mark.parametrize(
    ("args", "ini", "words"),
    [
        (
            ["--bench-concurrency=0"],
            "",
            "--bench-concurrency: '0' can't be used: it is less than 1; give",
        ),
        (
            ["--bench-concurrency=x"],
            "",
            "--bench-concurrency: 'x' is no number; give a whole",
        ),
        (
            ["--bench-timeout-per-case=-1"],
            "",
            "--bench-timeout-per-case: '-1' can't be used: it is not more",
        ),
        (
            ["--bench-max-cost=0"],
            "",
            "--bench-max-cost: '0' can't be used: a cap of 0 lets no",
        ),
        (
            ["--bench-max-cost=-2"],
            "",
            "--bench-max-cost: '-2' can't be used: a cap of -2 lets no",
        ),
        (
            ["--bench-max-cost=nan", "--bench-timeout-per-case=1e400"],
            "bench_max_cost_usd = inf",
            "1e400' can't be used: it is no finite number; give one\n"
            "--bench-max-cost: 'nan'"
            + NO_AMOUNT
            + "\nbench_max_cost_usd: 'inf'"
            + NO_AMOUNT,
        ),
        (
            ["--bench-json=bench"],
            "",
            "bench is a folder; name a file, such as bench.json",
        ),
        (
            ["--bench-json=x", "--junitxml=./x"],
            "",
            "--bench-json and --junitxml both name ",
        ),
        (
            [],
            "bench_rubric_isolation = cold",
            "bench_rubric_isolation: 'cold' can't be used: it is unknown; give 'warm' or",
        ),
    ],
)
def test_bad_options(runs: PytestRuns, args: list[str], ini: str, words: str) -> None:
    """A value that can't be used is a usage error in one line."""
    runs.write(
        {**task_class_files(passing_cases(1)), "pytest.ini": f"[pytest]\n{ini}\n"}
    )
    run = runs.run("bench", *args, plugins=[BENCH])
    assert run.exit_status == 4
    assert words in "\n".join(run.stdout + run.stderr)


def test_option_over_file_over_ini(runs: PytestRuns) -> None:
    """An option wins over `bench.yaml`, which wins over the ini value."""
    case = {"id": "sleeps", "input": 1, "sleep": 0.6}
    ini = "[pytest]\nbench_timeout_per_case_seconds = 0.1\n"
    files = task_class_files([case], settings="timeout_per_case_seconds: 10\n")
    runs.write({**files, "pytest.ini": ini})
    assert runs.run("bench", plugins=[BENCH]).exit_status == 0
    assert (
        runs.run("bench", "--bench-timeout-per-case=0.1", plugins=[BENCH]).exit_status
        == 1
    )
    del files["bench/echo/bench.yaml"]
    (runs.path / "bench/echo/bench.yaml").unlink()
    assert runs.run("bench", plugins=[BENCH]).exit_status == 1


def test_repeat(runs: PytestRuns) -> None:
    """`repeat` runs each case so often; a system and a test see the id of the file each time."""
    marked = """\
import pytest

@pytest.mark.bench("echo")
def test_marked(case, bench):
    assert case.case_id == case["id"]
    bench.score(case.input if case.repetition == 1 else "wrong")
"""
    files = task_class_files(passing_cases(2), settings="repeat: 3\n")
    runs.write({**files, "test_marked.py": marked})
    run = runs.run("bench", "test_marked.py", plugins=[BENCH])
    assert calls(runs) == 3 * ["case-000"] + 3 * ["case-001"]
    assert run.outcomes == {"passed": 6 + 2, "failed": 4}
    of_items, of_test = run.report["bench"]
    keys = [f"case-00{n}#{k}" for n in range(2) for k in (1, 2, 3)]
    assert [key for key, _ in of_items["per_case"]] == keys
    assert [key for key, score in of_test["per_case"] if score["passed"]] == [
        keys[0],
        keys[3],
    ]


@SERIAL
def test_the_bare_id_selects_all_repetitions(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """A node id by the id of the file runs its repetitions; so does `-k`."""
    runs.write(task_class_files(passing_cases(3), settings="repeat: 3\n"))
    plugins = [BENCH, "xdist"]
    file = "bench/echo/cases/a.jsonl"
    args = (f"{file}::case-001", f"{file}::case-002#2")
    assert runs.run(*args, *workers, plugins=plugins).outcomes == {"passed": 4}
    assert calls(runs) == [*3 * ["case-001"], "case-002"]
    run = runs.run("bench", "-k", "case-002", *workers, plugins=plugins)
    assert (run.outcomes or {}).get("passed") == 3
    assert runs.run(f"{file}::case-00", plugins=plugins).exit_status == 4


RIGHT_AT_THE_SECOND_TIME = SYSTEM.replace(
    'return case.fields.get("answer", case.input)',
    'return case.input if open(CALLS).read().split().count(case.case_id) > 1 else "wrong"',
).replace(
    '(scope="session")\ndef system_under_test():',
    "\ndef system_under_test(request):\n"
    "    if request.node.case.input == 'broken':\n        note(request.node.case)\n        0 / 0",
)
RERUN_TESTS = """\
import os
import pytest

@pytest.mark.bench("echo")
class TestMarked:{mark}
    def test_case(self, bench, case):
        with open("marked.txt", "a") as file:
            file.write(case.case_id)
        bench.score(case.input if os.path.getsize("marked.txt") > 3 else "wrong")
{mark_of_test}
def test_ordinary():
    with open("ordinary.txt", "a") as file:
        file.write("called ")
    assert os.path.getsize("ordinary.txt") > 7
"""
CALLS_AGAIN = """
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" and report.failed:
        again = pytest.CallInfo.from_call(lambda: item.ihook.pytest_runtest_call(item=item), "call")
        report.outcome = "passed" if again.excinfo is None else "failed"
    return report
"""
"""A plugin that runs failed tests again in a way of its own, as pytest-retry does."""


@pytest.mark.lowest
@pytest.mark.parametrize(
    ("args", "mark", "plugin"),
    [
        pytest.param(("--reruns=2", "-n", "2"), "", "", id="option-xdist"),
        pytest.param(
            ("--force-reruns=2", "--only-rerun=."),
            "",
            "",
            id="force",
            marks=pytest.mark.skipif(
                version("pytest-rerunfailures") < "16",
                reason="is new in pytest-rerunfailures 16",
            ),
        ),
        pytest.param(("-o", "reruns=2"), "", "", id="ini"),
        pytest.param((), "flaky", "", id="mark"),
        pytest.param((), "", CALLS_AGAIN, id="another-plugin"),
    ],
)
def test_reruns_leave_cases_alone(
    runs: PytestRuns, args: tuple[str, ...], mark: str, plugin: str
) -> None:
    """Whoever has failed tests rerun, a case is called once; a line says so and what to do."""
    tests = RERUN_TESTS.format(
        mark=f"\n    pytestmark = pytest.mark.{mark}" if mark else "",
        mark_of_test=f"@pytest.mark.{mark}" if mark else "",
    )
    inputs, tags = {"one": 1, "two": 2, "setup": "broken"}, [mark] if mark else []
    cases = [{"id": name, "input": each, "tags": tags} for name, each in inputs.items()]
    files = task_class_files(cases, system=RIGHT_AT_THE_SECOND_TIME + plugin)
    runs.write({**files, "test_suite.py": tests})
    plugins = [BENCH, "rerunfailures", *(["xdist"] if "-n" in args else [])]
    run = runs.run("bench", "test_suite.py", *args, plugins=plugins)
    assert calls(runs) == ["one", "setup", "two"]
    assert sorted((runs.path / "marked.txt").read_text()) == sorted("onetwosetup")
    assert (runs.path / "ordinary.txt").read_text() == "called called "
    rerun = {} if plugin else {"rerun": 1, "flaky": 1}
    counts = {name: count for name, count in run.counts.items() if name != "warnings"}
    assert counts == {"collected": 7, "failed": 3, "errors": 1, "passed": 3, **rerun}
    assert [each["passed_count"] for each in run.report["bench"]] == [0, 2]
    (line,) = (each for each in run.stdout if "not rerun" in each)
    assert "`retry:`" in line
    assert "`repeat:`" in line


@pytest.mark.lowest
def test_paths_with_blanks_and_a_python_package(runs: PytestRuns) -> None:
    """A task class in a folder with blanks in its name, with an `__init__.py`, works."""
    files = task_class_files(passing_cases(2), folder="my bench/the class")
    runs.write({**files, "my bench/the class/__init__.py": ""})
    run = runs.run("my bench", plugins=[BENCH])
    assert run.outcomes == {"passed": 2}
    bad = {
        **files,
        "my bench/the class/failure_modes.yaml": MODES.replace("block", "fatal"),
    }
    runs.write(bad)
    assert "my bench/the class/failure_modes.yaml:1: " in "\n".join(
        runs.run("my bench", plugins=[BENCH]).stdout
    )


@pytest.mark.lowest
def test_python_tests_beside_the_cases(runs: PytestRuns) -> None:
    """Tests in a task class's folder are collected as anywhere; `rubric.py` is none."""
    runs.write(
        {
            **task_class_files(passing_cases(1)),
            "bench/echo/test_rubric.py": "def test_rubric(bench_rubric):\n"
            "    assert bench_rubric('case-000', 0).passed\n"
            "    assert not bench_rubric('case-000', 5).passed\n"
            "    assert bench_rubric.grade({'id': 'x', 'input': 2}, 2)['score'] == 1.0\n",
        }
    )
    assert runs.run("bench", plugins=[BENCH]).outcomes == {"passed": 2}


def test_the_verdict_on_a_class_that_can_not_be_loaded(runs: PytestRuns) -> None:
    """It begins with the file and the line; the type that pytest wants for that is left out."""
    runs.write(task_class_files(passing_cases(1), settings="nonsense: 1\n"))
    run = runs.run(plugins=[BENCH])
    message = run.report["verdict"]["message"]
    assert run.verdict == ("INTERNAL_ERROR", "collection.error")
    assert re.match(r"bench/[a-z]+/bench\.yaml:\d+: unknown key 'nonsense'", message)

"""The Python-first form: the mark and the fixtures, in async tests and in plain ones."""

from __future__ import annotations

import pytest

from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    SERIAL,
    calls,
    codes_by_case,
    only_bench,
    passing_cases,
    task_class_files,
)

pytest.importorskip("pytest_asyncio")

PLUGINS = [BENCH, "asyncio"]
ASYNCIO = "[pytest]\nasyncio_default_fixture_loop_scope = function\nasyncio_mode = {}\n"
SYSTEM = "async def system(case):\n    return case.fields.get('answer', case.input)\n"
SYNC_HEAD = "def test_it(bench):\n    report = "
CASES = [*passing_cases(6), {"id": "wrong", "input": 1, "answer": 2}]


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_whole_run_from_an_async_test(runs: PytestRuns, mode: str) -> None:
    """`await bench.run(...)` returns the report, and the failure report holds it."""
    mark = "@pytest.mark.asyncio\n" if mode == "strict" else ""
    runs.write(
        {
            **task_class_files(CASES, system=""),
            "pytest.ini": ASYNCIO.format(mode),
            "test_it.py": f"import asyncio\nimport pytest\n{SYSTEM}\n"
            f"{mark}async def test_it(bench):\n"
            "    report = await bench.run('echo', system)\n"
            "    assert report.passed_count == 6\n"
            "    assert report.block_severity_failure_modes == ('answer.wrong',)\n",
        }
    )
    run = runs.run("test_it.py", plugins=PLUGINS)
    assert run.outcomes == {"passed": 1}
    assert only_bench(run)["passed_count"] == 6
    assert "bench echo in test_it.py::test_it: 6 of 7 passed" in "\n".join(run.stdout)


def test_system_runs_on_the_loop_of_an_async_test(runs: PytestRuns) -> None:
    """A system may use what an async fixture has opened on the test's own loop."""
    runs.write(
        {
            **task_class_files(passing_cases(3), system=""),
            "pytest.ini": ASYNCIO.format("auto"),
            "test_it.py": "import asyncio\n"
            "async def test_it(bench):\n"
            "    loop = asyncio.get_running_loop()\n"
            "    async def system(case):\n"
            "        return case.input if asyncio.get_running_loop() is loop else 'elsewhere'\n"
            "    assert (await bench.run('echo', system)).passed_count == 3\n",
        }
    )
    assert runs.run("test_it.py", plugins=PLUGINS).outcomes == {"passed": 1}


def test_the_bare_id_of_a_repeated_case(runs: PytestRuns) -> None:
    """`bench.run` takes the id of the file for all repetitions, `bench_rubric` for the case."""
    runs.write(
        {
            **task_class_files(passing_cases(2), system="", settings="repeat: 3\n"),
            "test_it.py": "import pytest\n\n"
            "def answer(case):\n    return case.input\n\n"
            "def test_run(bench):\n"
            "    ids = ['case-001', 'case-001#2', 'case-000#3']\n"
            "    report = bench.run_sync('echo', answer, case_ids=ids)\n"
            "    assert [each for each, _ in report.per_case] == [\n"
            "        'case-000#3', 'case-001#1', 'case-001#2', 'case-001#3']\n\n"
            "@pytest.mark.bench('echo')\n"
            "def test_rubric(bench_rubric):\n"
            "    assert bench_rubric('case-001', 1).passed\n"
            "    assert bench_rubric('case-001#2', 1).passed\n",
        }
    )
    assert runs.run("test_it.py", plugins=[BENCH]).outcomes == {"passed": 2}


def test_an_async_rubric_grades_a_run_and_in_a_test(runs: PytestRuns) -> None:
    """`async def grade` is awaited in its isolation, in a plain test, and in an async one."""
    runs.write(
        {
            **task_class_files(passing_cases(2)),
            "bench/echo/rubric.py": "import asyncio\nfrom asyncio import sleep\n"
            "async def grade(case, output):\n"
            "    await sleep(0.01)\n"
            "    passed = await asyncio.to_thread(lambda: output == case['input'])\n"
            "    return {'passed': passed, 'score': float(passed), 'breakdown': {}}\n",
            "bench/echo/test_rubric.py": "import asyncio\n"
            "def test_plain(bench_rubric):\n"
            "    assert bench_rubric('case-001', 1).passed\n"
            "    assert not bench_rubric('case-001', 2).passed\n"
            "def test_in_a_loop(bench_rubric):\n"
            "    async def run():\n"
            "        return bench_rubric('case-001', 1)\n"
            "    assert asyncio.run(run()).passed\n",
        }
    )
    for isolation in ("warm", "fresh"):
        option = f"--bench-rubric-isolation={isolation}"
        run = runs.run("bench", option, plugins=[BENCH])
        assert run.outcomes == {"passed": 4}


def test_whole_run_from_a_plain_test(runs: PytestRuns) -> None:
    """A plain test uses `run_sync`, or `asyncio.run`; a system may be plain, too."""
    runs.write(
        {
            **task_class_files(CASES, system=""),
            "test_it.py": f"import asyncio\n{SYSTEM}\n"
            "def plain(case):\n    return case.input\n"
            "def test_sync(bench):\n"
            "    assert bench.run_sync('echo', system).passed_count == 6\n"
            "def test_asyncio(bench):\n"
            "    assert asyncio.run(bench.run('bench/echo', plain)).passed_count == 7\n"
            "def test_some(bench, request):\n"
            "    path = request.config.rootpath / 'bench' / 'echo'\n"
            "    report = bench.run_sync(path, plain, case_ids=['wrong', 'case-001'])\n"
            "    assert [each for each, _ in report.per_case] == ['case-001', 'wrong']\n",
        }
    )
    run = runs.run("test_it.py", plugins=[BENCH])
    assert run.outcomes == {"passed": 3}
    assert [report["passed_count"] for report in run.report["bench"]] == [6, 7, 2]


@pytest.mark.parametrize(
    ("sort", "workers"),
    [
        pytest.param("plain", (), id="plain-serial"),
        pytest.param("strict", ("-n", "2"), id="strict-xdist"),
        pytest.param("auto", (), id="auto-serial"),
    ],
)
def test_test_for_each_case(
    runs: PytestRuns, sort: str, workers: tuple[str, ...]
) -> None:
    """A test with the mark runs once a case; a score that is not passed fails it."""
    head = {
        "plain": "def",
        "strict": "@pytest.mark.asyncio\nasync def",
        "auto": "async def",
    }[sort]
    runs.write(
        {
            **task_class_files(CASES, system=""),
            "pytest.ini": ASYNCIO.format("auto" if sort == "auto" else "strict"),
            "test_it.py": f"import pytest\n@pytest.mark.bench('echo')\n{head} test_it(case, bench):"
            "\n    score = bench.score(case.fields.get('answer', case.input), cost_usd=0.5)\n"
            "    assert score.cost_usd == 0.5\n",
        }
    )
    plugins = [*PLUGINS, *(["xdist"] if workers else [])]
    run = runs.run("test_it.py", "--strict-markers", *workers, plugins=plugins)
    assert run.outcomes == {"passed": 6, "failed": 1}
    report = only_bench(run)
    assert report["counts"]["scheduled"] == 7
    assert report["counts"]["graded"] == 7
    assert report["total_cost_usd"] == 3.5
    assert codes_by_case(report)["wrong"] == ["answer.wrong"]
    text = "\n".join(run.stdout)
    assert "case wrong of echo: score 0.25 (counts 0), not passed" in text
    assert ", in test_it\n" not in text


def test_node_ids_and_marks_of_marked_tests(runs: PytestRuns) -> None:
    """Cases are the parameters of a marked test, and their tags its marks."""
    cases = [{"id": "a", "input": 1, "tags": ["quick"]}, {"id": "b", "input": 1}]
    test = (
        "import pytest\n@pytest.mark.bench('echo')\n"
        "def test_it(case, bench):\n    bench.score(case.input)\n"
    )
    runs.write({**task_class_files(cases, system=""), "test_it.py": test})
    assert runs.run("test_it.py::test_it[b]", plugins=[BENCH]).outcomes == {"passed": 1}
    run = runs.run("test_it.py", "-m", "quick", "--strict-markers", plugins=[BENCH])
    assert run.outcomes == {"passed": 1, "deselected": 1}
    assert only_bench(run)["gate"] is None


@SERIAL
@pytest.mark.parametrize(
    ("body", "selection", "exit_status"),
    [
        ("if case.input: bench.score(case.input)", (), 1),
        ("if not case.input: pytest.skip('no')\n    bench.score(case.input)", (), 1),
        ("bench.score(case.input)", (), 0),
        ("if case.input: bench.score(case.input)", ("-k", "case-001"), 0),
    ],
    ids=["forgotten", "skipped", "all", "deselected"],
)
def test_marked_tests_without_a_score(
    runs: PytestRuns,
    body: str,
    selection: tuple[str, ...],
    exit_status: int,
    workers: tuple[str, ...],
) -> None:
    """A selected case that no test has graded fails the run."""
    test = f"import pytest\n@pytest.mark.bench('echo')\ndef test_it(case, bench):\n    {body}\n"
    runs.write({**task_class_files(passing_cases(2), system=""), "test_it.py": test})
    plugins = [BENCH, *(["xdist"] if workers else [])]
    assert (
        runs.run("test_it.py", *selection, *workers, plugins=plugins).exit_status
        == exit_status
    )


def test_a_marked_test_that_grades_nothing(runs: PytestRuns) -> None:
    """A test of the rubric alone is no run; one that asks for the fixture late is."""
    tests = (
        "import pytest\n@pytest.mark.bench('echo')\ndef test_rubric(case, bench_rubric):\n"
        "    assert bench_rubric(case, case.input).passed\n\n"
        "@pytest.mark.bench('echo')\ndef test_late(case, request):\n"
        "    request.getfixturevalue('bench').score(case.input)\n"
    )
    runs.write({**task_class_files(passing_cases(2), system=""), "test_it.py": tests})
    run = runs.run("test_it.py", plugins=[BENCH])
    assert (run.exit_status, run.outcomes) == (0, {"passed": 4})
    assert only_bench(run)["counts"]["graded"] == 2


def test_own_parametrization_is_kept(runs: PytestRuns) -> None:
    """A test that names its cases itself gets those."""
    test = (
        "import pytest\n@pytest.mark.bench('echo')\n@pytest.mark.parametrize('case', [1, 2])\n"
        "def test_it(case, bench_task_class):\n    assert bench_task_class.name == 'echo'\n"
    )
    runs.write({**task_class_files(CASES, system=""), "test_it.py": test})
    assert runs.run("test_it.py", plugins=[BENCH]).outcomes == {"passed": 2}


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (
            "@pytest.mark.bench('missing')\ndef test_it(case): pass\n",
            (
                "missing: there is no task class in bench/missing or missing; name a folder with a"
                " failure_modes.yaml (ini: bench_root)"
            ),
        ),
        (
            "@pytest.mark.bench\ndef test_it(case): pass\n",
            'the mark bench takes the name of one task class; write @pytest.mark.bench("name")',
        ),
        (
            "def test_it(bench): bench.score(1)\n",
            "test_it.py::test_it: bench.score grades the case of a test with the mark bench;",
        ),
        (
            "def test_it(bench_task_class): pass\n",
            "test_it.py::test_it: is about no task class; write @pytest.mark.bench(",
        ),
        (
            "def test_it(bench): bench.run_sync('echo', print, case_ids=['case-001', 'nope'])\n",
            "echo: has no case 'nope'; its cases are case-000, case-001",
        ),
    ],
)
def test_mistakes(runs: PytestRuns, test: str, words: str) -> None:
    """A mistake in the use of mark and fixtures is said with what would be right."""
    files = task_class_files(passing_cases(2), system="")
    runs.write({**files, "test_it.py": f"import pytest\n{test}"})
    run = runs.run("test_it.py", plugins=[BENCH])
    assert run.exit_status in (1, 2)
    assert words in "\n".join(run.stdout)


def test_bench_root(runs: PytestRuns) -> None:
    """`bench_root` says where names are looked for."""
    test = "def test_it(bench): assert bench.run_sync('echo', lambda c: c.input).passed_count == 2\n"
    files = task_class_files(passing_cases(2), folder="evals/echo", system="")
    ini = "[pytest]\nbench_root = evals\n"
    runs.write({**files, "test_it.py": test, "pytest.ini": ini})
    assert runs.run("test_it.py", plugins=[BENCH]).outcomes == {"passed": 1}
    assert calls(runs) == []


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        pytest.param("run", (), id="run-serial"),
        pytest.param("run_sync", ("-n", "2"), id="run_sync-xdist"),
    ],
)
def test_run_on_purpose_with_a_bad_system(
    runs: PytestRuns, name: str, workers: tuple[str, ...]
) -> None:
    """With `gate=False` no gate is evaluated, and the run may succeed."""
    call = f"bench.{name}('echo', system, gate=False)"
    head = (
        "async def test_it(bench):\n    report = await " if name == "run" else SYNC_HEAD
    )
    runs.write(
        {
            **task_class_files(
                CASES, system="", settings="gate: {lower_bound_95: 0.99}\n"
            ),
            "pytest.ini": ASYNCIO.format("auto"),
            "test_it.py": f"{SYSTEM}\n{head}{call}\n"
            "    assert report.gate is None\n"
            "    assert report.block_severity_failure_modes == ('answer.wrong',)\n",
        }
    )
    run = runs.run(
        "test_it.py", *workers, plugins=[*PLUGINS, *(["xdist"] if workers else [])]
    )
    assert (run.exit_status, run.outcomes) == (0, {"passed": 1})
    assert only_bench(run)["gate"] is None
    assert "gate:" not in "\n".join(run.stdout)


def test_gate_of_a_run_in_a_test_is_evaluated_otherwise(runs: PytestRuns) -> None:
    """Without `gate=False` the run fails by the gate though its tests pass."""
    runs.write(
        {
            **task_class_files(
                CASES, system="", settings="gate: {lower_bound_95: 0.99}\n"
            ),
            "test_it.py": f"{SYSTEM}\n{SYNC_HEAD}bench.run_sync('echo', system)\n"
            "    assert report.gate.verdict == 'FAIL'\n",
        }
    )
    run = runs.run("test_it.py", plugins=[BENCH])
    assert (run.exit_status, run.outcomes) == (1, {"passed": 1})

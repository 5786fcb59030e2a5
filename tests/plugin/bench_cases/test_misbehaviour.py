"""Systems, fixtures and files that do what nobody should: each costs its own case, and is told."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from pytest_failure_taxonomy.bench.kept.reader import read_run
from tests.helpers.runs import PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    SERIAL,
    SYSTEM,
    codes_by_case,
    only_bench,
    passing_cases,
    task_class_files,
)

PICKY = "assert not request.node.name == 'case-003'"
_MAIN = "import sys; from pytest_failure_taxonomy.cli.main import main;"


def system_that(does: str) -> str:
    """Return a conftest.py whose system does something for the case `case-003`."""
    return SYSTEM.replace(
        "        note(case)\n",
        f"        note(case)\n        if case.case_id == 'case-003':\n            {does}\n",
    )


@pytest.mark.parametrize(
    ("does", "workers"),
    [
        pytest.param("raise asyncio.CancelledError", (), id="CancelledError-serial"),
        pytest.param("raise SystemExit(0)", (), id="SystemExit-serial"),
        pytest.param("raise SystemExit(0)", ("-n", "2"), id="SystemExit-xdist"),
    ],
)
def test_what_ends_a_test_ends_one_case(
    runs: PytestRuns, does: str, workers: tuple[str, ...]
) -> None:
    """To pytest these fail one test; so the case has no score, counts as 0, and no other does."""
    files = task_class_files(
        passing_cases(12), settings="concurrency: 4\n", system=system_that(does)
    )
    runs.write(files)
    run = runs.run("bench", *workers, plugins=[BENCH, *(["xdist"] if workers else [])])
    assert run.outcomes == {"passed": 11, "failed": 1}
    report = only_bench(run)
    assert "case-003" not in codes_by_case(report)
    assert report["complete"] is False
    assert report["counts"]["started"] == 12
    assert (report["counts"]["lost"], report["lower_bound_95"]["value"]) == (1, None)
    assert report["mean_score"] == pytest.approx(11 / 12)
    assert run.report["failures"][0]["nodeid"].endswith("::case-003")
    assert run.verdict == ("TESTS_FAILED", "bench.lost")


ODD: Final = (
    "return Answer(1, usage={('a',): 1})",
    "return Answer(1, usage={b'a': 1})",
    "return Answer(1, usage={'a': 10**5000})",
    "return Answer(1, cost_usd=10**400)",
    "case.spend(0.1, tokens=1e308)",
    "raise type('E', (Exception,), {'failure_kind': property(lambda e: 1 / 0)})",
    "raise type('E', (Exception,), {'failure_kind': 'x' * 10**6})",
    "raise type('E', (Exception,), {'is_systemic': property(lambda e: 1 / 0)})",
    "raise type('E', (Exception,), {'traceback': property(lambda e: 1 / 0)})",
    "raise type('E', (Exception,), {'bases': (1, 2)})",
)
"""What a system may do that is no answer, and no ordinary exception."""


def test_an_odd_answer_or_exception_fails_one_case(runs: PytestRuns) -> None:
    """The others get their scores, and the file of the run holds all of them."""
    each_odd = "".join(
        f"        if case.case_id == 'case-{2 * number:03}':\n            {does}\n"
        for number, does in enumerate(ODD)
    )
    system = SYSTEM.replace("        note(case)\n", f"        note(case)\n{each_odd}")
    system = f"from pytest_failure_taxonomy.bench import Answer\n{system}"
    runs.write(task_class_files(passing_cases(2 * len(ODD)), system=system))
    run = runs.run("bench", plugins=[BENCH])
    assert run.outcomes == {"passed": len(ODD), "failed": len(ODD)}
    codes = codes_by_case(only_bench(run))
    for number, does in enumerate(ODD):
        assert codes[f"case-{2 * number:03}"] == ["sut.exception"], does
    (path,) = (runs.path / ".bench").glob("*.jsonl")
    assert len(read_run(path).scores()) == 2 * len(ODD)


@SERIAL
def test_fixture_that_raises_starts_no_case(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """A system that there never was has been called for no case."""
    system = SYSTEM.replace(
        "    async def answer", "    raise OSError('no key')\n\n    async def answer"
    )
    runs.write(task_class_files(passing_cases(12), system=system))
    run = runs.run("bench", *workers, plugins=[BENCH, *(["xdist"] if workers else [])])
    assert run.outcomes == {"errors": 12}
    report = only_bench(run)
    assert report["counts"] == {
        "scheduled": 12,
        "started": 0,
        "graded": 0,
        "lost": 0,
        "passed": 0,
        "not_run": 12,
    }
    assert (report["complete"], report["mean_score"]) == (False, None)


def test_item_whose_own_setup_raises_was_started_by_its_unit(runs: PytestRuns) -> None:
    """The first item starts the cases of all; a case without a score counts as 0."""
    system = (
        f"{SYSTEM}\n\n@pytest.fixture(autouse=True)\ndef picky(request):\n    {PICKY}\n"
    )
    runs.write(task_class_files(passing_cases(4), system=system))
    run = runs.run("bench", plugins=[BENCH])
    assert run.outcomes == {"passed": 3, "errors": 1}
    report = only_bench(run)
    assert (report["counts"]["started"], report["counts"]["graded"]) == (4, 3)
    assert report["mean_score"] == pytest.approx(3 / 4)


def test_marked_test_whose_setup_raises_has_not_started_its_case(
    runs: PytestRuns,
) -> None:
    """Its body, which calls the system, never ran."""
    runs.write(
        {
            **task_class_files(passing_cases(4), system=""),
            "test_it.py": "import pytest\n"
            "@pytest.fixture(autouse=True)\n"
            f"def picky(request):\n    {PICKY.replace('name ==', 'callspec.id ==')}\n"
            "@pytest.mark.bench('echo')\n"
            "def test_it(case, bench):\n"
            "    bench.score(case.input)\n",
        }
    )
    report = only_bench(runs.run("test_it.py", plugins=[BENCH]))
    assert (report["counts"]["started"], report["counts"]["not_run"]) == (3, 1)


@pytest.mark.parametrize(
    "does",
    [
        "asyncio.current_task().cancel(); await asyncio.sleep(0)",
        "asyncio.get_running_loop().call_soon(sys.exit, 3); await asyncio.sleep(0.01)",
        "asyncio.get_running_loop().create_task(leave()); await asyncio.sleep(0.01)",
    ],
    ids=["cancels-its-task", "callback-exits", "task-exits"],
)
def test_what_a_system_does_to_its_loop_reaches_no_other_case(
    runs: PytestRuns, does: str
) -> None:
    """Its own task is one of its own loop, and the runner has another."""
    system = (
        "import sys\n\nasync def leave():\n    raise SystemExit(3)\n\n"
        + system_that(does)
    )
    runs.write(task_class_files(passing_cases(6), system=system))
    run = runs.run("bench", plugins=[BENCH])
    assert run.outcomes is not None
    assert run.outcomes["passed"] >= 5
    assert run.report["failures"] == [] or (
        [each["nodeid"].rpartition("::")[2] for each in run.report["failures"]]
        == ["case-003"]
    )


def test_a_task_that_blocks_the_loop_for_good_ends_no_run(runs: PytestRuns) -> None:
    """It is no step of any case: what had begun is lost, and the rest runs on another loop."""
    head = "import time\n\nasync def block():\n    time.sleep(600)\n\n"
    does = "asyncio.get_running_loop().create_task(block()); await asyncio.sleep(30)"
    settings = "timeout_per_case_seconds: 0.5\nconcurrency: 2\n"
    files = task_class_files(
        passing_cases(6), settings=settings, system=head + system_that(does)
    )
    runs.write(files)
    run = runs.run("bench", plugins=[BENCH])
    assert run.outcomes is not None
    assert run.outcomes["passed"] >= 4
    assert "blocked the event loop for good" in "\n".join(run.stdout)


def test_system_that_stops_the_loop(runs: PytestRuns) -> None:
    """The loop is not the system's, and goes on."""
    does = "asyncio.get_running_loop().stop(); await asyncio.sleep(0.01)"
    runs.write(task_class_files(passing_cases(6), system=system_that(does)))
    assert runs.run("bench", plugins=[BENCH]).outcomes == {"passed": 6}


@pytest.mark.parametrize("does", ["case.fields['input'] = 5", "case.input.append(5)"])
def test_system_that_changes_its_case(runs: PytestRuns, does: str) -> None:
    """The rubric sees the case as its file has it, and each repetition a case of its own."""
    system = SYSTEM.replace(
        "        note(case)\n", f"        {does}\n        return case.fields['input']\n"
    )
    cases = [{"id": "a", "input": [1]}]
    runs.write(task_class_files(cases, settings="repeat: 3\n", system=system))
    run = runs.run("bench", plugins=[BENCH])
    assert run.outcomes == {"failed": 3}
    details = [
        score["failure_modes"][0]["detail"] for _, score in only_bench(run)["per_case"]
    ]
    assert len(set(details)) == 1


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_case_whose_fixture_fails_has_no_score(runs: PytestRuns, when: str) -> None:
    """An error of a fixture leaves its case without a score, and the gate is not passed."""
    fixture = (
        "\n@pytest.fixture(autouse=True)\ndef break_it(request):\n"
        f"    if 'case-002' in request.node.name and {when == 'setup'}: 1 / 0\n"
        "    yield\n"
        f"    if 'case-002' in request.node.name and {when == 'teardown'}: 1 / 0\n"
    )
    files = task_class_files(
        passing_cases(6),
        settings="gate: {min_passed_cases: 5}\n",
        system=SYSTEM + fixture,
    )
    runs.write(files)
    report = only_bench(runs.run("bench", plugins=[BENCH]))
    assert report["passed_count"] == 5
    assert report["mean_score"] == pytest.approx(5 / 6)
    assert report["gate"]["verdict"] == "INCOMPLETE"


def test_fixture_that_is_no_callable(runs: PytestRuns) -> None:
    """Each case says in one line what the fixture should have returned."""
    system = "import pytest\n@pytest.fixture(scope='session')\ndef system_under_test(): return 5\n"
    runs.write(task_class_files(passing_cases(2), system=system))
    run = runs.run("bench", plugins=[BENCH])
    text = "\n".join(run.stdout)
    assert run.outcomes == {"failed": 2}
    assert (
        "the fixture system_under_test returned an object of type int, which can't be"
        in text
    )
    assert "pytest_failure_taxonomy" not in text


def test_cost_beyond_sense(runs: PytestRuns) -> None:
    """A cost that could not be added up is a malformed answer."""
    cases = [{**case, "rubric_cost": 1e308} for case in passing_cases(2)]
    runs.write(task_class_files(cases))
    report = only_bench(runs.run("bench", plugins=[BENCH]))
    assert set(map(tuple, codes_by_case(report).values())) == {
        ("rubric.malformed_output",)
    }


@pytest.mark.parametrize(
    ("args", "tells"),
    [
        pytest.param(("-qq",), True, id="fixture"),
        pytest.param(
            ("--bench-sut=sut:answer", "--bench-sut-isolation=process"), False, id="own"
        ),
        pytest.param(("test_marked.py",), True, id="marked"),
        pytest.param(("-n", "2"), False, id="xdist"),
    ],
)
def test_a_bench_in_ci_says_that_its_system_could_end_pytest(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    tells: bool,
) -> None:
    """One line when it starts; none where nothing of the bench runs in pytest's own process."""
    monkeypatch.setenv("CI", "true")
    marked = "@pytest.mark.bench('echo')\ndef test_it(case, bench): bench.score(case.input)\n"
    runs.write(
        {
            **task_class_files(passing_cases(1)),
            "sut.py": "def answer(case): return case.input\n",
            "pytest.ini": "[pytest]\npythonpath = .\n",
            "test_marked.py": f"import pytest\n{marked}",
        }
    )
    paths = [] if any(each.endswith(".py") for each in args) else ["bench"]
    run = runs.run(*paths, *args, plugins=[BENCH, *(["xdist"] if "-n" in args else [])])
    assert run.exit_status == 0
    told = [line for line in run.stdout if "can end it with status 0" in line]
    assert len(told) == tells
    assert all("failure-taxonomy run -- pytest" in line for line in told)


def test_a_bench_whose_system_exits_with_0_is_red_under_run(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, nothing has to be said beforehand."""
    monkeypatch.setenv("CI", "true")
    runs.write(task_class_files([{"id": "exits", "input": 1, "exit": 0}]))
    command = (sys.executable, "-m", "pytest_failure_taxonomy", "run", "--")
    run = runs.run_unchecked("bench", plugins=[BENCH], prefix=command)
    assert run.exit_status == 3
    assert "can end it with status 0" not in "\n".join(run.stdout)


def test_task_class_without_its_first_file(runs: PytestRuns) -> None:
    """A misspelled `failure_modes.yaml` does not make the cases vanish."""
    files = task_class_files(passing_cases(2))
    modes = files.pop("bench/echo/failure_modes.yaml")
    runs.write({**files, "bench/echo/failure_modes.yml": modes})
    run = runs.run("bench", plugins=[BENCH])
    assert run.exit_status == 2
    assert "bench/echo/failure_modes.yaml: " in "\n".join(run.stdout)
    checked = subprocess.run(
        [sys.executable, "-c", f"{_MAIN} sys.exit(main(['validate', 'bench']))"],
        capture_output=True,
        cwd=runs.path,
        check=False,
        text=True,
    )
    assert checked.returncode == 1
    assert "bench/echo/failure_modes.yaml: " in checked.stderr


@pytest.mark.parametrize("option", ["--setup-plan", "--setup-only"])
def test_options_that_run_nothing(runs: PytestRuns, option: str) -> None:
    """Where pytest runs no test there is no summary, no gate and no report of a bench."""
    runs.write(
        task_class_files(passing_cases(2), settings="gate: {lower_bound_95: 0.5}\n")
    )
    run = runs.run_unchecked("bench", option, plugins=[BENCH])
    assert run.exit_status == 0
    assert "bench echo" not in "\n".join(run.stdout)

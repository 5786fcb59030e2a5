"""A fixture `system_under_test` with parameters: each system is a run of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.faces import html, markdown, render
from pytest_failure_taxonomy.faces.terminal import detail_lines
from pytest_failure_taxonomy.report.load import decode_report
from tests.helpers.runs import FinishedRun, PytestRuns
from tests.helpers.task_classes import (
    BENCH,
    ECHO_RUBRIC,
    MODES,
    ON_WORKERS,
    SERIAL,
    SYSTEM,
    WORKERS,
    passing_cases,
    task_class_files,
)

MILD: Final = MODES.replace("block", "info")
"""No failure mode fails a gate by itself."""

SYSTEMS: Final = (
    SYSTEM.replace(
        'scope="session")\ndef system_under_test():',
        'scope="session", params=["large", "small"])\ndef system_under_test(request):',
    )
    .replace("note(case)\n        if", "note(request.param, case)\n        if")
    .replace("def note(case)", "def note(name, case)")
    .replace("file.write(case.case_id", 'file.write(name + " " + case.case_id')
    .replace(
        'case.fields.get("answer", case.input)',
        "case.fields.get(request.param, case.input)",
    )
)
"""A conftest.py: answers the input, unless the case has an answer of the system's name."""


def wrong_for(system: str, failing: int, count: int = 20) -> list[dict[str, Any]]:
    """Return cases of which a system fails the first ones."""
    cases = passing_cases(count)
    return [
        {**case, system: "wrong"} if number < failing else case
        for number, case in enumerate(cases)
    ]


def run(runs: PytestRuns, *arguments: str, **files: Any) -> FinishedRun:
    """Write a class if one is given, and run it."""
    if files:
        runs.write(task_class_files(**{"system": SYSTEMS, "modes": MILD, **files}))
    plugins = [BENCH, *(["xdist"] if "-n" in arguments else [])]
    return runs.run("bench", *arguments, plugins=plugins, cache=True)


def by_label(found: FinishedRun) -> dict[str, dict[str, Any]]:
    """Return the reports of a run by the label of their system."""
    reports = {report["system_label"]: report for report in found.report["bench"]}
    assert len(reports) == len(found.report["bench"])
    return reports


def called(runs: PytestRuns) -> list[str]:
    """Return the calls of the systems, sorted, and forget them."""
    path = runs.path / "calls.txt"
    lines = sorted(path.read_text().splitlines()) if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def kept(runs: PytestRuns) -> list[Path]:
    """Return the files of the kept runs, the oldest first."""
    return sorted((runs.path / ".bench").glob("*.jsonl"))


@pytest.mark.lowest
@WORKERS
def test_each_system_is_a_run_of_its_own(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Each has its items, its report with gate and bound, and its file; every case is called."""
    found = run(
        runs,
        *workers,
        cases=wrong_for("small", 8),
        settings="gate: {lower_bound_95: 0.8}\nconcurrency: 4\n",
    )
    assert found.outcomes == {"passed": 32, "failed": 8}
    reports = by_label(found)
    assert sorted(reports) == ["large", "small"]
    assert [reports[each]["gate"]["verdict"] for each in ("large", "small")] == [
        "PASS",
        "FAIL",
    ]
    assert [reports[each]["passed_count"] for each in ("large", "small")] == [20, 12]
    assert [reports[each]["lower_bound_95"]["n"] for each in ("large", "small")] == [
        20,
        20,
    ]
    assert called(runs) == [
        f"{system} case-{number:03}"
        for system in ("large", "small")
        for number in range(20)
    ]
    headers = [
        json.loads(path.read_text("utf-8").splitlines()[0]) for path in kept(runs)
    ]
    assert {header["system"]["label"]: header["run_id"] for header in headers} == {
        label: report["run_id"] for label, report in reports.items()
    }
    nodeids = [failure["nodeid"] for failure in found.report["failures"]]
    assert min(nodeids) == "bench/echo/cases/a.jsonl::case-000[small]"


@SERIAL
def test_the_summary_is_a_table(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """The columns are aligned; what no system has, such as a cost, has no column."""
    found = run(
        runs,
        *workers,
        cases=wrong_for("small", 8),
        settings="gate: {lower_bound_95: 0.8}\n",
    )
    at = found.stdout.index("bench echo: 2 systems")
    head, large, small = found.stdout[at + 1 : at + 4]
    assert head.split() == ["system", "passed", "mean", "at", "least", "time", "of", "a", "case",
                            "gate"]  # fmt: skip
    assert large.split()[:6] == ["large", "20", "of", "20", "1.000", "0.860"]
    assert small.split()[:5] == ["small", "12", "of", "20", "0.600"]
    for name, cells in (("gate", ("PASS", "FAIL")), ("mean", ("1.000", "0.600"))):
        place = head.index(name)
        assert (large[place:].split()[0], small[place:].split()[0]) == cells
    text = "\n".join(found.stdout)
    pair = "  large -> small: changed by -0.400 (95 % between -0.639 and -0.097, n=20), worse"
    assert found.stdout[at + 4] == pair
    (difference,) = by_label(found)["small"]["other_systems"]
    assert (difference["old_system_label"], difference["finding"]) == ("large", "worse")
    assert by_label(found)["large"]["other_systems"] == []
    assert "\n  small:\n" in text
    assert "\n    gate: FAIL: the lower bound" in text
    assert text.count("    kept: .bench") == 2


def test_a_quiet_run_has_the_table_and_why_a_system_is_not_good_enough(
    runs: PytestRuns,
) -> None:
    """With `-q` there are no other details below it, and with `-qq` nothing."""
    settings = "gate: {lower_bound_95: 0.8}\n"
    found = run(runs, "-q", cases=wrong_for("small", 8), settings=settings)
    at = found.stdout.index("bench echo: 2 systems")
    assert found.stdout[at + 4].startswith("  small: the lower bound 0.3")
    assert not found.stdout[at + 5].startswith(" ")
    assert " -> " not in "\n".join(found.stdout)
    assert "bench echo" not in "\n".join(run(runs, "-qq").stdout)


def test_what_stopped_a_system_is_said_without_a_gate_too(runs: PytestRuns) -> None:
    """The table says of how many cases a mean is, and what a difference is of."""
    spends = "case.spend(0.4 if request.param == 'large' else 0)"
    conftest = SYSTEMS.replace("note(request.param, case)", spends)
    settings = "max_cost_usd: 2\nconcurrency: 1\n"
    files = {"cases": passing_cases(12), "settings": settings, "system": conftest}
    found = run(runs, **files)
    large = next(line for line in found.stdout if line.startswith("  large  "))
    assert large.split()[1:7] == ["6", "of", "12", "1.000", "of", "6"], large
    small = next(line for line in found.stdout if line.startswith("  small  "))
    assert small.split()[4:6] == ["1.000", "0.779"]
    (pair,) = (line for line in found.stdout if " -> " in line)
    assert pair.startswith(
        "  large -> small (6 cases with both scores): changed by 0.000 (no in"
    )
    brief = run(runs, "-q").stdout
    assert "  large: the cost cap was reached ($2.00)" in brief
    assert sum("--bench-resume runs what is missing" in line for line in brief) == 1


@SERIAL
def test_one_system_can_be_selected(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """`-k` and node ids select a system or a case of one; all cases of a system are no selection.

    The case alone stands for those of all systems.
    """
    whole = run(
        runs,
        *workers,
        "-k",
        "small",
        cases=wrong_for("small", 0, 6),
        settings="repeat: 2",
    )
    assert (whole.outcomes or {}).get("passed") == 12
    (report,) = whole.report["bench"]
    assert (report["system_label"], report["lower_bound_95"]["n"]) == ("small", 6)
    assert "bench echo[small]: 12 of 12 passed" in "\n".join(whole.stdout)
    called(runs)
    file = "bench/echo/cases/a.jsonl"
    plugins = [BENCH, *(["xdist"] if workers else [])]
    for argument, calls in (
        ("case-001#2[small]", ["small case-001"]),
        ("case-001[small]", 2 * ["small case-001"]),
        ("case-001#2", ["large case-001", "small case-001"]),
    ):
        found = runs.run(f"{file}::{argument}", *workers, plugins=plugins)
        assert found.outcomes == {"passed": len(calls)}, argument
        assert called(runs) == calls


@pytest.mark.lowest
def test_the_last_failures_are_those_of_a_system(runs: PytestRuns) -> None:
    """`--lf` runs the cases again that failed, with the system that failed them."""
    run(runs, cases=wrong_for("small", 2), modes=MODES)
    called(runs)
    assert run(runs, "--lf").outcomes == {"failed": 2}
    assert called(runs) == ["small case-000", "small case-001"]


@pytest.mark.lowest
def test_collection_names_case_and_system(runs: PytestRuns) -> None:
    """`--co` shows the node ids, grouped by system as the fixture lives as long as the session."""
    found = run(runs, "--co", "-q", cases=passing_cases(2))
    assert [line for line in found.stdout if "::" in line] == [
        f"bench/echo/cases/a.jsonl::case-00{number}[{system}]"
        for system in ("large", "small")
        for number in (0, 1)
    ]


@ON_WORKERS
def test_a_label_may_be_any_text(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """The id of a parameter may have brackets, colons and slashes."""
    system = SYSTEMS.replace('"small"', '"a/b[1]::c"')
    found = run(runs, *workers, cases=wrong_for("a/b[1]::c", 2, 5), system=system)
    reports = by_label(found)
    assert {label: each["passed_count"] for label, each in reports.items()} == {
        "large": 5,
        "a/b[1]::c": 3,
    }
    assert [each["counts"]["graded"] for each in reports.values()] == [5, 5]


@SERIAL
def test_a_system_is_resumed_by_itself(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """`--bench-resume` calls each system for the cases that its own run lacks."""
    cases = wrong_for("small", 0, 6)
    run(runs, cases=cases)
    for path in kept(runs):
        lines = path.read_text("utf-8").splitlines(keepends=True)
        cut = "case-000" if "-small-" in path.name else "case-005"
        left = lines[:2] + [line for line in lines[2:] if f'"{cut}"' not in line]
        path.write_text("".join(left), encoding="utf-8")
    called(runs)
    found = run(runs, *workers, "--bench-resume")
    assert called(runs) == ["large case-005", "small case-000"]
    assert [report["counts"]["graded"] for report in found.report["bench"]] == [6, 6]
    assert len(kept(runs)) == 2
    assert "\n".join(found.stdout).count("resumed: 5 of 6 cases were done before") == 2


@ON_WORKERS
def test_a_cost_cap_is_that_of_a_system(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """A cost cap stops the system that reached it; the other runs all of its cases."""
    costly = ECHO_RUBRIC.replace(
        'case.get("rubric_cost", 0.0)', '1.0 if output == "wrong" else 0.0'
    )
    found = run(
        runs,
        *workers,
        cases=wrong_for("small", 20),
        rubric=costly,
        settings="max_cost_usd: 0.5\nconcurrency: 1\n",
    )
    reports = by_label(found)
    assert reports["large"]["counts"]["graded"] == 20
    assert reports["small"]["counts"]["not_run"] >= 17
    assert reports["small"]["run_id"].startswith("partial:")
    assert found.exit_status == 1


@SERIAL
def test_a_model_may_be_the_parameter(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """A fixture that the system takes may have the parameters as well, with marks."""
    system = SYSTEM.replace("def system_under_test():", "def system_under_test(model):")
    system += (
        "\n\n@pytest.fixture(scope='session', params=['a', pytest.param('b',"
        " marks=pytest.mark.skip(reason='no key'))])\ndef model(request):\n"
        "    return request.param\n"
    )
    found = run(runs, *workers, cases=passing_cases(3), system=system)
    assert found.outcomes == {"passed": 3, "skipped": 3}
    assert by_label(found)["a"]["counts"]["passed"] == 3


@pytest.mark.lowest
def test_a_hook_may_give_the_parameters(runs: PytestRuns) -> None:
    """A `pytest_generate_tests` of the user parametrizes cases as it does tests."""
    hook = (
        "def pytest_generate_tests(metafunc):\n"
        "    if 'system_under_test' in metafunc.fixturenames:\n"
        "        names = metafunc.config.getoption('models').split(',')\n"
        "        metafunc.parametrize('system_under_test', names, indirect=True, scope='session')\n"
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--models', default='large')\n"
    )
    system = SYSTEMS.replace(', params=["large", "small"]', "") + hook
    found = run(runs, "--models=large,tiny", cases=passing_cases(3), system=system)
    assert sorted(by_label(found)) == ["large", "tiny"]


def test_systems_that_do_not_outlive_a_case(runs: PytestRuns) -> None:
    """With the scope of a function, each case has a system of its own, as without parameters."""
    system = SYSTEMS.replace('scope="session", ', "")
    found = run(runs, cases=passing_cases(3), system=system)
    assert [report["counts"]["passed"] for report in found.report["bench"]] == [3, 3]


def test_a_mixed_order_never_uses_a_fixture_after_its_end(runs: PytestRuns) -> None:
    """Where another plugin mixes the systems, the cases of a fixture end before it does."""
    ending = "    yield answer\n    with open(CALLS, 'a') as file:\n        file.write('end\\n')\n"
    hook = (
        "\n@pytest.hookimpl(trylast=True)\n"
        "def pytest_collection_modifyitems(items):\n"
        "    half = len(items) // 2\n"
        "    items[:] = [each for pair in zip(items[:half], items[half:]) for each in pair]\n"
    )
    system = SYSTEMS.replace("    return answer\n", ending) + hook
    found = run(
        runs,
        cases=[{**each, "sleep": 0.05} for each in passing_cases(3)],
        system=system,
    )
    assert found.outcomes == {"passed": 6}
    lines = (runs.path / "calls.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["large", "end", "small", "end"] * 3


MARKED: Final = """
import pytest

@pytest.mark.bench("echo")
def test_case(case, bench, system_under_test):
    bench.score(system_under_test(case))
"""


@ON_WORKERS
def test_a_marked_test_has_a_run_for_each_system(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """A test that takes the cases and the system itself doesn't mix the scores of two systems."""
    system = SYSTEMS.replace("async def", "def").replace("await asyncio", "time")
    files = task_class_files(wrong_for("small", 2, 6), system=system, modes=MILD)
    runs.write({**files, "test_marked.py": MARKED})
    plugins = [BENCH, *(["xdist"] if workers else [])]
    found = runs.run("test_marked.py", *workers, plugins=plugins)
    assert found.outcomes == {"passed": 10, "failed": 2}
    passed = {
        label: report["passed_count"] for label, report in by_label(found).items()
    }
    assert passed == {"large": 6, "small": 4}
    assert "bench echo in test_marked.py::test_case: 2 systems" in found.stdout


def test_a_crash_costs_the_case_of_one_system(runs: PytestRuns) -> None:
    """A worker that dies in a case of one system loses that case, and nothing of the other."""
    system = SYSTEMS.replace(
        '        if "exit" in case.fields:',
        '        if case.fields.get("exits") == request.param:\n'
        "            await asyncio.sleep(0.2)\n"
        "            os._exit(3)\n"
        '        if "exit" in case.fields:',
    )
    cases = passing_cases(8)
    cases[5]["exits"] = "small"
    found = run(runs, "-n", "2", cases=cases, system=system)
    reports = by_label(found)
    assert reports["large"]["counts"]["passed"] == 8
    assert {key: reports["small"]["counts"][key] for key in ("graded", "started")} == {
        "graded": 7,
        "started": 8,
    }
    assert found.exit_status == 1


def test_other_faces_of_the_report_name_the_systems(runs: PytestRuns) -> None:
    """A page, a pull request, an annotation and the command line tell the systems apart."""
    cases = wrong_for("small", 2, 6)
    report = run(runs, cases=cases, settings="gate: {lower_bound_95: 0.9}\n").report
    for name in ("echo[large]", "echo[small]"):
        assert name in html.render(decode_report(report))
        assert name in markdown.render(decode_report(report)).replace("\\", "")
        assert f"bench {name}%3A gate FAIL" in render("github", decode_report(report))
        assert any(
            line.text.startswith(f"{name}: ")
            for line in detail_lines(decode_report(report))
        )

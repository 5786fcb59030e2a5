"""Other formats of a report, written by the run itself and by whoever completes a dead one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from defusedxml import ElementTree
from xmlschema import XMLSchema

from pytest_failure_taxonomy.cli.main import main
from tests.helpers.children import pytest_command, run_child
from tests.helpers.runs import PytestRuns, own_lines

SUITE = """
import pytest
@pytest.fixture
def broken(): raise OSError("no room")
@pytest.fixture
def late():
    yield
    raise RuntimeError("late")
def test_ok(): pass
def test_bad(): assert [1] == [2]
def test_setup(broken): pass
def test_both(late): assert 0
@pytest.mark.skip(reason="not now")
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert 0
@pytest.mark.parametrize("text", ["<script>", "a]]>b", "x\\x1by"])
def test_text(text): assert not text, text
"""
DEATH = """
import os, time
def test_first(): pass
def test_dies(): os.abort()
def test_last(): pass
"""
TELL = """
import pathlib, pytest
@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid):
    if nodeid.startswith("test_it") and "x" in nodeid.partition("[")[2]:
        pathlib.Path("ended").touch()
"""
KILL = """
import os, pathlib, time
def test_kills():
    while not pathlib.Path("ended").exists():
        time.sleep(0.01)
    process = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    os.kill(process, 9)
    time.sleep(10)
def test_is_never_run(): pass
"""
JUNIT = "--failure-taxonomy-junit"
RULES = Path(__file__).parents[1] / "helpers" / "junit_rules.xsd"
WORKERS = [pytest.param((), id="serial"), pytest.param(("-n", "2"), id="xdist")]


def cases_in(path: Path) -> dict[tuple[str, str], list[str]]:
    """Return the cases of a JUnit file, each with what is in it, but for output and properties."""
    found: dict[tuple[str, str], list[str]] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        place = (case.get("classname", ""), case.get("name", ""))
        told = [
            each.tag for each in case if each.tag in ("failure", "error", "skipped")
        ]
        found.setdefault(place, []).extend(told)
    return found


def attributes_in(path: Path) -> dict[str, Any]:
    """Return the counts of the one suite of a JUnit file."""
    (suite,) = ElementTree.parse(path).iter("testsuite")
    return {name: suite.get(name) for name in ("failures", "errors", "skipped")}


@pytest.mark.parametrize("workers", WORKERS)
def test_junit_beside_that_of_pytest(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """The same cases with the same ends, by the same names."""
    runs.write({"tests/test_it.py": SUITE})
    plugins = ("xdist",) if workers else ()
    runs.run(
        f"{JUNIT}=out/ours.xml", "--junitxml=theirs.xml", *workers, plugins=plugins
    )
    ours, theirs = runs.path / "out" / "ours.xml", runs.path / "theirs.xml"
    assert cases_in(ours) == cases_in(theirs)
    assert attributes_in(ours) == attributes_in(theirs)


def test_the_dialect_is_that_of_pytest(runs: PytestRuns) -> None:
    """Whoever has set `junit_family` gets files and properties from both."""
    runs.write({"test_it.py": SUITE, "pytest.ini": "[pytest]\njunit_family = xunit1\n"})
    runs.run("-o", "failure_taxonomy_junit=ours.xml")
    case = next(ElementTree.parse(runs.path / "ours.xml").iter("testcase"))
    assert case.get("file") == "test_it.py"


@pytest.mark.linux("the watcher")
@pytest.mark.parametrize("workers", WORKERS)
def test_junit_of_a_run_that_died(runs: PytestRuns, workers: tuple[str, ...]) -> None:
    """Where pytest's own file is missing, that of the watcher says why."""
    end = "(os.kill(os.getppid(), 9), time.sleep(10))" if workers else "os.abort()"
    runs.write({"test_it.py": DEATH.replace("os.abort()", end)})
    plugins = ("xdist",) if workers else ()
    runs.run_unchecked(
        f"{JUNIT}=ours.xml", "--junitxml=theirs.xml", *workers, plugins=plugins
    )
    runs.wait_for_completion()
    assert not (runs.path / "theirs.xml").exists()
    found = cases_in(runs.path / "ours.xml")
    assert found["test_it", "test_dies"] == ["error"]
    kind = "process.killed" if workers else "process.crashed"
    assert found["failure_taxonomy", kind] == ["error"]


@pytest.mark.linux("the watcher")
@pytest.mark.parametrize("workers", WORKERS)
def test_a_death_leaves_what_had_ended(
    runs: PytestRuns, workers: tuple[str, ...]
) -> None:
    """Every test that had ended is listed with its end, as many as the report counts."""
    runs.write({"test_it.py": SUITE, "test_last.py": KILL, "conftest.py": TELL})
    plugins = ("xdist",) if workers else ()
    distribution = ("--dist=loadfile",) if workers else ()
    runs.run_unchecked(*workers, *distribution, plugins=plugins)
    report = runs.wait_for_completion()
    path = str(runs.path / "failure-report.json")
    out = runs.path / "out.xml"
    assert main(["convert", "--to", "junit", path, "-o", str(out)]) == 0
    cases = cases_in(out)
    ends = [end for (module, _), end in cases.items() if module == "test_it"]
    assert cases["test_it", "test_ok"] == []
    assert cases["test_it", "test_expected"] == ["skipped"]
    assert cases["test_it", "test_both"] == ["failure", "error"]
    assert cases["test_last", "test_kills"] == ["error"]
    assert ("test_last", "test_is_never_run") not in cases
    counts = report["summary"]
    assert ends.count([]) == counts["passed"] == 1
    assert ends.count(["skipped"]) == counts["skipped"] + counts["xfailed"] == 2
    assert sum("failure" in end for end in ends) == counts["failed"] == 5
    assert sum("error" in end for end in ends) == counts["errors"] == 2
    XMLSchema(str(RULES)).validate(str(out))

    assert main(["convert", "--to", "ctrf", path, "-o", str(out)]) == 0
    ctrf = json.loads(out.read_bytes())["results"]
    statuses = {test["name"].split("::")[1]: test["status"] for test in ctrf["tests"]}
    assert statuses["test_ok"] == "passed"
    assert statuses["test_skipped"] == "skipped"
    assert statuses["test_is_never_run"] == "pending"
    assert ctrf["summary"]["passed"] == 1


@pytest.mark.slow
@pytest.mark.lowest
def test_junit_of_a_death_under_run(runs: PytestRuns) -> None:
    """The supervisor writes it; a path that can't be written is told in the report."""
    runs.write({"test_it.py": DEATH})
    supervised = [sys.executable, "-m", "pytest_failure_taxonomy", "run", "--"]
    command = pytest_command("--failure-taxonomy", f"{JUNIT}=ours.xml")
    run_child(runs.path, [*supervised, *command])
    assert cases_in(runs.path / "ours.xml")["test_it", "test_dies"] == ["error"]


def test_a_face_that_can_not_be_written(runs: PytestRuns) -> None:
    """One line says so, and the run ends as it would without it."""
    runs.write({"test_it.py": SUITE, "file": ""})
    run = runs.run(f"{JUNIT}=file/ours.xml")
    assert run.exit_status == 1
    (line,) = [line for line in own_lines(run.stdout) if "junit" in line]
    assert line == "failure taxonomy: junit: it can't be written: Not a directory"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--failure-taxonomy-junit="],
            (
                "--failure-taxonomy-junit: the path is empty; give the name of a file such as "
                "report.xml"
            ),
        ),
        (
            ["--why-html=test_it.py"],
            (
                "--why-html: the path is a Python file's, test_it.py; give the name of a file "
                "such as report.html"
            ),
        ),
        (
            ["--why-junit=sub"],
            "sub is a directory; give the name of a file such as report.xml",
        ),
        (
            ["-o", "failure_taxonomy_html=x/"],
            "ini value failure_taxonomy_html: the path is a ",
        ),
        (
            ["--failure-taxonomy-github=yes"],
            "'yes' is unknown; give one of auto, on, off",
        ),
        (
            ["--failure-taxonomy-summary=all"],
            "'all' is unknown; give one of short, groups, off",
        ),
    ],
)
def test_options_that_mean_nothing(
    runs: PytestRuns, options: list[str], words: str
) -> None:
    """Each is refused in one line before any test."""
    runs.write({"test_it.py": SUITE, "sub/x": ""})
    run = runs.run_unchecked(*options)
    assert run.exit_status == 4
    assert words in "\n".join([*run.stdout, *run.stderr])

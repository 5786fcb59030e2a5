"""`failure-taxonomy bench init` and `validate` of task classes, as a shell uses them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.bench.load.folder import starter_files
from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from tests.helpers.children import ChildRun, run_child
from tests.helpers.task_classes import BENCH

CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
RIGHT: Final = "give rules (YAML), reports (JSON) or task classes (folders)"
FILES: Final = [
    "bench.yaml",
    "breakdown_keys.yaml",
    "cases/examples.yaml",
    "conftest.py",
    "failure_modes.yaml",
    "oracle/examples.yaml",
    "rubric.py",
]


def cli(folder: Path, *arguments: str) -> ChildRun:
    """Run the command."""
    return run_child(folder, [*CLI, *arguments])


def init(folder: Path, name: str) -> None:
    """Write a starter class."""
    assert cli(folder, "bench", "init", name).status == 0


def test_init_writes_a_class_that_can_be_loaded(tmp_path: Path) -> None:
    """The files are those of the page, the class is good, and the next steps are told."""
    run = cli(tmp_path, "bench", "init", "bench/bug-fixes")
    assert (run.status, run.stderr) == (0, "")
    assert run.stdout.splitlines() == [
        (
            "bench/bug-fixes is ready: a system that finds e-mail addresses, three cases,"
            " and their rubric"
        ),
        "run it:    pytest bench/bug-fixes",
        "in CI:     failure-taxonomy run -- pytest bench/bug-fixes",
        "check it:  failure-taxonomy validate bench/bug-fixes",
        "change it: conftest.py calls your system, cases/ and rubric.py say what is right",
    ]
    folder = tmp_path / "bench" / "bug-fixes"
    written = sorted(path for path in folder.rglob("*") if path.is_file())
    assert [path.relative_to(folder).as_posix() for path in written] == FILES
    loaded = load_task_class(folder)
    assert [case.case_id for case in loaded.cases] == [
        "two-addresses",
        "no-address",
        "plus-sign",
    ]
    assert [each.expect for each in loaded.oracle] == ["gold", "null", "null"]
    run = cli(tmp_path, "validate", "bench/bug-fixes")
    assert (run.status, run.stdout) == (0, "ok bench/bug-fixes (task class, 3 cases)\n")


def test_the_rubric_of_the_starter_does_as_its_oracle_says(tmp_path: Path) -> None:
    """Its codes and keys are those of its files, and it judges each example as expected."""
    init(tmp_path, "mail")
    loaded = load_task_class(tmp_path / "mail")
    space: dict[str, object] = {}
    exec((tmp_path / "mail" / "rubric.py").read_text(), space)  # noqa: S102  # as a rubric runs
    grade = space["grade"]
    assert callable(grade)
    cases = {case.case_id: case for case in loaded.cases}
    outputs = [
        (each.case_id, each.output, each.expect == "gold") for each in loaded.oracle
    ]
    outputs += [
        ("no-address", "none", False),
        ("two-addresses", ["bob@example.com", "ann@example.org"], True),
    ]
    codes: set[str] = set()
    for case_id, output, passes in outputs:
        answer = grade(cases[case_id].fields, output)
        assert answer["passed"] is passes
        assert loaded.breakdown_keys.issuperset(answer["breakdown"])
        codes.update(mode["code"] for mode in answer["failure_modes"])
    assert codes == set(loaded.failure_mode_taxonomy)


@pytest.mark.parametrize(
    ("kind", "outcome", "failure"),
    [
        ("code", "1 failed, 5 passed", "code.assertion: AssertionError (line 8: "),
        ("judge", "1 failed, 2 passed", "answer.wrong: no: the facts don't say nine"),
        ("agent", "1 failed, 1 passed", "tests.failed: assertion: AssertionError: Hel"),
    ],
)
def test_each_kind_runs_at_once_and_its_fake_fails_once(
    tmp_path: Path, kind: str, outcome: str, failure: str
) -> None:
    """An author sees a pass and a failure before anything is written."""
    run = cli(tmp_path, "bench", "init", "--kind", kind, "bench/mine")
    assert (run.status, run.stderr) == (0, "")
    assert run.stdout.startswith("bench/mine is ready: a fake ")
    assert cli(tmp_path, "validate", "bench").status == 0
    command = [sys.executable, "-m", "pytest", "bench", "-q", "-p", BENCH]
    run = run_child(tmp_path, command)
    assert run.status == 1
    assert outcome in run.stdout
    assert failure in run.stdout
    if kind == "judge":
        run = cli(tmp_path, "bench", "judge", "bench/mine")
        assert "agreement: 0.750" in run.stdout


def test_init_takes_an_empty_folder(tmp_path: Path) -> None:
    """A folder that was made before is as good as none."""
    (tmp_path / "mine").mkdir()
    init(tmp_path, "mine")
    init(tmp_path, "deeper/than/that")
    assert cli(tmp_path, "validate", ".").stdout.splitlines() == [
        "ok deeper/than/that (task class, 3 cases)",
        "ok mine (task class, 3 cases)",
    ]


NAMES: Final = "write letters, digits, - and _, such as bench/bug-fixes"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("full", "full: is not empty; give the name of a new folder"),
        ("file", "file: is no folder; give the name of a new one"),
        (
            "file/below",
            "file/below: can't be written (Not a directory); choose another place",
        ),
        ("bench/a b", f"bench/a b: 'a b' is no name of a task class; {NAMES}"),
        ("bench/..", f"bench/..: '..' is no name of a task class; {NAMES}"),
        (".", f".: '' is no name of a task class; {NAMES}"),
        ("_x", f"_x: '_x' is no name of a task class; {NAMES}"),
        ("a\nb", rf"a\nb: 'a\nb' is no name of a task class; {NAMES}"),
        (
            f"{'n' * 300}/x",
            "can't be written (File name too long); choose another place",
        ),
    ],
)
def test_init_refuses_in_one_line(tmp_path: Path, name: str, problem: str) -> None:
    """What can't become a task class is exit code 2, and nothing is written."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "file").touch()
    run = cli(tmp_path, "bench", "init", name)
    assert (run.status, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert line.startswith("failure-taxonomy: ")
    assert problem in line
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["file", "full", "x"]


def test_bench_alone_shows_its_commands(tmp_path: Path) -> None:
    """Without a command of its own it is wrong use, answered by the help."""
    run = cli(tmp_path, "bench")
    assert (run.status, run.stdout) == (2, "")
    assert run.stderr.startswith("usage: failure-taxonomy bench")
    assert "write a small task class that works" in run.stderr
    assert cli(tmp_path, "bench", "init").status == 2


def test_validate_searches_a_folder(tmp_path: Path) -> None:
    """Classes are found at any depth, in order; a bad one does not hide the good ones."""
    for name in ("b/two", "b/one", "a", ".hidden/x", "node_modules/x", "env/lib/x"):
        init(tmp_path, name)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "b" / "two" / "bench.yaml").write_text("repeat: 2\n")
    (tmp_path / "a" / "breakdown_keys.yaml").write_text("- found\n- right\n- llm\n")
    run = cli(tmp_path, "validate", ".")
    assert run.status == 1
    assert run.stdout.splitlines() == [
        "ok b/one (task class, 3 cases)",
        "ok b/two (task class, 3 cases, each run 2 times)",
    ]
    assert run.stderr.splitlines() == [
        (
            "a/breakdown_keys.yaml:3: the key 'llm' holds 'llm', a model's opinion of itself"
            " ([llm]); name what the rubric measures"
        )
    ]


def test_validate_takes_a_file_for_its_class(tmp_path: Path) -> None:
    """Any file of a class stands for the class, which is checked once."""
    init(tmp_path, "mail")
    case = "id: one\ninput: x\n"
    (tmp_path / "mail" / "cases" / "examples.yaml").write_text(case)
    (tmp_path / "mail" / "oracle" / "examples.yaml").unlink()
    names = [
        "failure_modes.yaml",
        "rubric.py",
        "bench.yaml",
        "cases",
        "cases/examples.yaml",
        "",
    ]
    for name in names:
        run = cli(tmp_path, "validate", f"mail/{name}")
        assert (run.status, run.stdout) == (0, "ok mail (task class, 1 case)\n")
    run = cli(tmp_path, "validate", *(f"mail/{name}" for name in names))
    assert (run.status, run.stdout) == (0, "ok mail (task class, 1 case)\n")
    run = cli(tmp_path / "mail", "validate", "rubric.py")
    assert (run.status, run.stdout) == (0, "ok . (task class, 1 case)\n")


def test_validate_of_a_folder_without_a_class(tmp_path: Path) -> None:
    """There being nothing to check is no success; what stands beside it is still checked."""
    (tmp_path / "empty").mkdir()
    init(tmp_path, "mail")
    run = cli(tmp_path, "validate", "empty", "mail")
    assert (run.status, run.stdout) == (2, "ok mail (task class, 3 cases)\n")
    assert run.stderr == f"empty: has no task class in it; {RIGHT}\n"


def test_the_starter_has_the_files_of_the_page() -> None:
    """What is packaged is what is written."""
    assert sorted(name for name, _ in starter_files()) == FILES

"""Paths on the terminal: relative to where the user stands, as pytest prints them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import ChildRun, run_child, run_pytest

XDIST: Final = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "xdist"])
PROJECT: Final = "my project"
SUMMARY: Final = re.compile("(?:FAILED|ERROR) (.+?)(?: - .*)?")


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files into a folder, given by path and content."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def run_from(
    folder: Path, files: dict[str, str], *args: str, start: str = ".", workers: int = 0
) -> ChildRun:
    """Run pytest on a project in a folder below, started where `start` says."""
    write(folder / PROJECT, {"pytest.ini": "[pytest]\n", **files})
    xdist = ("-n", str(workers)) if workers else ()
    started_in = folder / start
    rootdir = (
        "-c",
        str(folder / PROJECT / "pytest.ini"),
        "--rootdir",
        str(folder / PROJECT),
    )
    return run_pytest(started_in, *rootdir, *args, *xdist, plugins=("xdist",))


def names_of_pytest(run: ChildRun) -> list[str]:
    """Return the node ids in pytest's own short summary."""
    found = (SUMMARY.fullmatch(line) for line in run.stdout.splitlines())
    return [match[1] for match in found if match]


@XDIST
@pytest.mark.parametrize(
    ("start", "shown"),
    [
        (".", "my project/tests/test_a.py"),
        (PROJECT, "tests/test_a.py"),
        (f"{PROJECT}/tests", "test_a.py"),
        (f"{PROJECT}/docs", "../tests/test_a.py"),
    ],
)
def test_a_failed_test(tmp_path: Path, start: str, shown: str, workers: int) -> None:
    """Node id and place are those that pytest prints; the report keeps the root directory's."""
    files = {
        "tests/test_a.py": "\n\ndef test_it(): assert 0, 'no'\n",
        "docs/index.txt": "",
    }
    run = run_from(
        tmp_path, files, str(tmp_path / PROJECT), start=start, workers=workers
    )
    assert run.told[1].startswith(f"1 test failed: no: test_it ({shown}:3) [")
    assert names_of_pytest(run) == [f"{shown}::test_it"]
    report = run.report()
    assert report["verdict"]["nodeid"] == "tests/test_a.py::test_it"
    assert report["failures"][0]["location"]["path"] == "tests/test_a.py"


def test_a_test_outside_of_the_root(tmp_path: Path) -> None:
    """The node id of a test beside the root directory is pytest's, and its place is where it is."""
    write(tmp_path, {"other/test_a.py": "def test_it(): assert 0, 'no'\n"})
    run = run_from(tmp_path, {}, "other")
    (name,) = names_of_pytest(run)
    assert "no: test_it (other/test_a.py:1)" in run.told[1]
    assert name in "\n".join(run.told) or name.startswith("other/test_a.py")


@XDIST
def test_words_that_name_files(tmp_path: Path, workers: int) -> None:
    """The files that a conftest's error names are shown from there, too."""
    files = {"conftest.py": "import own\n", "own.py": "raise ValueError('no')\n"}
    run = run_from(tmp_path, files, PROJECT, workers=workers)
    words = "ValueError: no (my project/own.py:1, from my project/conftest.py)"
    assert any(words in line for line in run.told)
    assert run.report()["internal_errors"][0]["message"] == (
        "ValueError: no (own.py:1, from conftest.py)"
    )


@pytest.mark.slow
@pytest.mark.lowest
def test_a_group_and_a_test_in_flight(tmp_path: Path) -> None:
    """So are the places of causes, and the tests that were running."""
    content = (
        "import pytest\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_it(n): raise OSError('x')\n"
        "def test_stop(): raise KeyboardInterrupt\n"
    )
    run = run_from(tmp_path, {"test_a.py": content}, PROJECT)
    assert "then the run was interrupted from the keyboard [" in run.told[1]
    assert any(
        "2 x OSError: x" in line and "(my project/test_a.py:3)" in line
        for line in run.told
    )
    assert any(
        "in flight: my project/test_a.py::test_stop" in line for line in run.told
    )


DIES: Final = "import os, signal\ndef test_it(): os.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.skipif("sys.platform == 'win32'", reason="of POSIX systems")
@pytest.mark.parametrize("command", ["run", "finalize"])
def test_what_the_commands_print(tmp_path: Path, command: str) -> None:
    """A report that a command completes is told from where the command was started."""
    write(tmp_path / PROJECT, {"pytest.ini": "[pytest]\n", "test_a.py": DIES})
    ours = [sys.executable, "-m", "pytest_failure_taxonomy"]
    pytest_run = [
        sys.executable,
        "-m",
        "pytest",
        "--rootdir",
        PROJECT,
        f"{PROJECT}/test_a.py",
    ]
    on = ["-p", "failure_taxonomy", "--failure-taxonomy"]
    if command == "run":
        run = run_child(tmp_path, [*ours, "run", "--", *pytest_run, *on])
    else:
        run_child(tmp_path, [*pytest_run, *on, "--failure-taxonomy-report=r.json"])
        run = run_child(tmp_path, [*ours, "finalize", "--exit-code", "137", "r.json"])
    printed = run.stdout if command == "run" else run.stderr
    assert "my project/test_a.py::test_it" in printed


def test_a_conftest_that_imports_what_is_missing(tmp_path: Path) -> None:
    """The headline names the path as it is seen from there."""
    files = {"tests/conftest.py": "import no_such_module\n", "tests/test_a.py": ""}
    run = run_from(tmp_path, files, str(tmp_path / PROJECT / "tests"))
    path = f"{PROJECT}/tests/conftest.py"
    assert f"no_such_module is not installed: {path} can't be imported" in run.told[1]

"""Headlines that name what happened: crashes of forked tests, memory, what nobody could catch."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.reports import extensions_of
from tests.helpers.runs import FinishedRun, PytestRuns

WORKERS: Final = pytest.mark.parametrize(
    "workers", [[], ["-n", "2"]], ids=["serial", "xdist"]
)
NO_CORE: Final = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"


def run(
    runs: PytestRuns,
    files: dict[str, str],
    workers: list[str],
    *args: str,
    **given: Any,
) -> FinishedRun:
    """Run a project, in one process or on workers."""
    runs.write(files)
    plugins = [*given.pop("plugins", []), *(["xdist"] if workers else [])]
    return runs.run(*workers, *args, plugins=plugins)


def own_lines(done: FinishedRun) -> list[str]:
    """Return the lines that say why the run failed, without the last one, which has the path."""
    lines = [
        *done.stderr,
        *done.stdout,
    ]  # pytest prints nowhere else where it can't start
    start = next(i for i, line in enumerate(lines) if "= why this run failed =" in line)
    end = next(
        i for i, line in enumerate(lines) if i > start and line.startswith("report: ")
    )
    return lines[start + 1 : end]


FORKED: Final = (
    "import os, signal, pytest\n"
    "def test_passes(): pass\n"
    "@pytest.mark.forked\n"
    "def test_dies():\n"
    f"    {NO_CORE}\n"
    "    os.kill(os.getpid(), signal.SIGSEGV)\n"
    "@pytest.mark.forked\n"
    "def test_leaves(): os._exit(7)\n"
)


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.skipif(find_spec("pytest_forked") is None, reason="needs pytest-forked")
@WORKERS
def test_a_forked_test_that_crashes(runs: PytestRuns, workers: list[str]) -> None:
    """A test that took down the process that was forked for it has crashed; no worker has died."""
    done = run(runs, {"test_it.py": FORKED}, workers, plugins=["pytest_forked"])
    assert done.exit_status == 1
    assert done.verdict == ("TESTS_FAILED", "test.crashed")
    assert done.kinds == ["test.crashed"]
    headline, *causes = own_lines(done)
    assert headline.startswith("2 of 3 tests failed, 2 causes ")
    assert sorted(causes) == [
        "  1 x its process crashed with signal 11 (SIGSEGV): test_dies (test_it.py:3)",
        "  1 x its process exited with status 7: test_leaves (test_it.py:7)",
    ]
    failures = done.report["failures"]
    assert {(each["kind"], each["phase"]) for each in failures} == {
        ("test.crashed", "call")
    }
    summary = done.report["summary"]
    assert (summary["failed"], summary["crashed"], summary["in_flight"]) == (2, 2, 0)
    assert {worker["crashed_on"] for worker in done.report["workers"]} <= {None}
    assert extensions_of(done.report) == {}


@WORKERS
def test_a_test_that_runs_out_of_memory(runs: PytestRuns, workers: list[str]) -> None:
    """MemoryError has no message of its own, so its meaning is said."""
    done = run(runs, {"test_it.py": "def test_it(): 'x' * (1 << 62)\n"}, workers)
    assert done.verdict == ("TESTS_FAILED", "test.failed")
    message = "1 test failed: more memory was requested than is available: test_it (test_it.py:1)"
    assert done.report["verdict"]["message"] == message
    assert own_lines(done)[0].startswith(message)


@pytest.mark.slow
@pytest.mark.lowest
@WORKERS
def test_several_files_that_could_not_be_collected(
    runs: PytestRuns, workers: list[str]
) -> None:
    """The headline counts them, and each that lacks something else is a cause of its own."""
    names = "abcdefghijkl"
    files = {f"test_{name}.py": f"import no_such_{name}\n" for name in names}
    done = run(runs, files, workers)
    message = done.report["verdict"]["message"]
    assert message == "12 test files can't be collected, 12 causes"
    assert [cause["what"] for cause in done.report["causes"]] == [
        f"no_such_{name} is not installed: test_{name}.py can't be imported"
        for name in names
    ]


@pytest.mark.slow
@pytest.mark.lowest
def test_a_syntax_error_in_an_installed_package(runs: PytestRuns) -> None:
    """The file that does not parse is named by its path, wherever it was imported from."""
    package = runs.path / "site-packages" / "broken"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def f(:\n", encoding="utf-8")
    imports = (
        f"import sys; sys.path.insert(0, {str(package.parent)!r})\nimport broken\n"
    )
    in_a_test = "def test_it():\n    " + imports.replace("\n", "\n    ") + "pass\n"
    place = str(package / "__init__.py").replace("\\", "/")
    for files, args in (
        ({"test_it.py": imports}, ("test_it.py",)),
        ({"test_it.py": in_a_test}, ("test_it.py",)),
        ({"conftest.py": imports, "test_it.py": ""}, ("test_it.py",)),
    ):
        done = run(runs, files, [], *args)
        said = "\n".join(own_lines(done)).replace("\\", "/")
        relative = Path(place).relative_to(runs.path).as_posix()
        assert (
            f"{place}, line 1" in said
            or f"{relative}:1" in said
            or f"{place}:1" in said
        )


UNRAISABLE: Final = (
    "def test_it():\n    files = [open(__file__)]\n    files.append(files)\n"
)


def test_a_warning_that_nobody_could_catch(runs: PytestRuns) -> None:
    """With `-W error` pytest raises it when the session is over; the resource is named."""
    runs.write({"conftest.py": "import gc\ngc.disable()\n", "test_it.py": UNRAISABLE})
    done = runs.compare("-W", "error")
    if done.exit_status == 0:
        pytest.skip("this pytest collects no garbage at its end")
    assert done.verdict == ("INTERNAL_ERROR", "plugin.error")
    (error,) = done.report["internal_errors"]
    assert error["message"].startswith("unraisable ResourceWarning: unclosed file <")
    said = "unclosed file test_it.py, which the garbage collector found"
    assert own_lines(done)[0].startswith(said)


TIMEOUT: Final = (
    "import time\ndef test_passes(): pass\ndef test_hangs(): time.sleep(60)\n"
)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pytest_timeout") is None, reason="needs pytest-timeout")
def test_a_thread_timeout_on_a_worker(runs: PytestRuns) -> None:
    """The worker died because the test used up its time; that is what is said."""
    args = ("--timeout=2", "--timeout-method=thread")
    done = run(runs, {"test_it.py": TIMEOUT}, ["-n", "2"], *args, plugins=["timeout"])
    assert done.verdict == ("TIMEOUT", "test.timeout")
    assert done.kinds == ["test.timeout"]
    verdict = done.report["verdict"]
    assert (verdict["confidence"], verdict["retryable"]) == ("likely", True)
    said = "test_hangs hit its time limit of 2 s (test_it.py)"
    assert verdict["message"] == f"1 of 2 tests failed: {said}"
    assert verdict["nodeid"] == "test_it.py::test_hangs"
    (failure,) = done.report["failures"]
    assert (failure["kind"], failure["reason"]) == ("test.timeout", "TIMEOUT")
    summary = done.report["summary"]
    assert (summary["timed_out"], summary["crashed"]) == (1, 1)
    (evidence,) = verdict["evidence"]
    assert evidence["detail"].startswith("worker gw")
    assert (
        "of the 2 s that pytest-timeout (thread) allows were used up"
        in evidence["detail"]
    )

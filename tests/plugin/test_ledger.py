"""A failure that another test, or a worker beside it, is behind: that one is named."""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, Final

import pytest

from tests.helpers.runs import FinishedRun, PytestRuns

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
needs_proc = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs Linux's /proc"
)

FORKS: Final = """
import os, time
def test_before(): pass
def test_forks():
    os.fork()
def test_after():
    {body}
    time.sleep(1)
"""
TWICE: Final = (
    "test_it.py::test_forks forked, and the child returned into pytest: "
    "the tests after it ran twice"
)
DELETES: Final = """
import os, tempfile
def test_build():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
def test_asks():
    assert os.getcwd()
def test_opens():
    open("data.txt")
"""
MOVES: Final = """
import os
def test_moves(tmp_path):
    os.chdir(tmp_path)
def test_opens():
    open("data.txt")
def test_of_nobody():
    open("nowhere.txt")
"""
HOLDS: Final = """
import socket, pytest, time
@pytest.fixture(scope="session")
def server():
    with socket.socket() as held:
        held.bind(("127.0.0.1", {port}))
        held.listen()
        yield
@pytest.mark.parametrize("number", range(2))
def test_it(server, number):
    time.sleep(2)
"""
LEAVES: Final = """
import socket
left = []
PORT = {port}
def test_leaves():
    left.append(socket.create_server(("127.0.0.1", PORT)))
def test_asks():
    socket.socket().bind(("127.0.0.1", PORT))
"""
LOCKS: Final = """
import pathlib, pytest, sqlite3, time
@pytest.mark.parametrize("number", range(2))
def test_it(number):
    file = pathlib.Path(__file__).with_name("shop.db")
    shop = sqlite3.connect(file, timeout=0.1)
    shop.execute("begin exclusive")
    time.sleep(2)
    shop.rollback()
"""
UNCLOSED: Final = """
import gc
left = []
def test_leaves(tmp_path):
    cycle = [open({where}, "w")]
    cycle.append(cycle)
    left.append(cycle)
def test_finds():
    left.clear()
    gc.collect()
"""


@pytest.fixture
def port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def causes_of(run: FinishedRun) -> list[Any]:
    """Return the sentences of the causes, up to the tests."""
    return [cause["what"].partition(": ")[0] for cause in run.report["causes"]]


@needs_fork
def test_a_fork_that_comes_back(runs: PytestRuns) -> None:
    """The run stays green, and says so; the report is the parent's alone."""
    runs.write({"test_it.py": FORKS.format(body="pass")})
    run = runs.run()
    assert run.exit_status == 0
    assert run.report["verdict"] is None
    assert run.report["summary"]["passed"] == 3
    assert TWICE in str(run.report["notes"])
    (said,) = [line for line in run.stdout if TWICE in line]
    # What the child prints may stand before it in the line.
    assert "failure taxonomy: no failure (3 passed); " in said


@needs_fork
def test_what_a_fork_has_both_processes_want(runs: PytestRuns) -> None:
    """A file that the other process has made is the fork's doing; an assertion is not."""
    runs.write({"test_it.py": FORKS.format(body="os.mkdir('only')")})
    run = runs.run()
    both = [line for line in run.stdout if "FileExistsError" in line]
    assert both  # in one of the two processes
    if run.report["verdict"] is not None:  # in the parent
        assert run.report["causes"][0]["what"].startswith(
            "test_it.py::test_forks forked, and the child returned into pytest"
        )
        assert run.report["verdict"]["charge_to"] == "verifier"


@needs_fork
def test_a_child_that_ends_is_none(runs: PytestRuns) -> None:
    """Children that run no test are nobody's business."""
    body = "os.waitpid(pid, 0) if (pid := os.fork()) else os._exit(0)"
    runs.write({"test_it.py": f"import os\ndef test_it(): {body}\n"})
    run = runs.run()
    assert run.exit_status == 0
    assert "forked" not in str(run.report["notes"])


def test_a_working_folder_that_a_test_deleted(runs: PytestRuns) -> None:
    """Whoever needs it fails of that test, and all of them are one cause."""
    runs.write({"test_it.py": DELETES})
    run = runs.run()
    said = "test_it.py::test_build had changed to it"
    if not sys.platform.startswith("linux"):
        said = "since test_it.py::test_build"
    assert causes_of(run) == [f"the working folder was deleted; {said}"]
    (cause,) = run.report["causes"]
    assert cause["count"] == 2
    assert cause["retryable"] is False
    assert cause["charge_to"] == "verifier"


def test_a_working_folder_that_a_test_changed(runs: PytestRuns) -> None:
    """Only a file that was in the folder before is missing because of that."""
    runs.write({"test_it.py": MOVES, "data.txt": "text"})
    run = runs.run()
    moved, other = causes_of(run)
    said = "data.txt is not in the working folder; test_it.py::test_moves had changed"
    assert moved.startswith(said)
    assert "test_moves had" not in other


@needs_proc
def test_a_port_that_another_worker_holds(runs: PytestRuns, port: int) -> None:
    """It is named, and the cause is the suite's, not the machine's."""
    runs.write({"test_it.py": HOLDS.format(port=port)})
    run = runs.run("-n", "2", plugins=["xdist"])
    (cause,) = run.report["causes"]
    said = f"port {port} is in use: another worker of this run holds it (gw"
    assert cause["what"].startswith(said)
    assert cause["retryable"] is None
    assert cause["charge_to"] == "verifier"


@needs_proc
def test_a_port_that_the_run_itself_holds(runs: PytestRuns, port: int) -> None:
    """An earlier test has left it open; the address is read from the call."""
    runs.write({"test_it.py": LEAVES.format(port=port)})
    run = runs.run()
    said = f"port {port} is in use: this process still holds it"
    (cause,) = run.report["causes"]
    assert cause["what"].startswith(said)


@needs_proc
def test_a_file_that_another_worker_has_locked(runs: PytestRuns) -> None:
    """The system knows who has locked which file."""
    runs.write({"test_it.py": LOCKS})
    run = runs.run("-n", "2", plugins=["xdist"])
    (cause,) = run.report["causes"]
    assert "shop.db is locked: another worker of this run holds it (gw" in cause["what"]
    assert cause["retryable"] is None


@pytest.mark.parametrize(
    ("where", "conftest", "said"),
    [
        ("tmp_path / 'a'", "", "unclosed file a, left by test_leaves, which"),
        ("'a'", "", "unclosed file a, which the garbage collector found"),
        (
            "'a'",
            "import tracemalloc; tracemalloc.start(9)",
            "what was opened at test_it.py:5 was never closed",
        ),
    ],
    ids=["of a test", "of nobody", "traced"],
)
def test_an_unclosed_file(
    runs: PytestRuns, where: str, conftest: str, said: str
) -> None:
    """Another test's garbage collection finds it; who left it is said where that is known."""
    test = UNCLOSED.format(where=where)
    runs.write({"test_it.py": test, "conftest.py": conftest})
    run = runs.run("-W", "error")
    (cause,) = run.report["causes"]
    assert cause["what"].startswith(said)

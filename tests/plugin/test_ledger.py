"""A failure that another test, or a worker beside it, is behind: that one is named."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any, Final

import pytest

from tests.helpers.runs import FinishedRun, PytestRuns
from tests.helpers.waiting import wait_until

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
CHANGES: Final = """
import os, subprocess, sys, threading, time
import pytest
held = threading.Event()
@pytest.fixture(scope="module", autouse=True)
def end():
    yield
    held.set()
    child.kill()
    child.wait()
def test_thread():
    threading.Thread(target=held.wait, name="keeper").start()
def test_child():
    global child
    child = subprocess.Popen(["sleep", "60"])
def test_folder(tmp_path):
    os.chdir(tmp_path)
def test_memory():
    os.urandom(1) * (400 << 20)
"""
HARMLESS: Final = """
import multiprocessing, os, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor
def test_thread():
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
def test_pool():
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(abs, [1, 2])]
def test_child():
    subprocess.run([sys.executable, "-c", ""], check=True)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.communicate()
def test_spawned():
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=print)
    child.start()
    child.join()
def test_fork():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
def test_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
def test_memory():
    bytearray(8 << 20)
"""
SECRET: Final = "Zk3uNq8wRt5yBv2x"  # noqa: S105 - it is what must not be shown
HIDES: Final = f"""
import os, pytest, signal, subprocess, sys, threading
CODE = "import sys; sys.stdin.read()"
def test_child():
    global child
    command = [sys.executable, "-c", CODE, "--password", "{SECRET}"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE)
def test_thread():
    name = "token={SECRET}"
    threading.Thread(target=child.wait, name=name, daemon=True).start()
def test_dies():
    child.kill()
    os.kill(os.getpid(), signal.SIGKILL)
"""
CHILDREN: Final = """
import asyncio, multiprocessing, os, pytest, signal, subprocess, time
from pathlib import Path
COMMAND = ["sleep", "60"]
@pytest.fixture(scope="module", autouse=True)
def end():
    yield
    for child in Path("/proc/thread-self/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)
def run(way):
    if way == "fork" and not os.fork():
        time.sleep(3)
        os._exit(0)
    if way == "popen":
        subprocess.Popen(COMMAND)
    if way == "popen fork":
        subprocess.Popen(COMMAND, preexec_fn=os.getpid)
    if way == "spawn":
        os.posix_spawnp("sleep", COMMAND, os.environ)
    if way == "process":
        context = multiprocessing.get_context("fork")
        context.Process(target=time.sleep, args=(3,)).start()
    if way == "asyncio":
        asyncio.run(asyncio.create_subprocess_exec(*COMMAND))
WAYS = ["none", "fork", "popen", "popen fork", "spawn", "process", "asyncio", "none 2"]
@pytest.mark.parametrize("way", WAYS)
def test_it(way):
    run(way)
"""
HOG: Final = """
import os, signal
kept = []
def test_hog():
    kept.append(os.urandom(1) * (400 << 20))
def test_other(): pass
def test_victim():
    os.kill(os.getpid(), signal.SIGKILL)
"""
EXITS: Final = """
import os, threading, time
def end():
    time.sleep(0.5)
    os._exit(3)
def test_ended():
    threading.Thread(target=time.sleep, args=(0.01,), name="ended").start()
    time.sleep(0.2)
def test_starts():
    threading.Thread(target=end, name="ender").start()
def test_victim():
    time.sleep(60)
"""
BLOCKS_EXIT: Final = """
import threading, time
def test_starts():
    threading.Thread(target=time.sleep, args=(60,), name="server").start()
def test_after(): pass
"""
EXITS_LATE: Final = """
import os, threading, time
def end():
    time.sleep(1)
    os._exit(3)
def test_starts():
    threading.Thread(target=end, name="ender").start()
def test_after(): pass
"""
BLOCKS: Final = """
import threading, time
lock = threading.Lock()
def hold():
    with lock:
        time.sleep(60)
def test_leaves():
    threading.Thread(target=hold, name="keeper", daemon=True).start()
    while not lock.locked():
        time.sleep(0.01)
def test_victim():
    lock.acquire()
"""
SERVES: Final = """
import pytest, socket, subprocess, sys
PORT = {port}
@pytest.fixture(scope="module", autouse=True)
def end():
    yield
    child.communicate(child.kill())
SERVER = '''
import socket, time
server = socket.create_server(("127.0.0.1", PORT))
print(flush=True)
time.sleep(60)
'''
def test_leaves():
    global child
    command = [sys.executable, "-c", SERVER.replace("PORT", str(PORT))]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    child.stdout.readline()
def test_other(): pass
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
    forked = [each for each in run.report["changes"] if each["what"] == "forked"]
    assert [each["nodeid"] for each in forked] == ["test_it.py::test_forks"]
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


WORKERS: Final = pytest.mark.parametrize(
    "args", [(), ("-n", "1")], ids=["serial", "xdist"]
)
STALL: Final = ("-o", "failure_taxonomy_stall_seconds=2")


def changes_of(run: FinishedRun) -> list[tuple[str, str, str]]:
    """Return the changes in the report, without the name of the file."""
    assert run.report["faults"] == []
    return [
        (
            change["nodeid"].removeprefix("test_it.py::"),
            change["what"],
            change["detail"],
        )
        for change in run.report["changes"]
    ]


@needs_proc
@WORKERS
def test_what_tests_leave_behind(runs: PytestRuns, args: tuple[str, ...]) -> None:
    """Each change is told with its test, and by `show --all`."""
    runs.write({"test_it.py": CHANGES})
    page = "--failure-taxonomy-html=page.html"
    run = runs.run(page, *args, plugins=["xdist"] if args else [])
    assert run.exit_status == 0
    thread, child, folder, memory = changes_of(run)
    assert thread == ("test_thread", "thread", "keeper")
    assert child == ("test_child", "child", "sleep 60")
    assert folder[:2] == ("test_folder", "folder")
    assert "test_folder0" in folder[2]
    assert memory[:2] == ("test_memory", "memory")
    # The peak of the process that has started this one may count as its own.
    assert 200 <= int(memory[2].removeprefix("+").removesuffix(" MiB")) <= 450
    shown = subprocess.run(
        [sys.executable, "-m", "pytest_failure_taxonomy", "show", "--all"],
        cwd=runs.path,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    assert "left behind" in shown
    words = "test_it.py::test_thread left thread keeper running"
    assert words in shown
    assert words in (runs.path / "page.html").read_text("utf-8")


@needs_fork
@WORKERS
def test_what_tests_put_in_order(runs: PytestRuns, args: tuple[str, ...]) -> None:
    """Threads that are joined, children that are awaited and folders that are restored are
    no changes, and no timer of pytest-timeout's is.
    """
    runs.write({"test_it.py": HARMLESS})
    timer = ("--timeout", "60", "--timeout-method", "thread")
    run = runs.run(*args, *timer, plugins=["xdist", "timeout"])
    assert run.exit_status == 0
    assert changes_of(run) == []


@needs_proc
@WORKERS
def test_changes_hold_no_secrets(runs: PytestRuns, args: tuple[str, ...]) -> None:
    """Neither the record on disk nor the report has the secret of a command or a name."""
    runs.write({"test_it.py": HIDES})
    runs.run_unchecked(*args, plugins=["xdist"] if args else [])
    report = runs.wait_for_completion()
    assert [change["what"] for change in report["changes"]] == ["child", "thread"]
    for path in runs.path.glob(".failure-report*/**/*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    changes = str(report["changes"])
    assert SECRET not in changes
    assert "--password '[REDACTED" in changes


@needs_proc
def test_each_way_to_start_a_child(runs: PytestRuns) -> None:
    """Whichever function has started it, a child that outlives its test is told with that."""
    runs.write({"test_it.py": CHILDREN})
    changes = changes_of(runs.run())
    ways = ["fork", "popen", "popen fork", "spawn", "process", "asyncio"]
    assert [nodeid for nodeid, _, _ in changes] == [f"test_it[{way}]" for way in ways]
    assert {what for _, what, _ in changes} == {"child"}


@needs_proc
@WORKERS
def test_a_killed_run_names_the_hog(runs: PytestRuns, args: tuple[str, ...]) -> None:
    """A SIGKILL that may be for memory names the test with the most growth."""
    runs.write({"test_it.py": HOG})
    runs.run_unchecked(*args, plugins=["xdist"] if args else [])
    report = runs.wait_for_completion()
    message = report["verdict"]["message"]
    assert "while it ran test_it.py::test_victim" in message
    assert "; test_it.py::test_hog: +" in message
    assert report["changes"][0]["what"] == "memory"


@WORKERS
def test_a_thread_that_ends_the_process(
    runs: PytestRuns, args: tuple[str, ...]
) -> None:
    """The test that has left it is named, and no thread that has ended before."""
    runs.write({"test_it.py": EXITS})
    runs.run_unchecked(*args, plugins=["xdist"] if args else [])
    report = runs.wait_for_completion()
    message = report["verdict"]["message"]
    assert "while it ran test_it.py::test_victim" in message
    assert (
        "thread ender, started in test_it.py::test_starts, was still running" in message
    )
    assert "ended," not in message


@needs_proc
def test_a_thread_that_keeps_the_interpreter_from_ending(runs: PytestRuns) -> None:
    """The thread is named with the test that has left it."""
    runs.write({"test_it.py": BLOCKS_EXIT})
    runs.run_unchecked(prefix=("timeout", "4"))
    verdict = wait_until(lambda: runs.read_report()["verdict"], "the end is told")
    said = (
        "the interpreter waited for thread server, started in test_it.py::test_starts"
    )
    assert said in verdict["message"]


@needs_proc
def test_a_thread_that_ends_the_process_after_the_session(runs: PytestRuns) -> None:
    """The test in which it was started is named, too."""
    runs.write({"test_it.py": EXITS_LATE})
    assert runs.run_unchecked().exit_status == 3
    verdict = wait_until(lambda: runs.read_report()["verdict"], "the end is told")
    assert verdict["kind"] == "exit_status.changed"
    said = "code 0; thread ender, test_it.py:4, started in test_it.py::test_starts, was"
    assert said in verdict["message"]


@needs_proc
@WORKERS
def test_a_lock_that_a_thread_of_another_test_holds(
    runs: PytestRuns, args: tuple[str, ...]
) -> None:
    """A test that waits for a lock is told with the threads that others have left."""
    runs.write({"test_it.py": BLOCKS})
    args = (*args, *STALL, "--failure-taxonomy-end-stalled")
    runs.run_unchecked(*args, plugins=["xdist"])
    report = runs.wait_for_completion()
    assert report["verdict"]["kind"] == "test.stalled"
    said = "; still running: thread keeper, started in test_it.py::test_leaves"
    assert said in report["verdict"]["message"]


@needs_proc
@WORKERS
def test_a_port_that_the_child_of_another_test_holds(
    runs: PytestRuns, port: int, args: tuple[str, ...]
) -> None:
    """The test that has left the child running is named."""
    runs.write({"test_it.py": SERVES.format(port=port)})
    run = runs.run(*args, plugins=["xdist"] if args else [])
    (cause,) = run.report["causes"]
    said = f"port {port} is in use: a process that test_it.py::test_leaves has started"
    assert cause["what"].startswith(said)


MOVES_IN_A_THREAD: Final = """
import os, tempfile, threading
begun, done = threading.Event(), threading.Event()
def move():
    begun.wait(10)
    os.chdir(tempfile.mkdtemp())
    done.set()
    threading.Event().wait(5)
def test_starts():
    threading.Thread(target=move, daemon=True).start()
def test_opens():
    begun.set()
    done.wait(10)
    open("data.txt")
"""
LOCKS_IN_A_CHILD: Final = """
import fcntl, subprocess, sys
CODE = '''
import fcntl, time
with open("shared.lock", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    time.sleep(5)
'''
children = []
def test_starts():
    child = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE)
    children.append(child)
    child.stdout.readline()
def test_locks():
    with open("shared.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


@needs_proc
def test_a_thread_that_moves_while_another_test_runs(runs: PytestRuns) -> None:
    """The test that started the thread is named, and that the running test may have done it."""
    runs.write({"test_it.py": MOVES_IN_A_THREAD, "data.txt": ""})
    run = runs.run()
    (cause,) = run.report["causes"]
    words = (
        "a thread that test_it.py::test_starts has started, or this test, had changed"
    )
    assert words in cause["what"]


@needs_proc
def test_a_lock_on_a_file_that_is_closed_again(runs: PytestRuns) -> None:
    """A file is known by its lock, even if the test has closed it before it fails."""
    runs.write({"test_it.py": LOCKS_IN_A_CHILD})
    run = runs.run()
    (cause,) = run.report["causes"]
    words = "shared.lock is locked: a process that test_it.py::test_starts has started"
    assert words in cause["what"]

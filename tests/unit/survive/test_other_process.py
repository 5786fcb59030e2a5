"""The stacks of another process are read from outside, or the reason is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.survive import writer as record_write
from pytest_failure_taxonomy.survive.stalls.inspect import (
    MAX_CHILDREN,
    MAX_COMMAND,
    commands_of_children,
)
from pytest_failure_taxonomy.survive.stalls.stacks import (
    NoStacksError,
    Stacks,
    is_gil_held,
    read_stacks,
)
from pytest_failure_taxonomy.survive.writer import find_py_spy
from pytest_failure_taxonomy.system import process
from pytest_failure_taxonomy.system.process import catches, fields_of
from tests.helpers.waiting import DEADLINE_SECONDS, wait_until

pytestmark = pytest.mark.linux(
    "reads other processes by /proc, and asks by a real-time signal"
)

SOURCES: Final = str(Path(record_write.__file__).parents[2])

PROLOGUE: Final = """\
import os, sys
sys.path.insert(0, {sources!r})
from pytest_failure_taxonomy.survive.writer import prepare_to_be_read
descriptor = os.open({dump!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
number = prepare_to_be_read(descriptor, os.getppid())
def up():
    print(number, "ctypes" in sys.modules, flush=True)
"""


@contextmanager
def waiting(
    folder: Path, code: str
) -> Iterator[tuple[subprocess.Popen[str], Path, int]]:
    """Have a process wait in code that says `up()`; yield it, its file, and the signal for it."""
    script, dump = folder / "script.py", folder / "dump"
    prologue = PROLOGUE.format(sources=SOURCES, dump=str(dump))
    script.write_text(prologue + textwrap.dedent(code), encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        try:
            words = child.stdout.readline().split()
            yield child, dump, 0 if words[0] == "None" else int(words[0])
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def ask(
    process_id: int, dump: Path, number: int, seconds: float = DEADLINE_SECONDS
) -> Stacks | str:
    """Return the stacks of a process, or the reason why there are none."""
    try:
        return read_stacks(process_id, dump, number, seconds)
    except NoStacksError as error:
        return str(error)


@pytest.fixture
def no_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have py-spy be not installed."""
    monkeypatch.setattr(record_write, "find_py_spy", lambda: None)


LOCK: Final = """\
import threading
def test_b():
    lock = threading.Lock()
    lock.acquire()
    up()
    lock.acquire()
    print("it went on", flush=True)
    lock.acquire()
test_b()
"""


@pytest.mark.usefixtures("no_py_spy")
def test_a_blocked_process_tells_its_stacks_and_waits_on(tmp_path: Path) -> None:
    """A signal makes it write them. Its wait goes on, and the file is as before."""
    with waiting(tmp_path, LOCK) as (child, dump, number):
        assert number == signal.SIGURG
        wait_until(lambda: fields_of(child.pid)[:1] == [b"S"], "the wait")
        dump.write_text("what another has written\n")
        found = ask(child.pid, dump, number)
        assert isinstance(found, Stacks)
        assert found.source == "faulthandler"
        assert found.where(tmp_path) == "acquire (script.py:13)"
        assert dump.read_text() == "what another has written\n"
        again = ask(child.pid, dump, number)
        assert isinstance(again, Stacks)
        assert again.where(tmp_path) == "acquire (script.py:13)"


FROZEN: Final = """\
import ctypes
def test_b():
    library = ctypes.PyDLL(None)
    lock = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(lock)
    up()
    library.pthread_mutex_lock(lock)
test_b()
"""


@pytest.mark.usefixtures("no_py_spy")
def test_a_call_that_holds_the_gil_is_no_hindrance(tmp_path: Path) -> None:
    """The handler is in C and needs no GIL."""
    with waiting(tmp_path, FROZEN) as (child, dump, number):
        wait_until(lambda: fields_of(child.pid)[:1] == [b"S"], "the wait")
        found = ask(child.pid, dump, number)
        assert isinstance(found, Stacks)
        assert found.where(tmp_path) == "pthread_mutex_lock (script.py:14)"


SLEEPS: Final = """\
import ctypes
up()
ctypes.PyDLL(None).sleep(600)
print("it ended early", flush=True)
"""


@pytest.mark.usefixtures("no_py_spy")
def test_a_c_function_that_a_signal_would_end_is_left_alone(tmp_path: Path) -> None:
    """Python repeats its own waits after a signal; what C makes of it can't be known."""
    with waiting(tmp_path, SLEEPS) as (child, dump, number):
        wait_until(lambda: is_gil_held(child.pid) is not False, "the sleep")
        if is_gil_held(child.pid) is None:
            pytest.skip("the system doesn't let other processes be read")
        assert ask(child.pid, dump, number) == (
            "py-spy is not installed; the process is in a C function that a signal might end early"
        )
        assert is_gil_held(child.pid)


@pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")
def test_py_spy_reads_a_stopped_process(tmp_path: Path) -> None:
    """It needs nothing of the process. A stopped one would not write its stacks itself."""
    with waiting(tmp_path, LOCK) as (child, dump, number):
        wait_until(lambda: fields_of(child.pid)[:1] == [b"S"], "the wait")
        os.kill(child.pid, signal.SIGSTOP)
        wait_until(lambda: fields_of(child.pid)[:1] == [b"T"], "the stop")
        found = ask(child.pid, dump, number)
        if isinstance(found, str):  # in a container that may not read other processes
            assert "py-spy: " in found
        else:
            assert found.source == "py-spy"
            assert found.where(tmp_path) == "acquire (script.py:13)"
            assert found.main.owns_gil is False


REFUSALS: Final = [
    pytest.param("os.kill(os.getpid(), 19)", "the process is stopped", id="stopped"),
    pytest.param(
        "import faulthandler; faulthandler.unregister(number)",
        "the process no longer writes its stacks when it is asked to",
        id="no handler",
    ),
    pytest.param(
        "os.execv('/bin/sleep', ['sleep', '60'])",
        "the process has closed the file for its stacks",
        id="another program",
    ),
    pytest.param(
        "os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)",
        "the process has closed the file for its stacks",
        id="another file under the number",
    ),
    pytest.param(
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {number})",
        "the process did not write its stacks within 0.1 s",
        id="a blocked signal",
    ),
    pytest.param("os._exit(0)", "the process has ended", id="ended"),
]


@pytest.mark.parametrize(("code", "reason"), REFUSALS)
@pytest.mark.usefixtures("no_py_spy")
def test_a_process_that_would_not_understand_is_not_asked(
    tmp_path: Path, code: str, reason: str
) -> None:
    """The signal would end a process without a handler, so nothing is sent then."""
    code = f"import time\nprint(number, flush=True)\n{code}\nprint('done', flush=True)\ntime.sleep(60)"
    with waiting(tmp_path, code) as (child, dump, number):
        has_ended = "ended" in reason
        marks = {"stopped": b"T", "ended": b"Z"}
        wanted = next((state for word, state in marks.items() if word in reason), b"S")
        name = "sleep" if "execv" in code else None
        wait_until(
            lambda: (
                fields_of(child.pid)[:1] == [wanted]
                and name in (None, process.name_of(child.pid))
            ),
            "the state",
        )
        if wanted == b"S" and name is None:
            assert child.stdout is not None
            assert child.stdout.readline() == "done\n"
        assert (
            ask(child.pid, dump, number, seconds=0.1)
            == f"py-spy is not installed; {reason}"
        )
        assert (child.poll() is not None) == has_ended


@pytest.mark.parametrize(
    ("dump", "number", "reason"),
    [
        ("missing", 0, "the process does not write its stacks itself"),
        ("missing", 44, "No such file or directory"),
        ("pipe", 44, "what should be the file for its stacks is none"),
        ("link", 44, "Too many levels of symbolic links"),
    ],
)
@pytest.mark.usefixtures("no_py_spy")
def test_a_file_that_is_not_the_process_s_is_not_used(
    tmp_path: Path, dump: str, number: int, reason: str
) -> None:
    """Somebody else may have put anything into its place."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    assert (
        ask(os.getpid(), tmp_path / dump, number)
        == f"py-spy is not installed; {reason}"
    )


def test_a_process_that_uses_the_signal_itself_keeps_it(tmp_path: Path) -> None:
    """Nothing is registered where the program has a handler, be it in Python or in C."""
    number = int(signal.SIGURG)
    code = f"""\
    import faulthandler, signal
    signal.signal({number}, lambda *_: print("mine", flush=True))
    descriptor = os.open(os.devnull, os.O_WRONLY)
    faulthandler.unregister({number})
    print(prepare_to_be_read(descriptor, None), flush=True)
    signal.signal({number}, signal.SIG_DFL)
    first = prepare_to_be_read(descriptor, None)
    print(first == {number}, prepare_to_be_read(descriptor, None), flush=True)
    print("ctypes" in sys.modules, flush=True)
    """
    text = f"import os, sys\nsys.path.insert(0, {SOURCES!r})\n"
    text += "from pytest_failure_taxonomy.survive.writer import prepare_to_be_read\n"
    done = subprocess.run(
        [sys.executable, "-c", text + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("None\nTrue None\nFalse\n", "")


# Programs called py-spy.

BLOCKED: Final = json.dumps(
    [
        {
            "thread_name": "MainThread",
            "thread_id": 1,
            "owns_gil": False,
            "frames": [{"name": "test_b", "filename": "/nowhere/test_x.py", "line": 6}],
        }
    ]
)

FAKES: Final = [
    pytest.param(f"cat <<'E'\n{BLOCKED}\nE", None, id="right"),
    pytest.param(f"cat <<'E'\n{BLOCKED}\nE\nyes oh no | head -c 100000 >&2", None, id="noisy"),
    pytest.param("echo 'Error: Permission denied\n(os error 13)' >&2; exit 1",
                 "py-spy: Error: Permission denied (os error 13)", id="refused"),
    pytest.param("echo rubbish", "py-spy printed no stacks", id="rubbish"),
    pytest.param("echo '[{\"frames\": []}]'", "py-spy printed no stacks", id="no frames"),
    pytest.param("exec yes", "py-spy printed too much", id="endless"),
    pytest.param("sleep 60 & sleep 60", "py-spy took more than 0.2 s", id="hangs"),
    pytest.param("sleep 60 & exit 0", "py-spy took more than 0.2 s", id="a child keeps the pipe"),
    pytest.param(None, "Exec format error", id="no program"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "reason"), FAKES)
def test_a_program_called_py_spy_is_not_trusted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str | None,
    reason: str | None,
) -> None:
    """It gets its time, its output is capped, and nothing of it is left."""
    program = tmp_path / "py-spy"
    program.write_bytes(
        b"\x00" if script is None else f"#!/bin/sh\n{script}\n".encode()
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    seconds = 0.2 if reason and "more than" in reason else DEADLINE_SECONDS
    found = ask(1, tmp_path, 0, seconds)
    if reason is None:
        assert isinstance(found, Stacks)
        assert (found.source, found.where(Path("/nowhere"))) == (
            "py-spy",
            "test_b (test_x.py:6)",
        )
    else:
        assert found == f"{reason}; the process does not write its stacks itself"
    assert not [
        each
        for each in commands_of_children(os.getpid())
        if "sleep 60" in each or "yes" in each
    ]


def test_py_spy_is_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is beside this Python, or else on the search path; folders that depend on where one is
    don't count.
    """
    beside, on_path = tmp_path / "bin" / "py-spy", tmp_path / "other" / "py-spy"
    for program in (beside, on_path):
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
    monkeypatch.setattr(sys, "executable", str(beside.with_name("python")))
    monkeypatch.setenv("PATH", f".:other::{on_path.parent}")
    monkeypatch.chdir(tmp_path)
    assert find_py_spy() is None
    on_path.chmod(0o755)
    assert find_py_spy() == str(on_path)
    beside.chmod(0o755)
    assert find_py_spy() == str(beside)


# What else is asked of a process.


@pytest.mark.parametrize("scope", ["", "0", "1", "2"])
def test_the_watcher_is_allowed_to_read_where_that_matters(
    monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    """Under Yama it has to be named, which takes an import; without py-spy it has no use."""
    allowed: list[int] = []
    files = {"/proc/sys/kernel/yama/ptrace_scope": f"{scope}\n"}
    monkeypatch.setattr(process, "read_text", lambda path: files.get(path, ""))
    monkeypatch.setattr(process, "allow_to_read", allowed.append)
    for program in (None, "/usr/bin/py-spy"):
        monkeypatch.setattr(
            record_write, "find_py_spy", lambda program=program: program
        )
        record_write.prepare_to_be_read(None, 4711)
        record_write.prepare_to_be_read(None, None)
    assert allowed == ([4711] if scope == "1" else [])


def test_children_are_named_by_their_command_lines(tmp_path: Path) -> None:
    """All descendants, in the order of their ids; what has ended is none. Number and length are
    capped.
    """
    many = "; ".join(["sleep 70 &"] * (MAX_CHILDREN + 3)).replace("&;", "&")
    with subprocess.Popen(
        ["sh", "-c", f"sh -c 'exit 0' & {many} echo up; exec sleep 71"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            found = wait_until(
                lambda: (
                    len(each := commands_of_children(child.pid)) == MAX_CHILDREN
                    and each
                ),
                "children",
            )
            # One that has just been started may have no command line yet, and goes by its name,
            # which is its parent's for a moment.
            started = ("sleep 70", "'[sleep]'", "'[sh]'")
            assert all(each in started or "sh -c" in each for each in found)
            assert all(len(each) <= MAX_COMMAND for each in found)
        finally:
            os.killpg(child.pid, signal.SIGKILL)
    assert commands_of_children(child.pid) == ()
    assert not fields_of(child.pid)
    assert catches(child.pid, 10) is None

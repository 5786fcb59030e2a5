"""What faulthandler and py-spy write about threads is read as what it is, and worded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.survive.stalls.stacks import (
    MAX_SHOWN_FRAMES,
    MAX_STACKS_CHARACTERS,
    StackFrame,
    Stacks,
    Thread,
    current_frames_stacks,
    parse_faulthandler,
    parse_py_spy,
)
from pytest_failure_taxonomy.taxonomy.evidence import Location

ROOT: Final = Path("/srv/project")

SIGNAL_DUMP: Final = """\
Thread 0x00007fa2e3bd26c0 (most recent call first):
  File "/usr/lib/python3.13/threading.py", line 359 in wait
  File "/usr/lib/python3.13/threading.py", line 1012 in _bootstrap

Current thread 0x00007fa2e4a42b80 (most recent call first):
  File "/srv/project/tests/test_x.py", line 6 in test_b
  File "/usr/lib/site-packages/_pytest/python.py", line 157 in pytest_pyfunc_call
  File "/usr/lib/site-packages/pluggy/_callers.py", line 121 in _multicall
"""
FATAL_DUMP: Final = f"""\
Fatal Python error: Segmentation fault

{SIGNAL_DUMP}
Extension modules: numpy.core._multiarray_umath, _cffi_backend (total: 2)
"""
FATAL_OF_3_14: Final = """\
Fatal Python error: Segmentation fault

Current thread 0x00007fb899f39700 [python] (most recent call first):
  File "/opt/python/Lib/ctypes/__init__.py", line 486 in string_at
  File "/srv/project/tests/test_x.py", line 3 in test_b

Current thread's C stack trace (most recent call first):
  Binary file "/opt/python/python", at _Py_DumpStack+0x42 [0x5b27f7d7147e]
  Binary file '<unknown>' [0x5b27f7d7147e]
  <truncated rest of calls>

Extension modules: _a (total: 1)
"""
FREE_THREADED: Final = """\
Fatal Python error: Aborted

<Cannot show all threads while the GIL is disabled>
Stack (most recent call first):
  File "/srv/project/tests/test_x.py", line 3 in test_b

Current thread's C stack trace (most recent call first):
  <cannot get C stack on this system>
"""
CHECKED_BY_PYTHON: Final = """\
Fatal Python error: _Py_CheckFunctionResult: a function returned NULL without setting an exception
Python runtime state: initialized
SystemError: <built-in method f> returned NULL without setting an exception

Current thread 0x00007604707c3780 [my [odd] name] (most recent call first):
  Garbage-collecting
  File "/srv/project/tests/test_x.py", line 14 in <module>
"""
TIMED: Final = f"Timeout (0:00:08.000001)!\n{SIGNAL_DUMP}"
ODD: Final = """\
noise before
Thread 0x1 (most recent call first):
  <no Python frame>

Thread 0x0000000000000002 (most recent call first):
  File ???, line ??? in ???
  File "/w/w\\xf6rk \\u20ac/\\x1b\\ud800.py", line 4 in f
  ...
noise
  File "/w/not-a-frame.py", line 5 in g

...
"""


def told(stacks: Stacks | None) -> list[tuple[int | None, str | None, bool, list[str]]]:
    """Return what was read, short enough to compare."""
    assert stacks is not None
    return [
        (
            each.thread_id,
            each.name,
            each.is_current,
            [f"{frame.path}:{frame.line}:{frame.function}" for frame in each.frames],
        )
        for each in stacks.threads
    ]


WAITS: Final = (
    0x7FA2E3BD26C0,
    None,
    False,
    [
        "/usr/lib/python3.13/threading.py:359:wait",
        "/usr/lib/python3.13/threading.py:1012:_bootstrap",
    ],
)
TESTS: Final = (
    0x7FA2E4A42B80,
    None,
    True,
    [
        "/srv/project/tests/test_x.py:6:test_b",
        "/usr/lib/site-packages/_pytest/python.py:157:pytest_pyfunc_call",
        "/usr/lib/site-packages/pluggy/_callers.py:121:_multicall",
    ],
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(SIGNAL_DUMP, [WAITS, TESTS], id="a signal"),
        pytest.param(
            SIGNAL_DUMP.replace("\n", "\r\n"), [WAITS, TESTS], id="lines of Windows"
        ),
        pytest.param(FATAL_DUMP, [WAITS, TESTS], id="a fatal one"),
        pytest.param(TIMED, [WAITS, TESTS], id="a timer"),
        pytest.param(
            FATAL_OF_3_14,
            [
                (
                    0x7FB899F39700,
                    "python",
                    True,
                    [
                        "/opt/python/Lib/ctypes/__init__.py:486:string_at",
                        "/srv/project/tests/test_x.py:3:test_b",
                    ],
                )
            ],
            id="Python 3.14",
        ),
        pytest.param(
            FREE_THREADED,
            [(None, None, True, ["/srv/project/tests/test_x.py:3:test_b"])],
            id="without a GIL",
        ),
        pytest.param(
            CHECKED_BY_PYTHON,
            [
                (
                    0x7604707C3780,
                    "my [odd] name",
                    True,
                    ["/srv/project/tests/test_x.py:14:<module>"],
                )
            ],
            id="an error of the interpreter",
        ),
        pytest.param(
            ODD,
            [
                (1, None, False, []),
                (2, None, False, ["???:None:???", "/w/wörk €/\\x1b\\ud800.py:4:f"]),
            ],
            id="frames that are odd",
        ),
    ],
)
@pytest.mark.posix(
    "a backslash in a path is an escape only where it separates no folders"
)
def test_a_dump_of_faulthandler_is_read(text: str, expected: list[Any]) -> None:
    """Threads, names, frames and the current one are read in every form that CPython writes."""
    assert told(parse_faulthandler(text)) == expected


def test_the_c_stack_of_the_crash_is_kept() -> None:
    """Python 3.14 prints the C stack of the thread that crashed; it is shown after that thread."""
    stacks = parse_faulthandler(FATAL_OF_3_14 + SIGNAL_DUMP)
    assert stacks is not None
    assert stacks.c_frames == (
        '  Binary file "/opt/python/python", at _Py_DumpStack+0x42 [0x5b27f7d7147e]',
        "  Binary file '<unknown>' [0x5b27f7d7147e]",
        "  <truncated rest of calls>",
    )
    assert "C stack of the current thread:\n  Binary file" in stacks.text(10_000)


OTHER: Final = SIGNAL_DUMP.replace("line 6", "line 7")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(SIGNAL_DUMP + OTHER, 7, id="the last of two"),
        pytest.param(SIGNAL_DUMP + FATAL_DUMP, 6, id="a fatal one at the end"),
        pytest.param(FATAL_DUMP + OTHER, 6, id="a fatal one at the start"),
        pytest.param(
            FATAL_DUMP + FATAL_DUMP.replace("line 6", "line 7"), 6, id="the first fatal"
        ),
        pytest.param(
            TIMED + f"Timeout (0:00:08)!\n{OTHER}", 7, id="a timer that repeats"
        ),
        pytest.param(SIGNAL_DUMP * 1_500 + OTHER, 7, id="very many"),
        pytest.param(FATAL_DUMP + OTHER * 1_500, 6, id="very many after a fatal one"),
    ],
)
def test_of_several_dumps_one_counts(text: str, line: int) -> None:
    """A fatal error comes first; of dumps that the process has survived the last one counts."""
    stacks = parse_faulthandler(text)
    assert stacks is not None
    assert len(stacks.threads) == 2
    assert stacks.main.own_place(ROOT) == Location(path="tests/test_x.py", line=line)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "Fatal Python error: Aborted\n\n", "x" * 100_000]
)
def test_a_text_without_stacks_has_none(text: str) -> None:
    """Where no thread is told of, nothing is returned."""
    assert parse_faulthandler(text) is None


LINES: Final = sorted(
    {
        line
        for text in (FATAL_OF_3_14, FREE_THREADED, TIMED, ODD)
        for line in text.split("\n")
    }
)


@pytest.mark.slow
@given(
    st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=30)), max_size=40).map(
        "\n".join
    )
)
def test_any_text_is_read_without_an_error(text: str) -> None:
    """Whatever the lines are, the result is capped, of one line each, and can be shown."""
    stacks = parse_faulthandler(text)
    if stacks is not None:
        shown = stacks.text(500)
        assert len(shown) <= 500
        assert shown.replace("\n", "").isprintable()
        assert stacks.where(ROOT) is None or stacks.where(ROOT)


@pytest.mark.slow
def test_a_huge_text_is_capped() -> None:
    """A file that somebody has filled costs neither memory nor time without end."""
    frame = '  File "/a.py", line 1 in f\n'
    deep = parse_faulthandler(
        "Thread 0x1 (most recent call first):\n" + frame * 400_000
    )
    wide = parse_faulthandler(
        "\n".join(
            f"Thread 0x{n:x} (most recent call first):\n{frame}" for n in range(5_000)
        )
    )
    assert deep is not None
    assert wide is not None
    assert len(deep.threads[0].frames) == 200
    assert len(wide.threads) == 100


# py-spy.


def printed(*threads: dict[str, Any]) -> str:
    """Return what py-spy prints."""
    return json.dumps(list(threads))


PY_SPY_THREAD: Final[dict[str, Any]] = {
    "pid": 4,
    "thread_id": 140225244392320,
    "thread_name": "Main\x1bThread",
    "os_thread_id": 4,
    "active": False,
    "owns_gil": True,
    "frames": [
        {
            "name": "Condition.wait",
            "filename": "/usr/lib/python3.13/threading.py",
            "line": 359,
        },
        {"name": "test_b", "filename": "/srv/project/tests/test_x.py", "line": 0},
    ],
}


def test_what_py_spy_prints_is_read() -> None:
    """Threads with their names, who holds the GIL, and frames; a line of 0 is not known."""
    stacks = parse_py_spy(printed(PY_SPY_THREAD))
    assert told(stacks) == [
        (
            140225244392320,
            "Main?Thread",
            False,
            [
                "/usr/lib/python3.13/threading.py:359:Condition.wait",
                "/srv/project/tests/test_x.py:None:test_b",
            ],
        )
    ]
    assert stacks is not None
    assert stacks.threads[0].owns_gil is True
    assert stacks.where(ROOT) == "wait (tests/test_x.py)"
    assert stacks.text(1000).startswith(
        "Thread Main?Thread (holds the GIL), most recent call first:"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Error: Permission denied",
        "{}",
        "[]",
        "[1, null, []]",
        '[{"frames": {}}]',
        "[" * 100_000,
        f"[{'9' * 10_000}]",
        f"[{' ' * MAX_STACKS_CHARACTERS}]",
    ],
)
def test_what_is_not_py_spy_s_is_refused(text: str) -> None:
    """A program that happens to be called py-spy may print anything."""
    assert parse_py_spy(text) is None


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["frames", "name", "filename", "line", "thread_name", "thread_id"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)


@pytest.mark.slow
@given(st.lists(JSON, max_size=3))
def test_any_json_is_read_without_an_error(content: list[Any]) -> None:
    """Fields of the wrong type are left out."""
    stacks = parse_py_spy(json.dumps(content))
    if stacks is not None:
        assert stacks.text(1_000).replace("\n", "").isprintable()
        stacks.where(ROOT)


# This process.


def test_the_frames_of_this_process_can_be_had() -> None:
    """Where nobody else can look, a thread of the process itself does, and leaves itself out."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="waits here")
    thread.start()
    try:
        stacks = current_frames_stacks(without=[threading.get_ident()])
    finally:
        stop.set()
        thread.join()
    assert stacks is not None
    assert stacks.source == "current frames"
    assert threading.current_thread().name not in [each.name for each in stacks.threads]
    waits = next(each for each in stacks.threads if each.name == "waits here")
    assert "Event.wait" in [frame.function for frame in waits.frames]


# Which thread, which place.


def thread(
    *frames: tuple[str, str, int], name: str | None = None, current: bool = False
) -> Thread:
    """Return a thread with frames: function, path and line."""
    return Thread(
        name=name,
        thread_id=None,
        is_current=current,
        owns_gil=None,
        frames=tuple(StackFrame(function=f, path=p, line=n) for f, p, n in frames),
    )


PYTEST: Final = ("main", "/usr/lib/site-packages/_pytest/main.py", 3)
HOOKS: Final = ("_multicall", "/usr/lib/site-packages/pluggy/_callers.py", 3)
OWN: Final = ("test_b", "/srv/project/tests/test_x.py", 6)
MAIN: Final = thread(PYTEST, name="MainThread")


@pytest.mark.parametrize(
    ("threads", "index"),
    [
        ([thread(OWN, current=True), thread(OWN, PYTEST, name="t"), thread(OWN)], 1),
        ([thread(HOOKS), thread(OWN, HOOKS, PYTEST)], 1),
        ([thread(OWN), thread(name="MainThread"), thread(OWN, current=True)], 1),
        ([thread(OWN), thread(OWN, current=True), thread(OWN)], 1),
        ([thread(OWN), thread(OWN)], 1),
    ],
    ids=[
        "pytest's frames",
        "most of them",
        "the main thread",
        "the current one",
        "the last",
    ],
)
def test_the_thread_that_runs_the_tests_is_found(
    threads: list[Thread], index: int
) -> None:
    """It is that with most of pytest's frames, or else the main thread, or else the current one."""
    stacks = Stacks(threads=tuple(threads), source="faulthandler")
    assert stacks.main is threads[index]


LINES_AND_CALLS: Final = [
    ("lock.acquire()", "acquire"),
    ("acquire()", "acquire"),
    ("a = self.lock[0].acquire(timeout=-1)", "acquire"),
    ("assert lock.acquire()", "acquire"),
    ("with lock.held() as x: pass", "held"),
    ("f = lambda: other()", "test_b"),
    ("start(lambda: other())", "start"),
    ("lock.acquire(); other()", "test_b"),
    ("lock.acquire(other())", "test_b"),
    ("with lock: pass", "test_b"),
    ("x = lock[0]()()", "test_b"),
    ("lock[0]()", "test_b"),
    ("(lock\n .acquire())", "test_b"),
    ("acquire(\n  1)", "acquire"),
    ("def broken(:", "test_b"),
]


@pytest.mark.parametrize(
    ("line", "called"), LINES_AND_CALLS, ids=[x for x, _ in LINES_AND_CALLS]
)
def test_a_call_into_c_is_named_by_its_line(
    tmp_path: Path, line: str, called: str
) -> None:
    """A C function has no frame. The line has its name, if it holds just one call."""
    path = tmp_path / "tests" / "test_x.py"
    path.parent.mkdir()
    path.write_text(f"def test_b():\n  lock = None\n  {line}\n", encoding="utf-8")
    stacks = Stacks(
        threads=(thread(("C.test_b", str(path), 3), PYTEST),), source="py-spy"
    )
    assert stacks.where(tmp_path) == f"{called} (tests/test_x.py:3)"


@pytest.mark.parametrize(
    "kind", ["missing", "a folder", "a pipe", "a link", "binary", "huge"]
)
@pytest.mark.posix("there are no pipes with a name, and links need a right")
def test_a_source_that_cant_be_read_is_no_harm(tmp_path: Path, kind: str) -> None:
    """Whatever is at the path of a frame, the function's own name is given then."""
    path = tmp_path / "test_x.py"
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a link":
        path.symlink_to(tmp_path / "test_x.py")
    elif kind == "binary":
        path.write_bytes(b"\x00\xff" * 50)
    elif kind == "huge":
        path.write_bytes(b"f()\n" * 100_000)
    stacks = Stacks(threads=(thread(("test_b", str(path), 1)),), source="py-spy")
    assert stacks.where(tmp_path) == "test_b (test_x.py:1)"


@pytest.mark.parametrize(
    ("frames", "where", "own"),
    [
        (
            [("Queue.get", "/usr/lib/queue.py", 5), OWN, PYTEST],
            "get (tests/test_x.py:6)",
            6,
        ),
        (
            [("f", "/usr/lib/site-packages/r/a.py", 5), PYTEST],
            "f (/usr/lib/site-packages/r/a.py:5)",
            None,
        ),
        ([PYTEST, HOOKS], "main (/usr/lib/site-packages/_pytest/main.py:3)", None),
        ([("f", "<string>", 1), OWN], "f (tests/test_x.py:6)", 6),
        ([("f", "/srv/project/.venv/lib/x.py", 1), OWN], "f (tests/test_x.py:6)", 6),
        ([], None, None),
    ],
    ids=[
        "called",
        "no own code",
        "pytest alone",
        "no file",
        "installed below",
        "no frames",
    ],
)
def test_a_place_is_the_innermost_of_the_users_code(
    frames: list[tuple[str, str, int]], where: str | None, own: int | None
) -> None:
    """What that line calls is named; without own code, the innermost function."""
    stacks = Stacks(threads=(thread(*frames),), source="py-spy")
    assert stacks.where(ROOT) == where
    place = stacks.main.own_place(ROOT)
    assert (place and place.line) == own


def test_the_text_is_capped() -> None:
    """The thread that runs the tests comes first, with so many frames, and the rest is cut."""
    deep = thread(*[("f", "/a.py", n) for n in range(1, 60)], PYTEST, name="deep")
    stacks = Stacks(threads=(thread(name="x"), deep), source="py-spy")
    text = stacks.text(100_000)
    lines = text.splitlines()
    assert lines[0] == "Thread deep, most recent call first:"
    assert lines[1] == '  File "/a.py", line 1, in f'
    assert lines[MAX_SHOWN_FRAMES + 1] == f"  ... and {60 - MAX_SHOWN_FRAMES} more"
    assert lines[-2:] == ["Thread x, most recent call first:", "  no Python code"]
    for length in range(120):
        cut = stacks.text(length)
        assert len(cut) <= length
    assert stacks.text(120).endswith("\n... cut")


@pytest.mark.posix("faulthandler tells of exceptions of Windows instead")
@pytest.mark.parametrize("how", ["string_at", "_sigabrt", "_sigfpe", "_stack_overflow"])
def test_real_crashes_are_read(tmp_path: Path, how: str) -> None:
    """The running Python writes what this version of the parser reads."""
    script = tmp_path / "test_x.py"
    call = "ctypes.string_at(0)" if how == "string_at" else f"faulthandler.{how}()"
    script.write_text(
        "import ctypes, faulthandler, resource, threading\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "faulthandler.enable()\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        f"def test_b():\n    {call}\n"
        "test_b()\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    stacks = parse_faulthandler(done.stderr)
    assert stacks is not None, done.stderr
    assert stacks.current is stacks.main
    assert len(stacks.threads) == 2
    assert stacks.where(tmp_path) == f"{how} (test_x.py:6)"
    assert bool(stacks.c_frames) == (sys.version_info >= (3, 14))

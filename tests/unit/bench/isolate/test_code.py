"""`run_code`: how code can end, and what can't be made to look like a pass."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_failure_taxonomy.bench import CodeResult, run_code

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and forks")

SECONDS = 20.0
"""More than anything here takes on a busy machine."""
SHORT = 1.5
"""Enough to start an interpreter on a busy machine."""
MEMORY_MB = 512


def run(source: str, seconds: float = SECONDS) -> CodeResult:
    """Run code with limits that are above what it needs."""
    return run_code(source, seconds=seconds, memory_mb=MEMORY_MB)


ENDINGS = {
    "passed": ("assert 1 + 1 == 2", "passed", ""),
    "main": ("if __name__ == '__main__': x = 1\nassert x == 1", "passed", ""),
    "dataclass": (
        (
            "import dataclasses, pickle\n@dataclasses.dataclass\nclass A:\n    x: int\n"
            "assert pickle.loads(pickle.dumps(A(1))) == A(1)"
        ),
        "passed",
        "",
    ),
    "assertion": (
        "def add(a, b):\n    return a - b\nassert add(1, 2) == 3, 'got -1'\n",
        "assertion",
        "AssertionError: got -1 (line 3: assert add(1, 2) == 3, 'got -1')",
    ),
    "bare": ("assert 0", "assertion", "AssertionError (line 1: assert 0)"),
    "exception": (
        "def f(x):\n    return x['a']\n\nf({})\n",
        "exception",
        "KeyError: 'a' (line 2: return x['a'])",
    ),
    "syntax": (
        "x = 1\ndef f(:\n    pass\n",
        "syntax",
        "SyntaxError: invalid syntax (line 2: def f(:)",
    ),
    "indentation": ("def f():\npass", "syntax", "IndentationError: "),
    "nul": ("x = '\0'", "syntax", "null bytes"),
    "surrogate": ("x = '\udc80'", "syntax", r"(line 1: x = '\udc80')"),
    "nested": ("-" * 200_000 + "1", "syntax", ""),
    "eval": (
        "eval('1 +')",
        "exception",
        "SyntaxError: invalid syntax (line 1: eval('1 +'))",
    ),
    "recursion": ("def f():\n    f()\nf()", "exception", "RecursionError: "),
    "str raises": (
        "class E(Exception):\n    def __str__(self): 1 / 0\nraise E",
        "exception",
        "E (line 3: raise E)",
    ),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", "exception", "KeyboardInterrupt"),
    "stdin": ("input()", "exception", "EOFError: "),
    "memory": (
        "x = []\nwhile True:\n    x.append(bytearray(1 << 24))",
        "killed",
        "MemoryError (line 3: x.append(bytearray(1 << 24)))",
    ),
    "segfault": (
        "import ctypes\nctypes.string_at(0)",
        "killed",
        "was killed by SIGSEGV before its last line (line 2: ctypes.string_at(0))",
    ),
    "SIGKILL": (
        "import os\nos.kill(os.getpid(), 9)",
        "killed",
        "was killed by SIGKILL before its last line",
    ),
    "sys.exit": (
        "import sys\nsys.exit(0)",
        "left",
        "SystemExit: 0 (line 2: sys.exit(0))",
    ),
    "SystemExit": ("raise SystemExit", "left", "SystemExit (line 1: raise SystemExit)"),
    "os._exit": (
        "import os\nos._exit(0)",
        "left",
        "exited with code 0 before its last line",
    ),
    "execv": ("import os\nos.execv('/bin/true', ['true'])", "left", "code 0"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_each_ending_has_its_word(name: str) -> None:
    """The detail is the last line of the traceback, with the line of the source."""
    source, ended, detail = ENDINGS[name]
    result = run(source)
    assert result.ended == ended, result
    assert detail in result.detail
    assert result.passed == (ended == "passed")
    assert bool(result.detail) != result.passed


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("x = 0\nwhile True: x += 1\n", "(line 2: while True: x += 1)"),
        ("import time\ntime.sleep(60)", "(line 2: time.sleep(60))"),
        ("import time\ntry:\n    time.sleep(60)\nexcept BaseException: pass", "line 3"),
        (
            (
                "import signal, time\nsignal.signal(signal.SIGABRT, signal.SIG_IGN)\n"
                "time.sleep(60)"
            ),
            "",
        ),
        ("import os\nos.kill(os.getpid(), 19)", ""),
        ("while True: print('x' * 10_000)", ""),
    ],
)
def test_what_is_not_done_in_time_tells_where_it_was(source: str, place: str) -> None:
    """The stack of faulthandler gives the line, and is no output."""
    result = run(source, SHORT)
    assert (result.ended, result.passed) == ("timeout", False)
    assert result.detail.startswith("not done after 1.5 s")
    assert place in result.detail
    assert "Fatal Python error" not in result.output


FORGERIES = {
    "prints": "print('passed\\n0\\n')\nraise SystemExit",
    "all descriptors": "import os\nfor number in range(64):\n    try:\n"
    "        os.write(number, b'passed\\n0\\n')\n    except OSError: pass\nos._exit(0)",
    "excepthook": "import sys\nsys.excepthook = lambda *_: print('passed')\n1 / 0",
    "atexit": "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit",
    "os.write": "import os\nos.write = print\nos.read = print\nassert False",
    "builtins": "import builtins\nbuiltins.BaseException = ZeroDivisionError\n"
    "builtins.issubclass = lambda *_: False\nassert False",
    "settrace": "import sys\nsys.settrace(lambda *_: None)\nassert False",
    "thread": "import os, threading\nthreading.Timer(0.2, os._exit, [0]).start()\n"
    "import time\ntime.sleep(60)",
    "fork passes": "import os\nif os.fork(): os._exit(0)",
    "fork reports": "import os\nif os.fork():\n    os.wait()\n    raise ValueError",
    "closes": "import os\nos.closerange(0, 1000)",
    "frames": "import sys\nframe = sys._getframe(1)\nfor value in frame.f_locals.values():\n"
    "    assert not (isinstance(value, bytes) and len(value) == 16), 'a token'\n"
    "frame.f_globals.clear()\nraise SystemExit",
    "exits while it is asked": "import sys, os\nclass Out:\n    def write(self, _): pass\n"
    "    def flush(self): os._exit(0)\nsys.stdout = Out()",
}


@pytest.mark.parametrize("name", FORGERIES)
def test_cheap_forgery_is_no_pass(name: str) -> None:
    """Only the process that has run the last line can say so."""
    result = run(FORGERIES[name])
    assert result.ended in {"left", "exception", "assertion"}, result


def test_threads_and_forks_that_are_left_change_nothing_and_are_killed(
    private_places: Path,
) -> None:
    """The code has passed when it has run to its end; what it left dies at once."""
    mark = private_places / "late"
    late = f"time.sleep(0.5)\nopen({str(mark)!r}, 'w')"
    result = run(
        f"import os, subprocess, sys, threading, time\nlate = {late!r}\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "subprocess.Popen([sys.executable, '-c', 'import time\\n' + late])\n"
        "if os.fork() == 0:\n    exec(late)\n"
    )
    assert result.ended == "passed"
    time.sleep(1)
    assert not mark.exists()


def test_output_is_both_streams_and_has_an_end() -> None:
    """The first 64 KiB are there, and how much was dropped."""
    result = run(
        "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr)\n1 / 0"
    )
    assert result.output == "out\nerr\n"
    flood = run("for _ in range(300): print('x' * 100_000)")
    assert flood.passed
    assert flood.output.endswith("more bytes were dropped)\n")
    assert len(flood.output) < 70_000


def test_it_sees_nothing_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither keys nor folder nor files; what it writes is removed."""
    monkeypatch.setenv("SOME_KEY", "secret")
    monkeypatch.chdir(tempfile.gettempdir())
    result = run(
        "import os, sys\n"
        "assert 'SOME_KEY' not in os.environ, os.environ\n"
        "assert os.listdir() == [], os.listdir()\n"
        "assert os.environ['HOME'] == os.environ['TMPDIR'] == os.getcwd()\n"
        "assert sys.argv == ['<code>'], sys.argv\n"
        "assert '' not in sys.path and os.getcwd() not in sys.path\n"
        "open('../outside', 'w').write('x')\nos.chmod('.', 0)\n"
    )
    assert result.passed, result


def test_many_at_a_time() -> None:
    """Each has its own answer."""
    sources = [f"print({number})\nassert {number} % 2 == 0" for number in range(50)]
    with ThreadPoolExecutor(max_workers=50) as threads:
        results = list(threads.map(run, sources))
    assert [result.passed for result in results] == [True, False] * 25
    assert [result.output for result in results] == [f"{n}\n" for n in range(50)]


def test_a_large_source_arrives_whole() -> None:
    """More than a pipe holds."""
    lines = "".join(f"x{number} = {number}\n" for number in range(20_000))
    result = run(f"{lines}assert x19999 == 0")
    assert result.detail == "AssertionError (line 20001: assert x19999 == 0)"


def test_without_a_descriptor_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert run("assert 1").passed
    assert run("import time\ntime.sleep(60)", SHORT).ended == "timeout"


@pytest.mark.parametrize(
    ("source", "seconds", "memory_mb", "message"),
    [
        (None, 1.0, 64, "run_code: the source is of type NoneType; give a text"),
        ("", 0.0, 64, "seconds=0.0, memory_mb=64; give numbers above 0"),
        ("", float("nan"), 64, "seconds=nan"),
        ("", 1.0, 0, "memory_mb=0"),
    ],
)
def test_what_an_author_gets_wrong_is_an_error(
    source: str, seconds: float, memory_mb: int, message: str
) -> None:
    """It is the rubric's mistake, not the code's."""
    with pytest.raises((TypeError, ValueError), match=message):
        run_code(source, seconds=seconds, memory_mb=memory_mb)


def test_it_imports_the_standard_library_alone() -> None:
    """A rubric that uses it needs nothing else, and loads fast."""
    program = (
        "import sys; from pytest_failure_taxonomy.bench import run_code;"
        "heavy = {'pydantic', 'yaml', 'pytest', 'pluggy', 'regex', 'asyncio', 'inspect'};"
        "print(*heavy & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("\n", "")

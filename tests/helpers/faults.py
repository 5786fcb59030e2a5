"""The fault matrix as data: each way to die, each configuration, and what the report then says."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

BUDGET: Final = "{budget}"
"""Stands for the seconds of a limit around the run."""
CLEAN_UP: Final = "left-behind"
"""File in which a fault writes the number of a process that it leaves behind on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One column of the matrix."""

    title: str
    args: tuple[str, ...] = ()
    supervised: bool = False


PLAIN: Final = Configuration(title="without the plugin")

CONFIGURATIONS: Final[Mapping[str, Configuration]] = {
    "alone": Configuration(title="plugin alone"),
    "x": Configuration(title="with `-x`", args=("-x",)),
    "n2": Configuration(title="with `-n 2`", args=("-n2",)),
    "run": Configuration(title="under `run`", supervised=True),
    "run-n2": Configuration(title="under `run`, with `-n 2`", args=("-n2",), supervised=True),
    "unwatched": Configuration(
        title="no watcher, then `finalize`", args=("-o", "failure_taxonomy_watcher=false")
    ),
}


def _nothing(folder: Path) -> None:
    del folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One row: a way to die, in a project of three tests of which the second does it."""

    name: str
    title: str
    body: str = "pass"
    """Of `test_b`."""
    head: str = ""
    """Of the test file."""
    decoration: str = ""
    fixtures: str = ""
    third: str = "pass"
    """Body of `test_c`."""
    files: Mapping[str, str] = field(default_factory=dict)
    ini: str = ""
    plugins: tuple[str, ...] = ()
    args_before: tuple[str, ...] = ()
    """Arguments that stand before the one that loads our plugin."""
    args: tuple[str, ...] = ()
    xdist_args: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    """A command around the run."""
    sends: signal.Signals | None = None
    """Sent to the run from outside once `test_b` has told that it is `ready`."""
    sends_after_session: bool = False
    prepare: Callable[[Path], None] = _nothing
    clean_up: Callable[[Path], None] = _nothing
    clean_up_before_finalize: bool = False
    makes: frozenset[str] = frozenset()
    """Files that the death itself leaves behind."""
    needs: str = ""
    """What the machine must have."""


def _mount_small(folder: Path) -> None:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder / "out"],
        check=True,
        capture_output=True,
    )


def _unmount(folder: Path) -> None:
    if os.path.ismount(folder / "out"):
        subprocess.run(["umount", folder / "out"], check=True, capture_output=True)


SLEEP: Final = "tell('ready')\ntime.sleep(60)"
CRASH: Final = "import ctypes; ctypes.string_at(0)"
FILL: Final = (
    "with open('out/own', 'wb', 0) as file:\n"
    "    try:\n"
    "        while True:\n"
    "            file.write(b'x' * 512)\n"
    "    except OSError:\n"
    "        pass\n"
)
OWN_FILES: Final = "global OWN; OWN = [open(f'own-{number}', 'w') for number in range(64)]"
NO_DESCRIPTORS: Final = (
    "import resource\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
    "global OWN\n"
    "OWN = []\n"
    "try:\n"
    "    while True:\n"
    "        OWN.append(os.open(os.devnull, os.O_RDONLY))\n"
    "except OSError:\n"
    "    pass\n"
)
NO_FILES: Final = (
    "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
)
ONCE: Final = "'PYTEST_XDIST_WORKER' not in os.environ"

FAULTS: Final[tuple[Fault, ...]] = (
    Fault(name="assert", title="`assert 0`", body="assert 0"),
    Fault(name="exit-0", title="`os._exit(0)`", body="os._exit(0)"),
    Fault(name="exit-1", title="`os._exit(1)`", body="os._exit(1)"),
    Fault(name="exit-7", title="`os._exit(7)`", body="os._exit(7)"),
    Fault(name="segfault", title="a segmentation fault", body=CRASH),
    Fault(
        name="stack-overflow",
        title="an overflow of the C stack",
        body="each = iter(())\nfor _ in range(500_000):\n    each = filter(None, each)\nlist(each)",
    ),
    Fault(name="abort", title="`os.abort()`", body="os.abort()"),
    Fault(name="kill-9", title="SIGKILL to itself", body="os.kill(os.getpid(), 9)\ntime.sleep(60)"),
    Fault(
        name="kill-15", title="SIGTERM to itself", body="os.kill(os.getpid(), 15)\ntime.sleep(60)"
    ),
    Fault(name="kill-2", title="SIGINT to itself", body="os.kill(os.getpid(), 2)\ntime.sleep(60)"),
    Fault(name="killpg", title="SIGKILL to its process group", body="os.killpg(0, 9)"),
    Fault(name="sys-exit", title="`sys.exit(3)`", body="sys.exit(3)"),
    Fault(
        name="pytest-exit",
        title='`pytest.exit("enough", returncode=0)`',
        body="pytest.exit('enough', returncode=0)",
    ),
    Fault(
        name="exec", title="`os.execv` of another program", body="os.execv('/bin/true', ['true'])"
    ),
    Fault(
        name="fork",
        title="a forked child goes on with the session",
        body="child = os.fork()\nif child:\n    os.waitpid(child, 0)",
    ),
    Fault(
        name="timeout-thread",
        title="pytest-timeout, thread method",
        body="time.sleep(60)",
        plugins=("pytest_timeout",),
        args=("--timeout=0.5", "--timeout-method=thread"),
    ),
    Fault(
        name="timeout-signal",
        title="pytest-timeout, signal method",
        body="time.sleep(60)",
        plugins=("pytest_timeout",),
        args=("--timeout=0.5", "--timeout-method=signal"),
    ),
    Fault(
        name="faulthandler",
        title="`faulthandler_exit_on_timeout`",
        body="time.sleep(60)",
        ini="faulthandler_timeout = 0.5\nfaulthandler_exit_on_timeout = true\n",
        needs="pytest 9",
    ),
    Fault(
        name="gnu-timeout",
        title="`timeout N` around the run",
        body=SLEEP,
        around=("timeout", BUDGET),
        needs="pidfd",
    ),
    Fault(
        name="gnu-timeout-k",
        title="`timeout -k N N` around a run that ignores SIGTERM",
        body=f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SLEEP}",
        around=("timeout", "-k", "0.3", BUDGET),
        needs="pidfd",
    ),
    Fault(
        name="gnu-timeout-kill",
        title="`timeout -s KILL N` around the run",
        body=SLEEP,
        around=("timeout", "-s", "KILL", BUDGET),
        needs="pidfd",
    ),
    Fault(
        name="closerange",
        title="`os.closerange(3, 256)`",
        body="os.closerange(3, 256)",
        third="assert 0",
        args=("-s",),
    ),
    Fault(
        name="closerange-reopen",
        title="`os.closerange(3, 256)`, then files of its own",
        body=f"os.closerange(3, 256)\n{OWN_FILES}",
        third="assert 0",
        args=("-s",),
        makes=frozenset(f"own-{number}" for number in range(64)),
    ),
    Fault(
        name="daemon",
        title="`os._exit(1)` beside a daemon that holds every descriptor",
        body=f"child = os.fork()\nif child:\n    tell('{CLEAN_UP}', str(child))\n    os._exit(1)\n"
        "os.setsid()\ntime.sleep(60)\nos._exit(0)",
    ),
    Fault(
        name="atexit-exit",
        title="`os._exit(9)` at exit",
        body="import atexit; atexit.register(os._exit, 9)",
    ),
    Fault(
        name="atexit-crash",
        title="a segmentation fault at exit",
        body="import atexit, ctypes; atexit.register(ctypes.string_at, 0)",
    ),
    Fault(
        name="hang-at-exit",
        title="a thread that never ends; killed after the session",
        body="import threading\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
        "tell('ready')",
        sends=signal.SIGKILL,
        sends_after_session=True,
    ),
    Fault(name="no-descriptors", title="no descriptor left (EMFILE)", body=NO_DESCRIPTORS),
    Fault(name="no-file-size", title="no file may grow (RLIMIT_FSIZE)", body=NO_FILES),
    Fault(
        name="rmtree-die",
        title="the report's folder is removed, then `os._exit(1)`",
        body="import shutil; shutil.rmtree('out'); os._exit(1)",
    ),
    Fault(
        name="rmtree",
        title="the report's folder is removed",
        body="import shutil; shutil.rmtree('out')",
    ),
    Fault(
        name="full-disk-die",
        title="a full disk (64 KiB), then `os._exit(1)`",
        body=f"{FILL}\nos._exit(1)",
        prepare=_mount_small,
        clean_up=_unmount,
        makes=frozenset({"out/own"}),
        needs="mount",
    ),
    Fault(
        name="full-disk",
        title="a full disk (64 KiB)",
        body=FILL,
        prepare=_mount_small,
        clean_up=_unmount,
        makes=frozenset({"out/own"}),
        needs="mount",
    ),
    Fault(
        name="conftest-error",
        title="an ImportError in `conftest.py`",
        files={"conftest.py": "import no_such_module\n"},
    ),
    Fault(name="bad-option", title="an unknown option", args=("--no-such-option",)),
    Fault(
        name="typo", title="`-p typo`, after our plugin is loaded", args=("-p", "no_such_plugin")
    ),
    Fault(
        name="typo-first",
        title="`-p typo`, before our plugin is loaded",
        args_before=("-p", "no_such_plugin"),
    ),
    Fault(name="syntax-error", title="a SyntaxError in the test file", head="def test_x(:"),
    Fault(name="no-tests", title="no test", files={"test_it.py": "import os\n"}),
    Fault(
        name="collect-exit",
        title="`os._exit(3)` while collecting",
        head="os._exit(3)",
        xdist_args=("--max-worker-restart=1",),
    ),
    Fault(
        name="collect-crash",
        title="a segmentation fault while collecting",
        head=CRASH,
        xdist_args=("--max-worker-restart=1",),
    ),
    Fault(
        name="conftest-exit",
        title="`os._exit(3)` in `conftest.py`",
        files={"conftest.py": "import os\nos._exit(3)\n"},
    ),
    Fault(
        name="conftest-crash",
        title="a segmentation fault in `conftest.py`",
        files={"conftest.py": f"{CRASH}\n"},
    ),
    Fault(
        name="logfinish-raises",
        title="`pytest_runtest_logfinish` raises",
        files={
            "conftest.py": "import os\n"
            "def pytest_runtest_logfinish(nodeid):\n"
            f"    if 'test_b' in nodeid and {ONCE}: raise RuntimeError('broken hook')\n"
        },
    ),
    Fault(
        name="sessionfinish-raises",
        title="`pytest_sessionfinish` raises",
        files={
            "conftest.py": "import os\n"
            f"def pytest_sessionfinish():\n    if {ONCE}: raise RuntimeError('broken hook')\n"
        },
    ),
    Fault(
        name="sessionfinish-crash",
        title="a segmentation fault in `pytest_sessionfinish`",
        files={
            "conftest.py": f"import os\ndef pytest_sessionfinish():\n    if {ONCE}:\n        {CRASH}\n"
        },
    ),
    Fault(
        name="unconfigure-exit",
        title="`os._exit(0)` in `pytest_unconfigure`",
        files={
            "conftest.py": f"import os\ndef pytest_unconfigure():\n    if {ONCE}: os._exit(0)\n"
        },
    ),
    Fault(
        name="teardown-crash",
        title="a segmentation fault in a fixture's teardown",
        head=f"@pytest.fixture\ndef deadly():\n    yield\n    {CRASH}\n",
        fixtures="deadly",
    ),
    Fault(
        name="kill-parent",
        title="the test kills its parent",
        body="os.kill(os.getppid(), 9)\ntime.sleep(0.1)",
        around=("sh", "-c", '"$@"; exit $?', "sh"),
        needs="pidfd",
    ),
    Fault(
        name="child-crash",
        title="a segmentation fault in a `multiprocessing` child",
        body="import ctypes, multiprocessing\n"
        "child = multiprocessing.get_context('fork').Process(target=ctypes.string_at, args=(0,))\n"
        "child.start()\nchild.join()",
    ),
    Fault(name="outside-term", title="SIGTERM from outside", body=SLEEP, sends=signal.SIGTERM),
    Fault(name="outside-kill", title="SIGKILL from outside", body=SLEEP, sends=signal.SIGKILL),
    Fault(name="outside-int", title="SIGINT from outside", body=SLEEP, sends=signal.SIGINT),
    Fault(name="outside-hup", title="SIGHUP from outside", body=SLEEP, sends=signal.SIGHUP),
)

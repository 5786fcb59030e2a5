"""The fault matrix as data: each way to die, each configuration, and what the report then says."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

BUDGET: Final = "{budget}"
"""Stands for the seconds of a limit around the run."""
CLEAN_UP: Final = "left-behind"
"""File in which a fault writes the number of a process that it leaves behind on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One column of the matrix."""

    title: str
    second: str
    """Who sees pytest's end where pytest itself can't tell it: `exit.source`."""
    falls_back_on: str = ""
    """The column that says what is expected here where a row says nothing else."""
    args: tuple[str, ...] = ()
    supervised: bool = False
    has_plugin: bool = True

    @property
    def on_workers(self) -> bool:
        """There are xdist workers."""
        return "-n2" in self.args


PLAIN: Final = Configuration(title="plain pytest", second="", has_plugin=False)
PLAIN_N2: Final = replace(PLAIN, title="plain pytest with `-n 2`", args=("-n2",))

CONFIGURATIONS: Final[Mapping[str, Configuration]] = {
    "alone": Configuration(title="the plugin alone", second="watcher"),
    "x": Configuration(
        title="`-x`", second="watcher", falls_back_on="alone", args=("-x",)
    ),
    "n2": Configuration(
        title="`-n 2`", second="watcher", falls_back_on="alone", args=("-n2",)
    ),
    "run": Configuration(
        title="`run`", second="supervisor", falls_back_on="alone", supervised=True
    ),
    "run-n2": Configuration(
        title="`run -n 2`",
        second="supervisor",
        falls_back_on="n2",
        args=("-n2",),
        supervised=True,
    ),
    "unwatched": Configuration(
        title="no watcher",
        second="finalize",
        falls_back_on="alone",
        args=("-o", "failure_taxonomy_watcher=false"),
    ),
}

SECOND: Final = "second"
"""As the source of an end: the process that saw it, which depends on the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What one cell comes to."""

    status: int
    """Plain pytest's for its caller, as `subprocess` has it."""
    kind: str | None = None
    """Of the verdict; `None` for success."""
    reason: str | None = None
    """Of the verdict, where it is not the kind's own."""
    is_likely: bool = False
    ambiguous: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Kinds of the other reasons that hold."""
    on: str | None = None
    """What the verdict names: the test `b`, say, `""` for the test file, or another file."""
    source: str = "pytest"
    """How the exit status is known; `earlier` where only an earlier run's report is there, `gone`
    where there is none."""
    code: int | None = -1
    """In the report; -1 for what the caller sees."""
    completeness: str | None = None
    """Of the report at the end, where the source does not tell."""
    passed: int = 0
    failed: int = 0
    errors: int = 0
    in_flight: str | None = None
    """The phase in which `test_b` was."""
    not_run: tuple[str, ...] = ()
    worker: str | None = None
    """How the worker that ran `test_b` ended: its exit code or signal."""
    finalize: int | None = None
    """Exit code of `finalize`, where it can do nothing."""


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
    sends_after_stall: bool = False
    """Only once the report on disk tells of a stall, where anybody looks for one."""
    is_silent: bool = False
    """Nothing is made of what it prints, so that it has no file to grow."""
    prepare: Callable[[Path], None] = _nothing
    clean_up: Callable[[Path], None] = _nothing
    makes: frozenset[str] = frozenset()
    """Files that the death itself leaves behind."""
    tidy: Callable[[Path], None] = _nothing
    """What is done to the folder at the very end, before its files are looked at."""
    needs: str = ""
    """What the machine must have: a key of `NEEDS`."""
    ends: Mapping[str, End]
    """By configuration."""
    leaves_out: tuple[str, ...] = ()
    """Configurations in which this can't be had."""
    note: str = ""
    """What can't be known, or why something is left out, for the page."""

    def end_in(self, name: str) -> End:
        """Return what is expected in a configuration."""
        while name not in self.ends:
            name = CONFIGURATIONS[name].falls_back_on
        return self.ends[name]


def _mount_small(folder: Path) -> None:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder / "out"],
        check=True,
        capture_output=True,
    )


def _unmount(folder: Path) -> None:
    if os.path.ismount(folder / "out"):
        subprocess.run(["umount", folder / "out"], check=True, capture_output=True)


def _make_room(folder: Path) -> None:
    (folder / "out/own").unlink(missing_ok=True)


def _died(status: int, kind: str, **given: Any) -> End:
    """Return the end of a run that died in `test_b`."""
    fields: dict[str, Any] = {
        "source": SECOND,
        "on": "b",
        "passed": 1,
        "in_flight": "call",
        "not_run": ("c",),
    }
    return End(status=status, kind=kind, **{**fields, **given})


def _died_on_workers(status: int, kind: str, **given: Any) -> End:
    """Return the end of a controller that died while a worker ran `test_b`."""
    return _died(status, kind, **{"passed": 2, "not_run": (), **given})


def _went_on(status: int, kind: str | None, **given: Any) -> End:
    """Return the end of a run that went on to its end."""
    return End(status=status, kind=kind, **{"passed": 3, **given})


def _worker_died(worker: str, **given: Any) -> End:
    """Return the end of a run that lost a worker."""
    fields = {
        "kind": "worker.crashed",
        "on": "b",
        "passed": 2,
        "failed": 1,
        "worker": worker,
    }
    return End(status=1, **{**fields, **given})


def _at_start(status: int, kind: str, **given: Any) -> Mapping[str, End]:
    """Return the ends of a run that did not come to its tests, on workers or not."""
    return {"alone": End(status=status, kind=kind, **given)}


_KILLED_BY: Final = ("process.oom", "process.killed")
_NOBODY_LOOKED: Final = (
    "Without a watcher, nothing looks for stalls while the run goes on."
)


def _stalled(status: int, kind: str) -> Mapping[str, End]:
    """Return the ends of a run whose second test was stalled when a signal came."""
    given: dict[str, Any] = {"is_likely": True, "also": (kind,)}
    killed: dict[str, Any] = {"is_likely": True, "ambiguous": _KILLED_BY}
    return {
        "alone": _died(status, "test.stalled", **given),
        "n2": _died_on_workers(status, "test.stalled", **given),
        "unwatched": _died(
            status, kind, **(killed if kind == "process.killed" else {})
        ),
    }


KILLED: Final = _died(-9, "process.killed", is_likely=True, ambiguous=_KILLED_BY)
KILLED_ON_WORKERS: Final = _died_on_workers(
    -9, "process.killed", is_likely=True, ambiguous=_KILLED_BY
)
PASSED: Final = _went_on(0, None)
_LOST_SUPERVISOR: Final = "Under `run` the supervisor dies, too."

NEEDS: Final[Mapping[str, str]] = {
    "pytest 9.2": "older versions of pytest end otherwise where a plugin is missing",
    "pytest 9": "faulthandler_exit_on_timeout is an option of pytest 9",
    "mount": "a file system of 256 KiB can be mounted by root alone",
    "told": "the status of a process that its parent has waited for can be had from Linux 6.15 on",
}
"""What a row needs that not every machine has, and why it is skipped without."""

SLEEP: Final = "tell('ready')\ntime.sleep(60)"
STALL_SOON: Final = "failure_taxonomy_stall_seconds = 0.5\n"
DEADLOCK: Final = "tell('ready')\nimport threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()"
CRASH: Final = "import ctypes; ctypes.string_at(0)"
FILL: Final = (
    "with open('out/own', 'wb', 0) as file:\n"
    "    try:\n"
    "        while True:\n"
    "            file.write(b'x' * 512)\n"
    "    except OSError:\n"
    "        pass\n"
)
OWN_FILES: Final = (
    "global OWN; OWN = [open(f'own-{number}', 'w') for number in range(64)]"
)
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
NO_FILES: Final = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
ONCE: Final = "'PYTEST_XDIST_WORKER' not in os.environ"

ONE_THREAD_MORE: Final = (
    "import os, threading, time\n"
    "from sync import tell\n"
    "def pytest_runtest_logreport(report):\n"
    f"    if 'test_b' in report.nodeid and report.when == 'call' and {ONCE}:\n"
    "        threading.Thread(target=time.sleep, args=(60,)).start()\n"
    "        tell('ready')\n"
)


def _hook(name: str, arguments: str, *lines: str) -> Mapping[str, str]:
    """Return a conftest with a hook that does something on the controller."""
    body = "".join(f"        {line}\n" for line in lines)
    return {
        "conftest.py": f"import os\ndef {name}({arguments}):\n    if {ONCE}:\n{body}"
    }


FAULTS: Final[tuple[Fault, ...]] = (
    Fault(
        name="assert",
        title="`assert 0`",
        body="assert 0",
        ends={
            "alone": _went_on(1, "test.failed", on="b", passed=2, failed=1),
            "x": _went_on(1, "test.failed", on="b", passed=1, failed=1, not_run=("c",)),
        },
    ),
    *(
        Fault(
            name=f"exit-{code}",
            title=f"`os._exit({code})`",
            body=f"os._exit({code})",
            ends={
                "alone": _died(code, "process.exited"),
                "n2": _worker_died(str(code)),
            },
        )
        for code in (0, 1, 7)
    ),
    Fault(
        name="segfault",
        title="a segmentation fault",
        body=CRASH,
        ends={"alone": _died(-11, "process.crashed"), "n2": _worker_died("SIGSEGV")},
    ),
    Fault(
        name="stack-overflow",
        title="an overflow of the C stack",
        body="each = iter(())\nfor _ in range(500_000):\n    each = filter(None, each)\nlist(each)",
        ends={"alone": _died(-11, "process.crashed"), "n2": _worker_died("SIGSEGV")},
    ),
    Fault(
        name="abort",
        title="`os.abort()`",
        body="os.abort()",
        ends={"alone": _died(-6, "process.crashed"), "n2": _worker_died("SIGABRT")},
    ),
    Fault(
        name="kill-9",
        title="SIGKILL to itself",
        body="os.kill(os.getpid(), 9)\ntime.sleep(60)",
        ends={"alone": KILLED, "n2": _worker_died("SIGKILL")},
        note="Nobody can see who sent a SIGKILL, so the report also names the out-of-memory killer, "
        "unless the control group's count decides.",
    ),
    Fault(
        name="kill-15",
        title="SIGTERM to itself",
        body="os.kill(os.getpid(), 15)\ntime.sleep(60)",
        ends={"alone": _died(-15, "process.terminated"), "n2": _worker_died("SIGTERM")},
    ),
    Fault(
        name="kill-2",
        title="SIGINT to itself",
        body="os.kill(os.getpid(), 2)\ntime.sleep(60)",
        ends={
            "alone": _died(2, "interrupt.keyboard", source="pytest"),
            "n2": _went_on(2, "interrupt.keyboard", on="b", passed=2, failed=1),
        },
    ),
    Fault(
        name="killpg",
        title="SIGKILL to its process group",
        body="os.killpg(0, 9)",
        ends={
            "alone": KILLED,
            "n2": KILLED_ON_WORKERS,
            "run": replace(KILLED, source="finalize"),
            "run-n2": replace(KILLED_ON_WORKERS, source="finalize"),
        },
        note=_LOST_SUPERVISOR,
    ),
    Fault(
        name="sys-exit",
        title="`sys.exit(3)`",
        body="sys.exit(3)",
        ends={
            "alone": _went_on(1, "test.failed", on="b", passed=2, failed=1),
            "x": _went_on(1, "test.failed", on="b", passed=1, failed=1, not_run=("c",)),
        },
    ),
    Fault(
        name="pytest-exit",
        title="`pytest.exit(..., returncode=0)`",
        body="pytest.exit('enough', returncode=0)",
        ends={
            "alone": _died(0, "interrupt.exit", source="pytest", on=None),
            "n2": _died_on_workers(3, "interrupt.exit", source="pytest", on=None),
        },
    ),
    Fault(
        name="exec",
        title="`os.execv` of another program",
        body="os.execv('/bin/true', ['true'])",
        ends={"alone": _died(0, "process.exited"), "n2": _worker_died("0")},
    ),
    Fault(
        name="fork",
        title="a forked child goes on with the session",
        body="child = os.fork()\nif child:\n    os.waitpid(child, 0)",
        ends={"alone": PASSED},
        leaves_out=("n2", "run-n2"),
        note="On a worker, plain pytest hangs: the child shares the channel to the controller.",
    ),
    Fault(
        name="timeout-thread",
        title="pytest-timeout, thread method",
        body="time.sleep(60)",
        plugins=("pytest_timeout",),
        args=("--timeout=0.5", "--timeout-method=thread"),
        ends={
            "alone": _died(1, "test.timeout", is_likely=True),
            "n2": _worker_died("1", kind="test.timeout", is_likely=True),
            "unwatched": _died(1, "process.exited"),
        },
        note="The watcher infers the limit from the time of the end, which `finalize` does not know.",
    ),
    Fault(
        name="timeout-signal",
        title="pytest-timeout, signal method",
        body="time.sleep(60)",
        plugins=("pytest_timeout",),
        args=("--timeout=0.5", "--timeout-method=signal"),
        ends={
            "alone": _went_on(1, "test.timeout", on="b", passed=2, failed=1),
            "x": _went_on(
                1, "test.timeout", on="b", passed=1, failed=1, not_run=("c",)
            ),
        },
    ),
    Fault(
        name="faulthandler",
        title="`faulthandler_exit_on_timeout`",
        body="time.sleep(60)",
        ini="faulthandler_timeout = 0.5\nfaulthandler_exit_on_timeout = true\n",
        ends={
            "alone": _died(1, "test.timeout", is_likely=True),
            "n2": _worker_died("1", kind="test.timeout", is_likely=True),
            "unwatched": _died(1, "process.exited"),
        },
        needs="pytest 9",
    ),
    Fault(
        name="gnu-timeout",
        title="`timeout N` around the run",
        body=SLEEP,
        around=("timeout", BUDGET),
        ends={
            "alone": _died(124, "process.timeout", is_likely=True, code=143),
            "run": _died(124, "process.timeout", code=143),
            "n2": _died_on_workers(124, "process.timeout", is_likely=True, code=143),
            "run-n2": _died_on_workers(124, "process.timeout", code=143),
            "unwatched": _died(124, "process.timeout", is_likely=True),
        },
        needs="told",
        note="The watcher infers it from the time that was used up, `finalize` from the exit code. "
        "The supervisor sees who sent the signal.",
    ),
    Fault(
        name="gnu-timeout-k",
        title="`timeout -k N N` around a run that ignores SIGTERM",
        body=f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SLEEP}",
        around=("timeout", "-k", "0.3", BUDGET),
        ends={
            "alone": _died(-9, "process.timeout", is_likely=True),
            "run": replace(KILLED, source="finalize"),
            "unwatched": KILLED,
        },
        leaves_out=("n2", "run-n2"),
        needs="told",
        note=f"{_LOST_SUPERVISOR} With `-n 2` the controller does not ignore the SIGTERM.",
    ),
    Fault(
        name="gnu-timeout-kill",
        title="`timeout -s KILL N` around the run",
        body=SLEEP,
        around=("timeout", "-s", "KILL", BUDGET),
        ends={
            "alone": _died(-9, "process.timeout", is_likely=True),
            "run": replace(KILLED, source="finalize"),
            "n2": _died_on_workers(-9, "process.timeout", is_likely=True),
            "run-n2": replace(KILLED_ON_WORKERS, source="finalize"),
            "unwatched": KILLED,
        },
        needs="told",
        note=_LOST_SUPERVISOR,
    ),
    Fault(
        name="closerange",
        title="`os.closerange(3, 256)`",
        body="os.closerange(3, 256)",
        third="assert 0",
        args=("-s",),
        ends={
            "alone": _went_on(
                1,
                "test.failed",
                on="c",
                passed=2,
                failed=1,
                also=("plugin.error",),
                source="exception",
            ),
            "n2": _went_on(
                1,
                "test.failed",
                on="c",
                passed=1,
                failed=2,
                also=("worker.crashed",),
            ),
        },
    ),
    Fault(
        name="closerange-reopen",
        title="`os.closerange(3, 256)`, then files of its own",
        body=f"os.closerange(3, 256)\n{OWN_FILES}",
        third="assert 0",
        args=("-s",),
        makes=frozenset(f"own-{number}" for number in range(64)),
        ends={
            "alone": _went_on(1, "test.failed", on="c", passed=2, failed=1),
            "n2": _went_on(
                1, "test.failed", on="c", passed=1, failed=2, also=("worker.crashed",)
            ),
        },
    ),
    Fault(
        name="daemon",
        title="`os._exit(1)` beside a daemon that holds every descriptor",
        body=f"child = os.fork()\nif child:\n    tell('{CLEAN_UP}', str(child))\n    os._exit(1)\n"
        "os.setsid()\ntime.sleep(1 if IS_WORKER else 60)\nos._exit(0)",
        ends={"alone": _died(1, "process.exited"), "n2": _worker_died("1")},
    ),
    Fault(
        name="atexit-exit",
        title="`os._exit(9)` at exit",
        body="import atexit; atexit.register(os._exit, 9)",
        ends={
            "alone": _went_on(
                9, "exit_status.changed", source=SECOND, completeness="full"
            ),
            "n2": _went_on(0, None, worker="9"),
        },
        note="A worker's results are complete by then, and pytest ends with 0. The worker's exit "
        "code is in `workers`.",
    ),
    Fault(
        name="atexit-crash",
        title="a segmentation fault at exit",
        body="import atexit, ctypes; atexit.register(ctypes.string_at, 0)",
        ends={
            "alone": _went_on(
                -11, "process.crashed", source=SECOND, completeness="full"
            ),
            "n2": _went_on(0, "worker.crashed", worker="SIGSEGV"),
        },
    ),
    Fault(
        name="hang-at-exit",
        title="a thread that never ends; SIGKILL after the session",
        files={"conftest.py": ONE_THREAD_MORE},
        sends=signal.SIGKILL,
        sends_after_session=True,
        ends={
            "alone": _went_on(
                -9,
                "process.killed",
                is_likely=True,
                ambiguous=_KILLED_BY,
                source=SECOND,
                completeness="full",
            ),
        },
    ),
    Fault(
        name="no-descriptors",
        title="no descriptor left (EMFILE)",
        body=NO_DESCRIPTORS,
        ends={
            "alone": _went_on(3, "internal.error", passed=2, not_run=("c",)),
            "n2": PASSED,
        },
    ),
    Fault(
        name="no-file-size",
        title="no file may grow (RLIMIT_FSIZE)",
        body=NO_FILES,
        is_silent=True,
        ends={"alone": _went_on(0, None, source=SECOND), "n2": PASSED},
    ),
    Fault(
        name="rmtree-die",
        title="the report's folder is removed, then `os._exit(1)`",
        body="import shutil; shutil.rmtree('out'); os._exit(1)",
        ends={
            "alone": _died(1, "process.exited"),
            "n2": _worker_died("1"),
            "unwatched": _died(1, "process.exited", source="gone", finalize=2),
        },
    ),
    Fault(
        name="rmtree-exit-0",
        title="the report's folder is removed, then `os._exit(0)`",
        body="import shutil; shutil.rmtree('out'); os._exit(0)",
        ends={
            "alone": _died(0, "process.exited"),
            "n2": _worker_died("0"),
            "unwatched": _died(0, "process.exited", source="gone", finalize=2),
        },
    ),
    Fault(
        name="rmtree",
        title="the report's folder is removed",
        body="import shutil; shutil.rmtree('out')",
        ends={"alone": PASSED},
    ),
    Fault(
        name="full-disk-die",
        title="a full disk (256 KiB), then `os._exit(1)`",
        body=f"{FILL}\nos._exit(1)",
        prepare=_mount_small,
        clean_up=_unmount,
        tidy=_make_room,
        ends={"alone": _died(1, "process.exited"), "n2": _worker_died("1")},
        needs="mount",
    ),
    Fault(
        name="full-disk",
        title="a full disk (256 KiB)",
        body=FILL,
        prepare=_mount_small,
        clean_up=_unmount,
        tidy=_make_room,
        ends={"alone": PASSED},
        needs="mount",
    ),
    Fault(
        name="conftest-error",
        title="an ImportError in `conftest.py`",
        files={"conftest.py": "import no_such_module\n"},
        ends=_at_start(4, "conftest.error", source="exception"),
    ),
    Fault(
        name="bad-option",
        title="an unknown option",
        args=("--no-such-option",),
        ends=_at_start(4, "usage.error", source="exception"),
    ),
    Fault(
        name="typo",
        title="`-p typo`, after our plugin is loaded",
        args=("-p", "no_such_plugin"),
        ends=_at_start(4, "plugin.error", source="exception"),
        needs="pytest 9.2",
    ),
    Fault(
        name="typo-first",
        title="`-p typo`, before our plugin is loaded",
        args_before=("-p", "no_such_plugin"),
        ends={
            "alone": End(status=4, source="earlier"),
            "run": End(
                status=4,
                kind="plugin.error",
                is_likely=True,
                source=SECOND,
            ),
            "run-n2": End(
                status=4,
                kind="plugin.error",
                is_likely=True,
                source=SECOND,
            ),
            "unwatched": End(
                status=4,
                kind="exit_status.changed",
                reason="INTERNAL_ERROR",
                source=SECOND,
                completeness="full",
                passed=1,
            ),
        },
        needs="pytest 9.2",
        note="pytest ends before it loads the plugin: remove an earlier report first, or use `run`.",
    ),
    Fault(
        name="syntax-error",
        title="a SyntaxError in the test file",
        head="def test_x(:",
        ends={
            "alone": End(status=2, kind="collection.error", on="", errors=1),
            "x": End(status=1, kind="collection.error", on="", errors=1),
            "n2": End(status=1, kind="collection.error", on="", errors=1),
        },
    ),
    Fault(
        name="no-tests",
        title="no test",
        files={"test_it.py": "import os\n"},
        ends=_at_start(5, "tests.none_collected"),
    ),
    Fault(
        name="collect-exit",
        title="`os._exit(3)` while collecting",
        head="os._exit(3)",
        xdist_args=("--max-worker-restart=1",),
        ends={
            "alone": End(status=3, kind="process.exited", on="", source=SECOND),
            "n2": End(status=5, kind="worker.crashed", on=""),
        },
    ),
    Fault(
        name="collect-crash",
        title="a segmentation fault while collecting",
        head=CRASH,
        xdist_args=("--max-worker-restart=1",),
        ends={
            "alone": End(status=-11, kind="process.crashed", on="", source=SECOND),
            "n2": End(status=5, kind="worker.crashed", on=""),
        },
    ),
    Fault(
        name="conftest-exit",
        title="`os._exit(3)` in `conftest.py`",
        files={"conftest.py": "import os\nos._exit(3)\n"},
        ends=_at_start(3, "process.exited", on="conftest.py", source=SECOND),
    ),
    Fault(
        name="conftest-crash",
        title="a segmentation fault in `conftest.py`",
        files={"conftest.py": f"{CRASH}\n"},
        ends=_at_start(-11, "process.crashed", on="conftest.py", source=SECOND),
    ),
    Fault(
        name="logfinish-raises",
        title="`pytest_runtest_logfinish` raises",
        files=_hook(
            "pytest_runtest_logfinish",
            "nodeid",
            "assert 'test_b' not in nodeid, 'broken hook'",
        ),
        ends={
            "alone": _died(
                3,
                "internal.error",
                source="pytest",
                on=None,
                passed=2,
                in_flight="teardown",
            ),
            "n2": _died_on_workers(
                3,
                "internal.error",
                source="pytest",
                on=None,
                passed=3,
                in_flight="teardown",
            ),
        },
    ),
    Fault(
        name="sessionfinish-raises",
        title="`pytest_sessionfinish` raises",
        files=_hook("pytest_sessionfinish", "", "raise RuntimeError('broken hook')"),
        ends={"alone": _went_on(1, "plugin.error", source="exception")},
    ),
    Fault(
        name="sessionfinish-crash",
        title="a segmentation fault in `pytest_sessionfinish`",
        files=_hook("pytest_sessionfinish", "", CRASH),
        ends={"alone": _went_on(-11, "process.crashed", source=SECOND)},
    ),
    Fault(
        name="unconfigure-exit",
        title="`os._exit(0)` in `pytest_unconfigure`",
        files=_hook("pytest_unconfigure", "", "os._exit(0)"),
        ends={"alone": _went_on(0, "process.exited", source=SECOND)},
    ),
    Fault(
        name="teardown-crash",
        title="a segmentation fault in a fixture's teardown",
        head=f"@pytest.fixture\ndef deadly():\n    yield\n    {CRASH}\n",
        fixtures="deadly",
        ends={
            "alone": _died(-11, "process.crashed", passed=2, in_flight="teardown"),
            "n2": _worker_died("SIGSEGV", passed=3),
        },
    ),
    Fault(
        name="kill-parent",
        title="the test kills the process that started it",
        body="os.kill(os.getppid(), 9)\ntime.sleep(60 if IS_WORKER else 0.2)",
        around=("sh", "-c", '"$@"; exit $?', "sh"),
        ends={
            "alone": _went_on(-9, None, code=0),
            "run": replace(KILLED, status=137, source="finalize"),
            "n2": replace(KILLED_ON_WORKERS, status=137),
            "unwatched": _went_on(
                -9,
                "process.killed",
                is_likely=True,
                ambiguous=_KILLED_BY,
                source="finalize",
                completeness="full",
            ),
        },
        needs="told",
        note="If a shell started pytest, pytest goes on and passes. If `run` "
        "started it, pytest dies with its supervisor.",
    ),
    Fault(
        name="child-crash",
        title="a segmentation fault in a `multiprocessing` child",
        body="import ctypes, multiprocessing\n"
        "child = multiprocessing.get_context('fork').Process(target=ctypes.string_at, args=(0,))\n"
        "child.start()\nchild.join()",
        ends={"alone": PASSED},
    ),
    *(
        Fault(
            name=f"outside-{number.name[3:].lower()}",
            title=f"{number.name} from outside",
            body=SLEEP,
            sends=number,
            ends={"alone": alone, "n2": on_workers},
        )
        for number, alone, on_workers in (
            (
                signal.SIGTERM,
                _died(-15, "process.terminated"),
                _died_on_workers(-15, "process.terminated"),
            ),
            (signal.SIGKILL, KILLED, KILLED_ON_WORKERS),
            (
                signal.SIGINT,
                _died(2, "interrupt.keyboard", source="pytest"),
                _died_on_workers(2, "interrupt.keyboard", source="pytest"),
            ),
            (
                signal.SIGHUP,
                _died(-1, "process.terminated"),
                _died_on_workers(-1, "process.terminated"),
            ),
        )
    ),
    Fault(
        name="stalled-term",
        title="a deadlock in the test; SIGTERM from outside",
        body=DEADLOCK,
        ini=STALL_SOON,
        sends=signal.SIGTERM,
        sends_after_stall=True,
        ends=_stalled(-15, "process.terminated"),
        note=_NOBODY_LOOKED,
    ),
    Fault(
        name="stalled-kill",
        title="a deadlock in the test; SIGKILL from outside",
        body=DEADLOCK,
        ini=STALL_SOON,
        sends=signal.SIGKILL,
        sends_after_stall=True,
        ends=_stalled(-9, "process.killed"),
    ),
    Fault(
        name="stalled-stop",
        title="a stopped process (SIGSTOP); SIGKILL from outside",
        body="tell('ready')\nos.kill(os.getpid(), signal.SIGSTOP)",
        ini=STALL_SOON,
        sends=signal.SIGKILL,
        sends_after_stall=True,
        ends=_stalled(-9, "process.killed"),
    ),
)

"""Run one cell of the fault matrix: bring a death about, and watch the report all the while."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.helpers import warm_pytest
from tests.helpers.children import child_environment
from tests.helpers.faults import BUDGET, CLEAN_UP, Configuration, Fault
from tests.helpers.reports import make_context, make_report, make_run

DEADLINE_SECONDS: Final = 90.0
"""For one run; most take half a second, a machine that does other things, too, takes longer."""
LINGER_SECONDS: Final = 15.0
"""How long anything of ours may outlive the run; 5 ms is what it takes where nothing else runs."""
POLL_SECONDS: Final = 0.005
BUDGETS: Final = (2, 6, 20)
"""Seconds for a limit around the run, which has to come as far as the second test: where it did
not, the run is made again with the next."""

REPORT: Final = "out/report.json"
EARLIER_ID: Final = "e" * 32

_PYTEST: Final = ("-m", "pytest", "-p", "no:cacheprovider")
_PYTEST_WITH_FORKS: Final = (warm_pytest.__file__, "pytest", "-p", "no:cacheprovider")
"""The same, whose workers are forked before it begins, and live and die as its children all the
same. Each would take as long to import pytest as the rest of a cell takes."""
_OURS: Final = ("-p", "pytest_failure_taxonomy.plugin")
_RUN: Final = (
    sys.executable,
    "-m",
    "pytest_failure_taxonomy",
    "run",
    "--report",
    REPORT,
    "--",
)
_NO_CORE: Final = ("sh", "-c", 'ulimit -c 0; exec "$@"', "sh")

_IS_OURS: Final = "pytest_failure_taxonomy run|-m pytest "
_IS_FORKED: Final = "warm_pytest.py pytest "
"""In the command line of a controller, and in those of its workers."""

_SYNC: Final = '''\
"""Keep the tests of two workers in step, and tell the outside how far they are."""

import os
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("sync")
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_logfinish(nodeid):
    try:
        return (yield)
    finally:
        if not IS_WORKER:
            tell(nodeid.rpartition("::")[2])


def tell(name, text=""):
    temporary = FOLDER / f"{name}.tmp"
    temporary.write_text(text)
    temporary.rename(FOLDER / name)


def begin():
    """Wait until the controller has heard of the other two; then the second test may begin."""
    while IS_WORKER and not ((FOLDER / "test_a").exists() and (FOLDER / "test_c").exists()):
        time.sleep(0.002)
    controller = os.getppid() if IS_WORKER else os.getpid()
    tell("begun", str(controller))
'''

_TESTS: Final = """\
import os, signal, sys, time
import pytest
from sync import IS_WORKER, begin, tell
{head}

def test_a():
    pass

{decoration}
def test_b({fixtures}):
    begin()
    {body}

def test_c():
    {third}
"""


@dataclass(kw_only=True, slots=True)
class Outcome:
    """What came of one cell."""

    folder: Path
    """The project's."""
    status: int | None = None
    """The caller's, as `subprocess` has it; `None` where the run did not end."""
    seen: list[bytes] = field(default_factory=list)
    """Each content that the report had, from before the start to the end, in order; `b""` where
    there was no file."""
    left_over: list[str] = field(default_factory=list)
    """Command lines of processes of ours that outlived the run."""
    finalize: int | None = None
    """Exit code of `finalize`, where it had to complete the report."""
    stdout: str = ""
    stderr: str = ""
    begun: bool = False
    """The second test has begun."""
    files: set[str] = field(default_factory=set)
    """Names of the files in the project at the end."""

    @property
    def left(self) -> dict[str, Any]:
        """The report as the run has left it."""
        return self._parsed(-1 if self.finalize is None else -2)

    @property
    def last(self) -> dict[str, Any]:
        """The report at the very end."""
        return self._parsed(-1)

    @property
    def code(self) -> int:
        """The caller's exit code, as a shell shows it."""
        assert self.status is not None
        return 128 - self.status if self.status < 0 else self.status

    def _parsed(self, index: int) -> dict[str, Any]:
        report: dict[str, Any] = (
            json.loads(self.seen[index]) if self.seen[index] else {}
        )
        return report


def run_fault(folder: Path, fault: Fault, configuration: Configuration) -> Outcome:
    """Run a fault in a configuration, again with more time where a limit came too early."""
    for budget in BUDGETS:
        outcome = Cell(folder / str(budget), fault, configuration, budget).run()
        if outcome.begun or BUDGET not in fault.around:
            break
    return outcome


class Cell:
    """One run of a fault, in a folder of its own."""

    def __init__(
        self, folder: Path, fault: Fault, configuration: Configuration, budget: int
    ) -> None:
        self._folder = folder / "project"
        self._fault = fault
        self._configuration = configuration
        self._budget = budget
        self._report = self._folder / REPORT
        self._sync = self._folder / "sync"
        self._process: subprocess.Popen[bytes]
        self._outcome = Outcome(folder=self._folder)
        self._sent = False
        self._streams = folder / "stdout", folder / "stderr"

    def run(self) -> Outcome:
        """Bring the death about, and return what came of it."""
        self._write_project()
        try:
            self._fault.prepare(self._folder)
            self._run()
            self._finalize()
            self._fault.tidy(self._folder)
            self._outcome.files = self._files()
        finally:
            self._end_what_the_fault_left()
            self._fault.clean_up(self._folder)
        self._outcome.stdout, self._outcome.stderr = (
            path.read_text("utf-8", "replace") if path.exists() else ""
            for path in self._streams
        )
        self._outcome.begun = (self._sync / "begun").exists()
        return self._outcome

    def _write_project(self) -> None:
        fault = self._fault
        for folder in (self._sync, self._report.parent, self._folder / "tmp"):
            folder.mkdir(parents=True)
        files = {
            "pytest.ini": "[pytest]\n" + fault.ini,
            "sync.py": _SYNC,
            "test_it.py": _TESTS.format(
                head=fault.head,
                decoration=fault.decoration,
                fixtures=fault.fixtures,
                body=fault.body.replace("\n", "\n    "),
                third=fault.third,
            ),
            **fault.files,
        }
        for name, content in files.items():
            (self._folder / name).write_text(content, "utf-8")

    def _run(self) -> None:
        # The earlier report stands there before the run, wherever that is.
        earlier = make_report(make_run(), context=make_context(id=EARLIER_ID))
        self._report.write_text(json.dumps(earlier), "utf-8")
        places = (os.devnull, os.devnull) if self._fault.is_silent else self._streams
        with open(places[0], "wb") as stdout, open(places[1], "wb") as stderr:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            ended = self._wait(DEADLINE_SECONDS, self._has_ended)
            self._wait(LINGER_SECONDS, lambda: not self._ours())
            self._outcome.left_over = [_command_line(each) for each in self._ours()]
        finally:
            # Not waited for before now: while the process is a zombie nobody else has its number,
            # and how it ended can be seen on every kernel.
            for process_id in (*self._ours(), *self._of_the_session()):
                with suppress(ProcessLookupError):
                    os.kill(process_id, signal.SIGKILL)
            status = self._process.wait()
        self._outcome.status = status if ended else None

    def _command(self) -> Sequence[str]:
        fault, configuration = self._fault, self._configuration
        on_workers = configuration.on_workers
        plugins = [*(["xdist.plugin"] if on_workers else []), *fault.plugins, "sync"]
        args = [
            *fault.args_before,
            *(_OURS if configuration.has_plugin else ()),
            *(part for name in plugins for part in ("-p", name)),
            *configuration.args,
            *fault.args,
            *(fault.xdist_args if on_workers else ()),
        ]
        if configuration.has_plugin and not configuration.supervised:
            args.append(f"--failure-taxonomy-report={REPORT}")
        return [
            *_NO_CORE,
            *(word.replace(BUDGET, str(self._budget)) for word in fault.around),
            *(_RUN if configuration.supervised else ()),
            sys.executable,
            *(_PYTEST_WITH_FORKS if self._has_forks else _PYTEST),
            *args,
        ]

    @property
    def _has_forks(self) -> bool:
        """Workers are forks. `run` looks at the command where nothing of ours is loaded by it."""
        return (
            warm_pytest.Switch.is_on
            and self._configuration.on_workers
            and not self._fault.args_before
        )

    def _environment(self) -> dict[str, str]:
        return child_environment({"TMPDIR": str(self._folder / "tmp")})

    def _wait(self, seconds: float, is_over: Any) -> bool:
        """Look at the report until something is over; tell whether it is."""
        deadline = time.monotonic() + seconds
        while not is_over():
            self._look()
            self._act()
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        self._look()
        return True

    def _look(self) -> None:
        try:
            content = self._report.read_bytes()
        except OSError:
            content = b""
        seen = self._outcome.seen
        if not seen or seen[-1] != content:
            seen.append(content)

    def _act(self) -> None:
        """Send the signal that the fault is, once the second test is in the middle of it."""
        fault = self._fault
        if fault.sends is None or self._sent or not (self._sync / "ready").exists():
            return
        if fault.sends_after_session and not self._session_is_over():
            return
        if (
            fault.sends_after_stall
            and self._looks_for_stalls
            and not self._has_told_of_stall()
        ):
            return
        target = self._process.pid
        if fault.sends == signal.SIGKILL and self._configuration.supervised:
            target = int((self._sync / "begun").read_text())  # pytest itself
        self._sent = True
        os.kill(target, fault.sends)

    def _session_is_over(self) -> bool:
        if not self._configuration.has_plugin:
            return b" in " in self._streams[0].read_bytes()
        return b'"completeness": "full"' in self._outcome.seen[-1] and (
            EARLIER_ID.encode() not in self._outcome.seen[-1]
        )

    @property
    def _looks_for_stalls(self) -> bool:
        return self._configuration.second in ("watcher", "supervisor")

    def _has_told_of_stall(self) -> bool:
        return (
            re.search(
                rb'"stall": ?{"state": ?"(blocked|frozen)"', self._outcome.seen[-1]
            )
            is not None
        )

    def _has_ended(self) -> bool:
        flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
        return os.waitid(os.P_PID, self._process.pid, flags) is not None

    def _ours(self) -> list[int]:
        """Return what is left of us: a watcher, a supervisor, a pytest that should have ended.

        xdist's workers outlive their controller for seconds, with our plugin or without.
        """
        begun = self._sync / "begun"
        pytests = {int(begun.read_text())} if begun.exists() else set()
        other = _IS_OURS if pytests else f"{_IS_OURS}|{_IS_FORKED}"
        session = set(self._of_the_session())
        lines = {
            process_id: _command_line(process_id) for process_id, _, _ in _processes()
        }
        return [
            process_id
            for process_id, line in lines.items()
            if ("watcher.py" in line and str(self._report) in line)
            or (
                process_id in session
                and (process_id in pytests or re.search(other, line))
            )
        ]

    def _of_the_session(self) -> list[int]:
        """Return the processes of the run that still are."""
        return [
            process_id
            for process_id, state, session in _processes()
            if session == self._process.pid and state not in "ZX"
        ]

    def _finalize(self) -> None:
        """Do what a CI job does last: have the report completed, if it still has to be."""
        outcome = self._outcome
        if outcome.status is None or not self._configuration.has_plugin:
            return
        is_asked = self._configuration.second == "finalize"
        if not is_asked and outcome.left.get("completeness") != "running":
            return
        command = (sys.executable, "-m", "pytest_failure_taxonomy", "finalize")
        done = subprocess.run(
            [*command, "--exit-code", str(outcome.code), REPORT],
            cwd=self._folder,
            env=self._environment(),
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        outcome.finalize = done.returncode
        outcome.seen.append(self._report.read_bytes() if self._report.exists() else b"")

    def _files(self) -> set[str]:
        found = (path for path in self._folder.rglob("*") if not path.is_dir())
        return {str(path.relative_to(self._folder)) for path in found}

    def _end_what_the_fault_left(self) -> None:
        """End the processes that the fault has left behind on purpose; it wrote their numbers."""
        left = self._sync / CLEAN_UP
        if left.exists():
            with suppress(ProcessLookupError):
                os.kill(int(left.read_text()), signal.SIGKILL)


def _processes() -> Iterator[tuple[int, str, int]]:
    """Yield number, state and session of each process."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with suppress(OSError, IndexError, ValueError):
            stat = Path("/proc", entry, "stat").read_text("utf-8", "replace")
            fields = stat.rpartition(") ")[2].split()
            yield int(entry), fields[0], int(fields[3])


def _command_line(process_id: int) -> str:
    with suppress(OSError):
        words = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
        return " ".join(word.decode("utf-8", "replace") for word in words)
    return ""

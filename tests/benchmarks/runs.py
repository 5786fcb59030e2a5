"""One pytest run in a process of its own: what it cost, and that it did what it should."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from .suites import Suite
from .variants import Outcomes, Variant

RUN_LIMIT_SECONDS = 300.0
POLL_SECONDS = 0.005
PR_SET_CHILD_SUBREAPER = 36
KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


class BrokenRunError(Exception):
    """A pytest run did not do what was to be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one run took.

    The CPU time covers pytest and every process it left behind (a watcher, say); the peak
    resident memory is that of the biggest single process.
    """

    cpu_seconds: float
    peak_kib: float


def adopt_orphans() -> None:
    """Make processes that a run leaves behind children of this one, so that their CPU counts.

    Linux only; elsewhere such processes are not seen.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_pytest(variant: Variant, suite: Suite, workplace: Path) -> Usage:
    """Run pytest once and return its cost.

    Args:
        variant: The plugins and options.
        suite: The tests to run.
        workplace: A folder for bytecode caches and for the run's working folder, which is
            emptied first.

    Returns:
        CPU time in seconds (user and system) and peak memory in KiB.

    Raises:
        BrokenRunError: If the exit code, the artifact or the number of tests in it is wrong.
    """
    folder = workplace / "cwd"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    artifact = folder / "artifact"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-c", str(suite.folder / "pytest.ini"), f"--rootdir={suite.folder}"]
    command += [*variant.arguments(artifact), str(suite.folder)]
    environment = _environment(variant, workplace)
    exit_code, usage = _measure(command, folder, environment)
    if exit_code != suite.exit_code:
        again = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        raise BrokenRunError(
            f"{variant.name}: pytest ended with {exit_code}, expected {suite.exit_code}:"
            f" {' '.join(command)}\n{again.stdout[-2000:]}{again.stderr[-2000:]}"
        )
    _check_artifact(variant, suite, artifact)
    return usage


def _environment(variant: Variant, workplace: Path) -> dict[str, str]:
    """Return a small, fixed environment: no settings of Python, pytest or CI leak in."""
    environment = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    environment |= {
        "HOME": str(workplace),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONPYCACHEPREFIX": str(workplace / "bytecode"),
    }
    if not variant.autoload:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return environment


def _measure(
    command: list[str], folder: Path, environment: dict[str, str]
) -> tuple[int, Usage]:
    """Run a command, wait for it and for what it leaves behind, and add up the usage."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=quiet, stdout=quiet, stderr=quiet
    )
    deadline = time.monotonic() + RUN_LIMIT_SECONDS
    cpu_seconds, peak = 0.0, 0
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            if time.monotonic() > deadline:
                process.kill()
                raise BrokenRunError(f"not done in {RUN_LIMIT_SECONDS} s: {' '.join(command)}")
            time.sleep(POLL_SECONDS)
            continue
        cpu_seconds += usage.ru_utime + usage.ru_stime
        peak = max(peak, usage.ru_maxrss)
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
    peak_kib = peak / 1024 if sys.platform == "darwin" else peak  # macOS counts bytes
    return process.returncode, Usage(cpu_seconds=cpu_seconds, peak_kib=peak_kib)


def _check_artifact(variant: Variant, suite: Suite, artifact: Path) -> None:
    """Check that a run wrote its artifact with the right outcomes, or nothing where it must not."""
    if variant.count is None:
        litter = sorted(path.name for path in artifact.parent.iterdir())
        if litter:
            raise BrokenRunError(f"{variant.name}: wrote {litter}; no file was asked for")
        return
    if not artifact.exists():
        raise BrokenRunError(f"{variant.name}: wrote no artifact")
    failed = suite.tests if suite.is_failing else 0
    expected = Outcomes(passed=suite.tests - failed, failed=failed)
    found = variant.count(artifact)
    if found != expected:
        raise BrokenRunError(f"{variant.name}: the artifact says {found}, the suite {expected}")

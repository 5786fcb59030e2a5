"""One pytest run in a process of its own: what it cost, and that it did what it should."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from .variants import Outcomes

if TYPE_CHECKING:
    from pathlib import Path

    from .suites import Suite
    from .variants import Variant

RUN_LIMIT_SECONDS = 300.0
POLL_SECONDS = 0.005
OUTPUT_TAIL_CHARACTERS = 2_000
PR_SET_CHILD_SUBREAPER = 36
KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH")


class BrokenRunError(Exception):
    """A pytest run did not do what was to be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one run took.

    The CPU time, user and system, is that of pytest and of every process it started or left
    behind (a watcher, say); the peak resident memory is that of the biggest of them.
    """

    segment_seconds: tuple[float, ...]
    """The CPU time, cut at the marks of the suite; the last segment ends with the process."""
    peak_kib: float


def adopt_orphans() -> None:
    """Make processes that a run leaves behind children of this one, so that they count.

    Linux only; elsewhere they are not seen.
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
        CPU time in seconds and peak memory in KiB.

    Raises:
        BrokenRunError: If the exit code, the artifact or the number of tests is wrong.
    """
    folder = workplace / "cwd"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    suite.stamps.unlink(missing_ok=True)
    artifact = folder / "artifact"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-c", str(suite.folder / "pytest.ini"), f"--rootdir={suite.folder}"]
    command += [*variant.arguments(artifact), str(suite.folder)]
    environment = _environment(variant, workplace)
    exit_code, cpu_seconds, peak_kib = _spend(command, folder, environment)
    if exit_code != suite.exit_code:
        again = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        raise BrokenRunError(
            f"{variant.name}: pytest ended with {exit_code} instead of {suite.exit_code}:"
            f" {' '.join(command)}\n{(again.stdout + again.stderr)[-OUTPUT_TAIL_CHARACTERS:]}"
        )
    _check_artifact(variant, suite, artifact)
    marks = [
        0.0,
        *(int(stamp) / 1e9 for stamp in suite.stamps.read_text().split()),
        cpu_seconds,
    ]
    segments = tuple(end - start for start, end in pairwise(marks))
    return Usage(segment_seconds=segments, peak_kib=peak_kib)


def _environment(variant: Variant, workplace: Path) -> dict[str, str]:
    """Return a small, fixed environment: no setting of Python, pytest or a CI leaks in."""
    environment = {
        name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ
    }
    environment |= {
        "HOME": str(workplace),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONPYCACHEPREFIX": str(workplace / "bytecode"),
    }
    if not variant.autoload:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return environment


def _spend(
    command: list[str], folder: Path, environment: dict[str, str]
) -> tuple[int, float, float]:
    """Run a command to its end and that of what it leaves behind.

    Returns:
        The exit code, the CPU time in seconds and the peak memory in KiB.
    """
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
    )
    deadline = time.monotonic() + RUN_LIMIT_SECONDS
    cpu_seconds, peak = 0.0, 0
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:  # no child is left
            break
        if pid:
            cpu_seconds += usage.ru_utime + usage.ru_stime
            peak = max(peak, usage.ru_maxrss)
            if pid == process.pid:
                process.returncode = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            process.kill()
            raise BrokenRunError(
                f"not over after {RUN_LIMIT_SECONDS:.0f} s: {' '.join(command)}"
            )
        else:
            time.sleep(POLL_SECONDS)
    if peak <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
        raise BrokenRunError("the benchmark takes more memory than what it measures")
    return (
        process.returncode,
        cpu_seconds,
        peak / 1024 if sys.platform == "darwin" else peak,
    )


def _check_artifact(variant: Variant, suite: Suite, artifact: Path) -> None:
    """Check that a run wrote the right outcomes, and nothing where nothing was asked for."""
    if variant.count is None:
        if litter := sorted(path.name for path in artifact.parent.iterdir()):
            raise BrokenRunError(
                f"{variant.name}: no file was asked for, {litter} was written"
            )
        return
    if not artifact.exists():
        raise BrokenRunError(f"{variant.name}: no artifact was written")
    failed = suite.tests if suite.is_failing else 0
    expected = Outcomes(passed=suite.tests - failed, failed=failed)
    if (found := variant.count(artifact)) != expected:
        raise BrokenRunError(
            f"{variant.name}: the artifact says {found} instead of {expected}"
        )

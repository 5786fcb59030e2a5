"""Any command in a process of its own, again and again, and what it cost."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from .estimates import Figure, estimate
from .runs import (
    KEPT_ENVIRONMENT,
    OUTPUT_TAIL_CHARACTERS,
    RUN_LIMIT_SECONDS,
    BrokenRunError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one run took, every process included that it started or left behind."""

    cpu_seconds: float
    """User and system."""
    wall_seconds: float
    """From the start to the end of the process itself."""
    peak_kib: float
    """The peak resident memory of the biggest process, or of this one where that is bigger."""


def spend(command: Sequence[str], folder: Path, *, exit_code: int = 0) -> Spent:
    """Run a command to its end and that of what it leaves behind.

    Args:
        command: Its arguments are passed on as they are.
        folder: Where it runs.
        exit_code: What it has to end with.

    Raises:
        BrokenRunError: If it ended otherwise, or not in time.
    """
    environment = {
        name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ
    }
    environment |= {"HOME": str(folder), "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    output = folder / ".output"
    with output.open("wb") as file:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
        limit = threading.Timer(RUN_LIMIT_SECONDS, process.kill)
        limit.start()
        try:
            spent = _wait(process, began)
        finally:
            limit.cancel()
    if process.returncode != exit_code:
        tail = output.read_text(encoding="utf-8", errors="replace")[
            -OUTPUT_TAIL_CHARACTERS:
        ]
        raise BrokenRunError(
            f"ended with {process.returncode} instead of {exit_code}: {' '.join(command)}\n{tail}"
        )
    return spent


def _wait(process: subprocess.Popen[bytes], began: float) -> Spent:
    """Wait for a process and for all that it leaves behind."""
    cpu_seconds, wall_seconds, peak = 0.0, 0.0, 0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:  # no child is left
            break
        cpu_seconds += usage.ru_utime + usage.ru_stime
        peak = max(peak, usage.ru_maxrss)
        if pid == process.pid:
            wall_seconds = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
    return Spent(
        cpu_seconds=cpu_seconds,
        wall_seconds=wall_seconds,
        peak_kib=peak / 1024 if sys.platform == "darwin" else peak,
    )


def take_turns(
    runs: Mapping[Key, Callable[[], Spent]], rounds: int
) -> dict[Key, list[Spent]]:
    """Run everything once to warm up, then round-robin, each round from another one on."""
    for run in runs.values():
        run()
    spent: dict[Key, list[Spent]] = {key: [] for key in runs}
    keys = list(runs)
    for index in range(rounds):
        sys.stderr.write(f"round {index + 1} of {rounds}, {len(keys)} runs each\n")
        first = index % len(keys)
        for key in (*keys[first:], *keys[:first]):
            spent[key].append(runs[key]())
    return spent


def median_of(rounds: Sequence[float]) -> Figure:
    """Return the median of one number a round, and its standard error."""
    return estimate(
        lambda chosen: statistics.median(rounds[index] for index in chosen), len(rounds)
    )


def slope_of(
    small: Sequence[Spent],
    large: Sequence[Spent],
    cases: float,
    cost: Callable[[Spent], float],
) -> Figure:
    """Return what one more case costs; what does not depend on their number cancels out.

    Args:
        small: A run with fewer cases, once a round.
        large: A run with more of them.
        cases: How many more, in the unit of the figure: thousands for one in thousandths.
        cost: Reads the cost from a run.
    """
    pairs = zip(small, large, strict=True)
    return median_of([(cost(more) - cost(fewer)) / cases for fewer, more in pairs])


def peak_kib(spent: Spent) -> float:
    """Return the peak memory of a run, in KiB.

    Raises:
        BrokenRunError: If this process takes more: one that it starts takes over its peak.
    """
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if spent.peak_kib <= (own / 1024 if sys.platform == "darwin" else own):
        raise BrokenRunError("the benchmark takes more memory than what it measures")
    return spent.peak_kib


def cpu(spent: Spent) -> float:
    """Return the CPU time of a run, in seconds."""
    return spent.cpu_seconds


def wall(spent: Spent) -> float:
    """Return how long a run took, in seconds."""
    return spent.wall_seconds

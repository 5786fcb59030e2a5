"""Print how long the search of logs for reasons takes, of ordinary ones and of the worst repetitions.

    python -m tests.benchmarks.logs [--size 1000000] [--units 200] [--seed 1]

Ordinary are the output of installers and of pytest, and lines of errors. The worst are made of the
pieces of the search's own patterns: alone on each line or repeated in long ones, at the start and
in the middle of something. `--units 0` tries all of them, which takes an hour. Figures are CPU
seconds for a million bytes, the least of three runs, and the most memory that was taken; an
environment with other work makes the seconds more.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pytest_failure_taxonomy.logs.log_answer import classify_log
from pytest_failure_taxonomy.logs.log_lines import CHUNK_BYTES
from tests.helpers.adversarial_logs import CONTEXTS, LINE_LENGTHS, repeated, units

_INSTALLERS: Final = """\
Collecting requests==2.31.0
  Downloading requests-2.31.0-py3-none-any.whl (62 kB)
     \u2501\u2501\u2501\u2501\u2501\u2501\u2501\u2501\u2501\u2501 62.6/62.6 kB 3.2 MB/s eta 0:00:00
Requirement already satisfied: idna<4,>=2.5 in /usr/lib/python3/dist-packages (3.4)
npm http fetch GET 200 https://registry.npmjs.org/left-pad 35ms (cache miss)
npm warn deprecated inflight@1.0.6: This module is not supported, and leaks memory.
added 312 packages, and audited 313 packages in 9s
Get:12 http://archive.ubuntu.com/ubuntu jammy/main amd64 libc6-dev amd64 2.35 [2,100 kB]
Unpacking libc6-dev (2.35-0ubuntu3) ...
Setting up libc6-dev (2.35-0ubuntu3) ...
"""
_STAMP: Final = "2026-01-01T00:00:00.0000000Z "
_SHOWN: Final = 10
_SMALL: Final = 30_000


def _errors(count: int) -> Iterator[str]:
    for number in range(count):
        yield f"ERROR: something went wrong in step {number}: connection refused\n"


def _verbose_pytest(size: int) -> Iterator[str]:
    yield f"{_STAMP}{' test session starts ':=^80}\n{_STAMP}collected 50000 items\n"
    for number in range(size // 101):
        nodeid = f"tests/unit/test_mod_{number // 50}.py::test_something_{number}"
        yield f"{_STAMP}{nodeid}[param-{number % 7}] PASSED [ {number % 90 + 10}%]\n"
    yield f"{_STAMP}{' 50000 passed in 12.00s ':=^80}\n"


def texts() -> Mapping[str, Iterable[str]]:
    """Return what is measured by name, in pieces."""
    return {
        "pip, npm and apt, 10 MB": [_INSTALLERS] * (10_000_000 // len(_INSTALLERS)),
        "verbose pytest with time stamps, 5 MB": _verbose_pytest(5_000_000),
        "100,000 lines of errors": _errors(100_000),
        "1,000,000 lines of errors": _errors(1_000_000),
        "20 MB on one line": ["an error: x "] * (20_000_000 // 12),
        "1,000,000 blank lines": ["\n"] * 1_000_000,
    }


def chunks_of(pieces: Iterable[str]) -> list[bytes]:
    """Return texts in chunks, as they are read from a file."""
    raw = "".join(pieces).encode()
    return [
        raw[start : start + CHUNK_BYTES] for start in range(0, len(raw), CHUNK_BYTES)
    ]


def seconds_of(chunks: list[bytes], rounds: int = 1) -> float:
    """Return the least CPU seconds of a search for a million bytes."""
    least = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        classify_log(iter(chunks), name="log", exit_code=1)
        least = min(least, time.process_time() - began)
    return least / sum(map(len, chunks)) * 1e6


def peak_of(chunks: list[bytes]) -> float:
    """Return the megabytes that a search takes beside the chunks."""
    tracemalloc.start()
    try:
        classify_log(iter(chunks), name="log", exit_code=1)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def worst(number: int, size: int, seed: int) -> list[tuple[float, str]]:
    """Return the repetitions that take longest, the worst first: found small, measured large."""
    cases = [
        (unit, context, length)
        for unit in units()
        for context in CONTEXTS
        for length in LINE_LENGTHS
    ]
    random.Random(seed).shuffle(cases)  # noqa: S311  the same ones each time, no secrets
    small = []
    for case in cases[: number or None]:
        unit, context, length = case
        raw = repeated(unit, context, LINE_LENGTHS[length], _SMALL)
        small.append((seconds_of([raw]), case))
    found = []
    for _, (unit, context, length) in sorted(small, reverse=True)[: 2 * _SHOWN]:
        raw = repeated(unit, context, LINE_LENGTHS[length], size)
        found.append((seconds_of([raw], 3), f"{unit!r}, {length}, {context}"))
    return sorted(found, reverse=True)[:_SHOWN]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    classify_log([b"an error: x\n"], name="log")  # expressions are compiled once
    for name, pieces in texts().items():
        chunks = chunks_of(pieces)
        seconds, peak = seconds_of(chunks, 3), peak_of(chunks)
        sys.stdout.write(f"{name}: {seconds:.3f} s a million, {peak:.1f} MB\n")
        sys.stdout.flush()
    for seconds, name in worst(options.units, options.size, options.seed):
        sys.stdout.write(f"{seconds:.3f} s a million: {name}\n")


if __name__ == "__main__":
    main()

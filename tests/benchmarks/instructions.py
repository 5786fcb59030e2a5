"""`instructions`: what a test costs in instructions, which no other work on the machine changes.

It needs valgrind, under which everything takes fifty times as long; so it is measured only when
asked for. Python's collector of cyclic garbage is off: one of its rare big collections more would
be taken for the cost of the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from .estimates import Figure
from .measures import Column, Table
from .runs import KEPT_ENVIRONMENT, OUTPUT_TAIL_CHARACTERS, BrokenRunError
from .suites import Suite, write_suite
from .variants import AGAIN, PLAIN, Variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .measures import Bench

PASSING = (50, 550)
FAILING = (20, 120)
"""Tests of the two suites whose difference is measured."""
PROGRAM = "import gc, sys, pytest; gc.disable(); sys.exit(pytest.main(sys.argv[1:]))"
COUNT = re.compile(r"Collected : (\d+)")


def measure_instructions(bench: Bench) -> list[Table]:
    """Count the instructions that one more passing test takes, and one more failing test."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise BrokenRunError(
            "valgrind is not installed here, and instructions are counted by it"
        )
    variants = [each for each in bench.variants if each != AGAIN]
    columns = [
        _slopes(bench, variants, sizes, is_failing=is_failing, valgrind=valgrind)
        for sizes, is_failing in ((PASSING, False), (FAILING, True))
    ]
    return [Table(title="Instructions, in thousands", columns=tuple(columns))]


def _slopes(
    bench: Bench,
    variants: Sequence[Variant],
    sizes: tuple[int, int],
    *,
    is_failing: bool,
    valgrind: str,
) -> Column:
    small, big = (
        write_suite(bench.workplace, tests=size, is_failing=is_failing)
        for size in sizes
    )
    costs = {}
    for variant in variants:
        counts = [_count(bench, variant, suite, valgrind) for suite in (small, big)]
        costs[variant.name] = (counts[1] - counts[0]) / (big.tests - small.tests) / 1e3
    plain = costs[PLAIN.name]
    return Column(
        heading=f"a {'failing' if is_failing else 'passing'} test",
        figures={
            name: Figure(value=cost if name == PLAIN.name else cost - plain, error=0)
            for name, cost in costs.items()
        },
    )


def _count(bench: Bench, variant: Variant, suite: Suite, valgrind: str) -> int:
    """Run the suite once to fill the caches of bytecode, and once to count."""
    artifact = bench.workplace / "artifact"
    command = [sys.executable, "-c", PROGRAM, "-q", "-p", "no:cacheprovider"]
    command += variant.arguments(artifact)
    _run(command, suite)
    tool = [valgrind, "--tool=callgrind", f"--callgrind-out-file={os.devnull}"]
    found = COUNT.search(_run([*tool, *command], suite))
    if found is None:
        raise BrokenRunError(f"{variant.name}: valgrind has counted nothing")
    return int(found[1])


def _run(command: Sequence[str], suite: Suite) -> str:
    environment = {
        name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ
    }
    environment |= {"HOME": str(suite.folder), "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command,
        cwd=suite.folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != suite.exit_code:
        tail = (done.stdout + done.stderr)[-OUTPUT_TAIL_CHARACTERS:]
        raise BrokenRunError(
            f"ended with {done.returncode}: {' '.join(command)}\n{tail}"
        )
    return done.stderr

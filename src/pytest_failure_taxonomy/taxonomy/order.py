"""In which order the tests of a run started, so that an experiment can repeat it.

A report names the tests by their numbers in the list that pytest was about to run, as
`0-41 60`, and has a digest of that list: whoever collects again sees whether the
numbers mean the same tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2s
from typing import Annotated, Final

from pytest_failure_taxonomy.taxonomy.values import Count, Pattern, value

MAX_STARTS: Final = 100_000
"""Starts in one report; a shuffled order of so many takes 690 KB."""
MAIN: Final = "main"
"""What the only process is called where xdist has no workers."""
INDEX_BITS: Final = 24
"""A start is one number: the worker's number above so many bits, which hold the test's,
from 1 on.
"""
LAST_WORKER: Final = 255
"""Stands for all workers from this number on, whose order is not kept."""

Ranges = Annotated[str, Pattern("^[0-9]+(-[0-9]+)?( [0-9]+(-[0-9]+)?)*$")]


@value
class Plan:
    """The tests that one process was about to run, and what decides their order."""

    tests: int = 0
    """How many it has."""
    digest: Annotated[str, Pattern("^[0-9a-f]{16}$")] = ""
    """Of their node ids."""
    hash: int | None = None
    """The value of `PYTHONHASHSEED`; `None` if it is not set to a number."""
    randomly: int | None = None
    """The seed of pytest-randomly."""
    random_order: int | None = None
    """The seed of pytest-random-order, if it reorders."""
    distribution: Annotated[str, Pattern("^[a-z]{1,20}$")] | None = None
    """The value of xdist's `--dist`; `None` without workers."""


@value
class Order:
    """In which order each worker started its tests; its fields are those of the report."""

    workers: Mapping[str, Ranges]
    """By worker, `main` without xdist: the numbers of its tests in the order of their
    starts, such as `0-41 60`. They are places in the list that pytest was about to run,
    after all plugins had reordered it, from 0 on. A test that was run again has its
    first place."""
    tests: Count
    """How many tests that list has."""
    digest: Annotated[str, Pattern("^[0-9a-f]{16}$")]
    """BLAKE2s of its node ids with null characters between them, in 8 bytes."""
    seeds: Mapping[str, int]
    """Seeds that are known, by what they are of: `hash` (`PYTHONHASHSEED`), `randomly`
    (pytest-randomly) and `random_order` (pytest-random-order)."""
    distribution: str | None
    """The value of xdist's option `--dist`; `None` without workers."""
    truncated: bool
    """Whether later starts are omitted."""


def write_ranges(numbers: Iterable[int]) -> str:
    """Return numbers in their order as text: `0-41 60`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = []
    for first, last in runs:
        words.append(str(first) if first == last else f"{first}-{last}")
    return " ".join(words)


def read_ranges(text: str) -> list[int]:
    """Read what `write_ranges` has written.

    Raises:
        ValueError: the text is none of that, or has more numbers than a report may
            have.
    """
    numbers: list[int] = []
    for word in text.split():
        first, _, last = word.partition("-")
        end = int(last or first) + 1
        run = range(int(first), end)
        if not 0 < len(run) <= MAX_STARTS - len(numbers):
            raise ValueError(f"{word!r} is no range of an order")
        numbers += run
    return numbers


def digest_of(texts: Iterable[str]) -> str:
    """Return 16 hexadecimal digits that identify a list of texts."""
    joined = "\0".join(texts).encode("utf-8", "backslashreplace")
    return blake2s(joined, digest_size=8).hexdigest()


def order_of(
    starts: Iterable[int], names: Sequence[str], nodeids: Sequence[str], plan: Plan
) -> Order | None:
    """Return the order of a run; `None` if no test started or tests can't be numbered.

    Args:
        starts: as they were recorded; 0 stands for none.
        names: of the workers, by their numbers.
        nodeids: all that were selected, by which the starts are numbered. With `--dist
            each` they are the lists of all workers, one after the other.
        plan: has the list of one process.
    """
    tests = plan.tests
    names = names[:LAST_WORKER]
    if not tests:
        return None
    # One list, or with `--dist each` the same one for each worker.
    copies = len(nodeids) // tests
    if [*nodeids] != [*nodeids[:tests]] * copies:
        return None
    recorded = [start for start in starts if start]
    workers: dict[str, dict[int, None]] = {}
    truncated = len(recorded) > MAX_STARTS
    for start in recorded[:MAX_STARTS]:
        number = start >> INDEX_BITS
        index = (start & (1 << INDEX_BITS) - 1) - 1
        if number >= len(names) or index >= len(nodeids):
            truncated = True
        else:  # a test that is run again has its first place
            workers.setdefault(names[number], {}).setdefault(index % tests)
    if not workers:
        return None
    seeds = {
        "hash": plan.hash,
        "randomly": plan.randomly,
        "random_order": plan.random_order,
    }
    in_order = sorted(workers, key=lambda name: (len(name), name))
    return Order(
        workers={name: write_ranges(workers[name]) for name in in_order},
        tests=tests,
        digest=plan.digest,
        seeds={name: seed for name, seed in seeds.items() if seed is not None},
        distribution=plan.distribution,
        truncated=truncated,
    )

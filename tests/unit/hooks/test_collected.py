"""What the controller keeps of the tests that each xdist worker collected."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from pytest_failure_taxonomy.hooks.controller import CollectedTests
from pytest_failure_taxonomy.hooks.session import is_of_mismatch
from pytest_failure_taxonomy.taxonomy.mismatch import (
    MAX_VARIANTS,
    headline_of_mismatch,
    text_of_mismatch,
)


def collected(*lists: list[str]) -> CollectedTests:
    """Return what workers collected, gw0 the first list."""
    tests = CollectedTests()
    for number, nodeids in enumerate(lists):
        tests.add(f"gw{number}", nodeids)
    return tests


def test_workers_that_agree() -> None:
    """Equal lists are no mismatch, however many workers there are."""
    assert collected(*(["a::b", "a::c"] for _ in range(60))).mismatch() is None
    assert collected().mismatch() is None


def test_sixty_workers_are_one_mismatch() -> None:
    """Workers with the same list are one variant of it."""
    lists = [
        ["t.py::test_a", *(["t.py::test_b"] if number % 3 else [])]
        for number in range(60)
    ]
    mismatch = collected(*lists).mismatch()
    assert mismatch is not None
    (variant,) = mismatch.variants
    assert mismatch.workers == tuple(f"gw{number}" for number in range(0, 60, 3))
    assert (len(variant.workers), variant.added, mismatch.variants_omitted) == (
        40,
        ("t.py::test_b",),
        0,
    )
    assert headline_of_mismatch(mismatch) == (
        "the xdist workers collected different tests: gw1, gw2, gw4 and 37 more found "
        "t.py::test_b, which gw0, gw3, gw6 and 17 more did not"
    )


@pytest.mark.slow
def test_sixty_lists_take_the_memory_of_one() -> None:
    """Of lists that differ, examples of the first few are kept, and how many others there are."""
    tests = CollectedTests()
    tracemalloc.start()
    try:
        for number in range(60):
            tests.add(
                f"gw{number}",
                [f"t.py::test_a[{number}-{each}]" for each in range(2_000)],
            )
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1_000_000  # one list takes 170 KB, and sixty 10 MB
    mismatch = tests.mismatch()
    assert mismatch is not None
    assert len(mismatch.variants) == MAX_VARIANTS
    assert (mismatch.variants_omitted, mismatch.workers_omitted) == (49, 49)
    assert "49 more workers: 49 more lists" in text_of_mismatch(mismatch)
    assert headline_of_mismatch(mismatch).endswith(
        "; 60 workers have 60 different lists"
    )


@pytest.mark.parametrize(
    ("longrepr", "expected"),
    [
        (
            "Different tests were collected between gw0 and gw1. The difference is:\n",
            True,
        ),
        ("ImportError: Different tests were collected between gw0 and gw1", False),
        (("t.py", 1, "Skipped"), False),
        (None, False),
    ],
)
def test_the_report_of_xdist(longrepr: Any, expected: bool) -> None:
    """The report of xdist about a worker is known by its words."""
    report = pytest.CollectReport(
        nodeid="gw1", outcome="failed", longrepr=longrepr, result=[]
    )
    assert is_of_mismatch(report) is expected

"""Which runs count for which claim."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.prove.experiment import Conditions, Result
from pytest_failure_taxonomy.prove.ledger import ALONE, Ledger, Side, Way
from pytest_failure_taxonomy.prove.rates import (
    Count,
    Pairs,
    Tally,
    changes_once,
    compare,
    is_reproducible,
)
from pytest_failure_taxonomy.taxonomy.values import replace

AS_IT_IS = Side(conditions=Conditions(words="the network open"))
CLOSED = Side(conditions=Conditions(args=("--closed",), words="the network closed"))
AFTER = Side(before=("a.py::x",))
SIDES = (ALONE, AS_IT_IS, CLOSED, AFTER)
WAYS: tuple[Way, ...] = ("fork", "fresh", "command")


def count(failed: int, runs: int) -> Count:
    """Return a count."""
    return Count(failed=failed, runs=runs)


def test_a_side_that_differs_in_words_alone_is_the_same() -> None:
    """What an axis calls "as it is" has the runs in which nothing was changed."""
    ledger = Ledger()
    ledger.add(ALONE, "fork", "failed")
    ledger.add(AS_IT_IS, "fresh", "passed")
    ledger.add(ALONE, "command", "failed")
    ledger.add(ALONE, "fork", "other")
    assert ledger.tally(AS_IT_IS) == Tally(forks=count(1, 1), fresh=count(1, 2))
    assert ledger.unchanged == (True, False, True)


def test_what_fails_under_other_conditions_fails_alone() -> None:
    """After other tests it does not; forks that are forgotten don't count."""
    ledger = Ledger()
    for side in SIDES:
        ledger.add(side, "fresh", "failed")
    ledger.add(ALONE, "fork", "failed")
    assert ledger.tally_of_all_alone().runs == count(4, 4)
    ledger.forget_forks()
    assert ledger.tally_of_all_alone().runs == count(3, 3)
    assert ledger.unchanged == (True, True)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(SIDES),
            st.sampled_from(WAYS),
            st.sampled_from(("passed", "failed", "other")),
        )
    )
)
def test_no_run_is_lost(runs: list[tuple[Side, Way, Result]]) -> None:
    """Each that has decided something is in one count of its side."""
    ledger = Ledger()
    for run in runs:
        ledger.add(*run)
    decided = [side.key for side, _, result in runs if result != "other"]
    for side in SIDES:
        assert ledger.tally(side).runs.runs == decided.count(side.key)


FORKS = Tally(forks=count(5, 5), fresh=count(5, 5))
PASSING = Tally(forks=count(0, 3), fresh=count(0, 5))


@pytest.mark.parametrize(
    ("pairs", "effect", "without", "verdict"),
    [
        ((5, 5, 0, 5), FORKS, PASSING, "apart"),
        ((4, 4, 0, 4), FORKS, PASSING, "go on"),
        # Forks that say nothing, or otherwise
        ((5, 5, 0, 5), replace(FORKS, forks=count(0, 0)), PASSING, "go on"),
        ((5, 5, 0, 5), replace(FORKS, forks=count(4, 5)), PASSING, "go on"),
        ((8, 8, 0, 8), replace(FORKS, forks=count(0, 0)), PASSING, "apart"),
        ((2, 2, 1, 2), FORKS, PASSING, "not apart"),
        # A rate that is low, and one that is hopeless
        ((8, 20, 0, 20), replace(FORKS, fresh=count(8, 20)), PASSING, "apart"),
        ((1, 11, 0, 11), FORKS, PASSING, "not apart"),
        # What was seen before the pairs refutes them.
        (
            (8, 8, 0, 8),
            FORKS,
            Tally(forks=count(38, 40), fresh=count(0, 8)),
            "not apart",
        ),
    ],
)
def test_a_comparison(
    pairs: tuple[int, int, int, int], effect: Tally, without: Tally, verdict: str
) -> None:
    """It takes pairs, and any other run can refute it."""
    failed, runs, failed_without, runs_without = pairs
    made = Pairs(
        effect=count(failed, runs), without=count(failed_without, runs_without)
    )
    assert compare(made, effect, without) == verdict


@pytest.mark.parametrize(
    ("forks", "fresh", "proven"),
    [
        (count(21, 21), count(8, 8), True),
        (count(22, 22), count(7, 7), False),
        (count(20, 20), count(8, 8), False),
        (count(28, 29), count(8, 8), False),
        (count(0, 0), count(29, 29), True),
    ],
)
def test_reproducible(forks: Count, fresh: Count, *, proven: bool) -> None:
    """29 failures of 29, 8 of them in processes of their own."""
    assert is_reproducible(Tally(forks=forks, fresh=fresh)) == proven


@pytest.mark.parametrize(
    ("results", "changes"),
    [
        ("FFFFFPPPPPPPP", True),
        ("PPPPPPFFFF", True),
        ("FPPPPPPPPP", False),  # one of ten fails first once in ten times
        ("FPFPFPFPFP", False),
        ("FFFFFFFFFF", False),
        ("", False),
    ],
)
def test_a_failure_that_ended(results: str, *, changes: bool) -> None:
    """One change, which chance hardly ever has."""
    assert changes_once([result == "F" for result in results]) == changes

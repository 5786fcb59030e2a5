"""The search for the fewest tests that are needed together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.prove.search import fewest


@given(
    st.integers(1, 80).flatmap(
        lambda n: st.tuples(
            st.just(n), st.sets(st.integers(0, n - 1), min_size=1, max_size=4)
        )
    )
)
def test_those_that_are_needed_are_found(asked: tuple[int, set[int]]) -> None:
    """Whatever their number and places, in their order."""
    count, needed = asked
    assert fewest(range(count), lambda some: needed <= {*some}) == tuple(sorted(needed))


@given(
    st.integers(2, 40).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(0, n - 1), st.integers(0, n - 1))
    )
)
def test_one_that_undoes_it_does_not_mislead(asked: tuple[int, int, int]) -> None:
    """The answer need not be monotone: with the one that cleans up after it, nothing fails."""
    count, polluter, cleaner = asked

    def holds(some: tuple[int, ...]) -> bool:
        after = some[some.index(polluter) :] if polluter in some else ()
        return polluter in some and (cleaner == polluter or cleaner not in after)

    if holds(tuple(range(count))):
        assert fewest(range(count), holds) == (polluter,)


def test_how_many_questions_one_of_many_takes() -> None:
    """Two for each halving at most."""
    asked = []

    def holds(some: tuple[int, ...]) -> bool:
        asked.append(some)
        return 300 in some

    assert fewest(range(1000), holds) == (300,)
    assert len(asked) <= 2 * 10
    assert sum(map(len, asked)) <= 2 * 1000


def test_nothing_to_search() -> None:
    """One thing is what it is."""
    assert fewest(["a"], lambda _: False) == ("a",)

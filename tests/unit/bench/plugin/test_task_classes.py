"""Units of cases: alike on controller and workers, and no more at a time than allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.plugin.task_classes import share_of, split_cases

_NODEIDS = st.integers(0, 200).map(lambda count: [f"case-{n}" for n in range(count)])


@given(nodeids=_NODEIDS, workers=st.integers(0, 20), concurrency=st.integers(1, 50))
def test_each_case_is_in_one_unit(nodeids: list[str], workers: int, concurrency: int) -> None:
    """No case is lost or in two units, none of which is empty, and their order is pytest's."""
    units = split_cases(nodeids, workers=workers, concurrency=concurrency)
    assert [nodeid for unit in units for nodeid in unit] == nodeids
    assert all(units)


@given(nodeids=_NODEIDS, workers=st.integers(1, 20), concurrency=st.integers(1, 50))
def test_concurrency_is_kept(nodeids: list[str], workers: int, concurrency: int) -> None:
    """Each worker runs one unit at a time: all together they run no more cases than allowed."""
    units = split_cases(nodeids, workers=workers, concurrency=concurrency)
    assert min(len(units), workers) * share_of(concurrency, workers) <= concurrency


@given(count=st.integers(40, 200), workers=st.integers(1, 8))
def test_each_worker_has_work(count: int, workers: int) -> None:
    """Where there are cases enough, no worker is left without a unit."""
    nodeids = [f"case-{n}" for n in range(count)]
    assert len(split_cases(nodeids, workers=workers, concurrency=workers)) >= workers


def test_without_xdist_there_is_one_unit() -> None:
    """One process starts all of its cases with the first."""
    assert split_cases(["a", "b"], workers=0, concurrency=1) == [["a", "b"]]

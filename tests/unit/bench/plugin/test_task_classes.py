"""Units of cases: alike on controller and workers, and no more at a time than allowed."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.plugin.node_names import case_and_system
from pytest_failure_taxonomy.bench.plugin.task_classes import (
    by_system,
    share_of,
    split_cases,
)

_NODEIDS = st.integers(0, 200).map(lambda count: [f"case-{n}" for n in range(count)])


@given(nodeids=_NODEIDS, workers=st.integers(0, 20), concurrency=st.integers(1, 50))
def test_each_case_is_in_one_unit(
    nodeids: list[str], workers: int, concurrency: int
) -> None:
    """No case is lost or in two units, none of which is empty, and their order is pytest's."""
    units = split_cases(nodeids, workers=workers, concurrency=concurrency)
    assert [nodeid for unit in units for nodeid in unit] == nodeids
    assert all(units)


@given(nodeids=_NODEIDS, workers=st.integers(1, 20), concurrency=st.integers(1, 50))
def test_concurrency_is_kept(
    nodeids: list[str], workers: int, concurrency: int
) -> None:
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


_CASES = st.lists(
    st.tuples(st.sampled_from([Path("a"), Path("b")]), st.sampled_from(["", "x", "y"])),
    max_size=30,
)


@given(_CASES)
def test_cases_are_grouped_by_system(cases: list[tuple[Path, str]]) -> None:
    """No case is lost, and where a group goes on, no other labelled system came in between."""
    groups = by_system((*source, at) for at, source in enumerate(cases))
    assert sorted(at for *_, members in groups for at in members) == list(
        range(len(cases))
    )
    for folder, system, members in groups:
        assert {cases[at] for at in members} == {(folder, system)}
        between = {cases[at][1] for at in range(members[0], members[-1])}
        assert not system or between <= {system, ""}


def test_cases_of_single_systems_stay_together() -> None:
    """A class without parameters is one group, whatever comes in between."""
    order = [("a", ""), ("b", "x"), ("a", ""), ("b", "y"), ("a", "")]
    groups = by_system((Path(name), system, name) for name, system in order)
    assert [
        (str(folder), system, len(members)) for folder, system, members in groups
    ] == [
        ("a", "", 3),
        ("b", "x", 1),
        ("b", "y", 1),
    ]


@given(st.from_regex(r"[a-z#0-9-]+", fullmatch=True), st.text(min_size=1))
def test_a_node_id_has_the_case_and_the_label(case_id: str, label: str) -> None:
    """A label may be any text; the id of a case has no brackets."""
    assert case_and_system(f"bench/a/cases/x.yaml::{case_id}[{label}]") == (
        case_id,
        label,
    )
    assert case_and_system(f"bench/a/cases/x.yaml::{case_id}") == (case_id, "")

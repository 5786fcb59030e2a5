"""Compare what xdist workers collected, and say how their lists of tests differ.

There are three sorts, and one list can have more than one: other parameters of the same
tests, tests that are not there, and the same tests in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal, get_args

from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.values import Bounds, value
from pytest_failure_taxonomy.taxonomy.words import counted, enumerated

MismatchSort = Literal["parameters", "membership", "order"]
"""How two lists differ, what says most first."""

MAX_VARIANTS: Final = 10
"""Lists that are compared in detail; of the others only the number is known."""
MAX_EXAMPLES: Final = 5
"""Tests of each sort that are kept of one list."""
MAX_NAMED: Final = 3
"""Tests, and workers, that a message names."""
MAX_NODEID: Final = 120
"""Characters of a node id, or of its parameters, in a message."""


@value
class ChangedParameters:
    """A test that has other parameters in some workers than in the first one."""

    nodeid: str
    """One of its node ids that the first worker alone has."""
    other_nodeid: str
    """One that those workers alone have."""


@value
class MovedTest:
    """Where two workers that have the same tests have them in different orders."""

    position: int
    """The first that differs, counted from 1."""
    nodeid: str
    """What the first worker has there."""
    other_nodeid: str


@value
class CollectedVariant:
    """What some workers collected, compared with the first one."""

    workers: tuple[str, ...]
    tests: int
    parameters: tuple[ChangedParameters, ...] = ()
    """One entry for each function; at most `MAX_EXAMPLES`, as of all lists here."""
    parameters_count: int = 0
    lacking: tuple[str, ...] = ()
    """Node ids that only the first worker has."""
    lacking_count: int = 0
    added: tuple[str, ...] = ()
    """Node ids that only these workers have."""
    added_count: int = 0
    moved: MovedTest | None = None


@value
class CollectionMismatch:
    """Workers that did not collect the same tests."""

    workers: Annotated[tuple[str, ...], Bounds(low=1)]
    """The first worker, and those that agree with it."""
    tests: int
    """How many tests these collected."""
    variants: Annotated[tuple[CollectedVariant, ...], Bounds(low=1)]
    """The other lists, in order of arrival; at most `MAX_VARIANTS`."""
    variants_omitted: int = 0
    workers_omitted: int = 0
    """The workers that collected those."""


def compare_collections(
    first: Sequence[str], other: Sequence[str], workers: tuple[str, ...]
) -> CollectedVariant:
    """Say how a list of node ids differs from another one.

    Args:
        first: what the first worker collected.
        other: what the workers collected.
        workers: their ids.
    """
    ours = Counter(first)
    theirs = Counter(other)
    lacking = [*(ours - theirs).elements()]
    added = [*(theirs - ours).elements()]
    moved = None
    if not lacking and not added:
        moved = _first_moved(first, other)
    lacking_of = _first_of_functions(lacking)
    added_of = _first_of_functions(added)
    changed = []
    for name, nodeid in lacking_of.items():
        if name in added_of:
            change = ChangedParameters(nodeid=nodeid, other_nodeid=added_of[name])
            changed.append(change)
    lacking = [nodeid for nodeid in lacking if function_of(nodeid) not in added_of]
    added = [nodeid for nodeid in added if function_of(nodeid) not in lacking_of]
    return CollectedVariant(
        workers=workers,
        tests=len(other),
        parameters=tuple(changed[:MAX_EXAMPLES]),
        parameters_count=len(changed),
        lacking=tuple(lacking[:MAX_EXAMPLES]),
        lacking_count=len(lacking),
        added=tuple(added[:MAX_EXAMPLES]),
        added_count=len(added),
        moved=moved,
    )


def function_of(nodeid: str) -> str:
    """Return a node id without its parameters; a folder's name may have brackets."""
    path, colons, name = nodeid.partition("::")
    return f"{path}{colons}{name.partition('[')[0]}"


def _first_moved(first: Sequence[str], other: Sequence[str]) -> MovedTest | None:
    pairs = zip(first, other, strict=False)
    for position, (nodeid, other_nodeid) in enumerate(pairs, 1):
        if nodeid != other_nodeid:
            return MovedTest(
                position=position,
                nodeid=nodeid,
                other_nodeid=other_nodeid,
            )
    return None


def _first_of_functions(nodeids: Sequence[str]) -> Mapping[str, str]:
    firsts: dict[str, str] = {}
    for nodeid in nodeids:
        firsts.setdefault(function_of(nodeid), nodeid)
    return firsts


def sorts_of(variant: CollectedVariant) -> tuple[MismatchSort, ...]:
    """Return how a list differs, what says most first."""
    sorts: dict[MismatchSort, object] = {
        "parameters": variant.parameters,
        "membership": variant.lacking or variant.added,
        "order": variant.moved,
    }
    return tuple(sort for sort, differs in sorts.items() if differs)


def headline_of_mismatch(mismatch: CollectionMismatch) -> str:
    """Say in one line how the workers disagree, by one test and two workers."""
    words = "the xdist workers collected different tests"
    variant = _telling_variant(mismatch)
    if variant is not None:
        words += f": {_words_of_variant(variant, _name_some(mismatch.workers))}"
    lists = 1 + len(mismatch.variants) + mismatch.variants_omitted
    if lists > 2:  # the words above speak of two
        count = len(mismatch.workers) + mismatch.workers_omitted
        count += sum(len(other.workers) for other in mismatch.variants)
        words += f"; {count} workers have {lists} different lists"
    return words


def _telling_variant(mismatch: CollectionMismatch) -> CollectedVariant | None:
    """Return the first list that differs in what says most."""
    for sort in get_args(MismatchSort):
        for variant in mismatch.variants:
            if sort in sorts_of(variant):
                return variant
    return None


def text_of_mismatch(mismatch: CollectionMismatch) -> str:
    """Return advice and all that is known, in one paragraph for each list."""
    first = _name_some(mismatch.workers)
    advice = packaged_table("mismatch")
    sorts: dict[str, None] = {}
    for variant in mismatch.variants:
        sorts |= dict.fromkeys(sorts_of(variant))
    lines = [advice[sort] for sort in sorts]
    lines.append(f"{first}: {counted(mismatch.tests, 'test')}")
    for variant in mismatch.variants:
        lines += _lines_of_variant(variant, first)
    if mismatch.variants_omitted:
        workers = f"{mismatch.workers_omitted} more workers"
        lines.append(f"{workers}: {mismatch.variants_omitted} more lists")
    return "\n".join(lines)


def _lines_of_variant(variant: CollectedVariant, first: str) -> Iterator[str]:
    yield f"{_name_some(variant.workers)}: {counted(variant.tests, 'test')}"
    for change in variant.parameters:
        yield f"  other parameters: {_shorten(change.nodeid)} in {first}"
        yield f"                    {_shorten(change.other_nodeid)} here"
    yield from _count_rest(variant.parameters_count - len(variant.parameters))
    for nodeid in variant.lacking:
        yield f"  not here: {_shorten(nodeid)}"
    yield from _count_rest(variant.lacking_count - len(variant.lacking))
    for nodeid in variant.added:
        yield f"  only here: {_shorten(nodeid)}"
    yield from _count_rest(variant.added_count - len(variant.added))
    moved = variant.moved
    if moved is not None:
        yield f"  in another order from test {moved.position} on:"
        yield f"    {_shorten(moved.nodeid)} in {first}"
        yield f"    {_shorten(moved.other_nodeid)} here"


def _words_of_variant(variant: CollectedVariant, first: str) -> str:
    others = _name_some(variant.workers)
    if variant.parameters:
        change = variant.parameters[0]
        function, pair = _words_of_pair(change, first, others)
        more = variant.parameters_count - 1
        also = f", and those of {counted(more, 'more test')}" if more > 0 else ""
        return f"{function} differ from process to process ({pair}){also}"
    if variant.lacking:
        few = _name_some(variant.lacking, variant.lacking_count)
        return f"{others} did not find {few}, which {first} did"
    if variant.added:
        few = _name_some(variant.added, variant.added_count)
        return f"{others} found {few}, which {first} did not"
    moved = variant.moved
    if moved is None:
        return f"{others} collected {counted(variant.tests, 'test')}"
    if function_of(moved.nodeid) == function_of(moved.other_nodeid):
        function, pair = _words_of_pair(moved, first, others)
        return f"{function} are in another order (test {moved.position} is {pair})"
    ours = f"{_shorten(moved.nodeid)} in {first}"
    theirs = f"{_shorten(moved.other_nodeid)} in {others}"
    return f"the order differs from test {moved.position} on: {ours}, {theirs}"


def _words_of_pair(
    pair: ChangedParameters | MovedTest, first: str, others: str
) -> tuple[str, str]:
    """Name the parameters of a function, and two that two workers have."""
    function = _shorten(function_of(pair.nodeid))
    ours = f"{_parameters_words(pair.nodeid)} in {first}"
    theirs = f"{_parameters_words(pair.other_nodeid)} in {others}"
    return f"the parameters of {function}", f"{ours}, {theirs}"


def _count_rest(count: int) -> list[str]:
    return [f"  and {counted(count, 'more test')}"] if count > 0 else []


def _name_some(names: Sequence[str], count: int = 0) -> str:
    """Name some workers or tests, and say how many more there are."""
    shown = [_shorten(name) for name in names[:MAX_NAMED]]
    return enumerated(shown, count or len(names))


def _parameters_words(nodeid: str) -> str:
    function = function_of(nodeid)
    return _shorten(nodeid.removeprefix(function)) or "none"


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_NODEID else f"{text[:MAX_NODEID]}…"

"""xdist workers that did not collect the same tests: how their lists differ, and in which words.

There are three sorts, and one list can have more than one: other parameters of the same tests,
tests that are not there, and the same tests in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
    ours, theirs = Counter(first), Counter(other)
    lacking, added = (
        tuple((ours - theirs).elements()),
        tuple((theirs - ours).elements()),
    )
    if not lacking and not added:
        pairs = zip(first, other, strict=False)
        moved = next(
            (
                MovedTest(position=position, nodeid=nodeid, other_nodeid=other_nodeid)
                for position, (nodeid, other_nodeid) in enumerate(pairs, 1)
                if nodeid != other_nodeid
            ),
            None,
        )
        return CollectedVariant(workers=workers, tests=len(other), moved=moved)
    lacking_of, added_of = _first_of_functions(lacking), _first_of_functions(added)
    changed = [name for name in lacking_of if name in added_of]
    lacking = tuple(each for each in lacking if function_of(each) not in added_of)
    added = tuple(each for each in added if function_of(each) not in lacking_of)
    return CollectedVariant(
        workers=workers,
        tests=len(other),
        parameters=tuple(
            ChangedParameters(nodeid=lacking_of[name], other_nodeid=added_of[name])
            for name in changed[:MAX_EXAMPLES]
        ),
        parameters_count=len(changed),
        lacking=lacking[:MAX_EXAMPLES],
        lacking_count=len(lacking),
        added=added[:MAX_EXAMPLES],
        added_count=len(added),
    )


def function_of(nodeid: str) -> str:
    """Return a node id without its parameters; a folder's name may have brackets, too."""
    path, colons, name = nodeid.partition("::")
    return f"{path}{colons}{name.partition('[')[0]}"


def _first_of_functions(nodeids: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for nodeid in nodeids:
        found.setdefault(function_of(nodeid), nodeid)
    return found


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
    said = "the xdist workers collected different tests"
    sorts = get_args(MismatchSort)  # what says most first
    told = [
        (sort, each)
        for sort in sorts
        for each in mismatch.variants
        if sort in sorts_of(each)
    ]
    if told:
        said += f": {_words_of_variant(told[0][1], _few(mismatch.workers))}"
    lists = 1 + len(mismatch.variants) + mismatch.variants_omitted
    if lists > 2:  # the words above speak of two
        others = sum(len(each.workers) for each in mismatch.variants)
        count = len(mismatch.workers) + others + mismatch.workers_omitted
        said += f"; {count} workers have {lists} different lists"
    return said


def text_of_mismatch(mismatch: CollectionMismatch) -> str:
    """Return what to do about it, and all that is known: one paragraph for each list."""
    first = _few(mismatch.workers)
    sorts = dict.fromkeys(sort for each in mismatch.variants for sort in sorts_of(each))
    advice = packaged_table("mismatch")
    lines = [
        *(advice[sort] for sort in sorts),
        f"{first}: {counted(mismatch.tests, 'test')}",
    ]
    for each in mismatch.variants:
        lines.append(f"{_few(each.workers)}: {counted(each.tests, 'test')}")
        for one in each.parameters:
            lines += [
                f"  other parameters: {_short(one.nodeid)} in {first}",
                f"                    {_short(one.other_nodeid)} here",
            ]
        lines += _rest(each.parameters_count - len(each.parameters))
        for name, nodeids, count in (
            ("not here", each.lacking, each.lacking_count),
            ("only here", each.added, each.added_count),
        ):
            lines += [f"  {name}: {_short(nodeid)}" for nodeid in nodeids]
            lines += _rest(count - len(nodeids))
        if each.moved is not None:
            lines += [
                f"  in another order from test {each.moved.position} on:",
                f"    {_short(each.moved.nodeid)} in {first}",
                f"    {_short(each.moved.other_nodeid)} here",
            ]
    if mismatch.variants_omitted:
        lines.append(
            f"{mismatch.workers_omitted} more workers: {mismatch.variants_omitted} more lists"
        )
    return "\n".join(lines)


def _words_of_variant(variant: CollectedVariant, first: str) -> str:
    others = _few(variant.workers)
    if variant.parameters:
        one = variant.parameters[0]
        more = variant.parameters_count - 1
        also = f", and those of {counted(more, 'more test')}" if more > 0 else ""
        return (
            f"the parameters of {_short(function_of(one.nodeid))} differ from process to process "
            f"({_parameters_words(one.nodeid)} in {first}, "
            f"{_parameters_words(one.other_nodeid)} in {others}){also}"
        )
    if variant.lacking:
        few = _few(variant.lacking, variant.lacking_count)
        return f"{others} did not find {few}, which {first} did"
    if variant.added:
        few = _few(variant.added, variant.added_count)
        return f"{others} found {few}, which {first} did not"
    moved = variant.moved
    if moved is None:
        return f"{others} collected {counted(variant.tests, 'test')}"
    if function_of(moved.nodeid) == function_of(moved.other_nodeid):
        return (
            f"the parameters of {_short(function_of(moved.nodeid))} are in another order "
            f"(test {moved.position} is {_parameters_words(moved.nodeid)} in {first}, "
            f"{_parameters_words(moved.other_nodeid)} in {others})"
        )
    return (
        f"the order differs from test {moved.position} on: {_short(moved.nodeid)} in {first}, "
        f"{_short(moved.other_nodeid)} in {others}"
    )


def _rest(left: int) -> list[str]:
    return [f"  and {counted(left, 'more test')}"] if left > 0 else []


def _few(names: Sequence[str], count: int = 0) -> str:
    """Name some workers or tests, and say how many more there are."""
    return enumerated([_short(name) for name in names[:MAX_NAMED]], count or len(names))


def _parameters_words(nodeid: str) -> str:
    return _short(nodeid[len(function_of(nodeid)) :]) or "none"


def _short(text: str) -> str:
    return text if len(text) <= MAX_NODEID else f"{text[:MAX_NODEID]}…"

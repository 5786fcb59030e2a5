"""How the lists of tests that xdist's workers collected differ, and in which words that is told."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.taxonomy.evidence import ProcessExit, RunEvidence
from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.mismatch import (
    MAX_EXAMPLES,
    CollectionMismatch,
    compare_collections,
    function_of,
    headline_of_mismatch,
    sorts_of,
    text_of_mismatch,
)

SAID = "the xdist workers collected different tests: "
A, B, C = "t.py::test_a", "t.py::test_b", "u.py::test_c"


def disagree(first: list[str], *others: list[str]) -> CollectionMismatch:
    """Return the mismatch between gw0 and the workers after it, one a list."""
    return CollectionMismatch(
        workers=("gw0",),
        tests=len(first),
        variants=tuple(
            compare_collections(first, other, (f"gw{number}",))
            for number, other in enumerate(others, 1)
        ),
    )


@pytest.mark.parametrize(
    ("first", "other", "sorts", "headline"),
    [
        pytest.param(
            [f"{A}[4f1c]", B],
            [f"{A}[09aa]", B],
            ("parameters",),
            f"the parameters of {A} differ from process to process ([4f1c] in gw0, [09aa] in gw1)",
            id="values",
        ),
        pytest.param(
            [f"{A}[1]", f"{B}[1]", f"{C}[1]"],
            [f"{A}[2]", f"{B}[2]", f"{C}[2]"],
            ("parameters",),
            f"the parameters of {A} differ from process to process ([1] in gw0, [2] in gw1), "
            "and those of 2 more tests",
            id="values-of-several",
        ),
        pytest.param(
            [f"{A}[x::y[1]]", f"{A}[z]"],
            [f"{A}[x::y[2]]"],
            ("parameters",),
            f"the parameters of {A} differ from process to process ([x::y[1]] in gw0, "
            "[x::y[2]] in gw1)",
            id="another-number-of-values",
        ),
        pytest.param(
            [A, f"{B}[1]"],
            [A],
            ("membership",),
            f"gw1 did not find {B}[1], which gw0 did",
            id="lacks-one",
        ),
        pytest.param(
            [A],
            [A, B, C, "v.py::test_d", "v.py::test_e"],
            ("membership",),
            f"gw1 found {B}, {C}, v.py::test_d and 1 more, which gw0 did not",
            id="has-more",
        ),
        pytest.param(
            [f"{A}[1]", B],
            [f"{A}[2]", C],
            ("parameters", "membership"),
            f"the parameters of {A} differ from process to process ([1] in gw0, [2] in gw1)",
            id="both",
        ),
        pytest.param(
            [A, B, C],
            [A, C, B],
            ("order",),
            f"the order differs from test 2 on: {B} in gw0, {C} in gw1",
            id="order",
        ),
        pytest.param(
            [f"{A}[x]", f"{A}[y]"],
            [f"{A}[y]", f"{A}[x]"],
            ("order",),
            f"the parameters of {A} are in another order (test 1 is [x] in gw0, [y] in gw1)",
            id="order-of-a-set",
        ),
        pytest.param(
            [A, A, B],
            [A, B],
            ("membership",),
            f"gw1 did not find {A}, which gw0 did",
            id="a-test-twice",
        ),
        pytest.param(
            [A],
            [],
            ("membership",),
            f"gw1 did not find {A}, which gw0 did",
            id="nothing",
        ),
    ],
)
def test_the_sort_of_a_difference(
    first: list[str], other: list[str], sorts: tuple[str, ...], headline: str
) -> None:
    """Parameters, tests that are not there, and the order are told apart, and tests are named."""
    mismatch = disagree(first, other)
    assert sorts_of(mismatch.variants[0]) == sorts
    assert headline_of_mismatch(mismatch) == SAID + headline


@pytest.mark.parametrize(
    ("nodeid", "function"),
    [
        ("t.py::test_a", "t.py::test_a"),
        ("t.py::test_a[1]", "t.py::test_a"),
        ("t.py::TestX::test_a[b::c[d]]", "t.py::TestX::test_a"),
        ("[old]/t.py::test_a[1]", "[old]/t.py::test_a"),
        ("README.md", "README.md"),
    ],
)
def test_parameters_are_stripped(nodeid: str, function: str) -> None:
    """Brackets in the name of a folder, and in the parameters, don't confuse."""
    assert function_of(nodeid) == function


def test_the_text_has_each_list_once() -> None:
    """It says what to do about each sort, and lists are capped and say what they leave out."""
    first = [f"{A}[{number}]" for number in range(40)]
    mismatch = disagree(
        first, first[::-1], first[:20], [f"{A}[{n}]" for n in range(50, 90)]
    )
    text = text_of_mismatch(mismatch)
    assert text.splitlines()[:3] == [
        next(line for line in text.splitlines() if "PYTHONHASHSEED=0" in line),
        next(line for line in text.splitlines() if "PYTEST_XDIST_WORKER" in line),
        next(line for line in text.splitlines() if "uuid4()" in line),
    ]
    assert text.splitlines()[3:] == [
        "gw0: 40 tests",
        "gw1: 40 tests",
        "  in another order from test 1 on:",
        f"    {A}[0] in gw0",
        f"    {A}[39] here",
        "gw2: 20 tests",
        *[f"  not here: {A}[{number}]" for number in range(20, 20 + MAX_EXAMPLES)],
        f"  and {20 - MAX_EXAMPLES} more tests",
        "gw3: 40 tests",
        f"  other parameters: {A}[0] in gw0",
        f"                    {A}[50] here",
    ]
    headline = headline_of_mismatch(mismatch)
    assert headline.startswith(f"{SAID}the parameters of {A} differ")
    assert headline.endswith("; 4 workers have 4 different lists")


def test_long_node_ids_are_cut() -> None:
    """A parameter can make a node id of a megabyte; the words stay short."""
    mismatch = disagree([f"{A}[{'x' * 100_000}]"] * 3, [f"{A}[{'y' * 100_000}]"] * 3)
    assert len(headline_of_mismatch(mismatch)) < 500
    assert len(text_of_mismatch(mismatch)) < 1_000


def test_it_is_one_internal_error() -> None:
    """The verdict is one finding of unknown type that a retry does not fix."""
    end = ProcessExit(code=1, source="pytest")
    verdict = judge(RunEvidence(exit=end, mismatch=disagree([A], [B], [C]))).verdict
    assert verdict is not None
    said = (verdict.reason, verdict.kind, verdict.failure_type, verdict.recovery_action)
    assert said == ("INTERNAL_ERROR", "collection.mismatch", "UNKNOWN", "escalate")
    assert (verdict.confidence, verdict.retryable, len(verdict.evidence)) == (
        "certain",
        False,
        1,
    )

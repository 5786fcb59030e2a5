"""Which experiments a cause gets, and what is concluded: in worlds of which the truth is known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.prove.experiment import Victim
from pytest_failure_taxonomy.prove.ladder import Climb, Ladder
from pytest_failure_taxonomy.report.model import CODEC
from tests.helpers.simulated import Simulated, World

BEFORE: Final = tuple(f"test_{number}" for number in range(100))


def prove(experiments: Simulated, **known: Any) -> dict[str, Any]:
    """Return the proof of a victim after a hundred tests."""
    victim = Victim(
        nodeid="test_it", fingerprints=frozenset({"f"}), endings=frozenset()
    )
    climb = {"victim": victim, "recorded": BEFORE, "natural": BEFORE, **known}
    shuffles = random.Random(1)  # noqa: S311 - no secret is made of it
    ladder = Ladder(experiments, Climb(**climb), shuffles=shuffles)
    proof: dict[str, Any] = CODEC.encode(ladder.prove())
    return proof


def after(*polluters: str, rate: float = 1.0) -> World:
    """Return a world in which the victim fails after all of some tests."""
    return lambda before, _: rate * ({*polluters} <= {*before})


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize(
    "polluters",
    [
        ("test_41",),
        ("test_0",),
        ("test_99",),
        ("test_3", "test_88"),
        ("test_7", "test_8"),
    ],
)
def test_polluters_are_found(polluters: tuple[str, ...], threads: bool) -> None:
    """However many are needed, wherever they lie, in forks or without."""
    experiments = Simulated(after(*polluters), seed=1, threads=threads)
    proof = prove(experiments)
    assert (proof["type"], proof["status"]) == ("order.polluted", "proven")
    assert tuple(proof["nodeids"]) == polluters
    assert proof["failed"] == proof["runs"] >= 5
    assert proof["without"]["failed"] == 0
    if not threads:
        assert experiments.fresh_runs <= 12


def test_one_that_pollutes_now_and_then() -> None:
    """It takes more runs, and is proven with its rate."""
    proofs = [
        prove(Simulated(after("test_41", rate=0.7), seed=seed)) for seed in range(20)
    ]
    proven = [each for each in proofs if each["status"] == "proven" and each["nodeids"]]
    assert len(proven) >= 12
    assert all("test_41" in each["nodeids"] for each in proven)


def test_what_mends_it_is_said() -> None:
    """What can't be put back, or does not fix it, is only suspected."""
    experiments = Simulated(after("test_41"), seed=1)
    experiments.leaves = ("shop.config.RATE = 0.19 (was 0.2)",)
    assert prove(experiments)["state"] == "shop.config.RATE = 0.19 (was 0.2)"
    proof = prove(Simulated(after("test_41"), seed=1))
    assert (proof["state"], proof["suspicions"]) == (
        None,
        ["left behind: shop.config.X = 1 (was 0)"],
    )


def brittle(before: Sequence[str], _: str) -> float:
    """Return how often a test fails that needs another one."""
    return 1.0 - ("test_12" in before)


@pytest.mark.parametrize("known", ["natural", "others"])
def test_one_that_needs_another_test(known: str) -> None:
    """It is looked for where the recorded run did not have it before."""
    proof = prove(
        Simulated(brittle, seed=1), **{"recorded": (), "natural": (), known: BEFORE}
    )
    assert (proof["type"], proof["status"], proof["nodeids"]) == (
        "order.brittle",
        "proven",
        ["test_12"],
    )
    assert (proof["failed"], proof["runs"], proof["without"]["failed"]) == (5, 5, 0)


def test_one_that_needs_another_test_right_before_it() -> None:
    """That it ran before, and then one that takes it back, does not say that it is not needed."""

    def world(before: Sequence[str], _: str) -> float:
        last = [each for each in before if each in ("test_12", "test_50")][-1:]
        return float(last != ["test_12"])

    recorded = (*BEFORE[:12], *BEFORE[13:], "test_12", "test_50")
    proof = prove(Simulated(world, seed=1), recorded=recorded, natural=BEFORE[:13])
    assert (proof["type"], proof["status"]) == ("order.brittle", "proven")
    assert proof["nodeids"] == ["test_12"]


def test_what_fails_by_itself() -> None:
    """So often that it fails in nine of ten runs at least; eight are processes."""
    experiments = Simulated(lambda *_: 1.0, seed=1)
    proof = prove(experiments)
    assert (proof["type"], proof["status"]) == ("reproducible", "proven")
    assert proof["failed"] == proof["runs"] == 34
    assert experiments.fresh_runs == 8


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.8, 0.95])
def test_chance_is_not_taken_for_an_order(rate: float) -> None:
    """What fails by chance is proven to be flaky, or nothing is."""
    proofs = [prove(Simulated(lambda *_: rate, seed=seed)) for seed in range(200)]
    proven = [each["type"] for each in proofs if each["status"] == "proven"]
    wrong = [each for each in proven if each.startswith("order")]
    assert wrong == []
    # What fails in 95 of 100 runs passes for reproducible in three of four times: it is nearly so.
    if rate < 0.9:
        assert proven.count("flaky") >= 0.6 * len(proofs)


def test_another_failure_decides_nothing() -> None:
    """Alone it fails in another way: that is said, and nothing proven."""
    proof = prove(Simulated(lambda *_: -1.0, seed=1))
    assert (proof["status"], proof["runs"], proof["interval"]) == ("undecided", 0, None)
    assert proof["state"] == "alone it ends in another way: ValueError: other"


def test_what_neither_passes_nor_fails_so_alone() -> None:
    """What makes it fail in this way is compared with what makes it pass."""

    def world(before: Sequence[str], _: str) -> float:
        return ("test_41" in before) - ({"test_7", "test_41"}.isdisjoint(before))

    proof = prove(Simulated(world, seed=1), recorded=BEFORE[8:], natural=BEFORE[:9])
    assert (proof["type"], proof["status"]) == ("order.polluted", "proven")
    assert (proof["nodeids"], proof["failed"], proof["runs"]) == (["test_41"], 5, 5)
    assert proof["without"] == {"runs": 5, "failed": 0, "state": "after test_7"}


@pytest.mark.parametrize(
    ("most", "status", "nodeids"),
    [
        (2, "undecided", []),
        (40, "suspected", ["test_41"]),
        (1000, "proven", ["test_41"]),
    ],
)
def test_what_is_known_when_time_runs_out(
    most: int, status: str, nodeids: list[str]
) -> None:
    """What was found and not yet proven is suspected."""
    proof = prove(Simulated(after("test_41"), seed=1, most=most))
    assert (proof["status"], proof["nodeids"]) == (status, nodeids)
    if status != "proven":
        assert "time ran out" in (proof["state"], *proof["suspicions"])


def test_other_polluters_are_told() -> None:
    """What is fixed alone would leave the failure."""

    def world(before: Sequence[str], _: str) -> float:
        return float("test_41" in before or "test_77" in before)

    proof = prove(Simulated(world, seed=1))
    assert (proof["type"], proof["nodeids"]) == ("order.polluted", ["test_41"])
    assert proof["suspicions"][-1] == "other tests that ran before it make it fail, too"


def test_suspects_are_tried_first() -> None:
    """What pollutes one test often pollutes the next; the victim itself is none."""
    experiments = Simulated(after("test_41"), seed=1)
    proof = prove(experiments, suspects=(("test_it",), ("test_41",)))
    assert proof["nodeids"] == ["test_41"]
    assert experiments.forks < 20

"""How often something wrong is proven, where the truth is known: in 400 trials a row."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from pytest_failure_taxonomy.prove.axes import Axis
from pytest_failure_taxonomy.prove.experiment import Conditions, Victim
from pytest_failure_taxonomy.prove.ladder import Climb, Ladder
from pytest_failure_taxonomy.taxonomy.judgement import Proof
from tests.helpers.simulated import Run, Simulated

TRIALS: Final = 400
MOST_WRONG: Final = TRIALS // 100
BEFORE: Final = tuple(f"test_{number}" for number in range(12))
VICTIM: Final = Victim(
    nodeid="test_it.py::test_it", fingerprints=frozenset({"f"}), endings=frozenset()
)
Fails = Callable[[Run], bool]


def chance(rate: float) -> Fails:
    """Fail so often, whatever else."""
    return lambda run: run.luck < rate


def toggles(period: int, noise: float = 0.0) -> Fails:
    """Fail in every so many runs, but for some that end in the other way."""
    return lambda run: (run.number % period == 0) != (run.luck < noise)


def toggles_by_process(noise: float = 0.0) -> Fails:
    """Fail in every second process; the forks of one end alike."""
    return lambda run: (run.process % 2 == 0) != (run.luck < noise)


def by_slot(run: Run) -> bool:
    """Fail in every second pair of runs, in its first half."""
    return run.number % 4 < 2


def heals(after: int) -> Fails:
    """Fail in the first runs, and pass in all others."""
    return lambda run: run.number < after


def falls_ill(after: int) -> Fails:
    """Pass in the first runs, and fail in all others."""
    return lambda run: run.number >= after


def drifts(run: Run) -> bool:
    """Fail each time at first, and ever more seldom."""
    return run.luck > run.number / 60


WORLDS: Final[dict[str, Fails]] = {
    **{f"chance {rate}": chance(rate) for rate in (0.02, 0.1, 0.3, 0.5, 0.7, 0.8)},
    "every second run": toggles(2),
    "every second run, with noise": toggles(2, 0.05),
    "every third run": toggles(3),
    "every third run passes": lambda run: run.number % 3 > 0,
    "every second process": toggles_by_process(),
    "every second process, with noise": toggles_by_process(0.05),
    "every second pair": by_slot,
    **{f"heals after {runs} runs": heals(runs) for runs in (3, 7, 15, 28)},
    **{f"falls ill after {runs} runs": falls_ill(runs) for runs in (3, 7, 15, 28)},
    "drifts": drifts,
}
NEARLY_ALWAYS: Final = {"chance 0.9": chance(0.9), "chance 0.95": chance(0.95)}
ALLOWED: Final = ("flaky",)


def axes(base: str, uses_random: bool) -> Iterator[Axis]:
    """Yield axes along which nothing depends."""
    names = (
        ["hash_seed"] if base == "mixed" else ["network", "home", "time", "time_zone"]
    )
    for name in names:
        conditions = [Conditions(words=f"{name} {number}") for number in range(4)]
        as_it_is = "" if base == "mixed" else f"{name} as it is"
        yield Axis(name=name, as_it_is=as_it_is, conditions=tuple(conditions))


def prove(fails: Fails, seed: int, *, threads: bool) -> tuple[str, Simulated]:
    """Return what is proven in a world, or nothing, and the runs that it took."""
    proof, experiments = find_proof(fails, seed, threads=threads)
    return (proof.type if proof.status == "proven" else ""), experiments


def find_proof(fails: Fails, seed: int, *, threads: bool) -> tuple[Proof, Simulated]:
    """Return what comes of a search in a world, and the runs that it took."""
    experiments = Simulated(lambda *_: 0.0, seed=seed, fails=fails, threads=threads)
    experiments.others = BEFORE
    climb = Climb(
        victim=VICTIM, recorded=BEFORE, natural=BEFORE[:6], others=BEFORE, axes=axes
    )
    shuffles = random.Random(seed)  # noqa: S311 - no secret is made of it
    return Ladder(experiments, climb, shuffles=shuffles).prove(), experiments


@pytest.mark.parametrize("threads", [False, True], ids=["forks", "no forks"])
@pytest.mark.parametrize("name", WORLDS)
def test_next_to_nothing_wrong_is_proven(name: str, threads: bool) -> None:
    """One in a hundred at most, of all types together."""
    fails = WORLDS[name]
    proven = Counter(prove(fails, seed, threads=threads)[0] for seed in range(TRIALS))
    wrong = {
        sort: count for sort, count in proven.items() if sort not in ("", *ALLOWED)
    }
    assert sum(wrong.values()) <= MOST_WRONG, proven


@pytest.mark.parametrize("name", NEARLY_ALWAYS)
def test_what_nearly_always_fails_may_pass_for_reproducible(name: str) -> None:
    """It says "at least 90 %", which is true of it; nothing else is proven."""
    fails = NEARLY_ALWAYS[name]
    proven = Counter(prove(fails, seed, threads=False)[0] for seed in range(TRIALS))
    wrong = proven.keys() - {"", "flaky", "reproducible"}
    assert sum(proven[sort] for sort in wrong) <= MOST_WRONG, proven
    if name == "chance 0.9":
        assert proven["reproducible"] <= 0.05 * TRIALS, proven


def test_a_command_of_half_the_runs_is_not_given() -> None:
    """An order can raise a chance; that its command failed three times is luck."""

    def fails(run: Run) -> bool:
        return run.luck < (0.5 if BEFORE[0] in run.before else 0.04)

    proofs = [find_proof(fails, seed, threads=False)[0] for seed in range(TRIALS)]
    assert any(proof.type == "order.polluted" for proof in proofs)
    assert sum(proof.command is not None for proof in proofs) <= MOST_WRONG


def test_what_always_fails_is_always_proven() -> None:
    """It takes at most 36 runs, and those along the axes are some of them."""
    for threads in (False, True):
        sort, experiments = prove(lambda _: True, 1, threads=threads)
        assert sort == "reproducible"
        assert experiments.forks + experiments.fresh_runs <= 36

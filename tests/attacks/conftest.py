"""What the attacks share: how many there are, their seed, and what is attacked.

Some of the attacks are made by default, the same ones each time; `--attacks=all` makes all of them,
and `--attacks-seed=N` chooses others.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pytest

from tests.helpers.dead_runs import DeadRun, make_dead_run

Item = TypeVar("Item")

MARK: Final = "attack"
"""The pytest mark of a test that is parametrized by `pytest_generate_tests` below."""


class Attacks:
    """How many attacks a test makes, and the chance by which it chooses them."""

    def __init__(self, config: pytest.Config, name: str) -> None:
        self.all: Final[bool] = config.getoption("attacks") == "all"
        """All attacks are wanted."""
        self.seed: Final[int] = config.getoption("attacks_seed")
        # Each test has a chance of its own, which doesn't depend on what else is run.
        self.random: Final = random.Random(f"{self.seed} {name}")  # noqa: S311 - attacks, no secrets

    def count(self, some: int, of_all: int) -> int:
        """Return how many attacks there should be."""
        return of_all if self.all else some

    def sample(self, items: Sequence[Item], some: int) -> list[Item]:
        """Return all of the items, or some of them, in their order."""
        if self.all or some >= len(items):
            return list(items)
        return [
            items[index]
            for index in sorted(self.random.sample(range(len(items)), some))
        ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize `@pytest.mark.attack("name", items, some=N)` by so many of its items, or all.

    Items are values, or a mapping of ids to values.
    """
    for mark in metafunc.definition.iter_markers(MARK):
        name, items = mark.args
        attacks = Attacks(metafunc.config, f"{metafunc.definition.nodeid} {name}")
        chosen = attacks.sample(list(items), mark.kwargs["some"])
        values = [items[each] for each in chosen] if isinstance(items, dict) else chosen
        ids = chosen if isinstance(items, dict) else None
        metafunc.parametrize(name, values, ids=ids)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say beside a failure how to have the same attacks again."""
    report = yield
    if report.failed and report.when == "call":
        how = f"--attacks={item.config.getoption('attacks')}"
        seed = f"--attacks-seed={item.config.getoption('attacks_seed')}"
        report.sections.append(("the same attacks again", f"{how} {seed}"))
    return report


@pytest.fixture
def attacks(request: pytest.FixtureRequest) -> Attacks:
    """Say how many attacks to make, and which."""
    return Attacks(request.config, request.node.nodeid)


@pytest.fixture(scope="session")
def _killed(tmp_path_factory: pytest.TempPathFactory) -> DeadRun:
    return make_dead_run(tmp_path_factory.mktemp("killed"))


@pytest.fixture
def dead_run(_killed: DeadRun, tmp_path: Path) -> DeadRun:
    """Give a copy of what a killed pytest has left, to do with as one likes."""
    folder = tmp_path / "dead"
    shutil.copytree(_killed.folder, folder)
    return DeadRun(folder=folder, run_id=_killed.run_id)

"""Conditions along each axis, in real runs: they reach the test, which ends as they say."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Final

import pytest

from pytest_failure_taxonomy.prove import axes
from pytest_failure_taxonomy.prove.axes import axes_of
from pytest_failure_taxonomy.prove.experiment import Experiments, Setup, Victim
from tests.helpers.runs import PytestRuns

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces and forks"),
]

TESTS: Final = """\
import os, random, time
from datetime import date
from pathlib import Path

def test_hash_seed(): assert os.environ.get("PYTHONHASHSEED") == "3"
def test_random_seed(): assert round(random.random(), 3) == 0.134
def test_time_zone(): assert time.localtime(0).tm_min == 30
def test_time(): assert date.today().strftime("%m-%d") == "07-15"
def test_network(): assert len(Path("/proc/net/dev").read_text().splitlines()) == 3
def test_home():
    assert not [*Path.home().iterdir()]
    assert Path(os.environ["TMPDIR"]).parent == Path.home().parent
def test_memory():
    try:
        bytearray(500 << 20)
    except MemoryError:
        return
    assert False
"""


@pytest.fixture
def experiments(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Experiments]:
    """Return what runs tests in the folder of the test."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    setup = Setup(args=("-p", "failure_taxonomy"), folder=runs.path, rootdir=runs.path)
    until = time.monotonic() + 300
    with Experiments(
        setup, until=until, limit_seconds=60, allows_effects=True
    ) as experiments:
        yield experiments


def victim_of(nodeid: str) -> Victim:
    """Return a test, of which any failure is another one than asked for."""
    return Victim(nodeid=nodeid, fingerprints=frozenset(), endings=frozenset())


DECIDES: Final = {
    "hash_seed": "PYTHONHASHSEED=3",
    "random_seed": "random.seed(1)",
    "time_zone": "TZ=Asia/Kolkata",
    "time": "07-15 12:00:00",
    "network": "the network closed",
    "home": "a fresh HOME and TMPDIR",
    "memory": "512 MB of address space",
}


def test_a_condition_decides(runs: PytestRuns, experiments: Experiments) -> None:
    """The test passes with it alone, and nothing is left behind."""
    runs.write({"test_axes.py": TESTS})
    not_tried = {}
    for name, words in DECIDES.items():
        victim = victim_of(f"test_axes.py::test_{name}")
        found = axes_of(experiments, victim, "passes", uses_random=True)
        axis = next(each for each in found if each.name == name)
        if axis.why_not:
            not_tried[name] = axis.why_not
            continue
        (conditions,) = (each for each in axis.conditions if words in each.words)
        assert (
            experiments.run(victim, conditions=conditions, is_fresh=True).result
            == "passed"
        )
        outcome = experiments.run(victim)
        assert (outcome.result, outcome.answer("uses_random")) == (
            "other",
            name == "random_seed",
        )
        if name == "random_seed":  # a fork can have it, too
            outcome = experiments.run(victim, conditions=conditions)
            assert (outcome.result, outcome.answer("uses_random")) == ("passed", True)
    left = sorted(each.name for each in experiments.folder.iterdir())
    assert left == ["output", "temporary"]
    if not_tried:
        pytest.skip(f"all but these: {not_tried}")


def test_a_test_beside_itself(
    runs: PytestRuns, experiments: Experiments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs at once meet in a file, and the one beside ends as a test does."""
    monkeypatch.setattr(axes, "_BESIDE", 2)
    lock = runs.path / "lock"
    runs.write(
        {
            "test_lock.py": """\
import os, time
def test_it():
    with open("began", "a") as file: file.write("1\\n")
    os.close(os.open("lock", os.O_CREAT | os.O_EXCL))
    time.sleep(0.5)
    os.unlink("lock")
"""
        }
    )
    victim = victim_of("test_lock.py::test_it")
    found = axes_of(experiments, victim, "passes", uses_random=False)
    together, repeated = (
        conditions
        for each in found
        if each.name == "parallel"
        for conditions in each.conditions
    )
    assert together.words == "the same test at the same time"
    assert repeated.words == "the same test beside it, again and again"
    outcome = experiments.run(victim, conditions=repeated)
    assert (outcome.result, "FileExistsError" in outcome.words) == ("other", True)
    assert not lock.exists()
    began = runs.path / "began"
    began.unlink()
    experiments.run(victim, conditions=together)
    assert began.read_text() == "1\n" * 3
    assert experiments.run(victim, is_fresh=True).result == "passed"

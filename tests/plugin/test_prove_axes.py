"""Conditions along each axis, in real runs: they reach the test, which ends as they say."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.prove.axes import axes_of
from pytest_failure_taxonomy.prove.experiment import AS_RECORDED, Experiments, Setup, Victim
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
def test_load(): assert "BUSY" not in os.environ
def test_memory():
    try:
        bytearray(500 << 20)
    except MemoryError:
        return
    assert False
"""


@pytest.fixture
def experiments(runs: PytestRuns, monkeypatch: pytest.MonkeyPatch) -> Iterator[Experiments]:
    """Return what runs tests in the folder of the test."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    setup = Setup(args=("-p", "failure_taxonomy"), folder=runs.path, rootdir=runs.path)
    until = time.monotonic() + 300
    with Experiments(setup, until=until, limit_seconds=60, allows_effects=True) as experiments:
        yield experiments


def victim_of(nodeid: str) -> Victim:
    """Return a test, of which any failure is another one than asked for."""
    return Victim(nodeid=nodeid, fingerprints=frozenset(), endings=frozenset())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hash_seed", "PYTHONHASHSEED=3"),
        ("random_seed", "random.seed(1)"),
        ("time_zone", "TZ=Asia/Kolkata"),
        ("time", "07-15 12:00:00"),
        ("network", "the network closed"),
        ("home", "a fresh HOME and TMPDIR"),
        ("memory", "512 MB of address space"),
    ],
)
def test_a_condition_decides(
    runs: PytestRuns, experiments: Experiments, name: str, words: str
) -> None:
    """The test passes with it alone, and nothing is left behind."""
    runs.write({"test_axes.py": TESTS})
    victim = victim_of(f"test_axes.py::test_{name}")
    found = axes_of(experiments, victim, "passes", uses_random=True)
    axis = next(each for each in found if each.name == name)
    if axis.why_not:
        pytest.skip(axis.why_not)
    (conditions,) = (each for each in axis.conditions if words in each.words)
    results = [
        experiments.run(victim, conditions=each, is_fresh=True).result
        for each in (conditions, AS_RECORDED)
    ]
    assert results == ["passed", "other"]
    assert sorted(each.name for each in experiments.folder.iterdir()) == [
        "cache",
        "output",
        "temporary",
    ]


def test_a_test_beside_itself(runs: PytestRuns, experiments: Experiments) -> None:
    """Two runs at once meet in a file, and the one beside ends as a test does."""
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
    axis = next(each for each in found if each.name == "parallel")
    assert [each.words for each in axis.conditions] == [
        "the same test at the same time",
        "the same test beside it, again and again",
    ]
    outcome = experiments.run(victim, conditions=axis.conditions[1])
    assert (outcome.result, "FileExistsError" in outcome.words) == ("other", True)
    assert not lock.exists()
    began = runs.path / "began"
    began.unlink()
    experiments.run(victim, conditions=axis.conditions[0])
    assert began.read_text() == "1\n" * 4
    assert experiments.run(victim, is_fresh=True).result == "passed"


def test_a_seed_in_a_fork_and_in_a_process(runs: PytestRuns, experiments: Experiments) -> None:
    """Both have the same random numbers, which only a test that takes some has use for."""
    runs.write({"test_axes.py": TESTS})
    victim = victim_of("test_axes.py::test_random_seed")
    found = axes_of(experiments, victim, "mixed", uses_random=True)
    seeds = next(found).conditions
    for is_fresh in (False, True):
        outcomes = [experiments.run(victim, conditions=seeds[1], is_fresh=is_fresh) for _ in "ab"]
        assert {each.result for each in outcomes} == {"passed"}
        assert all(each.answer("uses_random") for each in outcomes)
    other = experiments.run(victim_of("test_axes.py::test_load"))
    assert (other.result, other.answer("uses_random")) == ("passed", False)


def test_the_command_names_the_axis(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says where the test fails and where it passes, and so does the report."""
    monkeypatch.chdir(runs.path)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    code = "import time\ndef test_it(): assert time.localtime(0).tm_hour < 9\n"
    runs.write({"test_it.py": code})
    runs.run()
    assert main(["prove"]) == 0
    first = "the time zone decides, proven: fails with TZ=Asia/Tokyo (5 of 5), "
    said = capsys.readouterr().out
    assert f"{first}passes with TZ=UTC (5 of 5)" in said
    (cause,) = runs.read_report()["causes"]
    assert cause["retryable"] is False
    assert (cause["proof"]["type"], cause["proof"]["state"]) == ("axis.time_zone", "TZ=Asia/Tokyo")
    assert cause["proof"]["without"] == {"runs": 5, "failed": 0, "state": "TZ=UTC"}

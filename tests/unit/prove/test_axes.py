"""What is tried along each axis, and what is concluded of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.prove import axes
from pytest_failure_taxonomy.prove.axes import Axis, Base
from pytest_failure_taxonomy.prove.experiment import (
    Conditions,
    Experiments,
    Setup,
    Victim,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.simulated import Simulated
from tests.helpers.waiting import wait_until
from tests.unit.prove.test_ladder import prove

VICTIM: Final = Victim(nodeid="test_it", fingerprints=frozenset(), endings=frozenset())
NOON: Final = datetime(2026, 11, 26, 12, tzinfo=UTC)


def axes_by_name(
    base: Base,
    *,
    args: tuple[str, ...] = (),
    uses_random: bool = False,
    **variables: str,
) -> dict[str, Axis]:
    """Return the axes that are tried, in their order."""
    setup = Setup(args=args, folder=Path(), rootdir=Path(), variables=variables)
    experiments = Experiments(setup, until=0.0, limit_seconds=1.0)
    experiments.folder = Path("own")
    found = axes.axes_of(experiments, VICTIM, base, uses_random=uses_random)
    return {axis.name: axis for axis in found}


@pytest.mark.parametrize(
    ("base", "known", "tried"),
    [
        # What each run has another value of was tried by the runs that all failed.
        ("fails", {}, "network home time time_zone"),
        ("fails", {"PYTHONHASHSEED": "0"}, "network home time time_zone hash_seed"),
        ("fails", {"uses_random": True}, "random_seed network home time time_zone"),
        ("passes", {}, "network home parallel load time time_zone memory hash_seed"),
        # What is the same in each run does not decide where it comes and goes.
        ("mixed", {}, "hash_seed network parallel load"),
        ("mixed", {"PYTHONHASHSEED": "0"}, "network parallel load"),
        ("mixed", {"uses_random": True}, "random_seed hash_seed network parallel load"),
        (
            "mixed",
            {"uses_random": True, "args": ("--randomly-seed=7",)},
            "hash_seed network parallel load",
        ),
    ],
)
def test_axes_that_are_tried(
    base: Base, known: dict[str, Any], tried: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those that could decide, the cheapest first."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    assert " ".join(axes_by_name(base, **known)) == tried


@pytest.mark.parametrize(
    ("failure", "first"),
    [
        ("MemoryError", "memory"),
        ("OSError: [Errno 98] Address already in use", "parallel"),
        ("assert 1 == 2", "network"),
    ],
)
def test_what_the_failure_speaks_of_is_tried_first(failure: str, first: str) -> None:
    """None is missing, and the others keep their order."""
    known = [*axes_by_name("passes").values()]
    ordered = [*axes.likely_first(known, failure)]
    assert ordered[0].name == first
    rest = [axis.name for axis in known if axis.name != first]
    assert [axis.name for axis in ordered[1:]] == rest


def test_words_and_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state as it is has words, and is not among what is tried."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    args = ("--randomly-seed=7", "-x")
    found = axes_by_name("fails", args=args, uses_random=True, PYTHONHASHSEED="3")
    assert found["hash_seed"].as_it_is == "PYTHONHASHSEED=3"
    words = [each.words for each in found["hash_seed"].conditions]
    assert words[:4] == [f"PYTHONHASHSEED={seed}" for seed in (0, 1, 2, 4)]
    assert found["hash_seed"].conditions[0].variables == (("PYTHONHASHSEED", "0"),)
    assert found["random_seed"].as_it_is == "--randomly-seed=7"
    assert found["random_seed"].conditions[7].args == ("--randomly-seed=8",)
    assert found["time_zone"].as_it_is == "TZ=Asia/Kolkata"
    assert "TZ=Asia/Kolkata" not in [
        each.words for each in found["time_zone"].conditions
    ]
    seeded = axes_by_name("mixed", uses_random=True)["random_seed"]
    assert (seeded.as_it_is, seeded.conditions[3].words) == ("", "random.seed(3)")
    variables = dict(found["home"].conditions[0].variables)
    assert variables["HOME"] == os.path.join("own", "home", "HOME")
    assert variables["PYTHONUSERBASE"]  # installed packages stay


def test_the_zone_that_it_has_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine in UTC does not try UTC."""
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr("time.strftime", lambda *_: "UTC")
    zones = axes_by_name("fails")["time_zone"]
    assert zones.as_it_is == "the time zone as it is (UTC)"
    assert "TZ=UTC" not in [each.words for each in zones.conditions]


@pytest.mark.parametrize(
    ("base", "recorded_at", "expected"),
    [
        (
            "fails",
            None,
            ["2023-07-15 12:00:00", "2036-03-15 12:00:00", "2026-12-05 12:00:00"],
        ),
        (
            "passes",
            NOON - timedelta(minutes=9),
            ["2023-07-15 12:00:00", "2026-12-31 23:58:00"],
        ),
        ("passes", NOON - timedelta(days=2, hours=11), ["2026-11-24 01:00:00"]),
        (
            "passes",
            None,
            ["2026-01-31 23:58:00", "2027-01-01 00:01:00", "2028-02-29 12:00:00"],
        ),
    ],
)
def test_times(base: Base, recorded_at: datetime | None, expected: list[str]) -> None:
    """Ordinary days where it fails now, and also rare ones and when it failed where it passes."""
    times = axes.times_to_try(NOON, base, recorded_at)
    assert [each for each in times if each in expected] == expected
    if base == "fails":
        assert [*times] == expected
    assert (times[0] == "2026-11-24 01:00:00") == (expected == ["2026-11-24 01:00:00"])


@pytest.mark.parametrize(
    "day", [datetime(2024, 2, 29, tzinfo=UTC), datetime(2026, 3, 31, tzinfo=UTC)]
)
def test_times_on_days_that_not_all_months_have(day: datetime) -> None:
    """They are computed on any day."""
    assert len(axes.times_to_try(day, "passes", None)) == 7


def test_what_can_not_be_tried_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no error."""

    def forbid(command: Sequence[str], **_: object) -> None:
        raise FileNotFoundError(command[0])

    monkeypatch.setattr(axes, "find_faketime", lambda: None)
    monkeypatch.setattr("subprocess.run", forbid)
    monkeypatch.setattr(axes, "_ZONE_FILES", Path("missing"))
    reasons = {
        name: axis.why_not
        for name, axis in axes_by_name("passes").items()
        if axis.why_not
    }
    assert reasons == {
        "network": "this user gets no network namespace of its own",
        "time_zone": "there are no time zones in missing",
        "time": "libfaketime is not installed",
        "memory": "no shell here limits it",
    }


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_processors_are_busy_and_then_they_are_not() -> None:
    """The processes run meanwhile, and are gone afterwards, also after Ctrl+C."""
    before = {*children()}  # other tests of this process have some, too
    busy: set[int] = set()

    def interrupted() -> None:
        with axes.keep_busy():
            busy.update({*children()} - before)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(busy) >= 2
    assert not busy & {*children()}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_keeps_processors_busy_ends_with_who_started_it() -> None:
    """Also where that was killed."""
    code = "from pytest_failure_taxonomy.prove.axes import keep_busy\nimport os, time\n"
    code += "with keep_busy(): print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        busy = children(process.pid)
        process.kill()
    assert busy
    wait_until(lambda: not any(is_running(each) for each in busy), "they have ended")


def children(parent: int | None = None) -> list[int]:
    """Return the ids of a process's children."""
    parent = parent or os.getpid()
    tasks = Path(f"/proc/{parent}/task").iterdir()
    return [
        int(each) for task in tasks for each in (task / "children").read_text().split()
    ]


def is_running(process_id: int) -> bool:
    """Tell whether a process is there, and is no zombie."""
    try:
        return ") Z " not in Path(f"/proc/{process_id}/stat").read_text()
    except FileNotFoundError:
        return False


def conditions(*words: str) -> tuple[Conditions, ...]:
    """Return conditions that no command has."""
    return tuple(Conditions(words=text, in_shell=None) for text in words)


SEEDS: Final = Axis(
    name="hash_seed", conditions=conditions(*[f"seed {seed}" for seed in range(16)])
)
LOAD: Final = Axis(
    name="load", as_it_is="as it is", conditions=conditions("busy"), tries=3
)
ZONES: Final = Axis(
    name="time_zone", as_it_is="UTC", conditions=conditions("Berlin", "Kolkata")
)


def along(rate: Callable[[str], float], *tried: Axis, seed: int = 1) -> dict[str, Any]:
    """Return the proof of a victim for which some axes are tried."""

    def to_try(_: Base, uses_random: bool) -> Iterable[Axis]:
        assert not uses_random
        return tried

    experiments = Simulated(lambda _, words: rate(words), seed=seed)
    return prove(experiments, recorded=(), natural=(), axes=to_try)


@pytest.mark.parametrize(
    ("rate", "sort", "state", "other"),
    [
        (lambda words: float(words != "Kolkata"), "time_zone", "UTC", "Kolkata"),
        (lambda words: float(words == "Berlin"), "time_zone", "Berlin", "UTC"),
        (lambda words: 0.8 if words == "busy" else 0.0, "load", "busy", "as it is"),
    ],
)
def test_what_decides_is_proven(
    rate: Callable[[str], float], sort: str, state: str, other: str
) -> None:
    """Where it fails and where it passes are both said, and both were counted."""
    proof = along(rate, LOAD, ZONES)
    assert (proof["type"], proof["status"], proof["state"]) == (
        f"axis.{sort}",
        "proven",
        state,
    )
    assert proof["failed"] >= 5
    assert proof["without"] == {
        "runs": proof["without"]["runs"],
        "failed": 0,
        "state": other,
    }
    assert proof["without"]["runs"] >= 5


def test_seeds_that_decide() -> None:
    """Each run has another one: one that fails is compared with one that passes."""
    chance = iter([0.0, 1.0] * 100)
    rates = {"": lambda: next(chance), "seed 0": lambda: 0.0, "seed 1": lambda: 0.0}
    proof = along(lambda words: rates.get(words, lambda: 1.0)(), SEEDS)
    assert (proof["type"], proof["state"]) == ("axis.hash_seed", "seed 2")
    assert proof["without"] == {"runs": 9, "failed": 0, "state": "seed 0"}


def test_what_only_shifts_the_rate_is_suspected() -> None:
    """Where it comes and goes anyway, nothing but its rate is proven."""
    proof = along(lambda words: 0.95 if words == "busy" else 0.2, LOAD, seed=3)
    assert (proof["type"], proof["status"]) == ("flaky", "proven")
    assert proof["suspicions"] == ["load: fails 10 of 10 with busy"]


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.8, 0.95])
def test_chance_is_not_taken_for_an_axis(rate: float) -> None:
    """What led to a suspicion was chosen by how it ended, and is no part of its proof."""
    proofs = [
        along(lambda _: rate, LOAD, ZONES, SEEDS, seed=seed) for seed in range(60)
    ]
    assert [each for each in proofs if each["type"].startswith("axis")] == []


def test_what_is_not_tried_is_kept() -> None:
    """An axis that can't be tried is no error, and what is left decides."""
    missing = Axis(name="time", why_not="libfaketime is not installed")
    proof = along(lambda _: 1.0, missing, replace(LOAD, conditions=()))
    assert (proof["type"], proof["status"]) == ("reproducible", "proven")


def test_load_keeps_all_processors_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are two processes for each processor that this one may use."""
    started = []

    class Started:
        def __init__(self, command: Sequence[str], **_: object) -> None:
            started.append(command)

        def kill(self) -> None:
            """Do nothing."""

        wait = kill

    monkeypatch.setattr("subprocess.Popen", Started)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    with axes.keep_busy():
        assert len(started) == 6


def test_folders_of_its_own_are_fresh_and_gone_afterwards(tmp_path: Path) -> None:
    """Each run has empty ones."""
    axis = axes.empty_home(tmp_path / "home")
    (empty,) = axis.conditions
    assert isinstance(empty.around, partial)
    for _ in range(2):
        with empty.around():
            home = Path(str(dict(empty.variables)["HOME"]))
            assert [*home.iterdir()] == []
            (home / ".cache").touch()
    assert [*tmp_path.iterdir()] == []

"""The axes: what may decide how a run ends besides its tests, and what to try along each.

One axis is changed at a time, and all others stay as they are. What can't be tried on a machine
says why, and is no error.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import time
from calendar import isleap
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pytest_failure_taxonomy.prove.experiment import (
    AS_RECORDED,
    Conditions,
    Experiments,
    Victim,
)
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import Proof
from pytest_failure_taxonomy.taxonomy.values import replace, value

Base = Literal["fails", "passes", "mixed"]
"""How a test ends by itself, before anything is changed."""

_RANDOMLY: Final = "--randomly-seed="
_TRIES: Final = 3
"""How often something is tried that does not decide each time, such as load."""
_WAYS_BESIDE: Final = {
    False: "the same test at the same time",
    True: "the same test beside it, again and again",
}
"""The words for other processes with the same test, by whether they repeat it."""
_BUSY_PER_PROCESSOR: Final = 2
_BESIDE: Final = 3
"""Processes that run the same test beside it."""
_TIME: Final = "%Y-%m-%d %H:%M:%S"
"""The form that libfaketime takes."""
_ZONE_FILES: Final = Path("/usr/share/zoneinfo")
_WITHOUT_NETWORK: Final = Path(__file__).parents[1] / "system" / "without_network.py"
# It ends by itself when who has started it is gone, however that ended.
_KEEP_BUSY: Final = """\
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


@value
class Axis:
    """One thing that may decide, and what is tried of it."""

    name: str
    """As in the type of a proof: `axis.NAME`."""
    as_it_is: str = ""
    """The state that it has when nothing is changed; empty where each run has another one."""
    conditions: tuple[Conditions, ...] = ()
    """What is tried; their words name the states."""
    tries: int = 1
    """How often each is tried before it is given up."""
    why_not: str = ""
    """Why nothing can be tried here."""


def axes_of(
    experiments: Experiments,
    victim: Victim,
    base: Base,
    *,
    uses_random: bool,
    recorded_at: datetime | None = None,
) -> Iterator[Axis]:
    """Yield the axes that could decide, those with the fewest experiments first.

    What stays the same from run to run does not decide alone where a test comes and goes.

    Args:
        experiments: which run them.
        victim: the test that fails.
        base: how it ends when nothing is changed.
        uses_random: whether it takes random numbers that can be seeded.
        recorded_at: when it failed, with a time zone.
    """
    table = packaged_table("experiments")["axes"]
    variables = {**os.environ, **experiments.setup.variables}
    seed = variables.get("PYTHONHASHSEED") or "random"
    hash_seed = Axis(
        name="hash_seed",
        as_it_is="" if seed == "random" else f"PYTHONHASHSEED={seed}",
        conditions=_with_variable(
            "PYTHONHASHSEED", map(str, range(table["hash_seeds"])), seed
        ),
    )
    random_seed = _random_seed(experiments.setup.args, table["random_seeds"])
    # Forks can have another seed, but not what else a process begins with.
    if uses_random and not (base == "mixed" and random_seed.as_it_is):
        yield random_seed
    if base == "mixed" and not hash_seed.as_it_is:
        yield hash_seed
    time_axis = _time(variables.get("LD_PRELOAD"), base, recorded_at)
    if base == "passes" and _is_another_time(recorded_at):
        # What has changed for sure since it failed.
        yield replace(time_axis, conditions=time_axis.conditions[:1])
    yield _network()
    if base != "mixed":
        yield empty_home(experiments.folder / "home")
    if base != "fails":
        # One of them may make it fail too seldom, and the other not.
        for repeats, words in _WAYS_BESIDE.items():
            beside = partial(experiments.beside, victim, _BESIDE, repeats=repeats)
            job = "while :; do {run}; done" if repeats else "{run}"
            shell = _jobs(_BESIDE, f"({job}) >/dev/null 2>&1")
            yield _around("parallel", "none beside it", beside, words, shell)
        busy = _jobs(_busy_processes(), "sh -c 'while :; do :; done'")
        yield _around(
            "load",
            "the processors as they are",
            keep_busy,
            "the processors busy",
            busy,
        )
    if base != "mixed":
        # A time zone changes the hour, too: what the clock decides is no matter of zones.
        yield time_axis
        yield _time_zone(variables.get("TZ"), table["zones"])
    if base == "passes":
        yield _memory(table["megabytes"])
    # Fresh processes that all failed had other hash seeds each, unless it is set.
    if base == "passes" or (base == "fails" and hash_seed.as_it_is):
        yield hash_seed


def likely_first(axes: Iterable[Axis], failure: str) -> Iterator[Axis]:
    """Yield axes, first those that the words of a failure speak of."""
    signs = packaged_table("experiments")["axes"]["signs"]
    others = []
    for axis in axes:
        if re.search(signs.get(axis.name, "(?!)"), failure):
            yield axis
        else:
            others.append(axis)
    yield from others


def conditions_of(
    experiments: Experiments,
    victim: Victim,
    proof: Proof,
    recorded_at: datetime,
) -> Conditions | None:
    """Return the conditions in which a test fails by its proof; `None` if they can't be had."""
    name, state = proof.type.removeprefix("axis."), proof.state or ""
    if name == proof.type:
        return AS_RECORDED
    for base in get_args(Base):
        axes = axes_of(
            experiments,
            victim,
            base,
            uses_random=True,
            recorded_at=recorded_at,
        )
        for axis in axes:
            if axis.name != name:
                continue
            # What is in brackets is of that time.
            if state.partition(" (")[0] == axis.as_it_is.partition(" (")[0]:
                return AS_RECORDED
            for conditions in axis.conditions:
                if conditions.words == state:
                    return conditions
    return None


def _with_variable(
    name: str, values: Iterable[str], now: str | None
) -> tuple[Conditions, ...]:
    return tuple(
        Conditions(variables=((name, text),), words=f"{name}={text}")
        for text in values
        if text != now
    )


def _jobs(count: int, job: str) -> str:
    """Return how a shell has something run beside a command, and ends it with that."""
    names = " ".join(map(str, range(1, count + 1)))
    start = f"for job in {names}; do {job} & done"
    return f"({start}; {{run}}; status=$?; kill $(jobs -p) 2>/dev/null; exit $status)"


def _around(
    name: str, as_it_is: str, around: Callable[[], Any], words: str, shell: str
) -> Axis:
    """Return an axis along which something runs beside the test, which does not always decide."""
    conditions = (Conditions(around=around, words=words, in_shell=shell),)
    return Axis(name=name, as_it_is=as_it_is, conditions=conditions, tries=_TRIES)


def _network() -> Axis:
    prefix = (sys.executable, "-I", str(_WITHOUT_NETWORK))
    can_run = _can_run((*prefix, "true"))
    return Axis(
        name="network",
        as_it_is="the network open",
        conditions=(
            Conditions(
                prefix=prefix,
                words="the network closed",
                in_shell="unshare --map-root-user --net env {run}",
            ),
        ),
        why_not="" if can_run else "this user gets no network namespace of its own",
    )


def _can_run(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours
            command, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def empty_home(folder: Path) -> Axis:
    """Return the axis of the user's folders: as they are, or empty ones in a folder."""
    xdg = (f"XDG_{name}_HOME" for name in ("CONFIG", "CACHE", "DATA", "STATE"))
    folders = {name: folder / name for name in ("HOME", "USERPROFILE", "TMPDIR", *xdg)}
    variables = {name: str(path) for name, path in folders.items()}
    # The packages that are installed in the real one stay.
    variables["PYTHONUSERBASE"] = site.getuserbase()
    fresh = Conditions(
        variables=tuple(variables.items()),
        around=partial(_fresh_folders, [*folders.values()]),
        words="a fresh HOME and TMPDIR",
        in_shell='(export HOME="$(mktemp -d)" TMPDIR="$(mktemp -d)"; {run})',
    )
    return Axis(
        name="home", as_it_is="HOME and TMPDIR as they are", conditions=(fresh,)
    )


@contextmanager
def _fresh_folders(folders: Sequence[Path]) -> Generator[None, None, None]:
    for folder in folders:
        folder.mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(folders[0].parent, ignore_errors=True)


def _random_seed(args: Sequence[str], seeds: int) -> Axis:
    now = next((arg for arg in reversed(args) if arg.startswith(_RANDOMLY)), "")
    conditions = []
    for seed in range(seeds):
        arg = f"{_RANDOMLY}{seed}"
        if not now:
            words = f"random.seed({seed})"
            conditions.append(Conditions(seed=seed, words=words, in_shell=None))
        elif arg != now:
            conditions.append(Conditions(seed=seed, args=(arg,), words=arg))
    return Axis(name="random_seed", as_it_is=now, conditions=tuple(conditions))


def _time_zone(now: str | None, zones: Sequence[str]) -> Axis:
    here = time.strftime("%Z")
    known = [zone for zone in zones if (_ZONE_FILES / zone).exists()]
    return Axis(
        name="time_zone",
        as_it_is=f"TZ={now}" if now else f"the time zone as it is ({here})",
        conditions=_with_variable("TZ", known, now or here),
        why_not="" if known else f"there are no time zones in {_ZONE_FILES}",
    )


def _time(preloaded: str | None, base: Base, recorded_at: datetime | None) -> Axis:
    library = find_faketime()
    if library is None:
        return Axis(name="time", why_not="libfaketime is not installed")
    now = datetime.now().astimezone()
    always = (
        ("LD_PRELOAD", " ".join(filter(None, (library, preloaded)))),
        # Limits of time and durations go on as they are, and so do the times of files.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("NO_FAKE_STAT", "1"),
    )
    return Axis(
        name="time",
        as_it_is=f"the clock as it is ({now:%Y-%m-%d %H:%M})",
        conditions=tuple(
            Conditions(
                variables=(*always, ("FAKETIME", f"@{at}")), words=f"the clock at {at}"
            )
            for at in times_to_try(now, base, recorded_at)
        ),
    )


def find_faketime() -> str | None:
    """Return the path of libfaketime; `None` without it."""
    patterns = [*packaged_table("experiments")["axes"]["libfaketime"]]
    if command := shutil.which("faketime"):
        patterns.append(
            str(Path(command).resolve().parents[1] / "lib*/faketime/libfaketime.so.1")
        )
    return next((path for pattern in patterns for path in sorted(glob(pattern))), None)


def times_to_try(
    now: datetime, base: Base, recorded_at: datetime | None
) -> tuple[str, ...]:
    """Return the times that a test is run at, in the form that libfaketime takes.

    Args:
        now: of the local time zone.
        base: how it ends now. Where it fails, days without anything special are enough.
        recorded_at: when it failed. It comes first, unless that is this hour.
    """
    table = packaged_table("experiments")["axes"]
    # The next Wednesday or Saturday, whichever is farther from what today is
    days = (5 if now.weekday() < 5 else 2) - now.weekday() + 7
    times = [f"{now.year + years}-{at}" for years, at in table["ordinary_times"]]
    times.append(f"{now + timedelta(days=days):%Y-%m-%d} 12:00:00")
    if base == "fails":
        return tuple(times)
    if recorded_at is not None and _is_another_time(recorded_at, now):
        times.insert(0, recorded_at.astimezone(now.tzinfo).strftime(_TIME))
    leap = next(year for year in range(now.year, now.year + 9) if isleap(year))
    rare = [f"{now.year + years}-{at}" for years, at in table["rare_times"]]
    return (*times, *rare, f"{leap}-02-29 12:00:00")


def _busy_processes() -> int:
    processors = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    return _BUSY_PER_PROCESSOR * processors


def _is_another_time(recorded_at: datetime | None, now: datetime | None = None) -> bool:
    """Tell whether more than an hour lies between a time and now."""
    if recorded_at is None:
        return False
    return abs((now or datetime.now(UTC)) - recorded_at) > timedelta(hours=1)


@contextmanager
def keep_busy() -> Generator[None, None, None]:
    """Keep all processors busy that this process may use."""
    command = (sys.executable, "-I", "-S", "-c", _KEEP_BUSY, str(os.getpid()))
    busy: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(_busy_processes()):
            process = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - as above
            busy.append(process)
        yield
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()


def _memory(megabytes: Sequence[int]) -> Axis:
    # Of a process alone, it is the address space that can be limited.
    limited = ("sh", "-c", 'ulimit -v "$0" && exec "$@"')
    conditions = tuple(
        Conditions(
            prefix=(*limited, str(size << 10)),
            words=f"{size:,} MB of address space",
            in_shell=f"(ulimit -v {size << 10}; {{run}})",
        )
        for size in megabytes
    )
    can_run = _can_run((*conditions[0].prefix, "true"))
    return Axis(
        name="memory",
        as_it_is="the memory as it is",
        conditions=conditions,
        why_not="" if can_run else "no shell here limits it",
    )

"""Suspect why a test is flaky, by what the runs in which it failed have in common.

Each signal is a test of its own: Fisher's exact one of what its runs have in common, and a binomial
one of what it raises. They are corrected for their number by Holm's method: of the tests that fail
by chance alone, one in twenty is suspected of anything at most. Types are those of proofs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from math import exp, lgamma, log, log1p
from operator import attrgetter
from statistics import quantiles
from typing import Final, NamedTuple

from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import enumerated

MAX_CHANCE: Final = 0.05
"""How likely it may be that a signal is due to chance alone."""
FEWEST_FAILURES: Final = 3
"""How many failures it takes to say what they have in common."""
_LONG_SECONDS: Final = 1.0
"""Below it, a failing test takes longer because pytest compares what was asserted."""
_SLOW: Final = 1.5
"""How many times the median it takes at least."""
_SHARE_BY_CHANCE: Final = 0.25
"""More failures of one family of exceptions than that are no chance."""
_FAMILIES: Final = {
    "axis.network": r"Connect|gaierror|SSL|TLS|Proxy|MaxRetry|NameResolution|\w*Disconnected|URLErr"
    r"|Read(?:Error|Timeout)|RemoteProtocol|Client(?:Connector|OS)Error|EndpointConnection",
    "axis.load": r"\w*Time(?:d?out|LimitExceeded)|.{0,200}?: (?:Timeout \(?>|timed out after )",
    "axis.memory": r"MemoryError|OutOfMemory",
    "axis.parallel": r"FileExists|.{0,200}?(?:[Aa]ddress already in use|database is locked)",
}
"""How the name of an exception begins, or what is in its message, by what that speaks for."""
_EQUATION: Final = re.compile(
    r"AssertionError: assert ([^\n]{1,300}?) == ([^\n]{1,300})"
)
_DAYS: Final = (
    "Mondays",
    "Tuesdays",
    "Wednesdays",
    "Thursdays",
    "Fridays",
    "Saturdays",
    "Sundays",
)


class Seen(NamedTuple):
    """A run in which a test passed or failed."""

    raised: str
    """The exception's type and message; empty where it passed."""
    at: datetime
    """UTC."""
    branch: str | None
    run_seconds: float | None
    collected: int
    """How many tests the run had."""
    job: str | None
    """Of the CI system."""
    has_failed: bool
    """Be it that it passed on a rerun."""
    seconds: float | None
    """That the test took."""


@value
class Suspicion:
    """What the failures of a test have in common."""

    type: str
    evidence: str
    chance: float
    """How likely chance alone gives as much, corrected for all that was tried."""


@lru_cache(maxsize=50_000)
def chance_of_so_many(shared: int, one: int, other: int, runs: int) -> float:
    """Return how likely two sets of so many of the runs have so many in common, or more.

    It is the tail of the hypergeometric distribution, and Fisher's exact test of one side; 1.0 for
    what is no more than is to be expected.
    """
    if shared * runs <= one * other:
        return 1.0
    ways = _log_ways(one, shared) + _log_ways(runs - one, other - shared)
    term, chance = exp(ways - _log_ways(runs, other)), 0.0
    for common in range(shared, min(one, other) + 1):
        chance += term
        term *= (one - common) * (other - common)
        term /= (common + 1) * (runs - one - other + common + 1)
    return min(1.0, chance)


def _log_ways(all_: int, some: int) -> float:
    return lgamma(all_ + 1) - lgamma(some + 1) - lgamma(all_ - some + 1)


def suspicions_of(seen: Sequence[Seen]) -> list[Suspicion]:
    """Return what may make a test fail, the strongest signal first.

    Args:
        seen: the runs in which it passed or failed, in the order of their times.
    """
    # A failure right after one on the same branch tells nothing new: it may be the same mistake.
    is_new, failed_last = [], dict[str | None, bool]()
    for run in seen:
        is_new.append(not (run.has_failed and failed_last.get(run.branch)))
        failed_last[run.branch] = run.has_failed
    # What is raised is seen of the failure itself, all else of the runs around it.
    raised = [*_by_what_is_raised(seen, is_new)]
    signals = [*raised, *_by_runs(seen, is_new)]
    signals.sort(key=attrgetter("chance"))
    of_failures: list[Suspicion] = []
    of_runs: list[Suspicion] = []
    chance = 0.0
    # Holm, Scandinavian Journal of Statistics 6, 1979
    for place, signal in enumerate(signals):
        corrected = min(1.0, signal.chance * (len(signals) - place))
        chance = max(chance, corrected)
        if chance > MAX_CHANCE:
            break
        suspicions = of_failures if signal in raised else of_runs
        suspicions.append(replace(signal, chance=chance))
    return of_failures + of_runs


def _by_what_is_raised(
    seen: Sequence[Seen], is_new: Sequence[bool]
) -> Iterator[Suspicion]:
    """Yield a signal about the family of exceptions that most failures belong to."""
    families = Counter(
        _family_of(run.raised)
        for run, new in zip(seen, is_new, strict=True)
        if run.has_failed and new
    )
    failures = families.total()
    del families[""]
    for family, count in families.most_common(1):
        is_it, is_other = log(_SHARE_BY_CHANCE), log1p(-_SHARE_BY_CHANCE)
        chance = sum(
            exp(_log_ways(failures, some) + some * is_it + (failures - some) * is_other)
            for some in range(count, failures + 1)
        )
        raised = [run.raised for run in seen if run.has_failed]
        names = Counter[str]()
        for text in raised:
            if _family_of(text) == family:
                names[text.partition(":")[0]] += 1
        shown = [name for name, _ in names.most_common(2)]
        what = f"raises {enumerated(shown, len(names))}"
        if family == "axis.hash_seed":
            what = "what it compares has the same elements in another order"
        yield Suspicion(
            type=family,
            evidence=f"{what}: {names.total()} of {len(raised)} failures",
            chance=min(1.0, chance * (len(_FAMILIES) + 1)),
        )


def _family_of(raised: str) -> str:
    if equation := _EQUATION.match(raised):
        left, right = (re.findall(r"[\w.]+", side) for side in equation.groups())
        is_reordered = left != right and sorted(left) == sorted(right)
        return "axis.hash_seed" if is_reordered else ""
    for family, pattern in _FAMILIES.items():
        if re.match(pattern, raised):
            return family
    return ""


def _by_runs(seen: Sequence[Seen], is_new: Sequence[bool]) -> Iterator[Suspicion]:
    """Yield a signal for everything that the runs in which a test failed may have in common.

    Sets of runs are whole numbers with one bit a run.
    """
    every, new = bits(True for _ in seen), bits(is_new)
    failed = bits(run.has_failed for run in seen)
    most = max((run.collected for run in seen), default=0)
    whole = bits(2 * run.collected >= most for run in seen)
    others: list[float | None] = []
    for run in seen:
        seconds = run.run_seconds
        # Runs of a part of the tests are short, whatever the load is.
        if seconds is None or 2 * run.collected < most:
            others.append(None)
        else:
            others.append(seconds - (run.seconds or 0.0))
    own = [run.seconds for run in seen]
    jobs = sorted({run.job for run in seen if run.job})
    of_job = {
        f"in the CI job {job}": bits(run.job == job for run in seen) for job in jobs
    }
    # By type: what the test may fail in, and the runs of which that is known.
    signals = (
        ("axis.time", _times([run.at for run in seen]), every),
        (
            "axis.load",
            *_slow("where the other tests take more than {:.1f} s", others, 0.0),
        ),
        ("axis.load", *_slow("where it takes more than {:.1f} s", own, _LONG_SECONDS)),
        ("order.polluted", {"in runs of most of the tests": whole}, every),
        (
            "order.brittle",
            {"in runs of less than half of the tests": every & ~whole},
            every,
        ),
        ("environment", of_job, every),
    )
    for type_, tried, known in signals:
        compared = known & new
        failures = failed & compared
        if failures.bit_count() < FEWEST_FAILURES:
            continue
        chances = {}
        for where, there in tried.items():
            runs = there & compared
            # Else there is nothing to compare.
            if runs not in (0, compared):
                sets = (runs & failures, runs, failures, compared)
                chances[where] = chance_of_so_many(*map(int.bit_count, sets))
        if not chances:
            continue
        where = min(chances, key=chances.__getitem__)
        runs, failures = tried[where] & known, failed & known
        sets = (runs & failures, failures, runs, known)
        both, failed_runs, runs_there, known_runs = map(int.bit_count, sets)
        how = "only" if both == failed_runs else "more often"
        yield Suspicion(
            type=type_,
            evidence=f"fails {how} {where}: {both:,} of {failed_runs:,} failures match, "
            f"but only {runs_there:,} of {known_runs:,} runs",
            chance=min(1.0, chances[where] * len(tried)),
        )


def _times(ats: Sequence[datetime]) -> dict[str, int]:
    """Return the runs of each part of the day, day of the week, and end of a month."""
    by_hour = [bits(at.hour == hour for at in ats) for hour in range(24)]
    spans = [*by_hour]
    times = {}
    for hours in range(1, 13):
        for begin, there in enumerate(spans):
            end = (begin + hours) % 24
            times[f"between {begin:02d}:00 and {end:02d}:00 UTC"] = there
            spans[begin] = there | by_hour[end]
    for weekday, name in enumerate(_DAYS):
        times[f"on {name}"] = bits(at.weekday() == weekday for at in ats)
    next_days = [at + timedelta(days=1) for at in ats]
    times["on the first day of a month"] = bits(at.day == 1 for at in ats)
    times["on the last day of a month"] = bits(day.day == 1 for day in next_days)
    return times


def _slow(
    where: str, seconds: Sequence[float | None], least: float
) -> tuple[dict[str, int], int]:
    """Return the slowest quarter of the runs, as far as they are slow, and those that are known.

    A run with a failure takes a little longer for its traceback alone.
    """
    known = [taken for taken in seconds if taken is not None]
    if len(known) > 1:
        _, median, above = quantiles(known, n=4)
        least = max(least, above, _SLOW * median)
    slow = bits(taken is not None and taken > least for taken in seconds)
    is_known = bits(taken is not None for taken in seconds)
    return {where.format(least): slow}, is_known


def bits(flags: Iterable[bool]) -> int:
    """Return the whole number of which those bits are set, the lowest one first."""
    return sum(1 << place for place, flag in enumerate(flags) if flag)

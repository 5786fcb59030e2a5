"""Suspect why a test is flaky, by what the runs in which it failed have in common.

Each signal is a test of its own: Fisher's exact one of what its runs have in common,
and a binomial one of what it raises. They are corrected for their number by Holm's
method: of the tests that fail by chance alone, one in twenty is suspected of anything
at most. Types are those of proofs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    "axis.network": r"Connect|gaierror|SSL|TLS|Proxy|MaxRetry|NameResolution"
    r"|\w*Disconnected|URLErr|Read(?:Error|Timeout)|RemoteProtocol"
    r"|Client(?:Connector|OS)Error|EndpointConnection",
    "axis.load": r"\w*Time(?:d?out|LimitExceeded)"
    r"|.{0,200}?: (?:Timeout \(?>|timed out after )",
    "axis.memory": r"MemoryError|OutOfMemory",
    "axis.parallel": r"FileExists"
    r"|.{0,200}?(?:[Aa]ddress already in use|database is locked)",
}
"""What the text of an exception begins with, by the type that it speaks for."""
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
def chance_of_so_many(shared: int, size: int, other_size: int, runs: int) -> float:
    """Return how likely two sets of runs have so many in common, or more.

    It is the tail of the hypergeometric distribution, and Fisher's exact test of one
    side; 1.0 if they have no more in common than is to be expected.

    Args:
        shared: how many runs both sets have.
        size: how many runs the first set has.
        other_size: how many runs the second set has.
        runs: how many runs there are.
    """
    if shared * runs <= size * other_size:
        return 1.0
    ways = _log_ways(size, shared) + _log_ways(runs - size, other_size - shared)
    term = exp(ways - _log_ways(runs, other_size))
    chance = 0.0
    # Each term is the last one times a ratio, which is far cheaper than factorials.
    for common in range(shared, min(size, other_size) + 1):
        chance += term
        term *= (size - common) * (other_size - common)
        term /= (common + 1) * (runs - size - other_size + common + 1)
    return min(1.0, chance)


def _log_ways(size: int, chosen: int) -> float:
    """Return the logarithm of the number of ways to choose some of a set."""
    return lgamma(size + 1) - lgamma(chosen + 1) - lgamma(size - chosen + 1)


def suspicions_of(runs: Sequence[Seen]) -> list[Suspicion]:
    """Return what may make a test fail, the strongest signal first.

    Args:
        runs: the runs in which it passed or failed, in the order of their times.
    """
    # A failure right after one on the same branch tells nothing new: it may be the same
    # mistake.
    is_new = []
    failed_last = dict[str | None, bool]()
    for run in runs:
        is_new.append(not (run.has_failed and failed_last.get(run.branch)))
        failed_last[run.branch] = run.has_failed
    # An exception is seen of the failure itself, all else of the runs around it.
    of_exceptions = [*_judge_exceptions(runs, is_new)]
    signals = [*of_exceptions, *_judge_runs(runs, is_new)]
    signals.sort(key=attrgetter("chance"))
    suspicions: list[Suspicion] = []
    chance = 0.0
    # Holm, Scandinavian Journal of Statistics 6, 1979: the smallest chance is
    # multiplied by the number of signals, the next by one less, until one is too
    # likely.
    for place, signal in enumerate(signals):
        corrected = min(1.0, signal.chance * (len(signals) - place))
        chance = max(chance, corrected)
        if chance > MAX_CHANCE:
            break
        suspicion = replace(signal, chance=chance)
        if signal in of_exceptions:
            suspicions.insert(0, suspicion)
        else:
            suspicions.append(suspicion)
    return suspicions


def _judge_exceptions(
    runs: Sequence[Seen], is_new: Sequence[bool]
) -> Iterator[Suspicion]:
    """Yield a signal about the family of exceptions that most failures belong to."""
    families = Counter(
        _find_family(run.raised)
        for run, new in zip(runs, is_new, strict=True)
        if run.has_failed and new
    )
    failures = families.total()
    del families[""]
    for family, count in families.most_common(1):
        # The tail of the binomial distribution, by logarithms: its factors get tiny.
        log_share, log_rest = log(_SHARE_BY_CHANCE), log1p(-_SHARE_BY_CHANCE)
        chance = 0.0
        for matching in range(count, failures + 1):
            log_power = matching * log_share + (failures - matching) * log_rest
            chance += exp(_log_ways(failures, matching) + log_power)
        raised = [run.raised for run in runs if run.has_failed]
        names = Counter[str]()
        for text in raised:
            if _find_family(text) == family:
                names[text.partition(":")[0]] += 1
        most_common = [name for name, _ in names.most_common(2)]
        words = f"raises {enumerated(most_common, len(names))}"
        if family == "axis.hash_seed":
            words = "what it compares has the same elements in another order"
        yield Suspicion(
            type=family,
            evidence=f"{words}: {names.total()} of {len(raised)} failures",
            chance=min(1.0, chance * (len(_FAMILIES) + 1)),
        )


def _find_family(raised: str) -> str:
    """Return the type that an exception speaks for; empty if it speaks for none."""
    if equation := _EQUATION.match(raised):
        left, right = (re.findall(r"[\w.]+", side) for side in equation.groups())
        is_reordered = left != right and sorted(left) == sorted(right)
        return "axis.hash_seed" if is_reordered else ""
    for family, pattern in _FAMILIES.items():
        if re.match(pattern, raised):
            return family
    return ""


def _judge_runs(runs: Sequence[Seen], is_new: Sequence[bool]) -> Iterator[Suspicion]:
    """Yield signals about what the runs in which a test failed have in common.

    Sets of runs are whole numbers with one bit a run.
    """
    new = bits(is_new)
    failed = bits(run.has_failed for run in runs)
    for type_, candidates, comparable in _collect_signals(runs):
        compared = comparable & new
        new_failures = failed & compared
        if new_failures.bit_count() < FEWEST_FAILURES:
            continue
        chances = {}
        for where, candidate in candidates.items():
            there = candidate & compared
            # Else there is nothing to compare.
            if there not in (0, compared):
                sets = (there & new_failures, there, new_failures, compared)
                chances[where] = chance_of_so_many(*map(int.bit_count, sets))
        if not chances:
            continue
        where = min(chances, key=chances.__getitem__)
        # The chance is that of new failures; the words count all of them.
        there, failures = candidates[where] & comparable, failed & comparable
        matching = (there & failures).bit_count()
        how = "only" if matching == failures.bit_count() else "more often"
        yield Suspicion(
            type=type_,
            evidence=f"fails {how} {where}: "
            f"{matching:,} of {failures.bit_count():,} failures match, "
            f"but only {there.bit_count():,} of {comparable.bit_count():,} runs",
            chance=min(1.0, chances[where] * len(candidates)),
        )


def _collect_signals(
    runs: Sequence[Seen],
) -> Iterator[tuple[str, Mapping[str, int], int]]:
    """Yield each type with the sets of runs that may speak for it, and their base.

    Sets are by words for them. The base has the runs of which it is known whether they
    are in such a set.
    """
    every = bits(True for _ in runs)
    most = max((run.collected for run in runs), default=0)
    is_whole = [2 * run.collected >= most for run in runs]
    whole = bits(is_whole)
    yield "axis.time", _split_by_time([run.at for run in runs]), every
    others: list[float | None] = []
    for run, is_of_most in zip(runs, is_whole, strict=True):
        seconds = run.run_seconds
        # Runs of a part of the tests are short, whatever the load is.
        if seconds is None or not is_of_most:
            others.append(None)
        else:
            others.append(seconds - (run.seconds or 0.0))
    words = "where the other tests take more than {:.1f} s"
    yield "axis.load", *_find_slow(words, others, 0.0)
    own = [run.seconds for run in runs]
    yield (
        "axis.load",
        *_find_slow("where it takes more than {:.1f} s", own, _LONG_SECONDS),
    )
    yield "order.polluted", {"in runs of most of the tests": whole}, every
    part = {"in runs of less than half of the tests": every & ~whole}
    yield "order.brittle", part, every
    jobs = sorted({run.job for run in runs if run.job})
    of_jobs = {}
    for job in jobs:
        of_jobs[f"in the CI job {job}"] = bits(run.job == job for run in runs)
    yield "environment", of_jobs, every


def _split_by_time(times: Sequence[datetime]) -> dict[str, int]:
    """Return the runs of each part of the day, day of the week, and end of a month."""
    by_hour = [bits(time.hour == hour for time in times) for hour in range(24)]
    sets = {}
    # Spans of the day that begin at each hour, by one hour longer in each round.
    spans = [*by_hour]
    for hours in range(1, 13):
        for begin, span in enumerate(spans):
            end = (begin + hours) % 24
            sets[f"between {begin:02d}:00 and {end:02d}:00 UTC"] = span
            spans[begin] = span | by_hour[end]
    for weekday, name in enumerate(_DAYS):
        sets[f"on {name}"] = bits(time.weekday() == weekday for time in times)
    next_days = [time + timedelta(days=1) for time in times]
    sets["on the first day of a month"] = bits(time.day == 1 for time in times)
    sets["on the last day of a month"] = bits(day.day == 1 for day in next_days)
    return sets


def _find_slow(
    where: str, seconds: Sequence[float | None], least: float
) -> tuple[dict[str, int], int]:
    """Return the slowest quarter of the runs, if slow, and all that have a time.

    A run with a failure takes a little longer for its traceback alone.
    """
    measured = [duration for duration in seconds if duration is not None]
    if len(measured) > 1:
        _, median, upper_quartile = quantiles(measured, n=4)
        least = max(least, upper_quartile, _SLOW * median)
    slow = bits(duration is not None and duration > least for duration in seconds)
    has_time = bits(duration is not None for duration in seconds)
    return {where.format(least): slow}, has_time


def bits(flags: Iterable[bool]) -> int:
    """Return the whole number of which those bits are set, the lowest one first."""
    return sum(1 << place for place, flag in enumerate(flags) if flag)

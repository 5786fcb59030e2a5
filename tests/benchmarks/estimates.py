"""From the costs of repeated runs to a figure with its error."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .runs import Usage

RESAMPLES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """An estimate and its standard error, in the unit of its column."""

    value: float
    error: float


def estimate(figure_of: Callable[[Sequence[int]], float], rounds: int) -> Figure:
    """Estimate a figure and, by bootstrap over the rounds, its standard error.

    A round is drawn as a whole, so that whatever slowed all variants of it stays paired.

    Args:
        figure_of: Computes the figure from the rounds whose indices it is given.
        rounds: The number of rounds that were measured.

    Returns:
        The figure of all rounds; the error is drawn with a fixed seed.
    """
    draw = random.Random(0)  # noqa: S311 - statistics, not a secret
    resampled = [
        figure_of(draw.choices(range(rounds), k=rounds)) for _ in range(RESAMPLES)
    ]
    return Figure(value=figure_of(range(rounds)), error=statistics.stdev(resampled))


def undisturbed_seconds(usages: Sequence[Usage], rounds: Sequence[int]) -> float:
    """Return the CPU time of a run, in seconds, cleared of what disturbed single rounds.

    Every segment of the run is the same work in every round. Disturbances only ever add to it,
    so each segment counts with the least of its rounds, and the run is their sum.
    """
    runs = [usages[index].segment_seconds for index in rounds]
    return math.fsum(min(segment) for segment in zip(*runs, strict=True))

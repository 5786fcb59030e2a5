"""What is said before the experiments begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_failure_taxonomy.prove.causes import plan_words
from pytest_failure_taxonomy.prove.experiment import Experiments, Setup


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (2.0, ""),
        (
            60.0,
            (
                "collecting the tests takes 1 min, and each process does it again: to prove an "
                "order about 12 min and a failure that is always there about 8 min"
            ),
        ),
    ],
)
def test_a_suite_whose_collection_takes_long(seconds: float, words: str) -> None:
    """The steps are told in time, where that is not a matter of seconds."""
    setup = Setup(args=(), folder=Path(), rootdir=Path())
    experiments = Experiments(setup, until=0.0, limit_seconds=1.0)
    experiments.seconds_to_collect = seconds
    assert plan_words(experiments) == words

"""What makes a test fail by its proof, for whoever repeats it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_failure_taxonomy.prove.experiment import (
    ExperimentError,
    Experiments,
    Setup,
    Victim,
)
from pytest_failure_taxonomy.prove.rates import Count
from pytest_failure_taxonomy.prove.recorded import Repeat, repeat_of
from pytest_failure_taxonomy.report.build import NO_PROOF
from pytest_failure_taxonomy.taxonomy.values import replace

REPORT = {
    "run": {"started_at": "2026-11-01T10:00:00Z"},
    "failures": [{"nodeid": "test_it.py::test"}],
    "in_flight": [],
    "order": None,
}
CAUSE = {"kind": "test.failed", "fingerprints": [], "nodeids": ["test_it.py::test"]}
VICTIM = Victim(
    nodeid="test_it.py::test", fingerprints=frozenset(), endings=frozenset()
)


def test_what_a_proof_names_is_had_again(tmp_path: Path) -> None:
    """The tests before, the condition, and the rate; what this machine lacks is said."""

    def repeat(type_: str, state: str | None = None, **given: Any) -> Repeat:
        proof = {**NO_PROOF, "type": type_, "status": "proven", "runs": 9, "failed": 4}
        proof |= {"nodeids": ["a"], "state": state, **given}
        return repeat_of(REPORT, {**CAUSE, "proof": proof}, experiments)

    setup = Setup(args=(), folder=tmp_path, rootdir=tmp_path)
    with Experiments(setup, until=0.0, limit_seconds=1.0) as experiments:
        unnamed = {**CAUSE, "proof": None}
        assert repeat_of(REPORT, unnamed, experiments) == Repeat(victim=VICTIM)
        assert repeat("reproducible", status="suspected") == Repeat(victim=VICTIM)
        known = Count(failed=4, runs=9)
        polluted = Repeat(victim=VICTIM, before=("a",), known=known)
        assert repeat("order.polluted") == polluted
        assert repeat("commit") == repeat("flaky") == replace(polluted, before=())
        assert repeat("order.brittle") == replace(polluted, before=())
        for type_, state in (
            ("axis.load", "the processors as they are"),
            ("axis.time_zone", "the time zone as it is (CET)"),
        ):
            assert repeat(type_, state) == replace(polluted, before=())
        busy, seeded = (
            repeat("axis.load", "the processors busy"),
            repeat("axis.hash_seed", "PYTHONHASHSEED=3"),
        )
        assert busy.conditions.around is not None
        assert seeded.conditions.variables == (("PYTHONHASHSEED", "3"),)
        with pytest.raises(ExperimentError) as caught:
            repeat("axis.time_zone", "TZ=Mars/Olympus_Mons")
    assert str(caught.value) == (
        "prove: what makes it fail can't be had on this machine: TZ=Mars/Olympus_Mons"
    )

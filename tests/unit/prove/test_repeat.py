"""What makes a test fail by its proof, for whoever repeats it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_failure_taxonomy.prove.experiment import (
    AS_RECORDED,
    ExperimentError,
    Experiments,
    Setup,
    Victim,
)
from pytest_failure_taxonomy.prove.rates import Count
from pytest_failure_taxonomy.prove.recorded import Repeat, repeat_of
from pytest_failure_taxonomy.report.build import NO_PROOF

REPORT = {"run": {"started_at": "2026-11-01T10:00:00Z"}}
VICTIM = Victim(nodeid="test_it.py::test", fingerprints=frozenset(), endings=frozenset())


def test_what_a_proof_names_is_had_again(tmp_path: Path) -> None:
    """The tests before, the condition, and the rate; what this machine lacks is said."""

    def repeat(type_: str, state: str | None = None, **given: Any) -> Repeat:
        proof = {**NO_PROOF, "type": type_, "status": "proven", "runs": 9, "failed": 4}
        proof |= {"nodeids": ["a"], "state": state, **given}
        return repeat_of(REPORT, {"proof": proof}, experiments, VICTIM)

    setup = Setup(args=(), folder=tmp_path, rootdir=tmp_path)
    with Experiments(setup, until=0.0, limit_seconds=1.0) as experiments:
        assert repeat_of(REPORT, {"proof": None}, experiments, VICTIM) == Repeat()
        assert repeat("reproducible", status="suspected") == Repeat()
        known = Count(failed=4, runs=9)
        assert repeat("order.polluted") == Repeat(before=("a",), known=known)
        assert repeat("commit") == Repeat(before=("a",), known=known)
        assert repeat("order.brittle") == repeat("flaky") == Repeat(known=known)
        assert repeat("axis.load", "the processors as they are").conditions == AS_RECORDED
        assert repeat("axis.time_zone", "the time zone as it is (CET)").conditions == AS_RECORDED
        assert repeat("axis.load", "the processors busy").conditions.around is not None
        seed = repeat("axis.hash_seed", "PYTHONHASHSEED=3").conditions
        assert seed.variables == (("PYTHONHASHSEED", "3"),)
        with pytest.raises(ExperimentError) as caught:
            repeat("axis.time_zone", "TZ=Mars/Olympus_Mons")
    assert str(caught.value) == (
        "prove: what makes it fail can't be had on this machine: TZ=Mars/Olympus_Mons"
    )

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
from pytest_failure_taxonomy.prove.rates import Count, make_proof
from pytest_failure_taxonomy.prove.recorded import Repeat, repeat_of
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.taxonomy.judgement import ProofType
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import make_failure, make_report, make_run

REPORT = decode_report(
    make_report(make_run(failures=(make_failure(nodeid="test_it.py::test"),)))
)
CAUSE = replace(REPORT.causes[0], kind="test.failed", fingerprints=())
VICTIM = Victim(
    nodeid="test_it.py::test", fingerprints=frozenset(), endings=frozenset()
)


def test_what_a_proof_names_is_had_again(tmp_path: Path) -> None:
    """The tests before, the condition, and the rate; what this machine lacks is said."""

    def repeat(
        type_: ProofType, state: str | None = None, status: Any = "proven"
    ) -> Repeat:
        runs = Count(failed=4, runs=9)
        proof = make_proof(type_, status, runs, state=state, nodeids=("a",))
        return repeat_of(REPORT, replace(CAUSE, proof=proof), experiments)

    setup = Setup(args=(), folder=tmp_path, rootdir=tmp_path)
    with Experiments(setup, until=0.0, limit_seconds=1.0) as experiments:
        unnamed = replace(CAUSE, proof=None)
        assert repeat_of(REPORT, unnamed, experiments) == Repeat(victim=VICTIM)
        assert repeat("reproducible", status="suspected") == Repeat(victim=VICTIM)
        known = Count(failed=4, runs=9)
        polluted = Repeat(victim=VICTIM, before=("a",), known=known)
        assert repeat("order.polluted") == polluted
        assert repeat("commit") == repeat("flaky") == replace(polluted, before=())
        assert repeat("order.brittle") == replace(polluted, before=())
        types: tuple[tuple[ProofType, str], ...] = (
            ("axis.load", "the processors as they are"),
            ("axis.time_zone", "the time zone as it is (CET)"),
        )
        for type_, state in types:
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

"""What the record of each death of the fault matrix comes to, without bringing it about."""

from __future__ import annotations

import sys

import pytest

if sys.platform == "win32":  # its names for signals are needed by what follows
    pytest.skip("the deaths are by signal", allow_module_level=True)

from pytest_failure_taxonomy.taxonomy.judge import judge
from pytest_failure_taxonomy.taxonomy.judgement import exit_code_from_returncode
from tests.helpers.fault_table import reason_in
from tests.helpers.faults import FAULTS
from tests.helpers.recorded_deaths import (
    Death,
    recorded_deaths,
    recorded_names,
)

DEATHS = recorded_deaths()


@pytest.mark.parametrize("death", DEATHS, ids=[death.name for death in DEATHS])
def test_a_recorded_death_is_judged(death: Death) -> None:
    """Kind and reason are those of the fault matrix, the message is the one recorded."""
    expected = death.expected
    judgement = judge(death.evidence())
    verdict = judgement.verdict
    if expected.kind is None:
        assert verdict is None
        return
    assert verdict is not None
    assert (verdict.kind, verdict.reason) == (expected.kind, reason_in(expected))
    assert verdict.message == death.message
    assert verdict.confidence == ("likely" if expected.is_likely else "certain")
    assert verdict.ambiguous == expected.ambiguous
    assert [reason.kind for reason in judgement.reasons[1:]] == list(expected.also)
    if expected.on is not None:
        assert (verdict.nodeid or "").endswith(expected.on or "test_it.py")


@pytest.mark.parametrize("death", DEATHS, ids=[death.name for death in DEATHS])
def test_a_recorded_death_is_evidence(death: Death) -> None:
    """Counts, the test in flight and those not run are those of the fault matrix."""
    expected, seen = death.expected, death.evidence()
    assert seen.counts.passed == expected.passed
    assert seen.counts.failed == expected.failed
    assert seen.exit.code == exit_code_from_returncode(death.returncode)
    in_flight = [(test.nodeid, test.phase) for test in seen.in_flight]
    dying = [("test_it.py::test_b", expected.in_flight)] if expected.in_flight else []
    assert in_flight == dying
    assert list(seen.not_run) == [
        f"test_it.py::test_{name}" for name in expected.not_run
    ]


def test_each_death_with_a_record_is_recorded() -> None:
    """A new row of the fault matrix that leaves a record is recorded, too."""
    recorded = {death.name for death in DEATHS}
    wanted = {
        f"{fault.name}-{name}" for fault in FAULTS for name in recorded_names(fault)
    }
    assert recorded == wanted

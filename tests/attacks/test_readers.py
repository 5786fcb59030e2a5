"""Whatever is in a record, a report, a file of rules or a log: an answer, or an error of ours."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy import load_report
from pytest_failure_taxonomy.errors import FailureTaxonomyError
from pytest_failure_taxonomy.logs.foreign import report_from
from pytest_failure_taxonomy.rules.files import load_rules
from pytest_failure_taxonomy.taxonomy.evidence import Environment
from tests.attacks.conftest import Attacks
from tests.attacks.mutations import mutate
from tests.attacks.targets import BETWEEN, MAX_INPUT_BYTES, RUN_ID, TARGETS, corpus_of
from tests.helpers.dead_runs import DeadRun
from tests.helpers.hostile_files import CANARY, HOSTILE_FILES, canary

ENVIRONMENT = Environment(python="3", platform="x", pytest="9", plugins=(), ci=None)
FOREIGN = tuple(
    partial(report_from, source, rootdir=Path("/root"), environment=ENVIRONMENT)
    for source in ("junit", "reportlog", "ctrf")
)
"""The readers of other programs' files."""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is spoilt may name any file to write beside a report."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_kept(tmp_path: Path, target: str) -> None:
    """Each input that is kept is read as it was meant to be, and so is none at all."""
    for data in (*corpus_of(target), b""):
        TARGETS[target](data, tmp_path)


@pytest.mark.breaks_reports
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_spoilt(
    tmp_path: Path, attacks: Attacks, dead_run: DeadRun, target: str
) -> None:
    """However an input is spoilt, what comes out is an answer, or an error that says so."""
    kept = list(corpus_of(target))
    if target == "record":  # as this version writes it
        state, events = dead_run.contents
        own_id = dead_run.run_id.encode()
        kept.append(state + BETWEEN + events.replace(own_id, RUN_ID.encode()))

    @seed(attacks.seed)
    @settings(
        deadline=None,
        database=None,
        max_examples=attacks.count(60, 20_000),
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.sampled_from(kept),
        st.integers(min_value=0, max_value=2**32),
    )
    def read(data: bytes, number: int) -> None:
        chance = random.Random(number)  # noqa: S311 - attacks, no secrets
        TARGETS[target](mutate(data, kept, chance)[:MAX_INPUT_BYTES], tmp_path)

    read()


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_made_up(tmp_path: Path, attacks: Attacks, target: str) -> None:
    """Any bytes at all are read, or refused in words."""

    @seed(attacks.seed)
    @settings(
        deadline=None,
        database=None,
        max_examples=attacks.count(20, 5_000),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(max_size=200))
    def read(data: bytes) -> None:
        TARGETS[target](data, tmp_path)

    read()


@pytest.mark.skipif(sys.platform == "win32", reason="needs FIFOs and devices")
@pytest.mark.breaks_reports
@pytest.mark.parametrize("sort", HOSTILE_FILES)
def test_what_is_no_file(tmp_path: Path, sort: str) -> None:
    """A report or a file of rules that is none is refused at once, and its target left alone."""
    path = tmp_path / "hostile"
    HOSTILE_FILES[sort](path)
    readers: tuple[Callable[[Path], object], ...] = (load_report, load_rules, *FOREIGN)
    for read in readers:
        with pytest.raises(FailureTaxonomyError) as refused:
            read(path)
        assert str(refused.value).startswith(str(path))
    assert canary(path).read_bytes() == CANARY

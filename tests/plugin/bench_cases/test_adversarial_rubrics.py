from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import pytest

from pytest_failure_taxonomy.bench.isolate import client, processes
from pytest_failure_taxonomy.bench.isolate.client import IsolatedRubric
from pytest_failure_taxonomy.bench.models import (
    BenchCase,
    BenchScore,
    BenchSettings,
    RunPlan,
    TaskClass,
)
from pytest_failure_taxonomy.bench.run.runner import Runner
from pytest_failure_taxonomy.bench.scores import CaseOutcome

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="rubrics run without limits there"
)

ON_LINUX: Final = sys.platform.startswith("linux")
RUBRICS: Final = Path(__file__).parents[2] / "data" / "adversarial_rubrics"
GENEROUS_SECONDS: Final = 30.0
SHORT_SECONDS: Final = 0.3

MALFORMED: Final = "rubric.malformed_output"
TIMEOUT: Final = "rubric.timeout"

Expected = tuple[str | float, str]

EXPECTED: Final[dict[str, Expected]] = {
    # rubric: its code and what the detail says, or the score that stands and what was printed
    "allocates_without_end": (MALFORMED, "raised MemoryError"),
    "answers_without_end": (MALFORMED, "1,048,576 are the most"),
    "changes_signals": (1.0, ""),
    "closes_descriptors": (MALFORMED, "exited with code 71 and gave no verdict"),
    "deletes_its_folder": (1.0, ""),
    "exits_0": (MALFORMED, "exited with code 0 and gave no verdict"),
    "extra_fields": (MALFORMED, "comment"),
    "forks_and_both_return": (1.0, ""),
    "grandchild_escapes": (1.0, ""),
    "hangs": (TIMEOUT, "was not done within 0.3 s"),
    "ignores_sigterm": (TIMEOUT, "was not done within 0.3 s"),
    "kills_parent": (MALFORMED, "killed the process that runs the rubrics"),
    "leaves_daemon_kills_parent": (
        MALFORMED,
        "killed the process that runs the rubrics",
    ),
    "leaves_grandchild": (1.0, ""),
    "opens_10000_files": (MALFORMED, "raised OSError: [Errno 24] Too many open files"),
    "prints_10_gb": (1.0, "10,485,704,464 more bytes were dropped"),
    "prints_debug_line": (0.75, "debug: odd\nand more\n"),
    "prints_fake_verdict": (0.25, '{"passed": true'),
    "raises": (MALFORMED, "raised OddError: (its text is not available: RuntimeError)"),
    "reads_api_key": (MALFORMED, "raised KeyError: 'ANTHROPIC_API_KEY'"),
    "recurses": (MALFORMED, "raised RecursionError: maximum recursion depth exceeded"),
    "returns_nan": (MALFORMED, "raised ValueError: Out of range float values"),
    "returns_nothing": (MALFORMED, ""),
    "runs_code_in_time": (1.0, ""),
    "runs_endless_code": (TIMEOUT, "was not done within 0.3 s"),
    "score_1_5": (MALFORMED, "score"),
    "segfaults": (MALFORMED, "was killed by SIGSEGV and gave no verdict"),
    "stops_parent": (MALFORMED, "killed the process that runs the rubrics"),
    "strings_for_codes": (MALFORMED, "failure_modes"),
    "sys_exit_0": (MALFORMED, "raised SystemExit: 0"),
    "writes_outside": (1.0, ""),
    "writes_verdict_everywhere": (MALFORMED, "exited with code 0 and gave no verdict"),
}

FRESH_SKIPS: Final = frozenset({"prints_10_gb"})
"""Seconds of work that say nothing that the warm ones don't."""


@pytest.fixture(autouse=True)
def private_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have temporary folders made where only this test looks, and nothing be left there."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    yield place
    assert list(place.iterdir()) == []


def processes_of(place: Path) -> list[str]:
    """Return the commands of processes that were started with a folder of this test in view."""
    found = []
    for entry in Path("/proc").iterdir() if ON_LINUX else ():
        with suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                environment = (entry / "environ").read_bytes()
                is_dead = (entry / "stat").read_text().rpartition(") ")[2][0] in "ZX"
                if str(place).encode() in environment and not is_dead:
                    found.append((entry / "cmdline").read_text())
    return found


def changed_folders(place: Path) -> list[Path]:
    """Return the folders that cases have changed and a server has not removed yet."""
    folders = [path for path in place.glob("*/*") if path.name.isdigit()]
    return [path for path in folders if not processes.is_untouched(str(path))]


def scores_of(
    rubric: str, mode: Literal["warm", "fresh"], place: Path
) -> list[CaseOutcome]:
    """Run an odd case and a normal one after it; check that no process is left."""
    is_short = EXPECTED[rubric][0] == TIMEOUT or rubric == "stops_parent"
    limit = SHORT_SECONDS if is_short else GENEROUS_SECONDS
    task_class = TaskClass(
        name="odd", breakdown_keys=frozenset(), failure_mode_taxonomy={}
    )
    cases = (
        BenchCase(case_id="1", input="odd", rubric_wall_clock_seconds=limit),
        BenchCase(case_id="2", input="ok", rubric_wall_clock_seconds=GENEROUS_SECONDS),
    )
    plan = RunPlan(
        task_class=task_class,
        cases=cases,
        rubric_wall_clock_seconds=GENEROUS_SECONDS,
        concurrency=1,
    )
    outcomes: list[CaseOutcome] = []

    async def run() -> None:
        settings = BenchSettings(rubric_isolation=mode, rubric_memory_mb=512)
        grader = IsolatedRubric(RUBRICS / f"{rubric}.py", settings)
        try:
            await Runner(on_outcome=outcomes.append).execute(
                plan, system_under_test=lambda case: case.input, rubric_runner=grader
            )
            if mode == "warm" and ON_LINUX:
                assert len(processes_of(place)) == 1, "the server is all that is there"
            assert changed_folders(place) == []
        finally:
            await grader.aclose()

    asyncio.run(run())
    assert processes_of(place) == []
    return outcomes


def check(outcome: CaseOutcome, expected: Expected) -> None:
    """Compare what a case came to with a row of the table."""
    came_to, said = expected
    score: BenchScore = outcome.score
    if isinstance(came_to, float):
        assert (score.score, score.failure_modes) == (came_to, ())
        assert said in outcome.printed
        return
    (mode,) = score.failure_modes
    assert (mode.code, mode.severity, score.passed) == (came_to, "block", False)
    assert said in (mode.detail or "")


def test_every_rubric_of_the_folder_is_in_the_table() -> None:
    """No adversarial rubric is forgotten."""
    assert sorted(path.stem for path in RUBRICS.glob("*.py")) == sorted(EXPECTED)


@pytest.mark.parametrize("rubric", sorted(EXPECTED))
def test_a_case_of_a_warm_rubric_hurts_no_other(
    rubric: str, private_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a rubric does is its case's score; the next case passes, and nothing is left."""
    if rubric == "stops_parent":
        monkeypatch.setattr(client, "SPARE_SECONDS", SHORT_SECONDS)
    odd, normal = scores_of(rubric, "warm", private_places)
    check(odd, EXPECTED[rubric])
    assert normal.score.passed


@pytest.mark.slow
@pytest.mark.parametrize("rubric", sorted(EXPECTED.keys() - FRESH_SKIPS))
def test_a_case_of_a_fresh_rubric_hurts_no_other(
    rubric: str, private_places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the same in an interpreter of its own."""
    if rubric == "stops_parent":
        monkeypatch.setattr(client, "SPARE_SECONDS", SHORT_SECONDS)
    odd, normal = scores_of(rubric, "fresh", private_places)
    check(odd, EXPECTED[rubric])
    assert normal.score.passed

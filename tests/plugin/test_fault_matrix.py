"""Fifty ways to die, in six configurations: what is on disk all the while, and at the end.

The table is `tests.helpers.faults`; the page about it is `docs/explanation/fault-matrix.md`.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.taxonomy.judgement import (
    exit_code_from_returncode,
    known_kinds,
    signal_name,
)

if sys.platform == "win32":  # its names for signals are needed by what follows
    pytest.skip("the deaths are by signal", allow_module_level=True)
from tests.helpers.fault_runs import EARLIER_ID, REPORT, Outcome, run_fault
from tests.helpers.fault_table import PAGE, reason_in, render_page
from tests.helpers.faults import (
    CONFIGURATIONS,
    FAULTS,
    NEEDS,
    PLAIN,
    PLAIN_N2,
    SECOND,
    Configuration,
    End,
    Fault,
)
from tests.helpers.reports import assert_valid_report

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.room("survive", "hooks", "system", "taxonomy"),
    pytest.mark.skipif(
        not sys.platform.startswith("linux"),
        reason="the watcher needs Linux, the deaths its /proc",
    ),
]

BY_NAME: Final = {fault.name: fault for fault in FAULTS}
_PLAIN: Final = ("alone", "n2")

_PYTESTS_OWN: Final = re.compile(r"tmp/pytest-of-[^/]+/.*|(.*/)?__pycache__/.*|sync/.*")
_OF_OURS: Final = re.compile(rb"^\[\"|PFTREC", re.MULTILINE)
"""How a line of a record's events begins, and its file of numbers."""
_OF_A_KILLED_SUPERVISOR: Final = re.compile("tmp/failure-taxonomy-[^/]+/(note|inbox)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each death its configurations, or one of them in turn."""
    if "fault" not in metafunc.fixturenames:
        return
    is_plain = metafunc.function is test_plain_pytest_ends_like_that
    cells = []
    for turn, fault in enumerate(FAULTS):
        names = _PLAIN if is_plain else tuple(CONFIGURATIONS)
        names = tuple(name for name in names if name not in fault.leaves_out)
        if metafunc.config.getoption("matrix") == "some":
            if is_plain and turn % 6:
                continue  # how pytest ends by itself changes with pytest alone
            names = (names[turn % len(names)],)
        cells += [
            pytest.param(fault, name, id=f"{fault.name}-{name}") for name in names
        ]
    metafunc.parametrize(("fault", "name"), cells)


def test_cell(tmp_path: Path, fault: Fault, name: str) -> None:
    """The report is valid and pessimistic at every moment, and at the end it says what happened."""
    skip_unless_possible(fault)
    configuration, expected = CONFIGURATIONS[name], fault.end_in(name)
    outcome = run_fault(tmp_path, fault, configuration)
    assert outcome.status is not None, outcome.stdout + outcome.stderr
    check_caller(outcome, expected, configuration)
    check_polls(outcome, expected)
    check_end(outcome, expected, configuration)
    check_remains(outcome, fault, expected, configuration)


def test_plain_pytest_ends_like_that(tmp_path: Path, fault: Fault, name: str) -> None:
    """The exit status that the table expects is the one that pytest has without the plugin."""
    skip_unless_possible(fault)
    outcome = run_fault(tmp_path, fault, PLAIN_N2 if name == "n2" else PLAIN)
    assert outcome.status == fault.end_in(name).status, outcome.stdout + outcome.stderr
    assert {content for content in outcome.seen if content} == {outcome.seen[0]}


def test_the_page_shows_this_table() -> None:
    """The page about the matrix is the table's; `python -m tests.helpers.fault_table` writes it."""
    assert PAGE.read_text("utf-8") == render_page()


def test_every_kind_of_a_cell_is_published() -> None:
    """The table names no kind that is not in the list of kinds, and each row says something new."""
    assert len(BY_NAME) == len(FAULTS)
    kinds = {end.kind for fault in FAULTS for end in fault.ends.values()}
    assert kinds - {None} <= known_kinds().keys()


def skip_unless_possible(fault: Fault) -> None:
    """Skip a row that this machine can't have."""
    release = tuple(
        int(number) for number in re.findall("[0-9]+", platform.release())[:2]
    )
    version = tuple(int(number) for number in pytest.__version__.split(".")[:2])
    is_there = {
        "": True,
        "pytest 9": version >= (9, 0),
        "pytest 9.2": version >= (9, 2),
        "mount": fault.needs == "mount" and can_mount(),
        "told": release >= (6, 15),
    }
    if not is_there[fault.needs]:
        pytest.skip(NEEDS[fault.needs])


@cache
def can_mount() -> bool:
    """Tell whether this process may mount a file system; not every root may."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return False
        subprocess.run(["umount", folder], check=True)
    return True


def check_caller(outcome: Outcome, expected: End, configuration: Configuration) -> None:
    """The caller sees what it would see of plain pytest, but never a 0 of an unfinished run."""
    is_unfinished = expected.kind == "process.exited" and expected.status == 0
    status = 3 if configuration.supervised and is_unfinished else expected.status
    assert outcome.status == status, outcome.stdout + outcome.stderr


def check_polls(outcome: Outcome, expected: End) -> None:
    """Whoever reads the report at any moment gets this run's, whole, and no hasty success."""
    assert EARLIER_ID.encode() in outcome.seen[0]
    ids = []
    for report in contents(outcome):
        assert_valid_report(report)
        ids.append(report["run"]["id"])
        if ids[-1] != EARLIER_ID and report["verdict"] is None:
            assert report["completeness"] != "running"
            assert report["exit"]["code"] == 0
            assert report["in_flight"] == []
            assert report["not_run"]["count"] == 0
    if expected.source != "earlier":
        assert list(dict.fromkeys(ids))[:1] == [EARLIER_ID]
        assert EARLIER_ID not in ids[1:] or expected.completeness == "full"
        assert len(set(ids)) <= 2, "more than one run has written"


def check_end(outcome: Outcome, expected: End, configuration: Configuration) -> None:
    """The report says what the table expects."""
    if expected.source == "gone":
        assert outcome.last == {}
        assert outcome.finalize == expected.finalize
        return
    report = outcome.last
    if expected.source == "earlier":
        assert report["run"]["id"] == EARLIER_ID
        return
    source = configuration.second if expected.source == SECOND else expected.source
    completeness = expected.completeness or (
        "full" if source in ("pytest", "exception") else "reconstructed"
    )
    assert described(report) == {
        "verdict": expected_verdict(expected),
        "also": sorted(expected.also),
        "completeness": completeness,
        "exit": expected_exit(expected, outcome, source),
        "counts": {
            "passed": expected.passed,
            "failed": expected.failed,
            "errors": expected.errors,
        },
        "in flight": [("test_it.py::test_b", expected.in_flight)]
        if expected.in_flight
        else [],
        "not run": [f"test_it.py::test_{each}" for each in expected.not_run],
    }
    if expected.worker is not None:
        workers = {
            str(each["exit"]["signal"] or each["exit"]["code"])
            for each in report["workers"]
        }
        assert expected.worker in workers
    if source == "finalize":
        left = "full" if completeness == "full" else "running"
        assert outcome.left["completeness"] == left
        assert outcome.finalize == (0 if expected.kind is None else 1)


def check_remains(
    outcome: Outcome, fault: Fault, expected: End, configuration: Configuration
) -> None:
    """Nothing is left but the report, and what the death itself made."""
    assert outcome.left_over == []
    ours = {"pytest.ini", "sync.py", "test_it.py", *fault.files}
    ours |= set() if expected.source == "gone" else {REPORT}
    found = {each for each in outcome.files if not _PYTESTS_OWN.fullmatch(each)}
    if configuration.supervised and expected.source == "finalize":
        found = {each for each in found if not _OF_A_KILLED_SUPERVISOR.fullmatch(each)}
    assert found == ours | fault.makes
    for name in fault.makes:
        content = (outcome.folder / name).read_bytes()
        # xdist writes what it means for its controller, which is nothing to us.
        is_clean = (
            not _OF_OURS.search(content) if configuration.on_workers else content == b""
        )
        assert is_clean, f"something of ours is in {name}"


def contents(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Yield each report that was seen."""
    for content in outcome.seen:
        if content:
            yield json.loads(content)


def described(report: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a report that the table is about."""
    verdict, end = report["verdict"], report["exit"]
    return {
        "verdict": verdict
        and {
            **{
                name: verdict[name]
                for name in ("reason", "kind", "confidence", "nodeid")
            },
            "ambiguous": tuple(verdict["ambiguous"]),
        },
        "also": sorted(each["kind"] for each in report["reasons"][1:]),
        "completeness": report["completeness"],
        "exit": {name: end[name] for name in ("source", "observed", "code", "signal")},
        "counts": {
            name: report["summary"][name] for name in ("passed", "failed", "errors")
        },
        "in flight": [(each["nodeid"], each["phase"]) for each in report["in_flight"]],
        "not run": report["not_run"]["nodeids"],
    }


def expected_verdict(expected: End) -> dict[str, Any] | None:
    """Return the verdict that the table expects."""
    if expected.kind is None:
        return None
    nodeid = None if expected.on is None else f"test_it.py::test_{expected.on}"
    nodeid = expected.on if expected.on and expected.on.endswith(".py") else nodeid
    return {
        "reason": reason_in(expected),
        "kind": expected.kind,
        "confidence": "likely" if expected.is_likely else "certain",
        "nodeid": "test_it.py" if expected.on == "" else nodeid,
        "ambiguous": expected.ambiguous,
    }


def expected_exit(expected: End, outcome: Outcome, source: str) -> dict[str, Any]:
    """Return the exit status that the table expects, which a second process sees as the caller."""
    code = expected.code
    if code == -1:
        code = exit_code_from_returncode(expected.status)
    is_second = source not in ("pytest", "exception")
    signal = (
        signal_name(code - 128)
        if is_second and code is not None and code > 128
        else None
    )
    return {"source": source, "observed": is_second, "code": code, "signal": signal}

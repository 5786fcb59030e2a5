"""Deaths that nobody sees: what is on disk then was written before the first test, and says so."""

from __future__ import annotations

import sys
from typing import Final

import pytest

from tests.helpers.endings import PASSING
from tests.helpers.reports import read_report
from tests.helpers.runs import PytestRuns, own_lines

UNWATCHED: Final = ("-o", "failure_taxonomy_watcher=false")
NO_CORE: Final = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
POSIX: Final = pytest.mark.skipif(
    sys.platform == "win32", reason="needs deaths by signal"
)


def with_test(body: str) -> dict[str, str]:
    """Return a file whose second of three tests has this body."""
    first = "import os, signal, time\ndef test_first(): pass\n"
    return {"test_it.py": f"{first}def test_dies():\n    {body}\n{PASSING}"}


DEATHS: Final = (
    pytest.param(with_test("os._exit(0)"), [], 0, id="exit-0"),
    pytest.param(with_test("os._exit(7)"), [], 7, id="exit-7"),
    pytest.param(
        with_test("os.kill(os.getpid(), signal.SIGKILL)"),
        [],
        -9,
        id="kill",
        marks=POSIX,
    ),
    pytest.param(
        with_test("os.kill(os.getpid(), signal.SIGTERM)"),
        [],
        -15,
        id="term",
        marks=POSIX,
    ),
    pytest.param(
        with_test(f"{NO_CORE}os.kill(os.getpid(), signal.SIGSEGV)"),
        [],
        -11,
        id="segfault",
        marks=POSIX,
    ),
    pytest.param(
        with_test("os.execv('/bin/true', ['true'])"), [], 0, id="exec", marks=POSIX
    ),
    pytest.param(
        {"test_it.py": "import os\nos._exit(0)\n" + PASSING},
        [],
        0,
        id="exit-in-collection",
    ),
    pytest.param(
        {"test_it.py": PASSING, "conftest.py": "import os\nos._exit(0)\n"},
        [],
        0,
        id="exit-in-conftest",
    ),
    pytest.param(
        {
            "test_it.py": PASSING,
            "conftest.py": "import os\ndef pytest_sessionfinish(): os._exit(0)\n",
        },
        [],
        0,
        id="exit-in-sessionfinish",
    ),
    pytest.param(
        {
            "test_it.py": PASSING,
            "conftest.py": "import os\ndef pytest_unconfigure(): os._exit(0)\n",
        },
        [],
        0,
        id="exit-in-unconfigure",
    ),
    pytest.param(
        with_test("time.sleep(30)"),
        ["--timeout=0.3", "--timeout-method=thread"],
        1,
        id="timeout-thread",
    ),
    pytest.param(
        with_test("time.sleep(30)"),
        ["-o", "faulthandler_timeout=0.3", "-o", "faulthandler_exit_on_timeout=true"],
        1,
        id="faulthandler",
        marks=pytest.mark.skipif(
            pytest.version_tuple < (9, 0),
            reason="faulthandler_exit_on_timeout came with 9.0",
        ),
    ),
)


@pytest.mark.parametrize(("files", "args", "exit_status"), DEATHS)
def test_death_that_nobody_sees(
    runs: PytestRuns, files: dict[str, str], args: list[str], exit_status: int
) -> None:
    """A dead pytest leaves a report that has never said passed, not even for exit code 0."""
    runs.write(files)
    plugins = ["timeout"] if "--timeout=0.3" in args else []
    run = runs.run(*UNWATCHED, *args, plugins=plugins)
    assert run.exit_status == exit_status
    assert own_lines(run.stdout) == own_lines(run.stderr) == []
    report = run.report
    assert report["completeness"] == "running"
    assert run.verdict == ("UNKNOWN", "process.vanished")
    assert report["verdict"]["confidence"] == "likely"
    assert report["exit"] == {
        "code": None,
        "name": None,
        "signal": None,
        "reason": None,
        "observed": False,
        "source": "none",
    }
    assert report["run"]["duration_seconds"] is None
    assert report["summary"]["passed"] == 0


def test_report_of_an_earlier_run_is_replaced(runs: PytestRuns) -> None:
    """After a run that passed, the next one's death does not leave the first one's report."""
    runs.write({"test_it.py": PASSING})
    first = runs.run().report
    assert first["verdict"] is None
    runs.write(with_test("os._exit(0)"))
    second = runs.run(*UNWATCHED).report
    assert second["run"]["id"] != first["run"]["id"]
    assert second["run"]["started_at"] > first["run"]["started_at"]
    assert second["verdict"]["kind"] == "process.vanished"
    runs.write({"test_it.py": PASSING})
    third = runs.run().report
    assert third["completeness"] == "full"
    assert third["verdict"] is None
    assert len({report["run"]["id"] for report in (first, second, third)}) == 3


def test_report_while_the_run_goes_on(runs: PytestRuns) -> None:
    """What a reader finds while tests run is a whole report that has not passed."""
    runs.write(
        {
            "test_it.py": "import shutil\n"
            "def test_copies_the_report(): shutil.copy('failure-report.json', 'seen')\n"
        }
    )
    run = runs.run()
    assert run.exit_status == 0
    assert run.verdict == (None, None)
    seen = read_report(runs.path / "seen")
    assert seen["completeness"] == "running"
    assert seen["verdict"]["kind"] == "process.vanished"


@POSIX
def test_fork_that_goes_on_to_the_end(runs: PytestRuns) -> None:
    """A forked child that runs the rest of the session writes no report over its parent's."""
    runs.write(
        {
            "test_it.py": "import os\n"
            "def test_forks():\n"
            "    child = os.fork()\n"
            "    if child:\n"
            "        os.waitpid(child, 0)\n"
            "    else:\n"
            "        assert 0, 'in the child'\n" + PASSING
        }
    )
    run = runs.run("-p", "no:faulthandler")
    assert run.exit_status == run.report["exit"]["code"] == 0
    assert run.verdict == (None, None)
    assert run.counts == {"collected": 2, "passed": 2}

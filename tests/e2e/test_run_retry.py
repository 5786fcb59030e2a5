"""`run --retry`: what the environment owes runs again, and nothing else."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

from pytest_failure_taxonomy.cli.retries import Service, service_of
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.children import (
    REPORT,
    ChildRun,
    child_environment,
    pytest_command,
    run_child,
)
from tests.helpers.reports import make_failure, make_report_value, make_run
from tests.helpers.waiting import wait_until

if sys.platform == "win32":
    pytest.skip("needs POSIX signals", allow_module_level=True)

CLI: Final = (sys.executable, "-m", "pytest_failure_taxonomy")
HEAD: Final = """\
import os, signal, socket, pytest

def ran(name):
    with open("ran", "a") as file:
        file.write(name + "\\n")
    with open("ran") as file:
        return file.read().split().count(name)

def connect():
    socket.create_connection(("127.0.0.1", {port}), 5).close()

"""
NEEDS_SERVICE: Final = """
def test_passes(): ran("passes")
def test_first(): ran("first"); connect()
def test_second(): ran("second"); connect()
"""


class LateService:
    """A port that refuses connections until the first run has ended."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._report = folder / REPORT
        self._most = 1_000
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def begin(self, most: int = 1_000) -> None:
        """Listen after the first run, until so many have connected."""
        self._most = most
        self._thread.start()

    def _serve(self) -> None:
        wait_until(self._has_report, "the report of the first run")
        self._socket.listen()
        for _ in range(self._most):
            try:
                self._socket.accept()[0].close()
            except OSError:  # the test is over
                return
        self.close()

    def _has_report(self) -> bool:
        try:
            report = json.loads(self._report.read_text("utf-8"))
        except (OSError, ValueError):
            return False
        return bool(report["completeness"] != "running")

    def close(self) -> None:
        """Refuse connections again."""
        # `accept` waits in another thread.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LateService]:
    """Return a service of the folder's suite."""
    service = LateService(tmp_path)
    yield service
    service.close()


def retry(
    service: LateService,
    folder: Path,
    suite: str,
    *args: str,
    options: tuple[str, ...] = (),
    plugins: tuple[str, ...] = (),
    times: int = 2,
) -> ChildRun:
    """Run a suite with retries."""
    text = HEAD.format(port=service.port) + suite
    (folder / "test_it.py").write_text(text, "utf-8")
    command = pytest_command("-q", *args, plugins=("failure_taxonomy", *plugins))
    asked = ("--retry", f"environment={times}", *options)
    return run_child(folder, [*CLI, "run", *asked, "--", *command])


def runs(folder: Path) -> dict[str, int]:
    """Return how often each test has run."""
    return dict(Counter((folder / "ran").read_text("utf-8").split()))


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    """Return what became of each test that was run again, by its name."""
    merged = (report["merged"] or {}).get("runs", ())
    retries = [run["retry"] for run in merged if run["retry"]]
    tests = [test for retried in retries for test in retried["tests"]]
    return {test["nodeid"].rpartition("::")[2]: test["outcome"] for test in tests}


def counts(report: dict[str, Any]) -> dict[str, int]:
    """Return the counts that are not 0."""
    return {name: count for name, count in report["summary"].items() if count}


@pytest.mark.parametrize(
    ("suite", "args", "again", "collected"),
    [
        pytest.param(NEEDS_SERVICE, (), ("first", "second"), 3, id="calls"),
        pytest.param(NEEDS_SERVICE, ("-n", "2"), ("first", "second"), 3, id="workers"),
        pytest.param(NEEDS_SERVICE, ("-x",), ("first", "second"), 3, id="stopped"),
        pytest.param(
            "@pytest.fixture\ndef service(): connect()\n"
            "@pytest.mark.parametrize('x', ['a::b', '[c]', ' d'])\n"
            "def test_it(service, x): pass\n",
            (),
            ("it[a::b]", "it[[c]]", "it[ d]"),
            3,
            id="parameters",
        ),
        pytest.param(
            "@pytest.fixture\ndef service():\n    yield\n    connect()\n"
            "def test_it(service): pass\ndef test_other(): pass\n",
            (),
            ("it",),
            2,
            id="teardown",
        ),
    ],
)
def test_tests_are_rescued(
    tmp_path: Path,
    service: LateService,
    suite: str,
    args: tuple[str, ...],
    again: tuple[str, ...],
    collected: int,
) -> None:
    """They alone run again, once the service is up; the report says so."""
    service.begin()
    plugins = ("xdist",) if "-n" in args else ()
    run = retry(service, tmp_path, suite, *args, plugins=plugins)
    assert run.status == 0, run.stdout + run.stderr
    report = run.report()
    assert report["verdict"] is None
    assert dict.fromkeys(outcomes(report), "rescued") == outcomes(report)
    names = {f"test_{name}".rpartition("::")[2] for name in again}
    assert outcomes(report).keys() == names
    found = counts(report)
    assert (found["collected"], found["passed"]) == (collected, collected)
    assert (report["failures"], report["causes"], report["reasons"]) == ([], [], [])
    assert f"127.0.0.1:{service.port} answered after" in run.stderr
    assert " passed on retry 1 after: nothing listens on 127.0.0.1:" in run.stdout
    if "passes" in suite:
        assert runs(tmp_path)["passes"] == 1
    shown = run_child(tmp_path, [*CLI, "show"])
    assert "final_test, retry 1: no failure" in shown.stdout


@pytest.mark.parametrize("place", ["test_it.py", "conftest.py"])
def test_what_could_not_be_collected_is_rescued(
    tmp_path: Path, service: LateService, place: str
) -> None:
    """Then nothing has run; all tests run in the retry."""
    service.begin()
    suite = "connect()\ndef test_it(): ran('it')\n"
    (tmp_path / "test_other.py").write_text("def test_other(): pass\n", "utf-8")
    if place == "conftest.py":
        text = HEAD.format(port=service.port) + "connect()\n"
        (tmp_path / place).write_text(text, "utf-8")
        suite = "def test_it(): ran('it')\n"
    run = retry(service, tmp_path, suite)
    assert run.status == 0, run.stdout + run.stderr
    found = counts(run.report())
    assert (found["collected"], found["passed"]) == (2, 2)
    assert "failed" not in found
    assert "errors" not in found
    assert set(outcomes(run.report()).values()) == {"rescued"}


def test_a_service_that_never_comes(tmp_path: Path, service: LateService) -> None:
    """Nothing runs again, and the report is that of the run."""
    options = ("--retry-wait", "0.2")
    run = retry(service, tmp_path, NEEDS_SERVICE, options=options)
    assert run.status == 1
    place = f"127.0.0.1:{service.port}"
    words = f"not retried: {place} still does not answer after "
    assert words in run.stderr
    (note,) = run.report()["notes"]
    assert note.startswith(words)
    convert = ("convert", REPORT, "--to")
    for command in (["show"], [*convert, "markdown"], [*convert, "html"]):
        assert words in run_child(tmp_path, [*CLI, *command]).stdout, command
    assert runs(tmp_path) == {"passes": 1, "first": 1, "second": 1}
    assert run.report()["merged"] is None


def test_an_assertion_never_runs_again(tmp_path: Path, service: LateService) -> None:
    """Its run stays a failed one; what the environment owed is rescued."""
    service.begin()
    suite = NEEDS_SERVICE + (
        "def test_wrong(): ran('wrong'); assert 1 == 2\n"
        "def test_other(): ran('other'); connect(); assert 3 == 4\n"
    )
    run = retry(service, tmp_path, suite, options=("--exit-code", "subject=76"))
    assert run.status == 76
    once = {"passes": 1, "wrong": 1}
    assert runs(tmp_path) == {**once, "first": 2, "second": 2, "other": 2}
    report = run.report()
    assert outcomes(report) == {
        "test_first": "rescued",
        "test_second": "rescued",
        "test_other": "other_cause",
    }
    names = [failure["nodeid"] for failure in report["failures"]]
    assert names == ["test_it.py::test_wrong", "test_it.py::test_other"]
    assert report["verdict"]["message"] == "2 of 5 tests failed, 2 causes"
    found = counts(report)
    assert (found["passed"], found["failed"], found["flaky"]) == (3, 2, 2)
    assert (
        "test_it.py::test_other failed on retry 1 for another reason than: "
        in run.stdout
    )


def test_a_test_that_also_fails_by_itself(tmp_path: Path, service: LateService) -> None:
    """It does not run again, although its teardown needs the service."""
    suite = (
        "@pytest.fixture\ndef service():\n    yield\n    connect()\n"
        "def test_it(service): ran('it'); assert 0\n"
    )
    run = retry(service, tmp_path, suite)
    assert run.status == 1
    assert "nothing was retried: no cause is the environment's" in run.stderr
    assert runs(tmp_path) == {"it": 1}


def test_a_service_that_goes_away_again(tmp_path: Path, service: LateService) -> None:
    """The test fails by the same cause, and the run with it."""
    service.begin(most=1)
    suite = "def test_it(): ran('it'); connect()\n"
    run = retry(service, tmp_path, suite, times=1)
    assert run.status == 1
    assert outcomes(run.report()) == {"test_it": "same_cause"}
    assert counts(run.report()) == {"collected": 1, "failed": 1, "rerun": 1}
    assert "test_it failed on retry 1 by the same cause: nothing listens" in run.stdout


def test_a_test_that_is_skipped_then(tmp_path: Path, service: LateService) -> None:
    """It has not passed, so its failure stays."""
    service.begin()
    suite = "def test_it():\n    if ran('it') == 2: pytest.skip('no')\n    connect()\n"
    run = retry(service, tmp_path, suite, times=1)
    assert run.status == 1
    assert outcomes(run.report()) == {"test_it": "not_settled"}
    assert "test_it neither passed nor failed on retry 1, after: " in run.stdout


@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["process", "worker"])
def test_a_death_from_outside(
    tmp_path: Path, service: LateService, args: tuple[str, ...]
) -> None:
    """What was killed, and what did not run because of that, runs in the retry."""
    suite = (
        "def test_before(): pass\n"
        "def test_it():\n    if ran('it') == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "def test_after(): pass\n"
        "@pytest.mark.skip\ndef test_skipped(): pass\n"
    )
    plugins = ("xdist",) if args else ()
    run = retry(service, tmp_path, suite, *args, plugins=plugins)
    assert run.status == 0, run.stdout + run.stderr
    completeness = "full" if args else "reconstructed"
    report = run.report(completeness=completeness)
    ended = {"collected": 4, "passed": 3, "skipped": 1}
    assert counts(report) == {**ended, "flaky": 1, "rerun": 1}
    assert outcomes(report)["test_it"] == "rescued"
    assert runs(tmp_path) == {"it": 2}


def test_a_retry_that_dies(tmp_path: Path, service: LateService) -> None:
    """The report has its death, and the status stays that of the first run."""
    service.begin()
    suite = NEEDS_SERVICE + (
        "def test_it():\n    ran('it')\n    connect()\n    os._exit(3)\n"
    )
    run = retry(service, tmp_path, suite)
    assert run.status == 1
    report = run.report(completeness="reconstructed")
    assert report["verdict"]["kind"] == "process.exited"
    found = {"test_first": "rescued", "test_second": "rescued"}
    assert outcomes(report) == {**found, "test_it": "other_cause"}
    assert counts(report)["collected"] == 4


STOPPED: Final = """
def test_passes(): connect()
def test_slow():
    connect()
    {}
    time.sleep(60)
def test_after(): connect()
"""


@pytest.mark.parametrize("options", [(), ("--timeout", "10")], ids=["signal", "limit"])
def test_a_retry_that_is_stopped(
    tmp_path: Path, service: LateService, options: tuple[str, ...]
) -> None:
    """What was running has not failed in it: the failure of the first run stays."""
    service.begin()
    end = "" if options else "os.kill(os.getppid(), signal.SIGINT)"
    suite = "import time\n" + STOPPED.format(end)
    run = retry(service, tmp_path, suite, options=options)
    assert run.status != 0
    report = run.report(completeness="reconstructed" if options else "full")
    assert outcomes(report) == {
        "test_passes": "rescued",
        "test_slow": "not_settled",
        "test_after": "not_settled",
    }
    assert "test_slow was running when retry 1 ended, after: nothing" in run.stdout
    assert "for another reason" not in run.stdout
    assert report["verdict"]["message"].startswith("2 of 3 tests failed, then the run ")
    names = [failure["nodeid"].rpartition("::")[2] for failure in report["failures"]]
    assert names == ["test_slow", "test_after"]


def test_a_death_beside_a_failure(tmp_path: Path, service: LateService) -> None:
    """Each test is told by what became of it, and the death by what it has stopped."""
    service.begin()
    suite = (
        "import pathlib\n"
        "def test_fails():\n    if ran('fails') == 2: pathlib.Path('no').read_text()\n"
        "    connect()\n"
        "def test_ends():\n    connect()\n    os._exit(0)\n"
    )
    run = retry(service, tmp_path, suite)
    assert run.status == 1
    words = "test_ends was running when retry 1 ended, after: nothing listens"
    assert words in run.stdout
    assert "test_fails failed on retry 1 for another reason than: " in run.stdout
    report = run.report(completeness="reconstructed")
    assert outcomes(report)["test_ends"] == "other_cause"
    (finding,) = report["integrity"]
    assert finding["nodeids"] == ["test_it.py::test_ends"]


def test_files_of_the_first_run_stay(tmp_path: Path, service: LateService) -> None:
    """Files of pytest are not written by a retry; ours are of the whole."""
    service.begin()
    written = ("--junitxml=theirs.xml", "--failure-taxonomy-junit=ours.xml")
    page = "--failure-taxonomy-html=ours.html"
    run = retry(service, tmp_path, NEEDS_SERVICE, *written, page)
    assert run.status == 0
    theirs = (tmp_path / "theirs.xml").read_text("utf-8")
    assert 'failures="2"' in theirs
    assert 'tests="3"' in theirs
    ours = (tmp_path / "ours.xml").read_text("utf-8")
    assert 'tests="3" failures="0"' in ours
    assert ours.count('message="passed on retry 1 after: nothing listens') == 2
    assert "2 tests passed on retry 1" in (tmp_path / "ours.html").read_text("utf-8")
    markdown = run_child(tmp_path, [*CLI, "convert", "--to", "markdown", REPORT])
    assert "- 2 tests passed on retry 1 after: nothing listens" in markdown.stdout
    names = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert names == {
        *("test_it.py", "ran", REPORT),
        *("theirs.xml", "ours.xml", "ours.html"),
    }


def test_rescued_tests_are_in_other_formats(
    tmp_path: Path, service: LateService
) -> None:
    """They passed there, and their first attempt says why it failed."""
    service.begin()
    suite = NEEDS_SERVICE + (
        "@pytest.fixture\ndef service(): connect()\ndef test_third(service): pass\n"
        "def test_wrong(): assert 1 == 2\n"
    )
    retry(service, tmp_path, suite, "--junitxml=theirs.xml")
    convert = [*CLI, "convert", REPORT, "--to"]
    words = "passed on retry 1 after: nothing listens on 127.0.0.1:"
    for more, tests in (((), 4), (("--augment", "theirs.xml"), 5)):
        made = run_child(tmp_path, [*convert, "junit", *more])
        (suite_element,) = ET.fromstring(made.stdout)  # noqa: S314 - ours
        numbers = {name: suite_element.get(name) for name in ("tests", "failures")}
        assert numbers == {"tests": str(tests), "failures": "1"}
        assert suite_element.get("errors") == "0"
        attempts = [
            element
            for case in suite_element
            for element in case
            if element.tag in ("flakyFailure", "flakyError")
        ]
        kinds = sorted([element.get("type") or "" for element in attempts])
        assert kinds == ["test.failed", "test.failed", "test.setup_error"]
        for element in attempts:
            assert (element.get("message") or "").startswith(words)
            assert (element.text or "").startswith("nothing listens on 127.0.0.1:")
            assert "\nowner: environment" in (element.text or "")
    made = run_child(tmp_path, [*convert, "ctrf"])
    found = json.loads(made.stdout)["results"]["summary"]
    assert (found["passed"], found["failed"], found["flaky"]) == (3, 1, 3)


def test_agents_are_told(tmp_path: Path, service: LateService) -> None:
    """The one line of a green run has it, and both runs' output is in the file."""
    service.begin()
    options = ("--for", "agent", "--certify")
    run = retry(service, tmp_path, NEEDS_SERVICE, options=options)
    assert run.status == 0
    (line,) = run.stdout.splitlines()
    assert line.startswith(
        "verdict: no failure (3 passed, 2 flaky); 2 tests passed on retry 1"
    )
    assert line.count("passed on retry") == 1
    output = (tmp_path / "failure-report.log").read_text("utf-8")
    assert "2 failed, 1 passed" in output
    assert "2 passed" in output


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("subject=2", "'subject=2': a retry can't fix what is not the environment's"),
        ("environment", "'environment' is wrong; give environment=N with N from 1"),
        ("environment=0", "'environment=0' is wrong; give environment=N with N"),
        ("environment=11", "'environment=11' is wrong; give environment=N with N"),
        ("host=2", "'host=2' is wrong; give environment=N with N from 1 to 10"),
    ],
)
def test_what_is_no_retry(tmp_path: Path, asked: str, words: str) -> None:
    """It is refused in one line, before anything runs."""
    command = [*CLI, "run", "--retry", asked, "--", "touch", "ran"]
    run = run_child(tmp_path, command)
    assert (run.status, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"failure-taxonomy: run --retry: {words}")
    assert not (tmp_path / "ran").exists()


def test_a_command_that_is_no_pytest(tmp_path: Path) -> None:
    """It is never run again."""
    command = ["sh", "-c", "echo x >> ran; exit 7"]
    run = run_child(tmp_path, [*CLI, "run", "--retry=environment=1", "--", *command])
    assert run.status == 7
    assert "nothing was retried: the command is not pytest" in run.stderr
    assert (tmp_path / "ran").read_text("utf-8") == "x\n"


@contextmanager
def waiting(folder: Path, service: LateService) -> Iterator[subprocess.Popen[str]]:
    """Yield a run that waits for its service."""
    text = HEAD.format(port=service.port) + NEEDS_SERVICE
    (folder / "test_it.py").write_text(text, "utf-8")
    command = [*CLI, "run", "--retry=environment=1", "--", *pytest_command("-q")]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=child_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if "waiting up to" in line:
                break
        yield child
        child.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_waiting(
    tmp_path: Path, service: LateService, number: signal.Signals
) -> None:
    """The process ends by it, and the report is that of the first run."""
    with waiting(tmp_path, service) as child:
        child.send_signal(number)
        _, told = child.communicate()
        assert child.returncode == -number
    assert told == f"failure-taxonomy: not retried: stopped by {number.name}\n"
    report = json.loads((tmp_path / REPORT).read_text("utf-8"))
    assert report["verdict"]["message"].startswith("2 of 3 tests failed")
    assert report["notes"] == [f"not retried: stopped by {number.name}"]
    assert runs(tmp_path) == {"passes": 1, "first": 1, "second": 1}


def test_a_name_answers_if_it_is_resolved() -> None:
    """Then it is the name that was missing, and nothing is connected to."""
    assert Service("localhost", None).answers()
    assert not Service("no-such-host.invalid", None).answers()


@pytest.mark.parametrize(
    ("what", "service"),
    [
        ("nothing listens on db:5432: test_it (test_it.py:5)", Service("db", 5432)),
        ("nothing listens on [::1]:80: test_it (a.py:5)", Service("::1", 80)),
        ("MySQL at 10.0.0.1:3306: nothing listens there", Service("10.0.0.1", 3306)),
        ("the name db.internal can't be resolved", Service("db.internal", None)),
        ("test_it.py:5: no space left on the device (a.py:7)", None),
        ("http://db:80/x answered with 503", None),
    ],
)
def test_the_service_of_a_cause(what: str, service: Service | None) -> None:
    """It is named in the sentence; a place in a file is none."""
    report = make_report_value(make_run(failures=(make_failure(),)))
    (cause,) = report.causes
    assert service_of(replace(cause, what=what)) == service

"""Run pytest in a process of its own, with our plugin and without, and read what came of it."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

from tests.helpers.reports import read_report
from tests.helpers.warm_pytest import warm_server

REPORT: Final = "failure-report.json"
JUNIT: Final = "junit.xml"
TIMEOUT_SECONDS: Final = 120.0
"""For one run. Most take half a second; a machine that does other things, too, takes longer."""

_EARLIER_REPORT: Final = {
    "run": {"id": "0" * 32},
    "completeness": "full",
    "verdict": None,
}
_PLUGIN: Final = "failure_taxonomy"
_NOT_INHERITED: Final = re.compile(
    "PYTEST_(?!DEBUG_TEMPROOT)|FAILURE_TAXONOMY_|PYTHONWARNINGS|PYTHON_COLORS|PY_COLORS|NO_COLOR"
    "|FORCE_COLOR|COLUMNS|CI$|CI_|BUILD|GITHUB_|GITLAB_|TF_BUILD|CIRCLE|JENKINS_|SYSTEM_JOBNAME"
)
"""Environment variables of the suite's own run that must not reach the runs inside it."""

_TITLE: Final = re.compile("=+ why this run failed =+")
_LAST_OF_OURS: Final = ("report: ", "failure taxonomy: ")
_TRACEBACK: Final = re.compile(
    r"(INTERNALERROR> )?Traceback \(most recent call last\):"
)
_FRAME: Final = re.compile("(INTERNALERROR> )?  ")
_VARIES: Final = (
    (re.compile(r"in [0-9]+\.[0-9]+s( \([0-9:]+\))?"), "in N s"),
    (re.compile("0x[0-9a-f]+"), "0xN"),
    (re.compile("={3,}"), "==="),
    (re.compile("(?<=available fixtures: )(.*)failure_taxonomy, "), r"\1"),
    (
        re.compile(
            "(?<=^plugins: )failure-taxonomy-[^, ]+(, )?|, failure-taxonomy-[^, ]+"
        ),
        "",
    ),
)
"""What differs between two runs of the same tests, and what to put in its place."""

_COUNTED_ALIKE: Final = (
    "passed",
    "failed",
    "errors",
    "skipped",
    "xfailed",
    "xpassed",
    "rerun",
    "deselected",
    "warnings",
)
"""Counts that the report's summary and pytest's last line both have, under the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """What one run of pytest has left behind."""

    args: list[str]
    """The arguments of pytest."""
    exit_status: int
    """As `subprocess` has it: negative for a death by signal."""
    stdout: list[str]
    stderr: list[str]
    report: dict[str, Any]
    """Empty where there is none."""
    junit: Mapping[str, int]
    """Totals of the file that `--junitxml` wrote; empty where there is none."""

    @property
    def shell_status(self) -> int:
        """The exit status that a shell would show."""
        return self.exit_status if self.exit_status >= 0 else 128 - self.exit_status

    @property
    def outcomes(self) -> dict[str, int] | None:
        """The counts in pytest's last line; `None` where it printed none."""
        try:
            return pytest.RunResult.parse_summary_nouns(self.stdout)
        except ValueError:
            return None

    @property
    def verdict(self) -> tuple[str | None, str | None]:
        """Reason and kind; two times `None` for success."""
        verdict = self.report["verdict"]
        return (None, None) if verdict is None else (verdict["reason"], verdict["kind"])

    @property
    def kinds(self) -> list[str]:
        """The kinds of all reasons that hold, primary first."""
        return [held["kind"] for held in self.report["reasons"]]

    @property
    def counts(self) -> dict[str, int]:
        """The counts of the summary that are not zero."""
        return {name: count for name, count in self.report["summary"].items() if count}


class PytestRuns:
    """Start runs of pytest in the folder of a `pytester`."""

    def __init__(
        self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.path = pytester.path
        self._pytester = pytester
        for name in list(os.environ):
            if _NOT_INHERITED.match(name):
                monkeypatch.delenv(name)
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def write(self, files: Mapping[str, str]) -> None:
        """Write files, given by path and content; an empty `pytest.ini` if there is none."""
        for name, content in {"pytest.ini": "[pytest]\n", **files}.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")

    def run(
        self,
        *args: str,
        plugins: Sequence[str] = (),
        cache: bool = False,
        prefix: Sequence[str] = (),
    ) -> FinishedRun:
        """Run pytest with our plugin and `--failure-taxonomy`, and check the report that it wrote.

        Args:
            args: further arguments.
            plugins: names of the entry points of other plugins to load.
            cache: leave pytest's cache switched on.
            prefix: a command that starts pytest.
        """
        run = self.run_unchecked(*args, plugins=plugins, cache=cache, prefix=prefix)
        assert run.report not in ({}, _EARLIER_REPORT), "no report, or an earlier run's"
        invocation = {"args": run.args, "rootdir": str(self.path)}
        assert run.report["run"]["invocation"] == invocation
        if run.report["completeness"] == "full":
            self._assert_tidy(run.report["run"]["id"])
        return run

    def run_unchecked(
        self,
        *args: str,
        plugins: Sequence[str] = (),
        cache: bool = False,
        prefix: Sequence[str] = (),
    ) -> FinishedRun:
        """Run pytest with our plugin where an earlier run has left a report.

        The report may still be the earlier one afterwards; what it says of the run is not compared
        with the run. A report of this run is valid in any case.
        """
        (self.path / REPORT).write_text(json.dumps(_EARLIER_REPORT), encoding="utf-8")
        finds_plugins = "PYTEST_DISABLE_PLUGIN_AUTOLOAD" not in os.environ
        return self._run(
            "--failure-taxonomy",
            *args,
            plugins=plugins if finds_plugins else (_PLUGIN, *plugins),
            cache=cache,
            prefix=prefix,
        )

    def run_plain(
        self, *args: str, plugins: Sequence[str] = (), cache: bool = False
    ) -> FinishedRun:
        """Run pytest without our plugin."""
        (self.path / REPORT).unlink(missing_ok=True)
        run = self._run("-p", f"no:{_PLUGIN}", *args, plugins=plugins, cache=cache)
        assert run.report == {}
        return run

    def compare(
        self, *args: str, plugins: Sequence[str] = (), cache: bool = False
    ) -> FinishedRun:
        """Run pytest without our plugin and with it; return the second run.

        Its exit status must be that of the first, its output that of the first and our lines.
        """
        plain = self.run_plain(*args, plugins=plugins, cache=cache)
        run = self.run(*args, plugins=plugins, cache=cache)
        assert run.exit_status == plain.exit_status
        assert run.outcomes == plain.outcomes
        assert run.junit == plain.junit
        if "-n" not in args:  # the output of several processes is in no order
            assert list(comparable(run.stdout)) == list(comparable(plain.stdout))
            assert list(comparable(run.stderr)) == list(comparable(plain.stderr))
        return run

    def read_report(self) -> dict[str, Any]:
        """Return the report as it is now."""
        return _read_report(self.path / REPORT)

    def wait_for_completion(self) -> dict[str, Any]:
        """Return the report of a pytest that died, once the process that watched it is done."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (report := self.read_report())["completeness"] == "running":
            assert time.monotonic() < deadline, "nobody has completed the report"
            time.sleep(0.05)
        return report

    def _assert_tidy(self, run_id: str) -> None:
        """Check that a run has left no working files; the records of dead ones stay."""
        left = [path.name for path in self.path.glob(f".{REPORT}*")]
        records = re.compile(rf"\.{REPORT}\.(?!{run_id})[0-9a-f]{{32}}")
        assert [name for name in left if not records.fullmatch(name)] == []

    def _run(
        self,
        *args: str,
        plugins: Sequence[str],
        cache: bool,
        prefix: Sequence[str] = (),
    ) -> FinishedRun:
        (self.path / JUNIT).unlink(missing_ok=True)
        command = [f"--junitxml={JUNIT}"]
        command += [part for name in plugins for part in ("-p", name)]
        command += [] if cache else ["-p", "no:cacheprovider"]
        command += args
        status, stdout, stderr = self._outcome_of(
            [*prefix, sys.executable, "-m", "pytest", *command]
        )
        return FinishedRun(
            args=command,
            exit_status=status,
            stdout=stdout,
            stderr=stderr,
            report=_read_report(self.path / REPORT),
            junit=_read_junit(self.path / JUNIT),
        )

    def _outcome_of(self, command: list[str]) -> tuple[int, list[str], list[str]]:
        """Return exit status and lines of a command; a plain run of pytest is a warm fork."""
        server = warm_server(command, os.environ)
        if server is None:
            result = self._pytester.run(*command, timeout=TIMEOUT_SECONDS)
            return int(result.ret), result.outlines, result.errlines
        status, *outputs = server.run(command, Path.cwd(), os.environ, TIMEOUT_SECONDS)
        stdout, stderr = (output.decode() for output in outputs)
        print(stdout)  # noqa: T201 - shown where the test fails
        print(stderr, file=sys.stderr)  # noqa: T201 - likewise
        return status, stdout.splitlines(), stderr.splitlines()


def own_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines that our plugin has printed."""
    return [line for line, is_ours in _told_apart(lines) if is_ours]


def comparable(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines that are not ours, without what differs from run to run.

    The frames of Python's tracebacks are left out, because our hooks are among them.
    """
    in_traceback = False
    for line, is_ours in _told_apart(lines):
        in_traceback = _TRACEBACK.fullmatch(line) is not None or (
            in_traceback and _FRAME.match(line) is not None
        )
        if not is_ours and not in_traceback:
            for pattern, replacement in _VARIES:
                line = pattern.sub(replacement, line)  # noqa: PLW2901 - step by step
            if line != "plugins: ":
                yield line


def assert_counts_agree(run: FinishedRun) -> None:
    """Check the summary's counts against pytest's last line and its JUnit file.

    Each is looked at only where pytest printed or wrote it.
    """
    summary = run.report["summary"]
    outcomes = run.outcomes
    if outcomes is not None:
        # Cases that are below what passes, where only the gate of their bench decides.
        outcomes["passed"] = outcomes.get("passed", 0) + outcomes.pop("below", 0)
        told = [
            name
            for name in _COUNTED_ALIKE
            if name != "deselected" or not run.report["workers"]
        ]
        assert {name: summary[name] for name in told} == {
            name: outcomes.get(name, 0) for name in told
        }
    if run.junit:
        assert run.junit["skipped"] == summary["skipped"] + summary["xfailed"]
        internal = sum(
            error["kind"] == "internal.error" for error in run.report["internal_errors"]
        )
        assert (
            run.junit["failures"] + run.junit["errors"]
            == summary["failed"] + summary["errors"] + internal
        )
    assert summary["in_flight"] == len(run.report["in_flight"])
    assert summary["not_run"] == run.report["not_run"]["count"]


def _told_apart(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    is_ours = False
    for line in lines:
        is_ours = (
            is_ours
            or _TITLE.fullmatch(line) is not None
            or line.startswith(_LAST_OF_OURS)
        )
        yield line, is_ours
        is_ours = is_ours and not line.startswith(_LAST_OF_OURS)


def _read_report(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    report: dict[str, Any] = json.loads(path.read_text("ascii"))
    return report if report == _EARLIER_REPORT else read_report(path)


def _read_junit(path: Path) -> dict[str, int]:
    if not path.exists():
        return {}
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ET.parse(path).getroot().iter("testsuite"):  # noqa: S314 - pytest wrote it
        for name in totals:
            totals[name] += int(suite.get(name, 0))
    return totals

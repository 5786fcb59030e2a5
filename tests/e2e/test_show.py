"""`failure-taxonomy show` and `schema`, as a shell script or a reader of a terminal uses them."""

from __future__ import annotations

import io
import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.report.merging import merge_reports
from pytest_failure_taxonomy.report.model import SCHEMA_ID, SCHEMA_VERSION
from pytest_failure_taxonomy.taxonomy.evidence import (
    InFlightTest,
    ProcessExit,
    SeenStall,
    Stall,
)
from pytest_failure_taxonomy.taxonomy.judgement import Stage
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import make_failure, make_full_run, make_report, make_run

HOSTILE: Final = "\x1b[2J\x9b31m\u202eevil\r"


class Said(NamedTuple):
    """What a command has answered."""

    code: int
    out: str
    err: str


class Shell:
    """Calls the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys = capsys
        self._path = folder / "r.json"

    def __call__(self, *words: str) -> Said:
        """Call it with these words."""
        self._capsys.readouterr()
        code = main(words)
        return Said(code, *self._capsys.readouterr())

    def show(self, report: object, *options: str) -> Said:
        """Show a report, or whatever else is in the file."""
        self._path.write_text(json.dumps(report), "utf-8")
        return self("show", *options, str(self._path))

    def refusal(self, report: object, *options: str) -> str:
        """Return the one line of an error."""
        said = self.show(report, *options)
        assert (said.code, said.out) == (2, "")
        (line,) = said.err.splitlines()
        return line


@pytest.fixture
def shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """Return the command, with no variables for colours set."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Shell(capsys, tmp_path)


def as_first_version(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report as version 1.0 had it."""
    new = {
        "run": ("shard",),
        "verdict": ("owner",),
        "failures": ("origin",),
        "groups": ("owner", "history"),
        "collection_errors": ("origin",),
        "in_flight": ("stall", "output", "stack", "location"),
        "workers": ("peak_rss_bytes",),
        "environment": ("watcher", "memory", "git"),
    }
    old = json.loads(json.dumps(report))
    for field, names in new.items():
        for each in old[field] if isinstance(old[field], list) else [old[field]]:
            for name in names:
                del each[name]
    del old["stalls"], old["tests"]
    return {
        **old,
        "$schema": "urn:pytest-failure-taxonomy:failure-report:1.0",
        "schema_version": "1.0",
    }


def test_the_terminals_view_of_a_failure(shell: Shell) -> None:
    """It is that of the run, on stdout; colours are for those who see them. 1.0 reads as well."""
    report = make_report()
    said = shell.show(report)
    assert (said.code, said.err) == (1, "")
    title, headline, *_, last = said.out.splitlines()
    assert title.strip("= ") == "why this run failed"
    assert headline.startswith(report["verdict"]["message"])
    assert headline.endswith("  [TESTS_FAILED test.failed]")
    assert last.endswith("r.json")
    assert "\x1b" not in said.out
    assert shell.show(as_first_version(report)) == said


def test_a_run_without_a_failure(shell: Shell) -> None:
    """One line says so, and the exit code is 0."""
    said = shell.show(make_report(make_run()))
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("failure taxonomy: no failure (1 passed); report: ")


@pytest.mark.parametrize(
    ("variables", "has_colors"),
    [
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({}, False),
    ],
)
def test_colours(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    has_colors: bool,
) -> None:
    """The variables decide that decide everywhere else."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    report = make_report()
    shown = shell.show(report).out
    assert (f"\x1b[1;31m{report['verdict']['message'][:20]}" in shown) is has_colors
    assert ("[TESTS_FAILED test.failed]\x1b[0m" in shown) is has_colors


def test_all_of_it(shell: Shell) -> None:
    """Each part of a report is shown that has anything in it."""
    stall = Stall(
        state="blocked",
        seconds=12.0,
        where="acquire (tests/test_slow.py:6)",
        stack="File x, line 6",
        children=("sleep 60",),
    )
    run = make_full_run()
    (running,) = run.in_flight
    run = replace(
        run,
        finished=False,
        exit=ProcessExit(
            code=143, signal="SIGTERM", source="supervisor", observed=True
        ),
        in_flight=(replace(running, stall=stall, output="the last\nwords"),),
        stalls=(SeenStall(what="session", stall=stall),),
    )
    report = make_report(run, completeness="reconstructed")
    report["causes"][0]["history"] = {
        "state": "came_back",
        "first_seen": "2026-01-01T00:00:00Z",
        "runs": 14,
        "last_passed_commit": "abc1234",
        "distributions_changed": None,
        "first_commit": None,
        "flaky_failures": 0,
        "flaky_runs": 0,
    }
    report["limits"]["failures_omitted"] = 7
    lines = shell.show(report, "--all").out.splitlines()
    titles = [line.strip("= ") for line in lines if line.startswith("=")]
    assert titles == [
        *("why this run failed", "reasons", "causes", "failures", "collection errors"),
        *("internal errors", "in flight", "stalls", "not run", "workers"),
        "cut to keep the report small",
    ]
    for expected in (
        "[came back, first seen 2026-01-01, 14 earlier runs], last passed at abc1234",
        "tests/test_cart.py::test_total (call) TESTS_FAILED [test.failed]",
        "    AssertionError: assert 3 == 4",
        "    at tests/test_cart.py:7",
        "      >       assert 3 == 4",
        "internal.error",
        "    KeyError: 'x'",
        "tests/test_slow.py::test_it (setup on gw0, 1.5 s)",
        "    blocked in acquire (tests/test_slow.py:6) for 12 s",
        "    child process: sleep 60",
        "      words",
        "    tests/test_late.py::test_b",
        "gw1: 2 tests, SIGSEGV, died on tests/test_cart.py::test_c",
        "failures omitted: 7",
    ):
        assert any(expected in line for line in lines), expected


def test_the_runs_that_a_report_was_merged_from(shell: Shell) -> None:
    """Each is told with its own verdict; nonsense in an old report is refused."""
    setup = make_report(make_run(stage=Stage.SETUP))
    setup["run"]["id"] = "a" * 32
    report = merge_reports([setup, make_report()])
    failed, passed = report["merged"]["runs"][::-1]
    passed["run"]["shard"] = {"index": 2, "total": 4}
    failed["verdict"]["message"] = HOSTILE
    out = shell.show(report).out
    assert f"{failed['verdict']['kind']}]\n" in out
    assert "setup, shard 2 of 4: no failure\n" in out
    assert "\x1b" not in out
    nonsense: tuple[object, ...] = (
        *(
            [],
            "x",
            None,
            {"merged": 3},
            {"merged": {"runs": {}}},
            {"notes": 3, "faults": [[]]},
        ),
        *({"attributions": 3}, {"attributions": [3, {"rule": {}, "owner": {}}]}),
    )
    versions = {"$schema": SCHEMA_ID.replace("1.3", "1.2"), "schema_version": "1.2"}
    for own in nonsense:
        extensions = {"extensions": {"pytest_failure_taxonomy": own}}
        refused = shell.show({**make_report(), **extensions, **versions}, "--all").code
        assert refused == (2 if own and isinstance(own, dict) else 1)


def test_text_that_would_take_over_the_terminal(shell: Shell) -> None:
    """Control characters are escaped wherever they come from."""
    run = make_full_run()
    bad = make_failure(
        nodeid=f"t.py::{HOSTILE}", message=HOSTILE, traceback=f"a\n{HOSTILE}\nb"
    )
    flight = InFlightTest(
        nodeid=HOSTILE, phase="call", elapsed_seconds=None, output=HOSTILE
    )
    report = make_report(
        replace(run, failures=(bad,), in_flight=(flight,), not_run=(HOSTILE,))
    )
    out = shell.show(report, "--all").out
    assert "\\x1b[2J" in out
    assert not set(out.replace("\r\n", "\n")) & set("\x1b\x9b\u202e\r")


def test_a_running_report_says_so(shell: Shell) -> None:
    """Nothing is known yet, which is no success."""
    report = make_report(make_run(finished=False), completeness="running")
    said = shell.show(report)
    assert said.code == 1
    assert "the report is `running`" in said.out
    assert "failure-taxonomy finalize " in said.out
    retry = shell.show(report, "--retryable")
    assert (retry.code, retry.out) == (1, "not known: the report is `running`\n")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("verdict.kind", "test.failed\n"),
        ("verdict.retryable", "false\n"),
        ("verdict.nodeid", "tests/test_cart.py::test_total\n"),
        ("failures[0].location", '{"path": "tests/test_cart.py", "line": 7}\n'),
        ("failures[-1].worker", "gw1\n"),
        ("failures[1].location.line", "null\n"),
        ("failures[].phase", "call\nteardown\ncall\n"),
        ("failures[].location.line", "7\nnull\n7\n"),
        ('["$schema"]', "urn:pytest-failure-taxonomy:failure-report:1.3\n"),
        ("$schema", "urn:pytest-failure-taxonomy:failure-report:1.3\n"),
        ("summary.failed", "2\n"),
        (
            "not_run.nodeids",
            '["tests/test_late.py::test_b", "tests/test_late.py::test_a"]\n',
        ),
        ("tests[].nodeid", "null\n"),
        ("stalls[].state", ""),
        ("exit.observed", "false\n"),
    ],
)
def test_one_field(shell: Shell, path: str, expected: str) -> None:
    """Texts are printed as they are, all else as JSON; the exit code is still the verdict's."""
    said = shell.show(make_report(), "--json", path)
    assert said == (1, expected, "")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("verdict.knd", "there is no verdict.knd; verdict has the keys reason, kind, "),
        ("verdit", "there is no verdit; the report has the keys "),
        (
            "failures[3]",
            "there is no failures[3]; failures is a list of 3; give an index",
        ),
        ("failures.nodeid", "failures is a list of 3"),
        ("failures[].who", "failures[] has the keys nodeid, "),
        ("verdict[]", "verdict has the keys"),
        ("run.id.x", "run.id is a text and has no parts"),
        ("summary.failed.x", "summary.failed is a number and has no parts"),
        ("exit.observed.x", "exit.observed is true or false and has no parts"),
        ("stalls[0]", "stalls is an empty list"),
        ("bench[0].gate", "bench is an empty list"),
        ("", "'' is no path at character 1"),
        ("failures[x]", "'failures[x]' is no path at character 9; give one such as"),
        (".verdict", "'.verdict' is no path at character 1"),
        ("a..b", "'a..b' is no path at character 2"),
        ("[9999999999]", "is no path at character 1"),
        (r'["\q"]', "is no JSON string"),
        ("\x1b[2J", r"'\x1b[2J' is no path"),
    ],
)
def test_a_field_that_is_not_there(shell: Shell, path: str, expected: str) -> None:
    """The error names the nearest part that exists, and what that has."""
    line = shell.refusal(make_report(), "--json", path)
    assert line.startswith("failure-taxonomy: --json: ")
    assert expected in line


def test_one_field_on_a_terminal(shell: Shell) -> None:
    """The control characters of a text are escaped, but for the ends of its lines."""
    report = make_report()
    report["failures"][0]["traceback"] = f"a\n{HOSTILE}\nb"
    path = "failures[0].traceback"
    for shown in (path, "failures[0]"):
        out = shell.show(report, "--json", shown).out
        assert "evil" in out
        assert not set(out.replace("\r\n", "\n")) & set("\x1b\x9b\u202e\r")
    assert shell.show(report, "--json", path).out.splitlines()[::2] == ["a", "b"]


def test_of_a_success_everything_in_the_verdict_is_null(shell: Shell) -> None:
    """A script need not ask first whether there is a verdict."""
    assert shell.show(make_report(make_run()), "--json", "verdict.kind") == (
        0,
        "null\n",
        "",
    )


@pytest.mark.parametrize(
    ("retryable", "code", "word"),
    [(True, 0, "yes"), (False, 1, "no"), (None, 1, "not known")],
)
def test_retryable(shell: Shell, retryable: bool | None, code: int, word: str) -> None:
    """The exit code is 0 only if a retry can help."""
    report = make_report()
    report["verdict"]["retryable"] = retryable
    said = shell.show(report, "--retryable")
    assert (said.code, said.err) == (code, "")
    assert said.out.startswith(f"{word}: {report['verdict']['message']}")
    assert said.out.endswith(" [TESTS_FAILED test.failed]\n")
    assert said.out.count("\n") == 1


def test_a_success_needs_no_retry(shell: Shell) -> None:
    """So a loop that retries comes to its end."""
    said = shell.show(make_report(make_run()), "--retryable")
    assert said == (1, "no: nothing failed\n", "")


def test_the_whole_report_as_json(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of the newest version; stdin can be read in place of a file."""
    report = make_report()
    old = as_first_version(report)
    said = shell.show(old, "--format=json")
    assert said.code == 1
    assert json.loads(said.out) == report
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(old).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert shell("show", "--format=json", "-") == said
    monkeypatch.setattr(sys, "stdin", None)
    assert shell("show", "-").err.startswith("failure-taxonomy: stdin: it is closed")


@pytest.mark.parametrize(
    ("report", "options", "expected"),
    [
        ([], (), "it is no JSON object"),
        ({"schema_version": "9.0"}, (), "schema version 9.0 is newer"),
        (
            make_report(),
            ("--format=json", "--retryable"),
            "--format json prints the whole report",
        ),
        (
            make_report(),
            ("--format=json", "--json=run"),
            "--format json prints the whole report",
        ),
    ],
)
def test_refusals(
    shell: Shell, report: object, options: tuple[str, ...], expected: str
) -> None:
    """What is no report, and options that contradict each other, get one line."""
    assert expected in shell.refusal(report, *options)


def test_a_report_that_is_not_there(shell: Shell, tmp_path: Path) -> None:
    """The line names the file."""
    said = shell("show", str(tmp_path / "no.json"))
    assert said.code == 2
    assert "no.json: there is no such file" in said.err


def test_what_is_wrong_with_a_report_names_the_command_that_says_what_is_right(
    shell: Shell,
) -> None:
    """It is one that a user can call."""
    said = shell.show({})
    assert said.code == 2
    assert "`failure-taxonomy schema` prints what would be right" in said.err


SCHEMAS: Final = sorted(
    file.name.removeprefix("failure-report-").removesuffix(".schema.json")
    for file in files("pytest_failure_taxonomy.report").iterdir()
    if file.name.endswith(".schema.json")
)


@pytest.mark.parametrize("version", SCHEMAS)
def test_schema(shell: Shell, version: str) -> None:
    """The packaged file is printed exactly."""
    name = f"failure-report-{version}.schema.json"
    packaged = files("pytest_failure_taxonomy.report").joinpath(name).read_text("utf-8")
    assert shell("schema", "--version", version) == (0, packaged, "")
    if version == SCHEMA_VERSION:
        assert shell("schema").out == packaged

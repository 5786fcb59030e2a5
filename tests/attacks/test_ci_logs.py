"""What a report, a log or a database holds reaches a terminal and a CI log as text alone."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.report.render import FORMATS
from pytest_failure_taxonomy.report.text import safe_lines, safe_text
from tests.helpers.past_runs import a_report
from tests.helpers.reports import make_full_run, make_report

PAYLOADS: Final = (
    "##vso[task.setvariable variable=PATH]x",
    "##[error]x",
    "##[add-path]/tmp",
    "###[group]x",
    "##teamcity[buildProblem description='x']",
    "::set-env name=PATH::x",
    "  ::error file=a.py,line=1::x",
    "\u3000::stop-commands::x",
    "::group::x",
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\x9b2J",
    "\x7f\x08",
    "\u202ex",
    "a\r::error::x",
    "\u2028::error::x",
    "=cmd|' /C calc'!A0",
)
HOSTILE: Final = "".join(f"{each}\n{each} {each}\n" for each in PAYLOADS)
OBEYED: Final = re.compile(
    r"##[A-Za-z]*\[|^\s*::[\w-]+[^:\n]*::"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)",
    re.MULTILINE,
)
TEXTS: Final = frozenset(
    (
        *("message", "traceback", "title", "nodeid", "nodeids", "function", "args", "stack"),
        *("branch", "words", "path", "provider", "job", "platform", "plugins", "id", "output"),
    )
)
"""Fields of a report that may hold any text."""


def poisoned(value: Any, name: str = "") -> Any:
    """Return a report with the payloads in its texts."""
    if isinstance(value, dict):
        return {key: poisoned(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [poisoned(each, name) for each in value]
    is_text = (
        isinstance(value, str) and name in TEXTS and re.fullmatch("[0-9a-f]{32}", value) is None
    )
    return f"{HOSTILE}{value}\n{HOSTILE}" if is_text else value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a report, a log, two databases and a file that is none."""
    folder = tmp_path_factory.mktemp("hostile")
    report = json.dumps(poisoned(make_report(make_full_run())))
    (folder / "r.json").write_text(report)
    (folder / "log").write_text(f"{HOSTILE}E   ValueError: {HOSTILE}\n=== 1 failed in 0.1s ===\n")
    (folder / "bad.json").write_text(json.dumps({HOSTILE: HOSTILE}))
    (folder / "bad.yaml").write_text(f"{json.dumps(HOSTILE)}: {json.dumps(HOSTILE)}\n")
    for number, outcome in enumerate(("passed", "failed", "passed", "failed")):
        run = poisoned(a_report(number, branch="x", test_a=outcome))
        (folder / "run.json").write_text(json.dumps(run))
        history = ["history", "add", "--history", str(folder / "h.db"), str(folder / "run.json")]
        assert main(history) == 0
    with closing(sqlite3.connect(folder / "foreign.db")) as database:
        database.execute(f'CREATE TABLE "{HOSTILE.replace(chr(0), "")}" (x)'.replace("\x00", ""))
    return folder


HISTORY: Final = ("list", "top", "flaky", "stats", "tasks", "unmerged", "new r.json")
COMMANDS: Final = (
    *(
        "show r.json",
        "show --all r.json",
        "show --format agent r.json",
        "show --format json r.json",
    ),
    *("show --json .failures.0.message r.json", "show --json .verdict r.json"),
    *("show --retryable r.json", "show bad.json", "classify log", "classify bad.json"),
    *(
        "recover --report r.json --subtask x --approach y",
        "merge r.json r.json -o -",
        "validate bad.json",
        "validate bad.yaml",
    ),
    *(f"convert --to {name} r.json -o -" for name in FORMATS if name != "github"),
    *("convert --to html bad.json -o -", "convert --from junit bad.json -o -"),
    *(f"history {name} --history h.db" for name in HISTORY),
    *(
        f"history {name} --history h.db --format {form}"
        for name in HISTORY
        for form in ("json", "csv", "markdown")
    ),
    *("history list --history foreign.db", "history add bad.json --history h.db"),
    *("bench show bad.json", "bench compare bad.json r.json", "bench list --storage bad.json"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_in_a_file_reaches_a_log_as_a_command(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No CI system and no terminal obeys what a command prints, on stdout or stderr."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_COLOR", "1")
    code = main(command.split())
    out, err = capsys.readouterr()
    assert code in (0, 1, 2)
    assert OBEYED.findall(out) == []
    assert OBEYED.findall(err) == []
    if "--format json" in command and out:
        assert json.loads(out) is not None


def test_annotations_of_github_are_ours_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands in them are those that annotate, and each is one line."""
    main(["convert", "--to", "github", str(folder / "r.json"), "-o", "-"])
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert not [
        each for each in lines if not re.match("::(?:error|warning|notice|group|endgroup)", each)
    ]
    assert not [each for each in lines if OBEYED.search(each.removeprefix("::").partition("::")[2])]


@pytest.mark.parametrize("safe", [safe_text, safe_lines])
@pytest.mark.parametrize("payload", PAYLOADS[:-1])
def test_a_payload_is_shown(payload: str, safe: Callable[[str], str]) -> None:
    """It is readable, wherever it stands, and what is no command stays."""
    for text in (payload, f"x {payload}", f"{payload} {payload}", f"\n\n{payload}"):
        assert OBEYED.search(safe(text)) is None
        assert safe(safe(text)) == safe(text)
    for plain in ("std::vector<int>::it", "a ::b", "## [x](y)", "#[derive]", "test_a.py::test_b"):
        assert safe(plain) == plain

"""What a report, a log or a database holds reaches a terminal and a CI log as text alone."""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

from pytest_failure_taxonomy.bench.kept.lines import SystemGiven
from pytest_failure_taxonomy.cli.main import main
from pytest_failure_taxonomy.faces import FORMATS
from pytest_failure_taxonomy.history import open_history
from pytest_failure_taxonomy.history.tasks import record_task
from pytest_failure_taxonomy.text import safe_lines, safe_text
from tests.helpers.kept_runs import keep_run, outcome_of, score_of, write_files
from tests.helpers.past_runs import report_as_json
from tests.helpers.reports import make_full_run, make_report
from tests.helpers.task_classes import task_class_files

PAYLOADS: Final = (
    "##vso[task.setvariable variable=PATH]forged",
    "##[error]x",
    "##[add-path]/tmp",
    "###[group]x",
    "##teamcity[buildProblem description='x']",
    "::set-env name=PATH::x",
    "  ::error file=a.py,line=1::x",
    "\u3000::stop-commands::x",
    "::group::x",
    "::error file=a,title=at 10:30::x",
    "::set-env name=A:B::x",
    "::error file=a\tb,title=c:::x",
    "\t::add-mask::x",
    " \r::error::x",
    "\x0b \u2028::error::x",
    "\u200b::error::x",
    "\ufeff:\u00ad:error::x",
    "#\u2060#[error]x",
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\x9b2J",
    "\x7f\x08",
    "\u202ex",
    "a\r::error::x",
    "\u2028::error::x",
    "\U000e0069\U000e0067",
    "a\ufe01\U000e0100\u3164\ue000",
    "=cmd|' /C calc'!A0",
)
HOSTILE: Final = "".join(f"{each}\n{each} {each}\n" for each in PAYLOADS)
XML_TEXT: Final = re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", HOSTILE)
"""What of it XML can hold."""
PRINTED: Final = "setvariable"
"""Stands in the first payload; a command that prints none of them shows nothing."""
ANYWHERE: Final = re.compile(r"##[A-Za-z]*\[")
HIDDEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
FILLERS: Final = frozenset(map(chr, (*range(0xFE00, 0xFE10), 0xE0100, 0x034F, 0x3164)))


def is_hidden(character: str) -> bool:
    """Return whether nobody sees a character, or it moves the cursor."""
    return unicodedata.category(character) in HIDDEN or character in FILLERS


def obeyed(printed: str) -> list[str]:
    """Return the lines that a terminal or a CI system does not take for text alone.

    GitHub's runner looks at a line without the blanks at its start, and in it for the next `::`.
    """
    found = []
    for line in re.split("\r\n|\r|\n", printed):
        text = line.lstrip()
        is_command = text.startswith("::") and "::" in text[2:]
        hides = any(map(is_hidden, line.replace("\t", "")))
        if is_command or hides or ANYWHERE.search(line):
            found.append(line)
    return found


TEXTS: Final = frozenset(
    (
        *(
            "message",
            "traceback",
            "title",
            "nodeid",
            "nodeids",
            "function",
            "args",
            "stack",
        ),
        *(
            "branch",
            "words",
            "path",
            "provider",
            "job",
            "platform",
            "plugins",
            "id",
            "output",
        ),
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
        isinstance(value, str)
        and name in TEXTS
        and re.fullmatch("[0-9a-f]{32}", value) is None
    )
    return f"{HOSTILE}{value}\n{HOSTILE}" if is_text else value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a report, a log, two databases and a file that is none."""
    folder = tmp_path_factory.mktemp("hostile")
    report = json.dumps(poisoned(make_report(make_full_run())))
    (folder / "r.json").write_text(report)
    (folder / "log").write_text(f"{HOSTILE}ERROR: {PAYLOADS[0]}: not found\n")
    root = ET.Element("testsuite", tests="1")
    case = ET.SubElement(root, "testcase", classname="a", name="##[error]x setvariable")
    ET.SubElement(case, "failure", message="no").text = XML_TEXT
    (folder / "junit.xml").write_bytes(ET.tostring(root))
    (folder / "bad.json").write_text(json.dumps({HOSTILE: HOSTILE}))
    key = "##[error]setvariable\n::error::x"
    (folder / "bad.yaml").write_text(f"{json.dumps(key)}: {json.dumps(HOSTILE)}\n")
    for number, outcome in enumerate(("passed", "failed", "passed", "failed")):
        run = poisoned(report_as_json(number, branch="x", test_a=outcome))
        (folder / "run.json").write_text(json.dumps(run))
        history = [
            "history",
            "add",
            "--history",
            str(folder / "h.db"),
            str(folder / "run.json"),
        ]
        assert main(history) == 0
    with open_history(str(folder / "h.db"), rootdir=str(folder)) as database:
        record_task(database, f"{PRINTED}\n::error::x", "failed", log=HOSTILE)
    write_files(folder, task_class_files([{"id": "a", "input": HOSTILE}]))
    scored = outcome_of("a", score_of(0.25, "answer.wrong"), HOSTILE)
    keep_run(folder, [scored], system=SystemGiven(name=f"{HOSTILE}:a"))
    with closing(sqlite3.connect(folder / "foreign.db")) as foreign:
        foreign.execute(
            f'CREATE TABLE "{HOSTILE.replace(chr(0), "")}" (x)'.replace("\x00", "")
        )
    return folder


HISTORY: Final = ("list", "top", "flaky", "tasks", "unmerged", "new r.json")
OBEYED: Final = ("github", "teamcity")
"""Formats that are commands themselves."""
COMMANDS: Final = (
    *("show r.json", "show --all r.json", "show --format agent r.json"),
    *("show --format json r.json", "show --json failures[0].exception.message r.json"),
    *(
        "show --json failures[].traceback r.json",
        "show --json [::error::setvariable] r.json",
    ),
    *(
        "show bad.json",
        "show ##[error]setvariable.json",
        "classify log",
        "classify bad.json",
    ),
    *("recover --report r.json --subtask ##[error]setvariable --approach y",),
    *(
        "merge r.json r.json -o -",
        "merge bad.json -o -",
        "validate bad.json",
        "validate bad.yaml",
    ),
    *(f"convert --to {name} r.json -o -" for name in FORMATS if name not in OBEYED),
    *("convert --to html bad.json -o -", "convert --from junit junit.xml -o -"),
    *(f"history {name} --history h.db" for name in HISTORY),
    *(
        f"history {name} --history h.db --format {form}"
        for name in HISTORY
        for form in ("json", "csv", "markdown")
    ),
    *("history list --history foreign.db", "history add bad.json --history h.db"),
    *(
        "bench show latest",
        "bench show latest --case a",
        "bench show latest --format json",
    ),
    *(
        "bench list",
        "bench compare latest ##[error]setvariable",
        "bench list --storage ##[error]setvariable",
    ),
    "bench show ##[error]setvariable",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_in_a_file_reaches_a_log_as_a_command(
    command: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No CI system and no terminal obeys what a command prints, on stdout or stderr."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_COLOR", "1")
    code = main(command.split())
    out, err = capsys.readouterr()
    assert code in (0, 1, 2)
    assert PRINTED in out + err
    assert obeyed(out) == []
    assert obeyed(err) == []
    if "--format json" in command or "--to ctrf" in command:
        assert json.loads(out) is not None


def test_annotations_of_github_are_ours_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands in them are those that annotate, and each is one line."""
    main(["convert", "--to", "github", str(folder / "r.json"), "-o", "-"])
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert not [
        each
        for each in lines
        if not re.match("::(?:error|warning|notice|group|endgroup)", each)
    ]
    assert not [
        line for line in lines if any(map(is_hidden, line)) or ANYWHERE.search(line)
    ]
    # The properties end at the first `::`, and no text of others has one before.
    assert not [line for line in lines if line[2:].partition("::")[0].count(":")]


def test_problems_of_teamcity_are_ours_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each line is one message, whose values hold no command and nothing hidden."""
    main(["convert", "--to", "teamcity", str(folder / "r.json"), "-o", "-"])
    lines = capsys.readouterr().out.splitlines()
    message = r"##teamcity\[buildProblem description='(.*)' identity='\w+'\]"
    problems = [re.fullmatch(message, line) for line in lines]
    assert lines
    assert all(problems)
    assert not [line for line in lines if any(map(is_hidden, line))]
    values = [problem[1] for problem in problems if problem]
    unescaped = re.compile(r"(?<!\|)(?:\|\|)*['\[\]]")
    assert not [value for value in values if unescaped.search(value)]


@pytest.mark.parametrize("safe", [safe_text, safe_lines])
@pytest.mark.parametrize("payload", PAYLOADS[:-1])
def test_a_payload_is_shown(payload: str, safe: Callable[[str], str]) -> None:
    """It is readable, wherever it stands, and what is no command stays."""
    for text in (payload, f"x {payload}", f"{payload} {payload}", f"\n\n{payload}"):
        assert obeyed(safe(text)) == []
        assert safe(safe(text)) == safe(text)
    for plain in (
        "std::vector<int>::it",
        "a ::b",
        "## [x](y)",
        "#[derive]",
        "test_a.py::test_b",
    ):
        assert safe(plain) == plain


@pytest.mark.parametrize("safe", [safe_text, safe_lines])
def test_no_invisible_character_is_shown(safe: Callable[[str], str]) -> None:
    """Each is an escape; blanks, marks and pictures of several characters stay."""
    every = [chr(code) for code in range(0x110000)]
    hidden = [each for each in every if is_hidden(each) and each not in "\t\n"]
    assert [each for each in hidden if safe(f"a{each}b")[1] != "\\"] == []
    for plain in (
        "é e\u0301 ß\u00a0中\u3000文",
        "⚠\ufe0f ☎\ufe0e",
        "👩\u200d🚀 🏳\ufe0f\u200d🌈",
    ):
        assert safe(plain) == plain
    assert safe("⚠\ufe0f\ufe0f") == "⚠\ufe0f\\ufe0f"
    assert safe("\U000e0041") == "\\U000e0041"

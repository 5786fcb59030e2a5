"""How much the terminal tells: the verdict, its causes, or nothing; and links where they work."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.faces.terminal import MAX_CAUSES
from pytest_failure_taxonomy.hooks.printing import (
    KNOWN,
    add_links,
    knows_hyperlinks,
    lines_of_causes,
    link_targets,
)
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.text import AS_REPORTED
from tests.helpers.children import child_environment, pytest_command
from tests.helpers.reports import make_context, make_failure, make_report, make_run
from tests.helpers.runs import PytestRuns

SUITE: Final = """
import pytest
@pytest.mark.parametrize("number", [1, 2])
def test_bad(number): assert not number, "it is broken"
def test_worse(): raise KeyError("price")
"""
CAUSES: Final = [
    "2 x it is broken: test_bad (test_it.py:4) [test]",
    "    test_it.py::test_bad[1]",
    "    test_it.py::test_bad[2]",
    "1 x KeyError: 'price': test_worse (test_it.py:5) [test]",
    "    test_it.py::test_worse",
]
SUMMARY: Final = "--failure-taxonomy-summary"
LINK: Final = re.compile(r"\x1b\]8;;([^\x1b]*)\x1b\\([^\x1b]*)\x1b\]8;;\x1b\\")
KITTY: Final = {"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}


@pytest.fixture(autouse=True)
def a_suite(runs: PytestRuns) -> None:
    """Write a suite with three failures of two causes."""
    runs.write({"test_it.py": SUITE})


@pytest.mark.parametrize(
    ("args", "title", "groups"),
    [
        pytest.param((), True, False, id="as-usual"),
        pytest.param(("-v",), True, True, id="v"),
        pytest.param((f"{SUMMARY}=short",), True, False, id="short"),
        pytest.param((f"{SUMMARY}=short", "-v"), True, False, id="short-v"),
        pytest.param((f"{SUMMARY}=groups",), True, True, id="groups"),
        pytest.param((f"{SUMMARY}=groups", "-q"), False, True, id="groups-q"),
        pytest.param(("-o", "failure_taxonomy_summary=groups"), True, True, id="ini"),
        pytest.param((f"{SUMMARY}=off",), False, None, id="off"),
        pytest.param((f"{SUMMARY}=off", "-v"), False, None, id="off-v"),
        pytest.param((f"{SUMMARY}=groups", "-qq"), False, None, id="groups-qq"),
    ],
)
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["serial", "xdist"])
def test_how_much_is_told(
    runs: PytestRuns,
    args: tuple[str, ...],
    title: bool,
    groups: bool | None,
    workers: tuple[str, ...],
) -> None:
    """The option decides, then the verbosity; the path of the report is the last line."""
    run = runs.run(*args, *workers, plugins=("xdist",) if workers else ())
    assert run.exit_status == 1
    told = [re.sub(r" +\[TESTS_FAILED [^\]]+\]$", "", line) for line in run.stdout]
    assert any("why this run failed" in line for line in told) is title
    assert any(line.startswith("3 tests failed, 2 causes") for line in told) is (
        groups is not None
    )
    assert [line for line in told if line in CAUSES] == (
        ordered(told) if groups else []
    )
    if groups is not None:
        assert told[-1] == "report: failure-report.json"


@pytest.mark.parametrize(
    ("args", "is_folded"),
    [((), True), ((f"{SUMMARY}=short",), False), (("-q",), False), (("-v",), True)],
)
def test_the_log_of_gitlab_folds_the_groups(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    is_folded: bool,
) -> None:
    """They stand in a section there, which is closed until somebody clicks on it."""
    monkeypatch.setenv("GITLAB_CI", "true")
    told = re.sub(r" +\[TESTS_FAILED [^\]]+\]", "", "\n".join(runs.run(*args).stdout))
    section = re.search(
        r"section_start:(\d+):failure_taxonomy_groups\[collapsed=true\]\r?\n?\x1b\[0K"
        r"causes and their tests(.*)section_end:\1:failure_taxonomy_groups",
        told,
        re.DOTALL,
    )
    assert (section is not None) is is_folded
    if section is not None:
        assert all(line in section[2] for line in CAUSES)


def ordered(told: list[str]) -> list[str]:
    """Return the lines of the groups; xdist's workers may run the tests of one in any order."""
    first, second = CAUSES[1:3]
    is_turned = first in told and told.index(second) < told.index(first)
    return [CAUSES[0], second, first, *CAUSES[3:]] if is_turned else CAUSES


def test_an_unknown_word_is_refused(runs: PytestRuns) -> None:
    """The line says which there are."""
    run = runs.run(f"{SUMMARY}=long")
    assert run.exit_status == 4
    words = f"{SUMMARY}: 'long' is unknown; give one of short, groups, off"
    assert words in "\n".join(run.stdout + run.stderr)


def test_a_success_has_no_groups(runs: PytestRuns) -> None:
    """`-v` adds nothing to it."""
    runs.write({"test_it.py": "def test_ok(): pass\n"})
    assert runs.run("-v").stdout[-1] == (
        "failure taxonomy: no failure (1 passed); report: failure-report.json"
    )


def test_many_causes() -> None:
    """The first ones are printed; the last line says how to see the others."""
    report = make_report(make_run(failures=(make_failure(),)))
    report["causes"] = [{**report["causes"][0], "key": f"{n}"} for n in range(22)]
    lines = [
        line.text
        for line in lines_of_causes(decode_report(report), AS_REPORTED, "groups", 0)
    ]
    assert len(lines) == MAX_CAUSES * 2 + 1
    assert lines[-1] == "2 more causes; failure-taxonomy show --all lists them"
    assert len(report["causes"]) == 22


@pytest.mark.slow
@pytest.mark.lowest
def test_colours_are_never_alone(runs: PytestRuns) -> None:
    """Without colours the same is said: who can't tell red from green misses nothing."""
    colored = runs.run("-v", "--color=yes").stdout
    plain = runs.run("-v", "--color=no").stdout
    start = next(n for n, line in enumerate(plain) if "why this run failed" in line)
    shown = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in colored]
    assert shown[-len(plain[start:]) :] == plain[start:]
    assert "\x1b" not in "".join(plain)


# Links.


@pytest.mark.parametrize(
    ("variables", "is_known"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"TERM": "xterm-256color"}, False, id="any-terminal"),
        pytest.param({"TERM": "dumb", "WT_SESSION": "x"}, False, id="dumb"),
        pytest.param(KITTY, True, id="kitty"),
        pytest.param({**KITTY, "NO_COLOR": "1"}, False, id="no-colour"),
        pytest.param({**KITTY, "NO_COLOR": ""}, True, id="no-colour-empty"),
        pytest.param({**KITTY, "CI": "true"}, False, id="ci"),
        pytest.param({**KITTY, "GITLAB_CI": "true"}, False, id="gitlab"),
        pytest.param({**KITTY, "TMUX": "x"}, False, id="tmux"),
        pytest.param({**KITTY, "STY": "1.x"}, False, id="screen"),
        pytest.param({"WT_SESSION": "guid"}, True, id="windows-terminal"),
        pytest.param({"TERM_PROGRAM": "iTerm.app"}, True, id="iterm"),
        pytest.param({"TERM_PROGRAM": "vscode"}, True, id="vscode"),
        pytest.param({"TERM_PROGRAM": "Apple_Terminal"}, False, id="apple"),
        pytest.param({"TERM": "alacritty"}, True, id="alacritty"),
        pytest.param({"VTE_VERSION": "4999"}, False, id="vte-old"),
        pytest.param({"VTE_VERSION": "5000"}, False, id="vte-0.50.0"),
        pytest.param({"VTE_VERSION": "5001"}, True, id="vte-0.50.1"),
        pytest.param({"VTE_VERSION": "7600"}, True, id="vte-new"),
        pytest.param({"KONSOLE_VERSION": "201200"}, False, id="konsole-old"),
        pytest.param({"KONSOLE_VERSION": "220401"}, True, id="konsole-new"),
    ],
)
def test_terminals_that_know_links(variables: dict[str, str], is_known: bool) -> None:
    """Only those that are known to; never in CI, nor for who wants plain text."""
    assert knows_hyperlinks(variables) is is_known


def test_links_change_nothing_that_is_read(tmp_path: Path) -> None:
    """The report and the line that failed lead to their files; what is escaped stays escaped."""
    file = tmp_path / "tests" / "a test.py"
    file.parent.mkdir()
    file.touch()
    failure = make_failure(location=make_failure().location)
    report = make_report(
        make_run(failures=(failure,)), context=make_context(rootdir=str(tmp_path))
    )
    report["failures"][0]["location"] = {"path": "tests/a test.py", "line": 7}
    path = tmp_path / "r.json"
    targets = link_targets(decode_report(report), AS_REPORTED, path, "r.json")
    assert targets == {"r.json": path.as_uri(), "tests/a test.py:7": file.as_uri()}
    for text in ("report: r.json", "  1 x no: x (tests/a test.py:7)"):
        line = add_links(text, targets)
        assert line != text
        assert LINK.sub(r"\2", line) == text
    for text in (
        "report: other.json",
        "tests/a test.py:77",
        "xtests/a test.py:7",
        "r.json.old/x",
    ):
        assert LINK.sub(r"\2", add_links(text, targets)) == text
    assert add_links("tests/a test.py:77", targets) == "tests/a test.py:77"


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.posix("a terminal")
@pytest.mark.parametrize(
    ("variables", "has_links"),
    [
        pytest.param(KITTY, True, id="known"),
        pytest.param({"TERM": "xterm"}, False, id="unknown"),
        pytest.param({**KITTY, "CI": "1"}, False, id="ci"),
        pytest.param({**KITTY, "NO_COLOR": "1"}, False, id="no-colour"),
    ],
)
def test_a_real_terminal(
    runs: PytestRuns, variables: dict[str, str], has_links: bool
) -> None:
    """There the report can be clicked on, and the line of the failure."""
    unset = dict.fromkeys(name for name, _ in KNOWN)
    said = run_in_terminal(runs.path, {**unset, "TMUX": None, "STY": None, **variables})
    found = LINK.findall(said)
    if not has_links:
        assert found == []
        assert "\x1b]8" not in said
        return
    assert found == [
        ((runs.path / "test_it.py").as_uri(), "test_it.py:4"),
        ((runs.path / "test_it.py").as_uri(), "test_it.py:5"),
        ((runs.path / "failure-report.json").as_uri(), "failure-report.json"),
    ]


def test_a_terminal_breaks_no_words(runs: PytestRuns) -> None:
    """A sentence goes on below itself; what is long without a blank stays whole."""
    message = "the order of the customer has no price in any of the currencies"
    runs.write({"test_it.py": f"def test_it(): raise ValueError({message!r})\n"})
    said = run_in_terminal(runs.path, {"COLUMNS": "50", "NO_COLOR": "1"})
    _, _, block = said.replace("\r\n", "\n").partition("why this run failed ")
    lines = block.splitlines()[1:]
    end = next(at for at, line in enumerate(lines) if line.startswith("report: "))
    first = f"1 test failed: ValueError: {message}: test_it (test_it.py:1)"
    shown = " ".join(line.strip() for line in lines[: end - 1])
    assert shown == f"{first} [TESTS_FAILED test.failed]"
    assert all(len(line) <= 50 for line in lines[:end])
    assert [line.startswith("  ") for line in lines[: end - 1]] == [
        False,
        *[True] * (end - 2),
    ]


def run_in_terminal(folder: Path, variables: dict[str, str | None]) -> str:
    """Return what pytest prints to a terminal of its own."""
    terminal, end = os.openpty()
    try:
        with subprocess.Popen(
            pytest_command("--failure-taxonomy"),
            cwd=folder,
            env=child_environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=end,
            stderr=end,
        ) as child:
            os.close(end)
            said = b""
            while part := read_or_end(terminal):
                said += part
            child.wait(60)
    finally:
        os.close(terminal)
    return said.decode()


def read_or_end(terminal: int) -> bytes:
    """Return what a terminal has to read; nothing at its end, which Linux calls an error."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


def test_a_file_gets_no_links(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where colours were asked for: nothing says who reads it."""
    for name, text in KITTY.items():
        monkeypatch.setenv(name, text)
    assert "\x1b]8" not in "\n".join(runs.run("--color=yes").stdout)

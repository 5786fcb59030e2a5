"""Each command that a page shows runs, and means what our programs understand.

The shell's lines are taken from the code blocks of all pages. Those of a block are run one after
another in a copy of a prepared folder, so that a command finds what the one before it has made. A
command has to be understood and to find the files that it names; whether it prints what the page
shows is for the tests that follow a page.
"""

from __future__ import annotations

import re
import shutil
from itertools import takewhile
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.children import ChildRun
from tests.helpers.page_commands import (
    ROOT,
    PageCommand,
    commands_of_pages,
    files_of,
    inline_calls,
    pages,
    simple_commands,
    unknown_options,
    usage_errors,
)
from tests.helpers.page_world import World, make_world

NOT_RUN: Final = {
    "--bench-backend=dask://": "needs a cluster",
    "tests/attacks": "is this suite itself, and takes an hour",
}
"""Parts of commands that can't be run here, with the reasons."""

STAND_INS: Final = {
    "/tmp/": "$TMPDIR/",  # noqa: S108 - it is not written to
    "${{ matrix.shard }}": "1",
    "postgresql://ci@db.example.org/failures": "history.db",
    "{posargs}": "",
    "{env_name}": "py313",
}
"""Parts of commands that a reader or a CI system replaces, and what replaces them here."""

FOLLOWERS: Final = ("test_bench_pages.py", "test_run_pages.py")
"""Tests that write all files of a page, run its transcripts, and compare what they print."""

PREPARES: Final = ("", "cd", "cp", "echo", "export", "git", "mkdir", "mv")
"""Programs besides ours that are run where a block has them; none is an assignment."""
ELIDED: Final = {"...", "…"}
"""Words that stand for others."""

TAKEN: Final = {0, 1}
"""The exit codes of commands that found what they need: the tests of the project fail."""
MISUNDERSTOOD: Final = re.compile(
    r"^usage: |unrecognized arguments|invalid choice|no such command"
    r"|file or directory not found|command not found|Traceback \(most recent call last\):\n"
    r'(?:  .*\n)*?  File "[^"]*pytest_failure_taxonomy',
    re.MULTILINE,
)


def followed_pages() -> set[str]:
    """Return the pages whose transcripts other tests run."""
    found = set()
    for name in FOLLOWERS:
        source = (Path(__file__).parent / name).read_text("utf-8")
        for constant in re.findall(r"\bfollow\((\w+), ", source):
            value = re.search(rf'^{constant}\b.* = "(.+)"$', source, re.MULTILINE)
            if value is not None:  # else it is the parameter of a function
                found.add(value[1])
    return found


FOLLOWED: Final = followed_pages()
ALL: Final = commands_of_pages()
OURS: Final = [command for command in ALL if command.calls]


def as_run_here(command: PageCommand) -> str:
    """Return the line of a command with what stands in for parts of it."""
    text = command.text
    for part, stand_in in STAND_INS.items():
        text = text.replace(part, stand_in)
    return text


def is_followed(command: PageCommand) -> bool:
    """Return whether another test runs a command, and compares what it prints."""
    return command.page in FOLLOWED and command.has_prompt


def reason_not_to_run(command: PageCommand) -> str:
    """Return why a command can't be run here."""
    if any(not ELIDED.isdisjoint(words) for words in simple_commands(command.text)):
        return "is not whole"
    return next(
        (reason for part, reason in NOT_RUN.items() if part in command.text), ""
    )


def program_of(line: str) -> str:
    """Return the program that a line calls first; an assignment calls none."""
    words = simple_commands(line)[0]
    return next((word for word in words if not re.match(r"\w+=", word)), "")


RUN: Final = [
    each for each in OURS if not (is_followed(each) or reason_not_to_run(each))
]


class Reader:
    """Runs the commands of blocks in order, each block in a world of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template: World | None = None
        self._worlds: dict[tuple[str, int], World] = {}
        self._done: dict[PageCommand, ChildRun] = {}

    def run(self, command: PageCommand) -> ChildRun:
        """Run a command after those before it in its block."""
        block = [
            each
            for each in ALL
            if (each.page, each.block) == (command.page, command.block)
        ]
        world = self._world_of(command)
        for each in (*takewhile(lambda each: each != command, block), command):
            is_run = bool(each.calls) or program_of(each.text) in PREPARES
            if is_run and each not in self._done and not reason_not_to_run(each):
                line = as_run_here(each)
                self._prepare(world, line)
                self._done[each] = world.run(line)
        return self._done[command]

    def _world_of(self, command: PageCommand) -> World:
        key = (command.page, command.block)
        if key not in self._worlds:
            if self._template is None:
                self._template = make_world(self._folder / "0000")
            name = f"{len(self._worlds) + 1:04}"
            world = self._worlds[key] = self._template.copy_to(self._folder / name)
            world.write(files_of(command.page))
        return self._worlds[key]

    @staticmethod
    def _prepare(world: World, line: str) -> None:
        """Remove the folder that the command makes."""
        if found := re.search(r"\bbench init (\S+)", line):
            shutil.rmtree(world.project / found[1], ignore_errors=True)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Return what runs commands."""
    return Reader(tmp_path_factory.mktemp("pages"))


def problem_of(command: PageCommand, done: ChildRun) -> str:
    """Return what is wrong with a run of a command; an error that its page shows is right."""
    output = f"{done.stdout}\n{done.stderr}"
    shown = [line for line in command.printed if line.startswith("failure-taxonomy: ")]
    if shown:
        begin = shown[0].partition(":")[2].partition(":")[0]
        return "" if begin in output else f"the page shows an error: {shown[0]}"
    if found := MISUNDERSTOOD.search(output):
        return f"not understood: {found[0]}"
    return "" if done.status in TAKEN else f"ends with exit code {done.status}"


@pytest.mark.slow
@pytest.mark.posix("the commands of pages are those of a POSIX shell")
@pytest.mark.parametrize("command", [pytest.param(each, id=each.id) for each in RUN])
def test_a_command_runs(command: PageCommand, reader: Reader) -> None:
    """It is understood, and finds what it names."""
    done = reader.run(command)
    problem = problem_of(command, done)
    assert problem == "", f"{command.text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.slow
@pytest.mark.posix("the commands of pages are those of a POSIX shell")
@pytest.mark.parametrize(
    "text",
    [
        "failure-taxonomy show nothing.json",
        "failure-taxonomy run -- pytest tests/test_nothing.py",
        "failure-taxonomy shwo",
        "pytest --nothing | cat",
        "pytest -c nothing.ini",
        "nothing -- pytest",
    ],
)
def test_a_command_that_does_not_run_is_found(text: str, reader: Reader) -> None:
    """A file that is not there, a word that is not known, a program that is not there."""
    command = PageCommand(page="README.md", line=0, block=0, text=text)
    assert problem_of(command, reader.run(command)) != ""


def test_a_call_that_is_not_understood_is_found() -> None:
    """Options, commands and values are read as the programs read them, also behind `run`."""
    for text in (
        "pytest --whyy",
        "pytest --why-report",
        "failure-taxonomy shwo failure-report.json",
        "failure-taxonomy show --formt agent",
        "failure-taxonomy convert --to nothing failure-report.json",
        "failure-taxonomy bench",
        "true && failure-taxonomy run --report a.json -- pytest --nothing | cat",
        "git bisect run failure-taxonomy bisect-step --cause x report.json",
        "claude mcp add failure-taxonomy -- .venv/bin/failure-taxonomy mpc",
    ):
        (call,) = PageCommand(page="", line=0, block=0, text=text).calls
        assert usage_errors(call), text
    for words in ("pytest -x --whyy", "failure-taxonomy run -- pytest --nothing"):
        assert len(unknown_options(words.split())) == 1, words


def test_every_call_is_understood() -> None:
    """The programs know each word of the code blocks that is an option or a command."""
    assert len(OURS) > 80
    wrong = []
    for command in OURS:
        text = as_run_here(command)
        for call in PageCommand(page="", line=0, block=0, text=text).calls:
            wrong += [f"{command.id}: {error}" for error in usage_errors(call)]
    assert wrong == []


def test_every_option_in_a_sentence_exists() -> None:
    """The programs have each option that a page names beside one of their commands."""
    named = 0
    wrong = []
    for page in pages():
        for number, words in inline_calls(page):
            named += 1
            where = f"{page.relative_to(ROOT)}:{number}"
            wrong += [f"{where}: {option}" for option in unknown_options(words)]
    assert named > 80
    assert wrong == []


def test_no_row_is_stale() -> None:
    """Each part that is not run, or has a stand-in, is part of a command of a page."""
    texts = [command.text for command in ALL if not is_followed(command)]
    stale = [
        row for row in (*NOT_RUN, *STAND_INS) if not any(row in text for text in texts)
    ]
    assert stale == []


def test_the_followed_pages_are_known() -> None:
    """What other tests follow is found, and has commands."""
    assert len(FOLLOWED) > 2
    assert {command.page for command in OURS if is_followed(command)} == FOLLOWED

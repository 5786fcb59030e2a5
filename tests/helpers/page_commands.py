"""Find the commands that the pages show, and tell which of their words no program takes."""

from __future__ import annotations

import argparse
import io
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import pytest
import yaml
from _pytest.config import get_config

from pytest_failure_taxonomy.cli.main import command_line
from pytest_failure_taxonomy.options import OPTIONS, long_names

ROOT: Final = Path(__file__).resolve().parents[2]
DECISIONS: Final = ROOT / "docs" / "decisions"
"""Pages that say what was, and not what a reader does."""

PROGRAMS: Final = ("failure-taxonomy", "pytest")
OPTIONS_OF_OTHERS: Final = {
    "--splits": "pytest-split",
    "--group": "pytest-split",
    "--report-log": "pytest-reportlog",
}
"""Options that a page names of plugins that the tests don't need, with the plugins."""
_PLUGINS: Final = (
    "failure_taxonomy",
    "failure_taxonomy_bench",
    "pytest_cov",
    "rerunfailures",
    "timeout",
    "xdist",
)
"""The entry points whose options a page may name."""

_FENCE: Final = re.compile(
    r"^( *)```(\w+)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL
)
_CODE: Final = re.compile(r"`([^`\n]+)`")
_FILE: Final = re.compile(r"# ([\w./-]+\.(?:ini|toml|ya?ml))\n")
_OF_CI: Final = {
    "after_script",
    "before_script",
    "command",
    "entry",
    "run",
    "script",
}
"""The keys of YAML below which CI systems and pre-commit have commands."""
_OF_JENKINS: Final = re.compile(
    r"""\bsh[ (]+('''|\"{3}|'|")(.*?)\1""", re.MULTILINE | re.DOTALL
)
_OF_TOX: Final = re.compile(r"^commands *= *(\S.*)$", re.MULTILINE)

_COMMENT: Final = re.compile(r"(?:^|\s)#\s.*$")
_REDIRECTION: Final = re.compile(
    r"""(?<!\S)[0-9]?(?:>>?|<)\s*(?:&[0-9]|"[^"]*"|'[^']*'|\S+)"""
)
_VARIABLE: Final = re.compile(r"\$(?:\?|\w+|\{\w+\})")
_BETWEEN: Final = "();|&"
"""The characters that separate the commands of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCommand:
    """A line of a shell on a page."""

    page: str
    """Its path from the root of the repository."""
    line: int
    block: int
    """The number of the line at which its code block begins."""
    text: str
    printed: tuple[str, ...] = ()
    """What the page shows below it."""
    has_prompt: bool = False
    """Whether it is part of a transcript."""

    @property
    def id(self) -> str:
        """Where it is."""
        return f"{self.page}:{self.line}"

    @property
    def calls(self) -> list[list[str]]:
        """What it calls of pytest and of ours, each as words."""
        return list(calls_in(simple_commands(self.text)))


def pages() -> list[Path]:
    """Return the pages that are followed by readers."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    found += sorted((ROOT / "docs").rglob("*.md"))
    return [page for page in found if not page.is_relative_to(DECISIONS)]


@cache
def commands_of_pages() -> tuple[PageCommand, ...]:
    """Return all lines of the code blocks of all pages."""
    return tuple(command for page in pages() for command in commands_of(page))


def commands_of(path: Path) -> Iterator[PageCommand]:
    """Yield the lines of the code blocks of a page."""
    page = path.relative_to(ROOT).as_posix()
    text = path.read_text("utf-8")
    for fence in _FENCE.finditer(text):
        indent, language, content = fence.groups()
        block = text.count("\n", 0, fence.start()) + 1
        content = re.sub(f"^{indent}", "", content, flags=re.MULTILINE)
        has_prompt = False
        if language in {"bash", "console", "sh", "shell"}:
            has_prompt = re.search(r"^\$ ", content, re.MULTILINE) is not None
            lines = _in_transcript(content) if has_prompt else _in_script(content)
        elif language in {"yaml", "yml"}:
            lines = _in_yaml(content, f"{page}:{block}")
        elif language == "groovy":
            lines = _in_matches(_OF_JENKINS, 2, content)
        elif language == "ini":
            lines = _in_matches(_OF_TOX, 1, content)
        else:
            continue
        for number, line, printed in lines:
            yield PageCommand(
                page=page,
                line=block + 1 + number,
                block=block,
                text=line,
                printed=printed,
                has_prompt=has_prompt,
            )


def files_of(page: str) -> dict[str, str]:
    """Return the settings that a page shows, by the names in their first lines."""
    found = {}
    for _, _, content in _FENCE.findall((ROOT / page).read_text("utf-8")):
        named = _FILE.match(content)
        if named is not None:
            found[named[1]] = content
    return found


_Lines = Iterator[tuple[int, str, tuple[str, ...]]]
"""Numbers of lines from 0, the lines without what continues them, and what is printed."""


def _in_script(content: str) -> _Lines:
    lines = content.splitlines()
    number = 0
    while number < len(lines):
        first, line = number, lines[number].strip()
        number += 1
        while line.endswith("\\") and number < len(lines):
            line = f"{line[:-1].rstrip()} {lines[number].strip()}"
            number += 1
        if line and not line.startswith("#"):
            yield first, line, ()


def _in_transcript(content: str) -> _Lines:
    lines = content.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    for first, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        line, number = lines[first].removeprefix("$ "), first + 1
        while line.endswith("\\") and number < end:
            line = f"{line[:-1].rstrip()} {lines[number].removeprefix('> ').strip()}"
            number += 1
        yield first, line, tuple(lines[number:end])


def _in_yaml(content: str, where: str) -> _Lines:
    try:
        root = yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"{where}: this block is no YAML: {error}") from error
    yield from _below_keys(root)


def _below_keys(node: yaml.Node | None, *, is_script: bool = False) -> _Lines:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _below_keys(value, is_script=key.value in _OF_CI)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _below_keys(each, is_script=is_script)
    elif isinstance(node, yaml.ScalarNode) and is_script:
        first = node.start_mark.line + (node.style == "|")
        for number, line, printed in _in_script(node.value):
            yield first + number, line, printed


def _in_matches(pattern: re.Pattern[str], group: int, content: str) -> _Lines:
    for found in pattern.finditer(content):
        first = content.count("\n", 0, found.start(group))
        for number, line, printed in _in_script(found[group]):
            yield first + number, line, printed


def simple_commands(text: str) -> list[list[str]]:
    """Return the commands of a line, each as its words, without redirections and comments."""
    lexer = shlex.shlex(
        _REDIRECTION.sub(" ", _COMMENT.sub("", text)),
        posix=True,
        punctuation_chars=_BETWEEN,
    )
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    with suppress(ValueError):  # a quote that only a later line closes
        for word in lexer:
            if word and set(word) <= set(_BETWEEN):
                found.append([])
            else:
                found[-1].append(word)
    return [words for words in found if words] or [[text]]


def calls_in(commands: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yield the calls of pytest and of ours, also by another program."""
    for words in commands:
        is_installed = "pip" in words[:3]
        names = [word.rpartition("/")[2] for word in words]
        for at, name in enumerate(names):
            is_named_only = is_installed or words[at + 1 : at + 2] == ["--"]
            if name in PROGRAMS and not is_named_only:
                yield [name, *words[at + 1 :]]
                break


def inline_calls(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield what sentences and tables name of our commands, with the numbers of their lines."""
    text = page.read_text("utf-8")
    prose = _FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
    for number, line in enumerate(prose.splitlines(), 1):
        for code in _CODE.findall(line):
            words = code.replace("python -m pytest", "pytest").split()
            if words[:1] == ["pytest"] or (
                words[:1] == ["failure-taxonomy"] and words[1:2] != ["is"]
            ):
                yield number, words


# What programs take.


def usage_errors(words: Sequence[str]) -> list[str]:
    """Return what a program would say of a call that it doesn't understand."""
    program, *arguments = [_VARIABLE.sub("1", word) for word in words]
    return (_errors_of_pytest if program == "pytest" else _errors_of_ours)(arguments)


def _errors_of_ours(arguments: list[str]) -> list[str]:
    output = io.StringIO()
    try:
        with redirect_stderr(output), redirect_stdout(output):
            options = command_line(arguments).parse_args(arguments)
    except SystemExit as error:
        return [output.getvalue()] if error.code else []
    if options.runs is None:
        return [f"{arguments}: which command?"]
    inner = getattr(options, "command", None) or []
    return [error for call in calls_in([inner]) for error in usage_errors(call)]


def _errors_of_pytest(arguments: list[str]) -> list[str]:
    config = _config_of_pytest()
    try:
        _, unknown = config._parser.parse_known_and_unknown_args(
            long_names(config, arguments)
        )
    except pytest.UsageError as error:
        return [str(error)]
    return [f"pytest: unknown: {word}" for word in unknown if word.startswith("-")]


@cache
def _config_of_pytest() -> pytest.Config:
    """Return a configuration that knows the options of the plugins that a page may name."""
    from tests import conftest

    config = get_config()
    for entry in metadata.entry_points(group="pytest11"):
        if entry.name in _PLUGINS:
            config.pluginmanager.register(entry.load(), entry.name)
    conftest.pytest_addoption(config._parser)
    for option in OPTIONS_OF_OTHERS:
        with suppress(ValueError):  # its plugin is installed
            config._parser.addoption(option)
    return config


def unknown_options(words: Sequence[str]) -> list[str]:
    """Return the long options that a program doesn't have; the rest may be in words for people."""
    if words[0] == "pytest":
        parser = _config_of_pytest()._parser
        groups = [parser._anonymous, *parser._groups]
        options = [option for group in groups for option in group.options]
        known = {name for option in options for name in option.names()}
        known |= {option.short for option in OPTIONS.values()}
        inner: list[str] = []
    else:
        known = {
            name
            for each in _parsers_of(words[1:])
            for action in each._actions
            for name in action.option_strings
        }
        inner = list(words[words.index("--") + 1 :]) if "--" in words else []
        words = words[: len(words) - len(inner)]
    named = [word.partition("=")[0] for word in words if re.match("--[a-z]", word)]
    unknown = [name for name in named if name not in known]
    for call in calls_in([inner]):
        unknown += unknown_options(call)
    return unknown


def _parsers_of(words: Sequence[str]) -> list[argparse.ArgumentParser]:
    """Return the parsers that read a command line of ours, one below the other."""
    parser = command_line(words)
    found = [parser]
    for word in (each for each in words if not each.startswith("-")):
        below = [
            action._name_parser_map
            for action in parser._actions
            if isinstance(action, argparse._SubParsersAction)
        ]
        if not below or word not in below[0]:
            break
        parser = below[0][word]
        found.append(parser)
    return found

"""Compare the files that decide results with those of an earlier commit.

New tests are no change. What counts is a test that differs from that of the commit, and
any difference in what can change the result of a test: conftest files, plugins,
pytest's settings, and what Python runs when it starts.
"""

from __future__ import annotations

import ast
import os
import re
import time
from collections.abc import Collection, Iterator
from configparser import ConfigParser
from configparser import Error as ConfigError
from contextlib import suppress
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.hooks.owners import read_text
from pytest_failure_taxonomy.survive.statements import find_statement
from pytest_failure_taxonomy.system.process import ask_git
from pytest_failure_taxonomy.taxonomy.code_owners import LIBRARIES

_MAX_SECONDS: Final = 30.0
_AT_START: Final = ("sitecustomize.py", "usercustomize.py", "*.pth")
"""What Python runs when it starts."""
_DECISIVE: Final = ("conftest.py", *_AT_START)
_SECTIONS: Final = {
    "pytest.ini": "pytest",
    ".pytest.ini": "pytest",
    "tox.ini": "pytest",
    "setup.cfg": "tool:pytest",
}
_TOML: Final = ("pyproject.toml", "pytest.toml", ".pytest.toml")
_NO_IMPORT: Final = r"^(?!import |from |'|\")"


_SELECTS: Final = "addopts|testpaths|python_|norecurse|collect"
"""In settings that choose tests."""
_FOLDERS: Final = frozenset({"test", "tests"})
"""Folders where each changed file may belong to a test."""
_OF_ALL_TESTS: Final = ("'__test__'", "'pytestmark'")
"""Names in a test file that change what becomes of its tests."""


class ChangedFile(NamedTuple):
    """A file that differs from the commit's in a part that decides results."""

    path: str
    line: int
    """Of the first statement that differs."""
    tests: tuple[tuple[str, ...], ...]
    """The tests that differ, by class and function; empty where it can be any."""
    words: str


def is_commit(root: Path, revision: str) -> bool:
    """Tell whether a repository around a folder has a commit of this name."""
    until = time.monotonic() + _MAX_SECONDS
    name = f"{revision}^{{commit}}"
    asked = ("rev-parse", "--quiet", "--verify", "--end-of-options", name)
    return not revision.startswith("-") and ask_git(root, until, *asked)[0] == 0


def changed_files(
    root: Path,
    revision: str,
    test_patterns: Collection[str],
    plugin_files: Collection[str],
) -> Iterator[ChangedFile]:
    """Yield the files below a folder that differ from a commit.

    Args:
        root: absolute, in a repository.
        revision: names the commit.
        test_patterns: of the names of test files.
        plugin_files: absolute paths of plugins that pytest has loaded.
    """
    until = time.monotonic() + _MAX_SECONDS

    def ask(*words: str) -> list[str]:
        return [name for name in ask_git(root, until, *words)[1].split("\0") if name]

    names = ask("diff", "--name-only", "--no-renames", "--relative", "-z", revision)
    names += ask("ls-files", "--others", "--exclude-standard", "-z")
    names += ask(
        "ls-files", "--others", "-z", "--", *(f"*{name}" for name in _DECISIVE)
    )
    names = [
        name for name in sorted(set(names)) if LIBRARIES.isdisjoint(name.split("/"))
    ]
    tests = {name for name in names if _matches(name, test_patterns)}
    new_tests = {read_text(str(root / name)).strip() for name in tests}
    for name in names:
        path = root / name
        is_decisive = _matches(name, _DECISIVE) or str(path) in plugin_files
        is_of_tests = name in tests or not _FOLDERS.isdisjoint(name.split("/")[:-1])
        if not (is_decisive or is_of_tests or _holds_settings(path.name)):
            continue
        code, text = ask_git(root, until, "show", f"{revision}:./{name}")
        if code < 0:  # it takes too long, and what is not known is no finding
            return
        old = text if code == 0 else None
        if is_decisive:
            yield from _changed_code(path, old)
        elif old is None and is_of_tests:
            continue  # new tests, and what they read, are no change
        elif name in tests and path.is_file():
            yield from _changed_tests(path, old or "")
        elif is_of_tests and old not in new_tests:
            yield from _changed_code(path, old)
        elif _holds_settings(path.name):
            yield from _changed_settings(path, old or "")


def _changed_code(path: Path, old: str | None) -> Iterator[ChangedFile]:
    """Yield the file if any change in it counts."""
    words = "has changed"
    if old is None:
        words = "is new"
    elif not path.is_file():
        words = "is gone"
    line = _first_difference(str(path), old or "", read_text(str(path)))
    yield ChangedFile(str(path), line, (), words)


def _changed_settings(path: Path, old: str) -> Iterator[ChangedFile]:
    """Yield a configuration file that has other settings of pytest's."""
    new = read_text(str(path))
    if _settings_in(path.name, old) != _settings_in(path.name, new):
        line = _first_difference(str(path), old, new)
        yield ChangedFile(str(path), line, (), "has other settings for pytest")


def _matches(name: str, patterns: Collection[str]) -> bool:
    base = name.rpartition("/")[2]
    return any(fnmatchcase(base, pattern) for pattern in patterns)


def _holds_settings(base: str) -> bool:
    return base in _SECTIONS or base in _TOML


def _changed_tests(path: Path, old: str) -> Iterator[ChangedFile]:
    """Yield what differs in a test file, apart from tests that were added."""
    new = read_text(str(path))
    before, rest_before = _functions_of(old)
    now, rest_now = _functions_of(new)
    changed = tuple(test for test in before if now.get(test) != before[test])
    added = rest_now - rest_before
    hides = any(name in statement for statement in added for name in _OF_ALL_TESTS)
    if changed or hides or rest_before - rest_now:
        line = _first_difference(str(path), old, new)
        yield ChangedFile(str(path), line, changed, "has changed")


def _functions_of(source: str) -> tuple[dict[tuple[str, ...], str], set[str]]:
    """Return the functions and the other statements of a source, as syntax trees."""
    functions: dict[tuple[str, ...], str] = {}
    rest: set[str] = set()
    with suppress(SyntaxError, ValueError, RecursionError):
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        functions[node.name, inner.name] = ast.dump(inner)
                    else:
                        rest.add(f"{node.name} {ast.dump(inner)}")
                heads = (*node.bases, *node.decorator_list)
                rest.add(" ".join([node.name, *map(ast.dump, heads)]))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                functions[(node.name,)] = ast.dump(node)
            else:
                rest.add(ast.dump(node))
    return functions, rest


def _first_difference(path: str, old: str, new: str) -> int:
    """Return the line of the first statement that differs and is no import."""
    lines = new.splitlines()
    matcher = SequenceMatcher(None, old.splitlines(), lines, autojunk=False)
    first = 0
    for tag, _, _, start, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        first = first or min(start + 1, max(1, len(lines)))
        statement = None
        if path.endswith(".py"):
            statement = find_statement(path, [_NO_IMPORT], (start + 1, end))
        elif not path.endswith(".pth"):
            settings = [at + 1 for at in range(start, end) if "=" in lines[at]]
            chosen = [at for at in settings if re.search(_SELECTS, lines[at - 1])]
            statement = next(iter(chosen or settings), None)
        if statement is not None:
            return statement
    return first or 1


def _settings_in(name: str, text: str) -> Any:
    """Return pytest's settings in a file; its whole text if it can't be read."""
    if name in _TOML:
        import tomllib

        try:
            read = tomllib.loads(text)
        except ValueError:
            return text
        tool = read.get("tool")
        return tool.get("pytest") if isinstance(tool, dict) else read.get("pytest")
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except ConfigError:
        return text
    section = _SECTIONS[name]
    return dict(parser[section]) if parser.has_section(section) else {}


def nodeid_of(path: str, root: Path, test: tuple[str, ...]) -> str:
    """Return the node id of a test by its file, class and function."""
    relative = os.path.relpath(path, root).replace(os.sep, "/")
    return "::".join([relative, *test])

"""Find the statement in a source that does something, without running any of it.

A hook is known as a function, and what it did is known, too; which of its lines did it
can only be read.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from pytest_failure_taxonomy.survive.own_files import is_own

_MAX_BYTES: Final = 1_000_000
_MAX_FILES: Final = 500
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "build", "dist"})
"""Folders without sources of the user's."""


class Statement(NamedTuple):
    """A statement without a body, or the first line of one that has a body."""

    first_line: int
    last_line: int
    text: str
    """As Python would print it, on one line."""


def find_statement(
    path: str, patterns: Iterable[str], lines: tuple[int, int] | None = None
) -> int | None:
    """Return the line of the first statement that matches; `None` if there is none.

    Args:
        path: of a source in Python.
        patterns: regular expressions; a later one counts where no earlier one matches.
        lines: the first and the last line that count, as for one function.
    """
    first, last = lines or (1, 10**9)
    statements = [
        candidate
        for candidate in _list_statements(path)
        if first <= candidate.first_line <= last
    ]
    for pattern in patterns:
        search = re.compile(pattern).search
        for statement in statements:
            if search(statement.text):
                return statement.first_line
    return None


def last_line_of(path: str, first_line: int) -> int:
    """Return the last line of the function that begins in a line."""
    for node in ast.walk(_parse_file(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            decorators = getattr(node, "decorator_list", [])
            begins = min([node.lineno, *[decorator.lineno for decorator in decorators]])
            if begins == first_line:
                return node.end_lineno or first_line
    return first_line


def functions_in(path: str) -> Iterator[tuple[str, ...]]:
    """Yield the functions of a file: (name,), and (class, name) of methods."""
    for node in _parse_file(path).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield (node.name,)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield node.name, inner.name


def sources_below(root: Path) -> Iterator[str]:
    """Yield the user's sources below a folder, those named `conftest.py` first."""
    others: list[str] = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name[0] != "." and name not in _SKIPPED
        )
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith(".py") or not is_own(path, root):
                continue
            if name == "conftest.py":
                yield path
            elif len(others) < _MAX_FILES:
                others.append(path)
    yield from others


@lru_cache(maxsize=100)
def _list_statements(path: str) -> tuple[Statement, ...]:
    statements = []
    for node in ast.walk(_parse_file(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring may speak of anything
        if isinstance(node, ast.ExceptHandler):
            text = f"except {ast.unparse(node.type) if node.type else ''}"
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            text = "with " + ", ".join(map(ast.unparse, node.items))
        elif isinstance(node, ast.stmt) and not hasattr(node, "body"):
            text = ast.unparse(node)
        elif isinstance(node, ast.If):
            text = f"if {ast.unparse(node.test)}"
        else:
            continue
        statements.append(Statement(node.lineno, node.end_lineno or node.lineno, text))
    return tuple(sorted(statements))


@lru_cache(maxsize=100)
def _parse_file(path: str) -> ast.Module:
    unread = OSError, SyntaxError, ValueError, RecursionError, MemoryError
    with suppress(*unread), open(path, "rb") as file:
        return ast.parse(file.read(_MAX_BYTES))
    return ast.Module(body=[], type_ignores=[])

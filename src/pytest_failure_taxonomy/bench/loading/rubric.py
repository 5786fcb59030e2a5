"""Check that a `rubric.py` can grade, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from pytest_failure_taxonomy.bench.loading.folder import ClassFolder
from pytest_failure_taxonomy.bench.loading.syntax import parse
from pytest_failure_taxonomy.documents.document import read_text
from pytest_failure_taxonomy.errors import BenchError

_RUBRIC: Final = "rubric.py"
_EXAMPLE: Final = "write `def grade(case, output):`"
_MAX_BYTES: Final = 4 * 1024 * 1024


def check_rubric(folder: ClassFolder, *, may_be_script: bool) -> None:
    """Tell what keeps a rubric from grading.

    Args:
        folder: of the task class.
        may_be_script: it may do without a `grade`, for it reads stdin itself.
    """
    if folder.is_outside(_RUBRIC):
        return
    problems = folder.problems_of(_RUBRIC)
    right = f"{_RUBRIC} is Python in UTF-8 that says `def grade(case, output):`"
    try:
        text = read_text(folder.path / _RUBRIC, problems, right=right, max_bytes=_MAX_BYTES)
    except BenchError:  # it is among the problems
        return
    tree = parse(text, problems)
    if tree is None:
        return
    grade = next((each for each in reversed(list(_definitions(tree.body)))), None)
    if grade is None:
        if not may_be_script and not _is_name_bound(tree):
            problems.add(None, f"has no function grade; {_EXAMPLE}")
    elif isinstance(grade, ast.AsyncFunctionDef):
        problems.add(grade.lineno, f"grade is async; {_EXAMPLE} without async")
    elif not _takes_two(grade.args):
        what = f"grade can't be called with a case and an output; {_EXAMPLE}"
        problems.add(grade.lineno, what)


def _definitions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions `grade` of a module, also those that stand under a condition."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name="grade") | ast.AsyncFunctionDef(name="grade"):
                yield statement
            case ast.If():
                yield from _definitions(statement.body + statement.orelse)
            case ast.Try():
                yield from _definitions(statement.body + statement.orelse + statement.finalbody)
                for caught in statement.handlers:
                    yield from _definitions(caught.body)
            case ast.With():
                yield from _definitions(statement.body)


def _takes_two(arguments: ast.arguments) -> bool:
    positional = len(arguments.posonlyargs) + len(arguments.args)
    needed = positional - len(arguments.defaults)
    fits = needed <= 2 and (positional >= 2 or arguments.vararg is not None)
    return fits and all(default is not None for default in arguments.kw_defaults)


def _is_name_bound(tree: ast.Module) -> bool:
    """Return whether `grade` is imported or assigned: what it takes, only a run can tell."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            if any((each.asname or each.name) == "grade" for each in node.names):
                return True
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(each, ast.Name) and each.id == "grade" for each in targets):
                return True
    return False

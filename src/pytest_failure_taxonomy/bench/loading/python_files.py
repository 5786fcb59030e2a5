"""Check `rubric.py` and `breakdown_keys.py` of a task class without running them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import Final

from pytest_failure_taxonomy.bench.loading.folder import RUBRIC, ClassFolder
from pytest_failure_taxonomy.documents.problems import Problems, quoted, shown
from pytest_failure_taxonomy.documents.yaml_files import read_text
from pytest_failure_taxonomy.errors import BenchError

_GRADE: Final = "write `def grade(case, output):`"
_ENUM: Final = 'write `class BreakdownKey(StrEnum):` and below it members, such as `OK = "ok"`'
_ONLY: Final = "only a docstring, imports from enum and one StrEnum may stand here"


def check_rubric(folder: ClassFolder, *, may_be_script: bool) -> None:
    """Report what keeps a rubric from grading.

    Args:
        folder: The folder of the task class.
        may_be_script: Whether the rubric may lack a `grade` because it reads stdin itself.
    """
    if folder.is_outside(RUBRIC):
        return
    problems = folder.problems_of(RUBRIC)
    right = f"{RUBRIC} is Python in UTF-8 that says `def grade(case, output):`"
    tree = _parse(folder, RUBRIC, right, 4 * 1024 * 1024)
    if tree is None:
        return
    grade = next(reversed(list(_definitions(tree.body))), None)
    if grade is None:
        if not may_be_script and not _is_name_bound(tree):
            problems.add(None, f"has no function grade; {_GRADE}")
    elif isinstance(grade, ast.AsyncFunctionDef):
        problems.add(grade.lineno, f"grade is async; {_GRADE} without async")
    elif not _takes_two(grade.args):
        what = f"grade can't be called with a case and an output; {_GRADE}"
        problems.add(grade.lineno, what)


def _definitions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions `grade` of a module, including those in conditional blocks."""
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
    """Return whether `grade` is imported or assigned; its parameters are then unknown."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            if any((each.asname or each.name) == "grade" for each in node.names):
                return True
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(each, ast.Name) and each.id == "grade" for each in targets):
                return True
    return False


def read_enum(folder: ClassFolder, name: str) -> list[tuple[str, int]]:
    """Return the values of the one enumeration in a file, with their lines.

    Anything else than an enumeration of string literals is reported as a problem.
    """
    problems = folder.problems_of(name)
    tree = _parse(folder, name, f"{name} is Python in UTF-8 with one StrEnum", 1024 * 1024)
    if tree is None:
        return []
    found: list[ast.ClassDef] = []
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            _check_class(statement, problems)
            found.append(statement)
        elif not _is_docstring(statement) and not _is_import_of_enum(statement):
            what = f"{_first_words(statement)} is neither a StrEnum nor an import of it; {_ONLY}"
            problems.add(statement.lineno, what)
    if not found:
        problems.add(1, f"there is no StrEnum; {_ENUM}")
        return []
    for other in found[1:]:
        what = f"{quoted(other.name)} is a second class; keep the one of line {found[0].lineno}"
        problems.add(other.lineno, what)
    return list(_members(found[0], problems))


def _members(enumeration: ast.ClassDef, problems: Problems) -> Iterator[tuple[str, int]]:
    lines: dict[str, int] = {}
    for statement in enumeration.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                if name in lines:
                    what = f"the member {quoted(name)} stands in line {lines[name]} already"
                    problems.add(statement.lineno, f"{what}; give it once")
                elif name.startswith("_"):
                    what = f"{quoted(name)} is no member; begin it with a letter"
                    problems.add(statement.lineno, what)
                else:
                    yield text, statement.lineno
                lines.setdefault(name, statement.lineno)
            case _ if not _is_docstring(statement):
                what = f"{_first_words(statement)} is no member with a text of its own"
                problems.add(statement.lineno, f'{what}; write NAME = "key"')


def _check_class(statement: ast.ClassDef, problems: Problems) -> None:
    bases = [ast.unparse(base).removeprefix("enum.") for base in statement.bases]
    if bases not in (["StrEnum"], ["str", "Enum"]):
        what = f"the class {quoted(statement.name)} is no StrEnum; {_ENUM}"
        problems.add(statement.lineno, what)
    decorators = [ast.unparse(each).removeprefix("enum.") for each in statement.decorator_list]
    if statement.keywords or decorators not in ([], ["unique"]):
        what = f"the class {quoted(statement.name)} has decorators or keywords; leave them out"
        problems.add(statement.lineno, what)


def _is_docstring(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def _is_import_of_enum(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module in ("enum", "__future__") and statement.level == 0
    if isinstance(statement, ast.Import):
        return [(each.name, each.asname) for each in statement.names] == [("enum", None)]
    return False


def _first_words(statement: ast.stmt) -> str:
    return quoted(ast.unparse(statement).partition("\n")[0])


def _parse(folder: ClassFolder, name: str, right: str, max_bytes: int) -> ast.Module | None:
    """Return the syntax tree of a file, or `None` if it has problems."""
    problems = folder.problems_of(name)
    try:
        text = read_text(folder.path / name, problems, right=right, max_bytes=max_bytes)
        with warnings.catch_warnings():
            # An invalid escape sequence, of which Python only warns, is not a problem.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except BenchError:
        pass  # it is among the problems
    except SyntaxError as error:
        problems.add(error.lineno, f"not Python ({shown(error.msg)}); mend the syntax")
    except (ValueError, RecursionError, MemoryError) as error:
        why = shown(str(error)) or "nested too deep"
        problems.add(None, f"not Python ({why}); write it simpler")
    return None

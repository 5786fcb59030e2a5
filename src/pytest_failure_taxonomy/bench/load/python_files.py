"""Check `rubric.py` and `breakdown_keys.py` of a task class without running them."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Final

from pytest_failure_taxonomy.bench.load.folder import RUBRIC, RUBRICS, ClassFolder
from pytest_failure_taxonomy.bench.models import banned_part, marked_part
from pytest_failure_taxonomy.documents.content import read_text
from pytest_failure_taxonomy.documents.problems import Problems, quoted, shown
from pytest_failure_taxonomy.errors import BenchError

_NAME: Final = re.compile(r"[^\W_][\w-]*")
_GRADE: Final = "write `def grade(case, output):`"
_ENUM: Final = 'write `class BreakdownKey(StrEnum):` and below it members, such as `OK = "ok"`'
_ONLY: Final = "only a docstring, imports from enum and one StrEnum may stand here"


def rubric_files(folder: ClassFolder) -> dict[str, str]:
    """Return the files of a task class's rubrics within its folder, by name in their order.

    Files of `rubrics/` whose names begin with `_` are modules that rubrics share.
    """
    names = folder.names_in(RUBRICS)
    found: dict[str, str] = {}
    for file in names or ():
        stem, suffix = os.path.splitext(os.path.basename(file))
        if suffix != ".py" or stem.startswith("_"):
            continue
        if not _NAME.fullmatch(stem):
            what = f"{quoted(stem)} is no name of a rubric; write letters, digits, - and _"
            folder.problems_of(file).add(None, what)
        found[stem] = file
    if os.path.lexists(folder.path / RUBRIC) or not found:
        own = os.path.splitext(RUBRIC)[0]
        if own in found:
            what = f"has the name of {RUBRIC}, which is a rubric, too; rename one of the two"
            folder.problems_of(found[own]).add(None, what)
        if names is None or os.path.lexists(folder.path / RUBRIC):
            found[own] = RUBRIC
        elif not folder.is_outside(RUBRICS):
            what = f"there is no rubric in it; write {RUBRICS}/NAME.py, or a {RUBRIC} beside it"
            folder.problems_of(RUBRICS).add(None, what)
    return dict(sorted(found.items()))


def check_rubric_names(folder: ClassFolder, rubrics: Mapping[str, str]) -> None:
    """Report rubrics whose names can't be keys of a breakdown, which has their scores."""
    for name, file in rubrics.items():
        banned = banned_part(name)
        if banned is not None:
            what = f"its name would be a breakdown key that holds {banned!r}"
            right = f"rename {marked_part(name, banned)}, to judge.py for example"
            folder.problems_of(file).add(None, f"{what}; {right}")


def check_rubric(folder: ClassFolder, name: str, *, may_be_script: bool) -> None:
    """Report what keeps a rubric from grading.

    Args:
        folder: The folder of the task class.
        name: The rubric's file within the folder.
        may_be_script: Whether the rubric may lack a `grade` because it reads stdin itself.
    """
    if folder.is_outside(name):
        return
    problems = folder.problems_of(name)
    right = f"{os.path.basename(name)} is Python in UTF-8 that says `def grade(case, output):`"
    tree = _parse(folder, name, right, 4 * 1024 * 1024)
    if tree is None:
        return
    grade = next(reversed(list(_definitions(tree.body))), None)
    if grade is None:
        bound: set[str | None] = set()  # by an import or an assignment: its parameters are unknown
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                bound |= {each.asname or each.name for each in node.names}
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                bound |= {each.id for each in targets if isinstance(each, ast.Name)}
        if not may_be_script and "grade" not in bound:
            problems.add(None, f"has no function grade; {_GRADE}")
    elif isinstance(grade, ast.AsyncFunctionDef):
        problems.add(grade.lineno, f"grade is async; {_GRADE} without async")
    else:
        arguments = grade.args
        positional = len(arguments.posonlyargs) + len(arguments.args)
        fits = positional - len(arguments.defaults) <= 2
        fits = fits and (positional >= 2 or arguments.vararg is not None)
        if not fits or None in arguments.kw_defaults:
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

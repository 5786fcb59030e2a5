"""Read the members of the one `StrEnum` that a `breakdown_keys.py` holds, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from pytest_failure_taxonomy.bench.loading.syntax import parse
from pytest_failure_taxonomy.documents.problems import Problems, quoted

_EXAMPLE: Final = 'write `class BreakdownKey(StrEnum):` and below it members, such as `OK = "ok"`'
_ONLY: Final = "only a docstring, imports from enum and one StrEnum may stand here"


def read_enum(text: str, problems: Problems) -> list[tuple[str, int]]:
    """Return the values of an enumeration with their lines.

    Args:
        text: of a Python file; it is parsed and never run.
        problems: takes whatever is no string-literal member of the one enumeration.
    """
    tree = parse(text, problems)
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
        problems.add(1, f"there is no StrEnum; {_EXAMPLE}")
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
        what = f"the class {quoted(statement.name)} is no StrEnum; {_EXAMPLE}"
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

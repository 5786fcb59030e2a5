"""Parse Python without running it, or say in which line it can't be parsed."""

from __future__ import annotations

import ast
import warnings

from pytest_failure_taxonomy.documents.problems import Problems, shown


def parse(text: str, problems: Problems) -> ast.Module | None:
    """Return the tree of a Python text, `None` where the problems took one."""
    try:
        with warnings.catch_warnings():
            # An escape that Python only warns of is no reason to refuse a file.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        problems.add(error.lineno, f"not Python ({shown(error.msg)}); mend the syntax")
    except (ValueError, RecursionError, MemoryError) as error:
        why = shown(str(error)) or "nested too deep"
        problems.add(None, f"not Python ({why}); write it simpler")
    return None

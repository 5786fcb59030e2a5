"""Load what a server is to call: the `grade` of a `rubric.py`, or a system under test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


class NotUsableError(Exception):
    """There is nothing to call; says why."""


def load_rubric(path: str) -> Callable[..., Any]:
    """Return the `grade` of a file, whose folder its imports are looked for in, too."""
    from importlib.util import module_from_spec, spec_from_file_location

    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    spec = spec_from_file_location("rubric", path)
    if spec is None or spec.loader is None:
        raise NotUsableError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules["rubric"] = module
    spec.loader.exec_module(module)
    grade = getattr(module, "grade", None)
    if not callable(grade):
        raise NotUsableError(
            "it defines no function `grade(case, output)`; a script that reads stdin needs "
            "`rubric_isolation: fresh`"
        )
    return grade  # type: ignore[no-any-return]  # whatever it is, it can be called


def load_target(target: str, path: list[str]) -> Callable[..., Any]:
    """Return what `package.module:callable` names.

    Args:
        target: the module, a colon, and a name in it; dots go into an object.
        path: what to search for modules, in place of this interpreter's own.
    """
    from importlib import import_module

    sys.path[:] = path
    import_module("pytest_failure_taxonomy.bench.models")  # each case is one of its objects
    name, _, attribute = target.partition(":")
    found: Any = import_module(name)
    for part in attribute.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise NotUsableError(f"{target} is {type(found).__name__}, not callable")
    return found  # type: ignore[no-any-return]  # whatever it is, it can be called

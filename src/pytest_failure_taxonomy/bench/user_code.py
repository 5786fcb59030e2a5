"""Import code that a user names: a system under test, or the rubric of a task class."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_failure_taxonomy.errors import BenchError


def import_callable(target: str, where: str) -> Callable[..., Any]:
    """Import a callable.

    Args:
        target: `package.module:callable`; the callable may have dots.
        where: The place that names it, for messages.

    Raises:
        BenchError: It can't be imported, or is not callable.
    """
    name, _, path = target.partition(":")
    if not name or not path:
        raise BenchError(f"{where}: {target!r} names no callable; write package.module:callable")
    try:
        found: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise BenchError(
            f"{where}: there is no module {error.name!r} (for {target!r}); install it, or add its"
            " folder to pytest's `pythonpath`"
        ) from None
    except Exception as error:
        raise BenchError(
            f"{where}: {name} can't be imported ({type(error).__name__}: {error}); mend the module"
        ) from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise BenchError(
                f"{where}: {name} has no {path!r}; name one of its callables"
            ) from None
    if not callable(found):
        raise BenchError(f"{where}: {target!r} is {type(found).__name__} and can't be called")
    return found  # type: ignore[no-any-return]  # callable() says no more of it


def load_rubric(path: Path, name: str) -> Callable[[dict[str, Any], object], dict[str, Any]]:
    """Return the function `grade` of a rubric, loaded into this process.

    The rubric is not isolated here, and is loaded again at each call.

    Args:
        path: The rubric's file.
        name: What its module is called.

    Raises:
        BenchError: The rubric has no function `grade`.
    """
    folder = str(path.parent)
    sys.path.insert(0, folder)  # a rubric may import modules from its folder
    try:
        module = _load(path, name)
    finally:
        sys.path.remove(folder)
    grade = getattr(module, "grade", None)
    if not callable(grade):
        raise BenchError(f"{path}: has no function `grade`; only it can be tested so")
    return grade  # type: ignore[no-any-return]  # the author's function


def _load(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BenchError(f"{path}: can't be imported; give it the suffix .py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""Find a callable that a user names as `package.module:callable`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pytest_failure_taxonomy.errors import BenchError


def import_callable(target: str, where: str) -> Callable[..., Any]:
    """Import what a user named.

    Args:
        target: `package.module:callable`; the callable may be an attribute of an attribute.
        where: the place that names it, for the message.

    Raises:
        BenchError: it can't be imported, or is nothing that can be called.
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

"""What the machine and the interpreter give: files of our own, streams, processes, imports.

Every pytest run of an environment loads this module, so it has only what each of them
needs.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def import_named(name: str) -> Any:
    """Return the function of a table's row, which names it by its module in this package."""
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"pytest_failure_taxonomy.{module}"), function)


@contextmanager
def imports_as_they_are(config: Any) -> Generator[None, None, None]:
    """Import modules without the hook that rewrites `assert` statements.

    pytest rewrites all modules of an installed plugin: here some sixty, at 0.3 ms each.

    Args:
        config: of pytest.
    """
    hook = getattr(config.pluginmanager, "rewrite_hook", None)
    if hook not in sys.meta_path:  # `--assert=plain`
        yield
        return
    index = sys.meta_path.index(hook)
    sys.meta_path.remove(hook)
    try:
        yield
    finally:
        sys.meta_path.insert(index, hook)

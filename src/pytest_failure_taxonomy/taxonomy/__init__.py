"""The pure core: reasons, stages, kinds, evidence and the judge.

Nothing in this package imports anything but the standard library, looks at a clock or reads a file
but its own tables, `data/*`, each when it is first needed.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import Any


def packaged(name: str) -> str:
    """Return a file of `data/` as text."""
    return (pkgutil.get_data(__name__, f"data/{name}") or b"").decode()


@cache
def packaged_table(name: str) -> dict[str, Any]:
    """Return the content of `data/NAME.toml`, which nobody changes."""
    return parsed(packaged(f"{name}.toml"))


def parsed(text: str) -> dict[str, Any]:
    """Return the content of a TOML document."""
    # Imported here, because runs without failures and failed assertions need none.
    import tomllib

    return tomllib.loads(text)

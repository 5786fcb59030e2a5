"""The tables of this package that are files, `data/*.toml`, each read when it is first needed."""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import Any


@cache
def packaged_text(name: str) -> str:
    """Return `data/NAME.toml` as text."""
    return (pkgutil.get_data(__name__.rpartition(".")[0], f"data/{name}.toml") or b"").decode()


@cache
def packaged_table(name: str) -> dict[str, Any]:
    """Return the content of `data/NAME.toml`, which nobody changes."""
    return parsed(packaged_text(name))


def parsed(text: str) -> dict[str, Any]:
    """Return the content of a TOML document."""
    # Imported here, because runs without failures and failed assertions need none.
    import tomllib

    return tomllib.loads(text)

"""The pure core: reasons, stages, kinds, evidence and the judge.

Nothing in this package imports anything but the standard library, looks at a clock or
reads a file but its own tables, `data/*`, each when it is first needed.
"""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any


def read_packaged(name: str) -> str:
    """Return a file of `data/` as text."""
    # Not by `pkgutil`, which asks functions that a test may have replaced.
    loader: Any = __spec__.loader
    content: bytes = loader.get_data(f"{__path__[0]}/data/{name}")
    return content.decode()


@cache
def packaged_table(name: str) -> dict[str, Any]:
    """Return the content of `data/NAME.toml`; do not change it."""
    return parse_toml(read_packaged(f"{name}.toml"))


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML document."""
    return tomllib.loads(text)

"""Passwords in the URLs that environment variables hold."""

from __future__ import annotations

import re
from typing import Final

_UP_TO_FIRST: Final = re.compile(r"://[^\s/:@]{0,100}:([^\s@]{1,400})@")
_UP_TO_LAST: Final = re.compile(r"://[^\s/:@]{0,100}:([^\s/]{1,400})@")
"""A password may have an `@` of its own, which should have been written as `%40`."""


def url_passwords(text: str) -> list[str]:
    """Return what may be a password in a URL, each reading of it once."""
    if "://" not in text:
        return []
    return list(dict.fromkeys(_UP_TO_FIRST.findall(text) + _UP_TO_LAST.findall(text)))

"""Remove secrets from texts before they are recorded, written or shown."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, Protocol


def read_packaged(name: str) -> bytes:
    """Return the content of a file of this package."""
    # Not by `pkgutil`, which asks functions that a test may have replaced.
    loader: Any = __spec__.loader
    content: bytes = loader.get_data(f"{__path__[0]}/{name}")
    return content


MARK_START: Final = "[REDACTED:"
WORDS: Final[dict[str, Any]] = json.loads(read_packaged("words.json"))
"""Lists of words by their names: names of secrets, and words that are not secret."""
_COLOUR: Final = re.compile(
    r"(?:\x1b|\\{1,2}(?:x1b|u001b|033|e))\[[0-9;]{0,20}[mK]", re.IGNORECASE
)


@cache
def grammar(name: str, **parts: str) -> re.Pattern[str]:
    """Return an expression of `grammars.toml`, to which the caller may add parts."""
    sources = {
        **_grammars(),
        "kinds_of_keys": "|".join(WORDS["kinds_of_keys"]),
        **parts,
    }

    def expand(name: str) -> str:
        # The file indents and breaks long expressions; neither counts.
        lines = sources[name].split("\n")
        whole = "".join([line.lstrip(" ") for line in lines])
        return re.sub(r"\{\{(\w+)\}\}", lambda part: expand(part[1]), whole)

    return re.compile(expand(name))


@cache
def _grammars() -> dict[str, str]:
    return tomllib.loads(read_packaged("grammars.toml").decode())


def is_cut(text: str) -> bool:
    """Return whether something may have been cut out of the text."""
    return "..." in text or "…" in text


def strip_colours(text: str) -> str:
    """Return a text without the codes that colour it, as they are or escaped.

    The last letter of a code would belong to the word behind it, and a code may part a
    word.
    """
    return _COLOUR.sub("", text) if "\x1b" in text or "\\" in text else text


class Redaction(Protocol):
    """Removes secrets from texts."""

    @property
    def known(self) -> int:
        """How many values it knows. When it grows, texts must be searched again."""

    def redact(self, text: str) -> str:
        """Return a text without its secrets."""

    def holds_none(self, texts: Sequence[str]) -> bool:
        """Tell whether it is sure that none of the texts holds a secret."""

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
    """Return one of the expressions in `grammars.toml`, of which the caller may have parts."""
    known = {**_grammars(), "kinds_of_keys": "|".join(WORDS["kinds_of_keys"]), **parts}

    def written(name: str) -> str:
        whole = "".join(line.lstrip(" ") for line in known[name].split("\n"))
        return re.sub(r"\{\{(\w+)\}\}", lambda part: written(part[1]), whole)

    return re.compile(written(name))


@cache
def _grammars() -> dict[str, str]:
    return tomllib.loads(read_packaged("grammars.toml").decode())


def is_cut(text: str) -> bool:
    """Return whether something may have been cut out of the text."""
    return "..." in text or "…" in text


def without_colours(text: str) -> str:
    """Return a text without the codes that colour it, as they are or escaped.

    The last letter of a code would belong to the word behind it, and a code may part a
    word.
    """
    return _COLOUR.sub("", text) if "\x1b" in text or "\\" in text else text


class Redaction(Protocol):
    """Removes secrets from texts."""

    @property
    def known(self) -> int:
        """How many values it knows; texts are searched again when it has learnt more."""

    def redact(self, text: str) -> str:
        """Return a text without its secrets."""

    def holds_none(self, texts: Sequence[str]) -> bool:
        """Tell whether it is sure that none of the texts holds a secret."""

"""The words by which tools say that something failed: the tables of `data/phrases.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_failure_taxonomy.taxonomy.recovery import FailureType
from pytest_failure_taxonomy.taxonomy.tables import packaged_table


class Patterns:
    """Patterns of one sort; a text is of that sort if one of them is in it.

    A text is searched only if the longest word of a pattern is in it as a whole word, preferably
    one that stands at neither end.
    """

    __slots__ = ("expressions", "in_lower_case", "words")

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.words: Final[tuple[str, ...]] = tuple(table.get("words", ()))
        self.expressions: Final[tuple[tuple[str, str], ...]] = tuple(
            (words, expression.replace("<source>", _SOURCE).replace("<path>", _PATH))
            for words, expression in table.get("expressions", ())
        )
        self.in_lower_case: Final[bool] = table.get("in_lower_case", False)


_TABLES: Final = packaged_table("phrases")
_SOURCE: Final[str] = _TABLES["source"]
_PATH: Final[str] = _TABLES["path"]

PHRASES: Final = tuple(
    (FailureType(name), tuple(phrases)) for name, phrases in _TABLES["published"].items()
)
PARTS_OF_PHRASES: Final[tuple[str, ...]] = tuple(_TABLES["parts_of_published"])
FALSE_FRIENDS: Final = "|".join(_TABLES["false_friends"])
DIAGNOSTICS: Final = Patterns(_TABLES["diagnostics"])
REFUSALS: Final = Patterns(_TABLES["refusals"])
VERDICTS: Final = Patterns(_TABLES["verdicts"])
TALLIES: Final = Patterns(_TABLES["tallies"])
OVERFLOWS: Final = Patterns(_TABLES["overflows"])
RATE_LIMITS: Final = Patterns(_TABLES["rate_limits"])
CRASH_REPORTS: Final = Patterns(_TABLES["crash_reports"])
WIDER_PHRASES: Final = tuple(
    (FailureType(each["type"]), Patterns(each)) for each in _TABLES["wider"]
)
CRASHES: Final[frozenset[str]] = frozenset(_TABLES["crashes"])
NAMES_IN_TEXT: Final = {
    name: FailureType(kind) for kind, names in _TABLES["exceptions"].items() for name in names
}

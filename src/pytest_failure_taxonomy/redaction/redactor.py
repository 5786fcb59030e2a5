"""Take secrets out of texts, and count them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.redaction import MARK_START

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction.learnt import LearntValues
    from pytest_failure_taxonomy.redaction.searches import Searches

_MOST_PASSES: Final = 8
"""What was removed can bring two texts together that make a further secret."""

_BETWEEN_TEXTS: Final = "\n\0\n"
"""With it around, a text looks to the search as it does by itself."""


class Redactor:
    """Removes secrets from texts: by their form, their name, the environment, the user's patterns.

    Args:
        extra_patterns: the user's regular expressions, already checked by `check_patterns`.
        environment: where the secret values are; `os.environ` as it is at each text by default.
        learnt: what other redactors of the same run have removed, and this one adds to.

    Attributes:
        counts: how many secrets were removed, by the id in their marks.
    """

    def __init__(
        self,
        extra_patterns: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        learnt: LearntValues | None = None,
    ) -> None:
        self.counts: dict[str, int] = {}
        self._given = (tuple(extra_patterns), environment)
        self._learnt = learnt
        self._searches: Searches | None = None

    def redact(self, text: str) -> str:
        """Return the text with a mark such as `[REDACTED:github-token]` for each secret in it.

        What was removed once is removed from then on, without its name beside it, too.
        A text that can't be searched, for whatever cause, is replaced as a whole.
        """
        try:
            for _ in range(_MOST_PASSES):
                redacted = self._searching().remove(text, self._note)
                if redacted == text:
                    break
                text = redacted
        except Exception:  # noqa: BLE001  a secret must not get out because something broke here
            return self._note("unsearchable")
        return text

    def holds_none(self, texts: Sequence[str]) -> bool:
        """Tell whether a search of all the texts at once finds nothing, and counts nothing.

        The user's own patterns are left out: they may look at where a text begins or ends.
        """
        together = _BETWEEN_TEXTS.join(texts)
        return self._searching().remove_known_forms(together, _found) == together

    def redact_json(self, value: Any) -> Any:
        """Return the JSON value with every text in it redacted, keys included.

        Under a key that says so (`password`, `api_key`) any text or number is a secret.
        """
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {self.redact(key): self._entry(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.redact_json(each) for each in value]
        return value

    @property
    def known(self) -> int:
        """How many values are known, of the environment or learnt; it never gets smaller."""
        if self._searches is None:
            return 0
        return self._searches.environment.known.count + self._searches.learnt.known.count

    def learn(self, name: str, secret: str) -> None:
        """Know a value that its place has given away, unless it is an ordinary word."""
        self._searching().learnt.learn(name, secret)

    def take_new(self) -> list[str]:
        """Return all forms of the values that have become known since this was called last."""
        if self._searches is None:
            return []
        both = self._searches.environment, self._searches.learnt
        return [form for each in both for form in each.known.take_new()]

    def matches_of_user(self, text: str) -> bool:
        """Return whether a pattern of the user's finds something in a text."""
        return self._searching().matches_of_user(text)

    def _entry(self, key: str, value: Any) -> Any:
        is_text = isinstance(value, str) and value != "" and not value.startswith(MARK_START)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if (is_text or is_number) and self._searching().is_secret_name(key):
            return self._note("field", str(value))
        return self.redact_json(value)

    def _searching(self) -> Searches:
        # Most runs have nothing to redact, and compiling the expressions takes many milliseconds.
        if self._searches is None:
            from pytest_failure_taxonomy.redaction.searches import Searches

            self._searches = Searches(*self._given, self._learnt)
        return self._searches

    def _note(self, name: str, removed: str = "", /) -> str:
        if removed.startswith(MARK_START) and _is_mark(removed):
            return removed  # what stands beside a name has been removed already
        self.counts[name] = self.counts.get(name, 0) + 1
        if removed:
            self._searching().learnt.learn(name, removed)
        return _found(name)


def _is_mark(text: str) -> bool:
    from pytest_failure_taxonomy.redaction.marks import MARK

    return MARK.fullmatch(text) is not None


def _found(name: str, _: str = "", /) -> str:
    return f"{MARK_START}{name}]"

"""All that is looked for in a text, in the order in which it is removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_failure_taxonomy.redaction.commands import remove_from_commands
from pytest_failure_taxonomy.redaction.custom import CustomPatterns
from pytest_failure_taxonomy.redaction.cut_names import remove_behind_cut_names
from pytest_failure_taxonomy.redaction.environment import EnvironmentValues
from pytest_failure_taxonomy.redaction.fields import remove_fields
from pytest_failure_taxonomy.redaction.keys import holds_a_key, remove_private_keys
from pytest_failure_taxonomy.redaction.learnt import LearntValues
from pytest_failure_taxonomy.redaction.marks import Note, is_cut
from pytest_failure_taxonomy.redaction.pairs import is_secret_name
from pytest_failure_taxonomy.redaction.tokens import Tokens


class Searches:
    """The searches of one redactor, compiled."""

    def __init__(
        self,
        extra_patterns: Sequence[str],
        environment: Mapping[str, str] | None,
        learnt: LearntValues | None = None,
    ) -> None:
        self.environment = EnvironmentValues(environment)
        self._tokens = Tokens()
        self._custom = CustomPatterns(extra_patterns)
        self.learnt = LearntValues() if learnt is None else learnt

    def remove(self, text: str, note: Note) -> str:
        """Return the text without the secrets that one pass over it finds.

        What is known for certain goes first: a value of the environment gets the mark with its
        name, whatever its form. What was learnt goes last, so that a mark says what stood there.
        """
        return self._custom.remove(self.remove_known_forms(text, note), note)

    def remove_known_forms(self, text: str, note: Note) -> str:
        """Return the text without the secrets that other than the user's patterns find."""
        cut = is_cut(text)
        text = self.environment.remove(text, note, cut=cut)
        if holds_a_key(text):
            text = remove_private_keys(text, note)
        text = self._tokens.remove(text, note, cut=cut)
        text = remove_fields(text, note)
        if " -" in text or "'-" in text or '"-' in text:
            text = remove_from_commands(text, note)
        if cut:
            text = remove_behind_cut_names(text, note)
        return self.learnt.remove(text, note, cut=cut)

    def matches_of_user(self, text: str) -> bool:
        """Return whether a pattern of the user's finds something, or had no time left."""
        return self._custom.match_any(text)

    def is_secret_name(self, name: str) -> bool:
        """Return whether a JSON object's entry of that name holds a secret."""
        return is_secret_name(name)

"""Take secrets out of what was seen before it is recorded: texts, and node ids.

No text is searched twice: one without secrets is remembered by its hash until more is
known to be secret.

pytest, xdist and other plugins use the real node ids, and so does all code that
compares a node id with theirs. Only the record and the report show them without
secrets. Each mark there has a digest of the whole node id, so that two node ids stay
different: `test_login[[REDACTED:github-token 3f2a9c41b0]]`. See docs/decisions/0016.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_failure_taxonomy.redaction.names import (
    find_secret_arguments,
    may_be_secret_variable,
    redact_arguments,
)
from pytest_failure_taxonomy.redaction.signs import Suspicion
from pytest_failure_taxonomy.system.interpreter import is_patched
from pytest_failure_taxonomy.taxonomy.evidence import RunEvidence
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.text import change_texts, encodable

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction import Redaction
    from pytest_failure_taxonomy.redaction.redactor import Redactor

T = TypeVar("T")

_NODEIDS: Final = frozenset(
    {
        "nodeid",
        "crashed_on",
        "not_run",
        "other_nodeid",
        "lacking",
        "added",
    }
)
"""The fields of values that hold node ids."""
_KEPT: Final = frozenset(
    {
        *("nodeid", "worker", "kind", "source", "type", "module", "raised_in"),
        *("raiser", "raising_function"),
        *("path", "function", "entry", "leaf", "frame"),
    }
)
"""Fields that are searched only when the report is built.

They are names, and what is compared with other fields."""
_TEXTS: Final = ("str", "str | None")
_NO_VALUES: Final = frozenset(
    {
        *_TEXTS,
        "bool",
        "int",
        "int | None",
        "float",
        "float | None",
    }
)
"""Annotations of fields that hold no other value."""
_NO_FREE_TEXTS: Final = _NO_VALUES | {"tuple[str, ...]", "Location | None"}
"""The same of those that hold names and paths at most."""
_SEARCHED_AT_ONCE: Final = 10_000
"""Characters of node ids that are searched together."""

_SHORTEST_ERASED: Final = 8
"""Characters of a value that is looked for in what was written before it was known."""
_DIGITS: Final = 6
_MOST_REMEMBERED: Final = 20_000
"""Texts that are remembered to hold no secret: about 2 MB."""
_MOST_PASSES: Final = 4
"""How often the texts of one value are searched: one may show a secret that is in
another."""

_NEEDED_TO_LOAD: Final = (
    "builtins",
    "functools",
    "json",
    "re",
)

UNSEARCHABLE: Final = "[REDACTED:unsearchable]"
"""Stands for a text that can't be searched."""


class Secrets:
    """Take the secrets out of the texts of one run.

    The redactor is loaded with the first text that may hold a secret. A run that passes
    has no texts but its arguments, and never loads it.
    """

    def __init__(self, patterns: Sequence[str] = (), key: bytes | None = None) -> None:
        """Begin without having loaded anything.

        Args:
            patterns: the user's own regular expressions.
            key: of the digests that stand for secrets; a new one where it is left out.
                It is written nowhere.
        """
        self.patterns = tuple(patterns)
        self.key = os.urandom(16) if key is None else key
        self._redactor: Redactor | None = None
        self._elsewhere: dict[str, str] = {}
        """What other processes have sent about their environments."""
        self._times_learnt = 0
        self._suspicion = Suspicion()
        self._known_when_loaded = 0
        self._without_secrets: set[int] = set()
        """Hashes of texts that hold nothing of what is known now."""
        self._searched_at = self.state

    def learn(self, environment: Mapping[str, str]) -> None:
        """Remove the secrets of another process's environment, too."""
        if not environment.items() <= self._elsewhere.items():
            self._elsewhere |= environment
            self._times_learnt += 1
            if self._redactor is not None:
                self._redactor.know(environment.items())

    def redact(self, text: str) -> str:
        """Return a text without its secrets."""
        if not self._select_unsearched((text,)):
            return text
        if not self._look_clean((text,)):
            try:
                text = self._load().redact(text)
            except Exception:  # noqa: BLE001 - such as no free file descriptor
                return UNSEARCHABLE
        self.note_searched((text,))
        return text

    def redact_arguments(self, args: Sequence[str]) -> tuple[str, ...]:
        """Return a command's arguments without their secrets; learn these as well."""
        for name, secret in find_secret_arguments(args):
            self._load().learn(name, secret)
        return redact_arguments(args, self.redact)

    @property
    def known(self) -> int:
        """How many secret values are known. When it grows, texts are searched again."""
        return 0 if self._redactor is None else self._redactor.known

    @property
    def state(self) -> tuple[int, ...]:
        """A value that changes when there is more to look for than before.

        The values that are known when the redactor is loaded have been looked for by
        their signs.
        """
        learnt = self.known - self._known_when_loaded
        return learnt, len(self._suspicion.words), self._times_learnt

    def take_new(self) -> dict[str, str]:
        """Return the values that have become known since the last call, with fillers.

        A filler has the length of its value, and is another for another value.
        """
        if self._redactor is None:  # nothing is learnt without one
            return {}
        fillers = {}
        forms = sorted(self._redactor.take_new())
        # The longest first: a short form may be a part of a long one.
        for form in sorted(
            forms,
            key=len,
            reverse=True,
        ):
            if len(form) >= _SHORTEST_ERASED:
                digits = digest(form, self.key)[:_DIGITS]
                fillers[form] = digits.rjust(len(form), "*")
        return fillers

    def holds_none(self, texts: Sequence[str]) -> bool:
        """Tell whether none of the texts holds a secret, by one search of all of them.

        False means that each has to be redacted by itself. With patterns of the user's
        this is the answer for new texts, because a pattern may ask where a text begins
        or ends.
        """
        texts = self._select_unsearched(texts)
        if not texts:
            return True
        if self.patterns or not self._finds_nothing(texts):
            return False
        self.note_searched(texts)
        return True

    def holds_none_at_all(self, texts: Sequence[str]) -> bool:
        """Tell the same of very many short texts, of which hardly any holds a secret.

        The user's patterns are searched in each of them. The texts are not remembered.
        """
        self._suspicion.see_environment()
        if not self._finds_nothing(texts):
            return False
        if not self.patterns:
            return True
        try:
            redactor = self._load()
            return not any(redactor.matches_of_user(text) for text in texts)
        except Exception:  # noqa: BLE001 - then each text is redacted by itself
            return False

    def note_searched(self, texts: Sequence[str]) -> None:
        """Remember that the texts hold no secret that is known now."""
        self._forget_outdated()
        if len(self._without_secrets) < _MOST_REMEMBERED:
            self._without_secrets.update(map(hash, texts))

    def redact_json(self, value: Any) -> Any:
        """Return a JSON value without its secrets, also those that only a key shows."""
        return change_texts(self._load().redact_json(value), self.redact)

    def _select_unsearched(self, texts: Sequence[str]) -> list[str]:
        """Return those of the texts that are not known to hold no secret."""
        (self._redactor or self._suspicion).see_environment()
        self._forget_outdated()
        return [text for text in texts if hash(text) not in self._without_secrets]

    def _forget_outdated(self) -> None:
        if self._searched_at != (state := self.state):
            self._without_secrets.clear()
            self._searched_at = state

    def _finds_nothing(self, texts: Sequence[str]) -> bool:
        """Tell whether no text holds a secret, without asking the user's patterns."""
        if self._look_clean(texts):
            return True
        try:
            return self._load().holds_none(texts)
        except Exception:  # noqa: BLE001 - then each text is redacted by itself
            return False

    def _look_clean(self, texts: Sequence[str]) -> bool:
        """Tell whether no redactor was needed so far, and no text looks suspicious."""
        if self._redactor is not None or self.patterns or self._elsewhere:
            return False
        return self._suspicion.looks_clean(texts)

    def _load(self) -> Redactor:
        if self._redactor is not None:
            return self._redactor
        # Expressions that a mock has compiled find nothing.
        if is_patched(_NEEDED_TO_LOAD):
            raise RuntimeError("a test has patched what the redactor is loaded with")
        from pytest_failure_taxonomy.redaction.redactor import Redactor

        redactor = Redactor(self.patterns)
        redactor.see_environment()
        # Variables that a test has unset or changed since, and those of other
        # processes.
        for name, value in self._suspicion.variables.items():
            if os.environ.get(name) != value:
                redactor.know([(name, value)])
        redactor.know(self._elsewhere.items())
        self._redactor = redactor
        self._known_when_loaded = redactor.known
        return redactor


def digest(text: str, key: bytes) -> str:
    """Return ten hexadecimal digits of a text that can't be guessed without the key."""
    content = text.encode("utf-8", "backslashreplace")
    return blake2s(
        content,
        key=key,
        digest_size=5,
    ).hexdigest()


def changed_secrets(before: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables, new or changed, that may be secret."""
    changed = {}
    for name, value in os.environ.items():
        if before.get(name) != value and may_be_secret_variable(name):
            changed[encodable(name)] = encodable(value)
    return changed


def redact_value(container: T, redaction: Redaction) -> T:
    """Return a value with every text redacted, also in the values that it has."""
    texts: list[str | None] = []
    _gather_texts(container, _find_text_fields, texts)
    if redaction.holds_none([text for text in texts if text]):
        return container
    for _ in range(_MOST_PASSES):
        # A text can give a value away that an earlier one holds.
        known_before = redaction.known
        container = _replace_texts(container, _find_text_fields, redaction.redact)
        if redaction.known == known_before:
            break
    return container


def search_again(run: RunEvidence, redaction: Redaction) -> RunEvidence:
    """Return the evidence of a run without what its later texts give away."""
    for _ in range(_MOST_PASSES):
        known_before = redaction.known
        changes = {}
        for name in ("failures", "collection_failures", "errors", "interruptions"):
            values = getattr(run, name)
            changes[name] = tuple([redact_value(value, redaction) for value in values])
        run = replace(run, **changes)
        if redaction.known == known_before:
            break
    return run


class NodeIds:
    """The node ids of a run that hold a secret, and what is shown in their place."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._shown: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self._searched_at = secrets.state
        """What was known to be secret when all node ids were searched."""

    def show_all(self, nodeids: Sequence[str]) -> Sequence[str]:
        """Return the node ids of all selected tests as they are shown, in order."""
        self._search(nodeids)
        self._searched_at = self._secrets.state
        if not self._shown:
            return nodeids
        return [self._shown.get(nodeid, nodeid) for nodeid in nodeids]

    def show(self, nodeid: str) -> str:
        """Return a node id as it is to be shown."""
        if nodeid not in self._shown:
            self._search((nodeid,))
        return self._shown.get(nodeid, nodeid)

    def find_real(self, shown: str) -> str:
        """Return the real node id for a shown one that another process recorded."""
        return self._real.get(shown, shown)

    def show_nodeids(self, container: T) -> T:
        """Search the node ids in a value, and return it with them as they are shown."""
        nodeids: list[str | None] = []
        _gather_texts(container, _find_nodeid_fields, nodeids)
        self._search(dict.fromkeys(nodeid for nodeid in nodeids if nodeid))
        return self.replace_nodeids(container)

    def replace_nodeids(self, container: T) -> T:
        """Return a value with node ids as shown, unsearched: all were selected."""
        if not self._shown:
            return container
        changed: T = _replace_texts(
            container,
            _find_nodeid_fields,
            lambda nodeid: self._shown.get(nodeid, nodeid),
        )
        return changed

    def show_at_end(self, container: T) -> T:
        """Return a value with node ids as shown; search again if more is secret now."""
        if self._secrets.state != self._searched_at:
            return self.show_nodeids(container)
        return self.replace_nodeids(container)

    def _search(self, nodeids: Iterable[str]) -> None:
        together: list[str] = []
        parts: list[str] = []
        length = 0
        file = ""
        for nodeid in nodeids:
            together.append(nodeid)
            before, bracket, name = nodeid.partition("[")
            if not bracket:
                before, _, name = nodeid.rpartition("::")
            if before != file:  # many tests are of one function, or of one file
                parts.append(before)
                length += len(before)
                file = before
            parts.append(name)
            length += len(name)
            if length > _SEARCHED_AT_ONCE:
                self._search_together(together, parts)
                together, parts, length, file = [], [], 0, ""
        self._search_together(together, parts)

    def _search_together(self, nodeids: list[str], parts: list[str]) -> None:
        texts = nodeids if self._secrets.patterns else parts
        if self._secrets.holds_none_at_all(texts):
            return
        for nodeid in nodeids:
            if nodeid in self._shown:
                continue
            redacted = self._secrets.redact(nodeid)
            if redacted != nodeid:
                from pytest_failure_taxonomy.redaction.marks import MARK

                digits = digest(nodeid, self._secrets.key)
                shown = MARK.sub(
                    # Called at once, so the digits are those of this node id.
                    lambda mark: f"{mark.group()[:-1]} {digits}]",  # noqa: B023
                    redacted,
                )
                self._shown[nodeid] = shown
                self._real[shown] = nodeid


_Fields = tuple[list[str], list[str]]
"""Which fields of a value are searched.

First those with texts, then those with other values, or with tuples of values or
texts."""


@cache
def _find_text_fields(kind: Any) -> _Fields:
    """Return the fields that may hold a secret; tuples of texts hold only names."""
    texts = []
    values = []
    for name, annotation in kind.__annotations__.items():
        if name in _KEPT:
            continue
        if annotation in _TEXTS:
            texts.append(name)
        elif annotation not in _NO_FREE_TEXTS:
            values.append(name)
    return texts, values


@cache
def _find_nodeid_fields(kind: Any) -> _Fields:
    """Return the fields of a value that hold node ids."""
    texts = []
    values = []
    for name, annotation in kind.__annotations__.items():
        is_nodeid = name in _NODEIDS
        if is_nodeid and annotation in _TEXTS:
            texts.append(name)
        elif annotation == "tuple[str, ...]":
            if is_nodeid:
                values.append(name)
        elif annotation not in _NO_VALUES:
            values.append(name)
    return texts, values


def _gather_texts(
    container: Any, fields_of: Callable[[Any], _Fields], texts: list[str | None]
) -> None:
    """Add the texts in a value and in the values in it; `None` for a missing one."""
    with_texts, with_values = fields_of(container.__class__)
    texts += [getattr(container, name) for name in with_texts]
    for name in with_values:
        content = getattr(container, name)
        if content.__class__ is tuple:
            for item in content:
                if type(item) is str:
                    texts.append(item)
                else:
                    _gather_texts(item, fields_of, texts)
        elif hasattr(content, "__slots__"):  # neither `None` nor a word of ours
            _gather_texts(content, fields_of, texts)


def _replace_texts(
    container: Any, fields_of: Callable[[Any], _Fields], change: Callable[[str], str]
) -> Any:
    """Return a value with the texts changed that `_gather_texts` finds in it."""

    def replace_item(item: Any) -> Any:
        if type(item) is str:
            return change(item)
        return _replace_texts(item, fields_of, change)

    with_texts, with_values = fields_of(container.__class__)
    changes: dict[str, Any] = {}
    for name in with_texts:
        text = getattr(container, name)
        if text:
            changes[name] = change(text)
    for name in with_values:
        content = getattr(container, name)
        if content.__class__ is tuple:
            changes[name] = tuple(map(replace_item, content))
        elif hasattr(content, "__slots__"):
            changes[name] = replace_item(content)
    return replace(container, **changes) if changes else container

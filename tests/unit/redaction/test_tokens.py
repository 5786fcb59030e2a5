"""Tokens with a form of their own: gone in whatever way they are written, cut ones too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

import pytest
from _pytest._io.saferepr import saferepr

from pytest_failure_taxonomy.redaction.redactor import Redactor
from pytest_failure_taxonomy.redaction.signs import load_tokens
from pytest_failure_taxonomy.text import cap
from tests.unit.redaction.samples import survives, tokens

TOKENS: Final = tokens()

FORMS: Final[dict[str, Callable[[str], str]]] = {
    "alone": lambda token: token,
    "in a sentence": lambda token: f"the server refused {token}, try again",
    "repr": lambda token: repr({"user": "me", "value": token}),
    "bytes": lambda token: repr(token.encode()),
    "JSON": lambda token: json.dumps({"value": token}),
    "traceback": lambda token: (
        f"    client = Client('{token}')\nE   ValueError: {token}\n\nx.py:3:"
    ),
    "behind an escape": lambda token: f"'first\\n{token}\\nlast'",
    "diff": lambda token: f"-{token}\n+other",
    "query": lambda token: f"GET https://example.org/a?k={token}&b=1",
    "percent code": lambda token: f"next=%3D{token}%26",
    "header": lambda token: f"Authorization: Bearer {token}",
    "behind another parameter": lambda token: f"test_it.py::test_it[admin-{token}-x]",
    "JSON in JSON": lambda token: json.dumps(json.dumps({"value": token})),
}


def test_there_are_enough_of_them() -> None:
    """The table's heads make more than a hundred and twenty secrets."""
    assert len({token for _, token, _ in TOKENS}) >= 120


@pytest.mark.parametrize("form", FORMS)
def test_a_token_goes_in_every_form(form: str) -> None:
    """No six characters of a token's random part are left, and its id says what it was."""
    redactor = Redactor(environment={})
    left = [
        (name, token, redacted)
        for name, token, part in TOKENS
        if survives(part, redacted := redactor.redact(FORMS[form](token)))
    ]
    assert left == []


def test_the_mark_names_the_kind() -> None:
    """A token alone is replaced by its id, and counted under it."""
    for name, token, _ in TOKENS:
        redactor = Redactor(environment={})
        assert redactor.redact(token) == f"[REDACTED:{name}]", token
        assert redactor.counts == {name: 1}


@pytest.mark.parametrize("size", [24, 30, 40, 60, 80])
def test_a_token_that_a_repr_cut_goes(size: int) -> None:
    """Where `saferepr` cut a token in its middle, neither its start nor its end stays."""
    redactor = Redactor(environment={})
    left = [
        (token, shown)
        for name, token, part in TOKENS
        if name not in _NOT_BY_HEAD
        and len(_head(name, token)) + 2 <= (size - 3) // 2
        and survives(part, shown := redactor.redact(saferepr(token, size)))
    ]
    assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("limit", [100, 120, 200])
def test_a_token_that_a_cap_cut_goes(limit: int) -> None:
    """Where our own cap cut a token, neither its start nor its end stays."""
    redactor = Redactor(environment={})
    before = (limit - 50) // 2
    left = []
    for name, token, part in TOKENS:
        if name in _NOT_BY_HEAD:
            continue
        head = _head(name, token)
        if len(head) + 4 > before - 2:
            continue
        text = "x" * (before - len(head) - 5) + " " + token
        text += " " * max(0, limit + 1 - len(text))
        shown = redactor.redact(cap(text, limit))
        if survives(part, shown):
            left.append((token, shown))
    assert left == []


_NOT_BY_HEAD: Final = frozenset(
    each["id"] for each in load_tokens().table["shapes"]
) | {"twilio-key"}


def _head(name: str, token: str) -> str:
    prefixes: list[str] = [
        prefix
        for form in load_tokens().table["tokens"]
        if form["id"] == name
        for prefix in form["prefixes"]
        if token.startswith(prefix)
    ]
    return max(prefixes, key=len)


def test_the_table_is_well_formed() -> None:
    """Every form compiles, says which rules it stands for, and is long enough to be found."""
    table = load_tokens().table
    for form in table["tokens"]:
        assert re.compile(f"[{form['alphabet']}]")
        assert form["prefixes"], form
        shortest = min(len(prefix) for prefix in form["prefixes"])
        assert shortest + form["least"] >= 18, form
    for form in table["shapes"]:
        assert re.compile(form["regex"])
    assert len(table["source"]["commit"]) == 40

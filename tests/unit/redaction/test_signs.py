"""Quick signs of a secret: what they pass over must be none, since it is not looked at again."""

from __future__ import annotations

import base64
import json
from typing import Final
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.redaction.names import declare_secret_variables
from pytest_failure_taxonomy.redaction.redactor import Redactor
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.redaction.signs import Suspicion
from tests.helpers.adversarial_texts import units
from tests.unit.redaction.samples import random_part, survives, tokens
from tests.unit.redaction.test_named_secrets import GONE, KEPT

TOKENS: Final = [token for _, token, _ in tokens()]
SECRET_TEXTS: Final = [*GONE.values(), *(f"it was {token} then" for token in TOKENS)]
PLAIN_TEXTS: Final = [
    "assert 1 == 2",
    "tests/test_cart.py::test_total[0-1]",
    "    def test_total():\n>       assert total(cart) == 3\nE       assert 4 == 3",
    "0123456789abcdef0123456789abcdef",
    "ZeroDivisionError: division by zero",
    "tests/test_token",
    "src/passing_1",
]


def test_what_a_detector_finds_is_never_passed_over() -> None:
    """A text from which the redactor takes something doesn't look clean, alone or among others.

    Neither does a text that chance makes of the literals of the search.
    """
    redactor, suspicion = Redactor(environment={}), Suspicion()
    for text in SECRET_TEXTS:
        assert redactor.redact(text) != text
        assert not suspicion.looks_clean((text,)), text
        assert not suspicion.looks_clean([*PLAIN_TEXTS, text, *PLAIN_TEXTS]), text
        assert not Redactor(environment={}).holds_none(
            [*PLAIN_TEXTS, text, *PLAIN_TEXTS]
        ), text
    for text in units(3_000):
        if Redactor(environment={}).redact(text) != text:
            assert not suspicion.looks_clean((text,)), text


@settings(deadline=None)
@given(st.lists(st.sampled_from([*PLAIN_TEXTS, *KEPT.values()]), max_size=6))
def test_harmless_texts_hold_none_together(texts: list[str]) -> None:
    """Texts that stay as they are one by one are rarely looked at one by one; plain ones never."""
    redactor = Redactor(environment={})
    if set(texts) <= set(PLAIN_TEXTS):
        assert redactor.holds_none(texts)
        assert Suspicion().looks_clean(texts)
    assert redactor.counts == {}


def test_words_that_were_seen_before_hide_no_token() -> None:
    """Long words without a token are remembered, at the end of a line and elsewhere."""
    file = "tests/test_a_long_name_of_a_file.py"
    around = (
        f"{file}:1: {{}}\n",
        f"E  {{}}\n{file}\n",
        f"-{{}} {file}\n",
        f"[{file}-{{}}]\n",
    )
    suspicion = Suspicion()
    for text in around:
        for token in TOKENS:
            assert suspicion.looks_clean((text.format("assert_that_it_is_the_same"),))
            assert not suspicion.looks_clean((text.format(token),))


@pytest.mark.parametrize("token", [TOKENS[0], TOKENS[0][:20]])
@pytest.mark.parametrize("cut", ["...", "…"])
def test_a_text_with_a_cut_is_suspicious(token: str, cut: str) -> None:
    """Half of a secret shows none of the signs of a whole one."""
    assert not Suspicion().looks_clean((f"{token[:9]}{cut}",))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("APP_PASSWORD", "hunter2!"),
        ("APP_PASSWORD", "p@ss w0rd's"),
        ("DATABASE_URL", "postgres://me:hunter2!@db/x"),
        ("DATABASE_URL", "http://a.b http://me:hunter2!@db/x"),
        ("SIGNING_KEY", "!§$%&/()"),
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        str,
        repr,
        json.dumps,
        quote,
        lambda value: base64.b64encode(value.encode()).decode(),
        lambda value: base64.b64encode(f"u:{value}".encode()).decode(),
        lambda value: base64.b64encode(f"me:{value}".encode()).decode(),
    ],
)
def test_a_value_of_the_environment_is_suspicious(
    name: str, value: str, form: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is quoted, and also when it is gone from the environment again."""
    assert callable(form)
    password = "hunter2!" if "://" in value else value
    text = f"assert {form(password)} == 1"
    suspicion = Suspicion()
    monkeypatch.setenv(name, value)
    suspicion.see_environment()
    assert not suspicion.looks_clean((text,))
    monkeypatch.delenv(name)
    suspicion.see_environment()
    assert not suspicion.looks_clean((text,))


@pytest.mark.parametrize("length", [13, 24, 40, 100])
def test_half_of_a_value_is_suspicious(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the redactor takes for a changed copy has a sign, wherever it begins in the value."""
    value = random_part("A-Za-z0-9_-", length, "half")
    monkeypatch.setenv("MY_PAT", value)
    suspicion = Suspicion()
    suspicion.see_environment()
    for form in (
        value,
        value.encode().hex(),
        base64.b64encode(value.encode()).decode(),
    ):
        least = max(12, len(form) // 2)
        for start in range(len(form) - least + 1):
            text = f"'{form[start : start + least]}'"
            if Redactor().redact(text) != text:
                assert not suspicion.looks_clean((text,))
    assert suspicion.looks_clean(("assert 3 == 4",))


def test_a_value_that_was_changed_before_the_first_sign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who looks closely learns what the environment held before."""
    secrets = Secrets()
    monkeypatch.setenv("APP_PASSWORD", "s3same-0pen")
    assert secrets.holds_none(["assert 1 == 2"])
    monkeypatch.delenv("APP_PASSWORD")
    assert "s3same" not in secrets.redact("assert 's3same-0pen' == 1")
    assert not secrets.holds_none(["assert 's3same-0pen' == 1"])


def test_plain_texts_load_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose failures show no sign of a secret never loads what knows them."""
    monkeypatch.setattr(Secrets, "_load", None)
    assert Secrets().holds_none(PLAIN_TEXTS)
    assert [Secrets().redact(text) for text in PLAIN_TEXTS] == PLAIN_TEXTS


@pytest.mark.parametrize("place", range(3))
def test_a_pattern_of_the_user_sees_each_text_by_itself(place: int) -> None:
    """With a user's pattern each text is looked at by itself: it may ask for a text's start."""
    secrets = Secrets(["^plain"])
    texts = ["assert", "assert", "assert"]
    texts[place] = "plain words"
    assert not secrets.holds_none(texts)
    assert not survives("plain", secrets.redact(texts[place]), length=5)


def test_a_variable_that_is_declared_secret_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its value goes from then on, whatever its name, also from what has seen it before."""
    declared: set[str] = set()
    for module in ("names", "signs"):
        monkeypatch.setattr(
            f"pytest_failure_taxonomy.redaction.{module}.DECLARED", declared
        )
    monkeypatch.setenv("JUDGE", "tulip-9481-orchard")
    redactor, secrets = Redactor(), Secrets()
    text = "it said tulip-9481-orchard"
    assert redactor.redact(text) == secrets.redact(text) == text
    declare_secret_variables(["JUDGE"])
    assert (
        redactor.redact(text) == secrets.redact(text) == "it said [REDACTED:env:JUDGE]"
    )

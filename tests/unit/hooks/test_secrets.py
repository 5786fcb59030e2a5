"""Texts are searched for secrets once, and again when more is known to be secret."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_failure_taxonomy.redaction.redactor import Redactor
from pytest_failure_taxonomy.redaction.secrets import Secrets, redact_value
from pytest_failure_taxonomy.redaction.signs import Suspicion
from pytest_failure_taxonomy.report.build import Limits
from pytest_failure_taxonomy.taxonomy.evidence import (
    Fact,
    LinkedException,
    RaisedException,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.values import replace
from tests.helpers.reports import make_context, make_report_value, make_run
from tests.unit.redaction.samples import random_part

VALUE = random_part("A-Za-z0-9", 24, "searched once")
LOOKS_CLOSER = "assert [1, 2, ...] == []"
"""A sign that a secret was cut: it is looked at by what knows them all."""


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of all texts that are searched from now on."""
    texts: list[str] = []

    def note_signs(self: Suspicion, given: Sequence[str]) -> bool:
        texts.extend(given)
        return looks_clean(self, given)

    def note_search(self: Redactor, given: Sequence[str]) -> bool:
        texts.extend(given)
        return holds_none(self, given)

    looks_clean, holds_none = Suspicion.looks_clean, Redactor.holds_none
    monkeypatch.setattr(Suspicion, "looks_clean", note_signs)
    monkeypatch.setattr(Redactor, "holds_none", note_search)
    return texts


@pytest.mark.parametrize("first", ["", LOOKS_CLOSER])
def test_a_text_of_a_failure_is_searched_once(searched: list[str], first: str) -> None:
    """When it is recorded, and not when the report is built, whatever is loaded by then."""
    secrets = Secrets()
    secrets.redact(first)
    raised = RaisedException(
        type="ValueError", module="builtins", message="no such cart"
    )
    failure = TestFailure(
        nodeid="test_it.py::test_it",
        phase="call",
        message="ValueError: no such cart",
        traceback="def test_it():\n>   raise ValueError()\nE   ValueError: no such cart",
        exception=raised,
    )
    searched.clear()
    assert redact_value(failure, secrets) is failure
    texts = [failure.traceback, failure.message, raised.message]
    assert {*texts} <= {*searched}
    assert len({*searched}) == len(searched)
    secrets.redact(LOOKS_CLOSER)
    searched.clear()
    report = make_report_value(make_run(), context=make_context(args=tuple(texts)))
    searched.clear()
    assert Limits(secrets).fit(report) == report
    assert not {*texts} & {*searched}
    named = replace(report, notes=("another text",))
    assert Limits(secrets).fit(named) == named
    assert "another text" in searched


def test_secrets_in_what_an_exception_holds() -> None:
    """They are taken out of facts, and out of the exceptions that it was raised from."""
    url = Fact(name="url", text=f"https://bob:{VALUE}@db.test/carts")
    inner = LinkedException(
        bases=("builtins.OSError",),
        message=f"refused {VALUE}",
        is_cause=True,
        facts=(url, url),
    )
    raised = RaisedException(
        type="OSError", module="builtins", message="no", facts=(url,), chain=(inner,)
    )
    found = redact_value(raised, Secrets())
    assert VALUE not in repr(found)
    assert found.facts[0].text == "https://bob:[REDACTED:url-password]@db.test/carts"
    assert found.chain[0].facts == (found.facts[0], found.facts[0])
    plain = replace(raised, facts=(), chain=())
    assert redact_value(plain, Secrets()) is plain


def test_a_redacted_text_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it is known to hold no secret."""
    secrets = Secrets()
    shown = secrets.redact(f"connect(password='{VALUE}')")
    assert shown == "connect(password='[REDACTED:password]')"
    monkeypatch.setattr(Redactor, "redact", None)
    assert secrets.redact(shown) == shown
    assert secrets.holds_none([shown])


def test_a_text_is_searched_again_when_a_value_was_learnt() -> None:
    """What a later text gives away may stand in an earlier one."""
    secrets = Secrets()
    assert secrets.redact(f"it was {VALUE}") == f"it was {VALUE}"
    secrets.redact(f"connect(password='{VALUE}')")
    assert not secrets.holds_none([f"it was {VALUE}"])
    assert secrets.redact(f"it was {VALUE}") == "it was [REDACTED:password]"


@pytest.mark.parametrize("first", ["", LOOKS_CLOSER])
def test_a_text_is_searched_again_when_the_environment_has_changed(
    monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A value that a variable gets later is one from then on."""
    secrets = Secrets()
    secrets.redact(first)
    assert secrets.holds_none([f"it was {VALUE}"])
    monkeypatch.setenv("LATE_TOKEN", VALUE)
    assert secrets.redact(f"it was {VALUE}") == "it was [REDACTED:env:LATE_TOKEN]"


def test_a_text_is_searched_again_when_another_process_has_told_its_secrets() -> None:
    """What a worker's environment holds may stand in the texts of others."""
    secrets = Secrets()
    assert secrets.holds_none([f"it was {VALUE}"])
    secrets.learn({"WORKERS_TOKEN": VALUE})
    assert secrets.redact(f"it was {VALUE}") == "it was [REDACTED:env:WORKERS_TOKEN]"
    other = VALUE[::-1]
    secrets.redact(f"connect(password='{other}')")
    secrets.learn({"ANOTHER_TOKEN": f"{VALUE}x"})
    assert secrets.redact(f"it was {other}") == "it was [REDACTED:password]"
    assert secrets.redact(f"it was {VALUE}x") == "it was [REDACTED:env:ANOTHER_TOKEN]"


def test_with_patterns_of_the_users_a_text_is_searched_once() -> None:
    """Each text has been looked at by itself; then it is known, too."""
    secrets = Secrets(["^plain"])
    assert not secrets.holds_none(["a plain text"])
    assert secrets.redact("a plain text") == "a plain text"
    assert secrets.holds_none(["a plain text"])
    assert secrets.redact("plain text") == "[REDACTED:pattern-1] text"


def test_so_many_texts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of very many failures takes no more memory for it."""
    monkeypatch.setattr("pytest_failure_taxonomy.redaction.secrets._MOST_REMEMBERED", 2)
    secrets = Secrets()
    assert all(secrets.holds_none([f"text {number}"]) for number in range(5))
    assert len(secrets._without_secrets) == 2

"""The redactor: it counts, never raises, and doing it twice changes nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.redaction import redactor as redactor_module
from pytest_failure_taxonomy.redaction.redactor import Redactor, check_patterns
from tests.unit.redaction.samples import random_part

TOKEN: Final = "gh" + "p_" + random_part("A-Za-z0-9", 36, "token")
ENVIRONMENT: Final = {"API_KEY": "a1B2c3D4e5", "DB_URL": "pg://me:pa55wordXY@db/x"}
PIECES: Final = st.sampled_from(
    (
        *(
            TOKEN,
            TOKEN[:14],
            "eyJ" + "a" * 40,
            "a1B2c3D4e5",
            "a1B2c3",
            "D4e5",
            "hunter2",
        ),
        *(
            "...",
            "…",
            "... [truncated: 9 characters] ...",
            "[REDACTED:",
            "[REDACTED:env:API_KEY]",
        ),
        *(
            "password",
            "Bearer ",
            "--token ",
            "Authorization",
            "key",
            "Cookie: a=b",
            "://me:",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "\u0130",
            "\ud800",
            "@db",
        ),
        *("=", ": ", "'", '"', "\\", "\n", "\\n", " ", "x", "1", ",", "b", "]"),
    )
)
ENDLESS: Final = r"(?:x|x|x)+y"
HARMLESS: Final = st.text(alphabet="xyzXYZ 09.,:=/-_'\"()[]{}\n\t", max_size=300)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_redacting_twice_changes_and_counts_nothing_more(text: str) -> None:
    """What was redacted stays as it is, whatever the secrets touch."""
    redactor = Redactor(environment=ENVIRONMENT)
    once = redactor.redact(text)
    counts = dict(redactor.counts)
    assert redactor.redact(once) == once
    assert redactor.counts == counts
    assert "unsearchable" not in counts


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=400))
def test_any_text_can_be_redacted(text: str) -> None:
    """No text breaks a search, lone surrogates and control characters included."""
    redactor = Redactor(environment=ENVIRONMENT)
    redactor.redact(text)
    assert "unsearchable" not in redactor.counts


@settings(deadline=None)
@given(HARMLESS)
def test_a_text_without_a_secret_stays(text: str) -> None:
    """Signs and letters that make no word of a secret are left alone."""
    assert Redactor(environment={}).redact(text) == text


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"\x1b[31m{TOKEN}\x1b[0m", "[REDACTED:github-token]"),
        (f"{TOKEN[:9]}\x1b[1;31m{TOKEN[9:]}", "[REDACTED:github-token]"),
        (f"print('\\x1b[31m{TOKEN}')", "print('[REDACTED:github-token]')"),
        (
            "\x1b[32mpassword\x1b[0m: \x1b[31mhunterX29xx\x1b[0m",
            "password: [REDACTED:password]",
        ),
        ("\x1b[31mno secret\x1b[0m", "\x1b[31mno secret\x1b[0m"),
    ],
)
def test_colours_hide_no_secret(text: str, redacted: str) -> None:
    """The codes go where one hid something, and stay elsewhere."""
    assert Redactor(environment={}).redact(text) == redacted
    assert Redactor(environment={}).redact_json([text]) == [redacted]


def test_what_breaks_takes_the_text_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a search lets nothing out."""
    redactor = Redactor(environment={})

    def broken(*_: object) -> str:
        raise RuntimeError

    monkeypatch.setattr(redactor._variables, "take_changed", broken)
    assert redactor.redact("anything") == "[REDACTED:unsearchable]"


@pytest.mark.parametrize(
    ("value", "redacted"),
    [
        ({"password": "x", "n": 1}, {"password": "[REDACTED:field]", "n": 1}),
        (
            {"a": [{"client_secret": 12345}]},
            {"a": [{"client_secret": "[REDACTED:field]"}]},
        ),
        ({"token": None, "auth": True}, {"token": None, "auth": True}),
        ({"password": ""}, {"password": ""}),
        ({"max_tokens": "12", "key": "a"}, {"max_tokens": "12", "key": "a"}),
        (
            {TOKEN: [TOKEN, 1.5]},
            {"[REDACTED:github-token]": ["[REDACTED:github-token]", 1.5]},
        ),
        ({"token": {"a": TOKEN}}, {"token": {"a": "[REDACTED:github-token]"}}),
        ("x", "x"),
        (None, None),
    ],
)
def test_json_values(value: Any, redacted: Any) -> None:
    """Texts and keys are redacted wherever they are; a key that says so takes its value along."""
    redactor = Redactor(environment={})
    assert redactor.redact_json(value) == redacted
    assert redactor.redact_json(redacted) == redacted


JSON_TEXTS = st.sampled_from(
    [
        "",
        "ab",
        "password",
        "token=",
        "hunter22x",
        TOKEN,
        TOKEN[:9],
        TOKEN[9:],
        "-----BEGIN",
        "...",
    ]
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | JSON_TEXTS,
    lambda values: (
        st.lists(values, max_size=4) | st.dictionaries(JSON_TEXTS, values, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(JSON_VALUES, max_size=3))
def test_texts_that_are_searched_together_come_to_the_same(values: list[Any]) -> None:
    """A text beside others loses what it loses by itself, and what is learnt is the same."""
    together, apart = (
        Redactor(environment=ENVIRONMENT),
        Redactor(environment=ENVIRONMENT),
    )
    for value in values:
        assert together.redact_json(value) == apart._redact_each(value)
    for redactor in (together, apart):
        redactor.see_environment()
    assert (together.counts, together.known) == (apart.counts, apart.known)


def test_a_search_of_all_texts_that_breaks_lets_nothing_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then each text is searched by itself."""
    redactor = Redactor(environment={})

    def broken(_: object) -> bool:
        raise RuntimeError

    monkeypatch.setattr(redactor, "holds_none", broken)
    assert redactor.redact_json([TOKEN, "x"]) == ["[REDACTED:github-token]", "x"]


@pytest.mark.parametrize(
    ("pattern", "text", "shown"),
    [
        ("acme-[0-9]+", "an acme-123!", "an [REDACTED:pattern-1]!"),
        (
            "ref=([0-9]+)",
            "ref=12 ref=3",
            "ref=[REDACTED:pattern-1] ref=[REDACTED:pattern-1]",
        ),
        ("(?P<secret>[0-9]+)-x", "12-x 34", "[REDACTED:pattern-1]-x 34"),
        ("(a)|bc", "bc a", "[REDACTED:pattern-1] [REDACTED:pattern-1]"),
        ("RED", "x [REDACTED:token] RED", "x [REDACTED:token] [REDACTED:pattern-1]"),
        (
            "pin ([0-9]+)|[0-9]{4}-x",
            "pin 12 1234-x",
            "pin [REDACTED:pattern-1] [REDACTED:pattern-1]",
        ),
        ("x*7", "x" * 30_000 + "7!", "[REDACTED:pattern-1]!"),
    ],
)
def test_patterns_of_the_user(pattern: str, text: str, shown: str) -> None:
    """A group limits what goes, and what was removed for another cause stays its own."""
    assert Redactor([pattern], environment={}).redact(text) == shown


def test_a_pattern_with_several_repeats_destroys_nothing() -> None:
    """A pattern that could go back far is searched all the same: its time is what counts."""
    pattern = r"user=\S+ host=\S+ id=\S+"
    long = "a long line of a message, " * 200
    shown = Redactor([pattern], environment={}).redact(
        f"{long}user=me host=db id=7 {long}"
    )
    assert shown == f"{long}[REDACTED:pattern-1] {long}"


def test_a_pattern_whose_time_is_up_takes_the_rest_of_the_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it has matched before goes, what it was not searched in goes as a whole, and is told."""
    monkeypatch.setattr(redactor_module, "SECONDS_PER_TEXT", 0.05)
    redactor = Redactor([ENDLESS], environment={})
    assert redactor.redact("x" * 60 + "!") == "[REDACTED: pattern 1 took too long]"
    assert (
        redactor.redact("of another text: xy")
        == "of another text: [REDACTED:pattern-1]"
    )
    assert redactor.counts == {"pattern-1": 2}


def test_a_pattern_has_so_much_time_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is used up, no text is shown that the pattern was not searched in."""
    monkeypatch.setattr(redactor_module, "SECONDS_PER_TEXT", 0.05)
    monkeypatch.setattr(redactor_module, "SECONDS_PER_RUN", 0.08)
    redactor = Redactor([ENDLESS], environment={})
    shown = {redactor.redact(f"{'x' * 60}! {number}") for number in range(4)}
    assert shown == {"[REDACTED: pattern 1 took too long]"}
    assert redactor.redact("short") == "[REDACTED: pattern 1 took too long]"


def test_problems_of_patterns_are_told_all() -> None:
    """Each pattern that can't be used is a sentence; good ones are none."""
    assert check_patterns(["ok[0-9]+", "(", "a*"]) == [
        (
            "'(': is no regular expression: missing ), unterminated subpattern at position 0; "
            "special characters need a backslash"
        ),
        "'a*': matches the empty text; it must name at least one character to remove",
    ]


def test_the_searches_are_loaded_with_the_first_sign_of_a_secret() -> None:
    """A run whose texts show no sign loads neither the expressions nor the user's library."""
    code = (
        "import sys; from pytest_failure_taxonomy.redaction.secrets import Secrets;"
        "s = Secrets(); s.redact('assert 1 == 2'); s.redact_arguments(['-q', 'tests']);"
        "print(sorted(name.rpartition('.')[2] for name in sys.modules if '.redaction.' in name));"
        "s.redact('token=a1b2c3d4'); print('regex' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["['names', 'secrets', 'signs']", "False"]


@pytest.mark.parametrize(
    "text",
    [
        "login failed, DB_PASSWORD=deploy-202611221500 for host db9",
        "password='abc-123456789012'",
        "postgres://u:pw-123456789012@h/db",
        "token=deploy-20261122150000",
    ],
)
def test_a_value_with_a_run_of_digits(text: str) -> None:
    """Only the value goes, and the words beside it stay."""
    redacted = Redactor().redact(text)
    assert "[REDACTED:" in redacted
    assert not re.search("[0-9]{12}", redacted)
    assert redacted.startswith(re.split("[='@]|u:", text)[0])

"""Arguments of a command: the value of an option that says secret is one of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from pytest_failure_taxonomy.redaction.arguments import redact_arguments

VALUE: Final = "correct horse"


@pytest.mark.parametrize(
    ("option", "mark"),
    [
        ("--api-token", "token"),
        ("--password", "password"),
        ("--db_password", "password"),
        ("--dbPassword", "password"),
        ("--token", "token"),
        ("--accessToken", "token"),
        ("--api-key", "api-key"),
        ("--apikey", "api-key"),
        ("--api_key", "api-key"),
        ("--client-secret", "secret"),
        ("--secret", "secret"),
        ("--private-key", "api-key"),
        ("--auth", "auth"),
        ("--proxy-auth", "auth"),
        ("--pwd", "pwd"),
        ("--credentials", "credentials"),
        ("--passphrase", "passphrase"),
        ("-password", "password"),
        ("-api-token", "token"),
    ],
)
def test_the_value_behind_an_option_goes(option: str, mark: str) -> None:
    """Whatever the value is, a word too; the option says what it was."""
    given = ["tests", option, VALUE, "-q"]
    assert redact_arguments(given, str) == ("tests", option, f"[REDACTED:{mark}]", "-q")


@pytest.mark.parametrize(
    "given",
    [
        ["-p", VALUE, "-k", "token", "tests", "-m", "auth", "tests"],
        ["-ktoken", "tests"],
        ["-mauth", "tests"],
        ["--token", "-q"],
        ["--token", "--password", "-v"],
        ["--token"],
        ["--token", ""],
        ["--password=", "tests"],
        ["--max-tokens", "12"],
        ["--no-auth", "tests"],
        ["--author", "me"],
        ["--bypass", "x"],
        ["--keyboard", "x", "--monkey", "y", "--sort-key", "name"],
        ["--token-file", "x"],
        ["token", VALUE],
        [],
    ],
)
def test_other_arguments_stay(given: list[str]) -> None:
    """An option is no value, and what only begins like a secret's name takes none."""
    assert redact_arguments(given, str) == tuple(given)


def test_a_mark_that_says_more_stays() -> None:
    """A value that is known by its form or from the environment keeps that mark."""
    shown = redact_arguments(["--token", "x"], lambda text: text.replace("x", "[REDACTED:env:T]"))
    assert shown == ("--token", "[REDACTED:env:T]")


def test_each_argument_is_searched() -> None:
    """What stands in an argument goes as in any text."""
    assert redact_arguments(["a-x", "x"], lambda text: text.replace("x", "?")) == ("a-?", "?")


def test_nothing_heavy_is_loaded() -> None:
    """Every run has arguments, and few have a secret: no search is loaded for them."""
    code = (
        "import sys; from pytest_failure_taxonomy.redaction import redact_arguments as redact;"
        "redact(['-q', 'tests', '--token', 'x'], str);"
        "print(sorted(name for name in sys.modules if '.redaction.' in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['pytest_failure_taxonomy.redaction.arguments']"

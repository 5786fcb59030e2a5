"""Arguments of a command: the value of an option that says secret is one of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from pytest_failure_taxonomy.redaction.names import (
    find_secret_arguments,
    redact_arguments,
)

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
        ("--auth-key", "api-key"),
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


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            ["curl", "-u", f"me:{VALUE}", "x"],
            ["curl", "-u", "me:[REDACTED:password]", "x"],
        ),
        (
            ["/usr/bin/curl", f"-ume:{VALUE}"],
            ["/usr/bin/curl", "-ume:[REDACTED:password]"],
        ),
        (["curl", f"--user=me:{VALUE}"], ["curl", "--user=me:[REDACTED:password]"]),
        (
            ["mysql", "-u", "me", f"-p{VALUE}"],
            ["mysql", "-u", "me", "-p[REDACTED:password]"],
        ),
        (
            ["sshpass", "-p", VALUE, "ssh"],
            ["sshpass", "-p", "[REDACTED:password]", "ssh"],
        ),
        (
            ["docker", "login", "-u", "me", "-p", VALUE, "x"],
            ["docker", "login", "-u", "me", "-p", "[REDACTED:password]", "x"],
        ),
        (
            ["env", "redis-cli", "-a", VALUE],
            ["env", "redis-cli", "-a", "[REDACTED:password]"],
        ),
    ],
)
def test_options_of_well_known_programs(given: list[str], shown: list[str]) -> None:
    """What their short options take is known by the program, wherever it stands."""
    assert redact_arguments(given, str) == tuple(shown)
    assert list(find_secret_arguments(given)) == [("password", VALUE)]


@pytest.mark.parametrize(
    "given",
    [
        ["pytest", "-p", "xdist", "-u", "a:b"],
        ["docker", "run", "-p", "8080:80", "x"],
        ["mysql", "-p", "app"],
        ["curl", "-u", "me", "x"],
        ["curl", "-u"],
    ],
)
def test_the_same_options_of_other_programs_stay(given: list[str]) -> None:
    """`-p` is a port, a plugin or a prompt elsewhere."""
    assert redact_arguments(given, str) == tuple(given)


def test_a_mark_that_says_more_stays() -> None:
    """A value that is known by its form or from the environment keeps that mark."""
    shown = redact_arguments(
        ["--token", "x"], lambda text: text.replace("x", "[REDACTED:env:T]")
    )
    assert shown == ("--token", "[REDACTED:env:T]")


def test_each_argument_is_searched() -> None:
    """What stands in an argument goes as in any text."""
    assert redact_arguments(["a-x", "x"], lambda text: text.replace("x", "?")) == (
        "a-?",
        "?",
    )


def test_nothing_heavy_is_loaded() -> None:
    """Every run has arguments, and few have a secret: no search is loaded for them."""
    code = (
        "import sys; from pytest_failure_taxonomy.redaction import names;"
        "names.redact_arguments(['-q', 'tests', '--token', 'x'], str);"
        "print(sorted(name for name in sys.modules if '.redaction.' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["['pytest_failure_taxonomy.redaction.names']"]

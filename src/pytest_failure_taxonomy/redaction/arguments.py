"""The arguments of a command: a secret may be one of its own, behind its option.

This is loaded with every run: it compiles no expression and needs none of the searches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pytest_failure_taxonomy.redaction import MARK_START

_NAMES: Final = {
    "password": "password",
    "passwd": "passwd",
    "passphrase": "passphrase",
    "secret": "secret",
    "token": "token",
    "credential": "credential",
    "credentials": "credentials",
    "apikey": "api-key",
    "api-key": "api-key",
    "access-key": "api-key",
    "account-key": "api-key",
    "encryption-key": "api-key",
    "private-key": "api-key",
    "secret-key": "api-key",
    "shared-key": "api-key",
    "signing-key": "api-key",
}
"""What the names of options end with whose value is secret, and the id in its mark."""
_WHOLE_NAMES: Final = _NAMES | {"pass": "pass", "pwd": "pwd", "auth": "auth"}
"""The ends of others' names, too (`--bypass`): these follow a dash, or nothing."""


def redact_arguments(args: Sequence[str], redact: Callable[[str], str]) -> tuple[str, ...]:
    """Return a command's arguments without their secrets.

    Args:
        args: the arguments, one by one.
        redact: takes the secrets out of one text.

    Returns:
        As many arguments. Behind an option such as `--api-token` the next one is its value and goes
        as a whole, unless it begins with a dash.
    """
    shown = []
    option = ""
    for arg in args:
        text = redact(arg)
        name = _secret_of(option)
        if name and arg and not arg.startswith("-") and not text.startswith(MARK_START):
            text = f"{MARK_START}{name}]"
        shown.append(text)
        option = arg
    return tuple(shown)


def _secret_of(option: str) -> str:
    """Return the id of the secret that follows an option; the empty text for none."""
    if not option.startswith("-") or option.startswith("--no-"):
        return ""
    name = option.lstrip("-").lower().replace("_", "-")
    for end, secret in _WHOLE_NAMES.items():
        if name == end or name.endswith(f"-{end}"):
            return secret
    if option.startswith("--"):  # `-ktoken` is a value of `-k`
        return next((secret for end, secret in _NAMES.items() if name.endswith(end)), "")
    return ""

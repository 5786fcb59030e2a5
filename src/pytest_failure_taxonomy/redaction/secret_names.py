"""Which names say that the value beside them is secret.

Names stand before values as options (`--api-token`), keys (`"client_secret"`, `<password>`) and
environment variables (`DB_PASSWORD`). Every run loads this module, so it compiles an expression
only when it is first needed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from typing import Final

KINDS_OF_KEYS: Final = (
    *("api", "access", "secret", "private", "signing", "encryption", "account", "auth", "shared"),
)
"""What stands before `key` in the name of a secret: `api_key`, `signing-key`."""
_WORDS: Final = (
    *("password", "passwd", "passphrase", "secret", "token", "credential", "credentials"),
)
"""With one of these the name of a secret may end, whatever stands before it."""
_WHOLE_WORDS: Final = ("pass", "pwd", "auth")
"""These also end the names of other things, such as `--bypass`, unless a sign is before them."""
_LONGEST_NAME: Final = 100

_OPTION_ENDS: Final = (
    *_WORDS,
    "apikey",
    *(f"{kind}-key" for kind in KINDS_OF_KEYS),
)

_PARTS_OF_VARIABLES: Final = ("PASS", "PWD", "TOKEN", "SECRET", "KEY", "AUTH", "CRED")
_FOLDERS: Final = frozenset({"PWD", "OLDPWD"})

_DECLARED: Final[set[str]] = set()
"""The shell's variables for the current folder and the one before."""


def mark_id(name: str) -> str:
    """Return what the mark of a secret says that stood beside such a name."""
    name = name.lower().rstrip("2").removeprefix("set-")  # there is a header Cookie2
    return "api-key" if name.endswith("key") else name


def option_id(option: str) -> str:
    """Return the id of the secret that follows an option; the empty text if there is none."""
    if not option.startswith("-") or option.startswith("--no-"):
        return ""
    name = option.lstrip("-").lower().replace("_", "-")
    for end in (*_OPTION_ENDS, *_WHOLE_WORDS):
        if name == end or name.endswith(f"-{end}"):
            return mark_id(end)
    if option.startswith("--"):  # `-ktoken` is a value of `-k`
        return next((mark_id(end) for end in _OPTION_ENDS if name.endswith(end)), "")
    return ""


def find_secret_key(name: str) -> str:
    """Return the end of a key's name that says secret; the empty text if none does."""
    found = _expression_of_keys().search(name[-_LONGEST_NAME:])
    return found["name"] if found else ""


def declare_secret_variables(names: Iterable[str]) -> None:
    """Take the values of these environment variables for secrets from now on, in this process."""
    _DECLARED.update(names)


def declared_variables() -> Collection[str]:
    """Return the names of the environment variables that were declared to be secret."""
    return _DECLARED


def is_secret_variable(name: str) -> bool:
    """Return whether an environment variable of that name holds a secret.

    `TOKEN_FILE` and the like only say where the secret is.
    """
    if name in _DECLARED:
        return True
    secret, pointing = _expressions_of_variables()
    return secret.search(name) is not None and pointing.search(name) is None


def may_be_secret_variable(name: str) -> bool:
    """Return whether `is_secret_variable` may be true, without an expression."""
    if name in _DECLARED:
        return True
    return name not in _FOLDERS and any(part in name.upper() for part in _PARTS_OF_VARIABLES)


@cache
def _expression_of_keys() -> re.Pattern[str]:
    return re.compile(
        r"(?P<name>pass(?:word|wd|phrase)|(?<![a-z0-9])(?:pass|pwd|auth)|secret|token|credentials?"
        rf"|(?:{'|'.join(KINDS_OF_KEYS)})[_-]?key"
        r"|(?:proxy-)?authorization|(?:set-)?cookie)\d?$",
        re.IGNORECASE | re.ASCII,
    )


@cache
def _expressions_of_variables() -> tuple[re.Pattern[str], re.Pattern[str]]:
    secret = re.compile(
        r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY)\d?(?![A-Z0-9])"
        r"|(?:^|_)(?:PASS|PWD|AUTH|CREDENTIALS?"
        rf"|(?:{'|'.join(KINDS_OF_KEYS)}|DEPLOY|SSH)_?KEY)(?![A-Z])",
        re.IGNORECASE,
    )
    pointing = re.compile(
        r"^(?:OLD)?PWD$|_(?:FILE|PATH|DIR|SOCK|SOCKET|URL|URI|ENDPOINT|HOST|PORT|USER|USERNAME"
        r"|NAME|TYPE|METHOD|MODE|TTL|TIMEOUT|EXPIRES|EXPIRY|EXPIRATION|LENGTH|ENABLED|REQUIRED"
        r"|ISSUER|AUDIENCE|ALGORITHM|SCOPES?)$",
        re.IGNORECASE,
    )
    return secret, pointing

"""The arguments of a command: a secret may be one of its own, behind its option.

This is loaded with every run: it compiles no expression and needs none of the searches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


_PAIR: Final = "pair"
"""The value is `user:password`, in the next argument or behind the option's letter."""
_NEXT: Final = "next"
"""The next argument, or what is behind the option's letter, is the password."""
_TOUCHING: Final = "touching"
"""The password stands behind the option's letter alone."""

_OF_CURL: Final = {"-u": _PAIR, "--user": _PAIR, "-U": _PAIR, "--proxy-user": _PAIR}
_OF_MYSQL: Final = {"-p": _TOUCHING}
_OF_LOGIN: Final = {"login -p": _NEXT}
PROGRAMS: Final[Mapping[str, Mapping[str, str]]] = {
    "curl": _OF_CURL,
    "curlie": _OF_CURL,
    "sshpass": {"-p": _NEXT},
    "mysql": _OF_MYSQL,
    "mysqldump": _OF_MYSQL,
    "mysqladmin": _OF_MYSQL,
    "mysqlimport": _OF_MYSQL,
    "mysqlcheck": _OF_MYSQL,
    "mysqlshow": _OF_MYSQL,
    "mariadb": _OF_MYSQL,
    "mariadb-dump": _OF_MYSQL,
    "mariadb-admin": _OF_MYSQL,
    "docker": _OF_LOGIN,
    "podman": _OF_LOGIN,
    "buildah": _OF_LOGIN,
    "nerdctl": _OF_LOGIN,
    "helm": _OF_LOGIN,
    "skopeo": _OF_LOGIN,
    "redis-cli": {"-a": _NEXT},
    "mongo": {"-p": _NEXT},
    "mongosh": {"-p": _NEXT},
    "mongodump": {"-p": _NEXT},
    "mongorestore": {"-p": _NEXT},
    "sqlcmd": {"-P": _NEXT},
    "bcp": {"-P": _NEXT},
    "ldapsearch": {"-w": _NEXT},
    "ldapmodify": {"-w": _NEXT},
    "ldapadd": {"-w": _NEXT},
    "keytool": {"-storepass": _NEXT, "-keypass": _NEXT},
    "zip": {"-P": _NEXT},
    "unzip": {"-P": _NEXT},
    "7z": {"-p": _TOUCHING},
    "mosquitto_pub": {"-P": _NEXT},
    "mosquitto_sub": {"-P": _NEXT},
    "ipmitool": {"-P": _NEXT},
    "cqlsh": {"-p": _NEXT},
}
"""Options whose name alone does not say that their value is secret, by the program that has them.

Names without an end such as `.exe` or a version; a word before an option is a command of it."""


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
    known = _values_of_programs(args)
    for index, arg in enumerate(args):
        text = redact(arg)
        name = _secret_of(option)
        if index in known:
            start, secret = known[index]
            text = f"{redact(arg[:start])}{MARK_START}{secret}]"
        elif name and arg and not arg.startswith("-") and not text.startswith(MARK_START):
            text = f"{MARK_START}{name}]"
        shown.append(text)
        option = arg
    return tuple(shown)


def secret_arguments(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the ids and values of what `redact_arguments` removes for the sake of its place."""
    known = _values_of_programs(args)
    for index, arg in enumerate(args):
        name = _secret_of(args[index - 1]) if index else ""
        if index in known:
            start, secret = known[index]
            yield secret, arg[start:]
        elif name and not arg.startswith("-"):
            yield name, arg


def secrets_behind(program: str, args: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield where the secrets of a program's arguments stand.

    Args:
        program: one of `PROGRAMS`.
        args: what follows it.

    Yields:
        The index of an argument, where in it the secret begins, and the secret's id. It ends with
        the argument.
    """
    commands = set()
    expected = ""
    for index, arg in enumerate(args):
        if expected:
            yield from _in_value(index, arg, 0, expected)
            expected = ""
            continue
        if not arg.startswith("-"):
            commands.add(arg)
            continue
        for option, kind in PROGRAMS[program].items():
            before, _, option_name = option.rpartition(" ")
            if before and before not in commands:
                continue
            if arg == option_name:
                expected = "" if kind == _TOUCHING else kind
            elif option_name.startswith("--") and arg.startswith(f"{option_name}="):
                yield from _in_value(index, arg, len(option_name) + 1, kind)
            elif len(option_name) == 2 and arg.startswith(option_name):
                yield from _in_value(index, arg, len(option_name), kind)


def _in_value(index: int, arg: str, start: int, kind: str) -> Iterator[tuple[int, int, str]]:
    if kind == _PAIR:
        user, colon, password = arg[start:].partition(":")
        if colon and password:
            yield index, start + len(user) + 1, "password"
    elif arg[start:]:
        yield index, start, "password"


def _values_of_programs(args: Sequence[str]) -> dict[int, tuple[int, str]]:
    found = {}
    for at, arg in enumerate(args):
        program = arg.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
        if program in PROGRAMS:
            for index, start, secret in secrets_behind(program, args[at + 1 :]):
                found[at + 1 + index] = start, secret
    return found


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

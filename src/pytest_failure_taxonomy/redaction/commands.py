"""Secrets in the arguments of commands, as a list and on a line: `curl -u me:…`, `mysql -p…`.

Every run loads this module for its own arguments, so expressions are compiled with the first text
that may hold a command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.redaction import MARK_START
from pytest_failure_taxonomy.redaction.secret_names import option_id

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction.marks import Note

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
SOME_IN_ALL: Final = tuple(
    name for name in PROGRAMS if not any(each in name for each in PROGRAMS if each != name)
)
"""Names of programs; each name of a program has one of these in it."""
_LETTERS_OF_OPTIONS: Final = frozenset(
    {option.rpartition(" ")[2][1] for options in PROGRAMS.values() for option in options}
)
"""What follows the dash of one of the options."""
_BEFORE_OPTIONS: Final = frozenset(" '\",\t\n")
_LONGEST: Final = 2_000
"""Characters of a command behind its program's name."""
_STANDS_FOR_ONE: Final = frozenset(("pass", "password", "passwd", "pwd", "secret", "token"))
_QUOTES: Final = "\"'"


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
        name = option_id(option)
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
        name = option_id(args[index - 1]) if index else ""
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


def may_hold_command(text: str) -> bool:
    """Return whether the text may hold a command line with one of `PROGRAMS` and its options."""
    at = text.find("-")
    while at >= 0:
        if text[at + 1 : at + 2] in _LETTERS_OF_OPTIONS and text[at - 1 : at] in _BEFORE_OPTIONS:
            return any(name in text for name in SOME_IN_ALL)
        at = text.find("-", at + 1)
    return False


def remove_from_commands(text: str, note: Note) -> str:
    """Return the text without the secrets on the command lines in it."""
    program_name, end_of_command, word_of_command = _expressions()
    parts = []
    done = 0
    for program in program_name.finditer(text):
        if program.start() < done:
            continue
        limit = min(len(text), program.end() + _LONGEST)
        end = end_of_command.search(text, program.end(), limit)
        # Of `['curl', '-u', …]` the first quote closes the program's name.
        start = program.end() + (text[program.end()] in _QUOTES)
        words = list(word_of_command.finditer(text, start, end.start() if end else limit))
        shown = [word.group().strip(_QUOTES) for word in words]
        name = program.group().removesuffix(".exe")
        for index, first, secret in secrets_behind(name, shown):
            value = shown[index][first:]
            if _is_none(value):
                continue
            begin = text.index(shown[index], words[index].start()) + first
            parts += [text[done:begin], note(secret, value)]
            done = begin + len(value)
    return "".join([*parts, text[done:]]) if parts else text


def _is_none(value: str) -> bool:
    from pytest_failure_taxonomy.redaction.marks import MARK
    from pytest_failure_taxonomy.redaction.ordinary_values import is_placeholder

    return (
        value.lower() in _STANDS_FOR_ONE
        or value.startswith("$")
        or is_placeholder(value)
        or MARK.search(value) is not None
    )


@cache
def _expressions() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return what a program's name, the end of a command and a word of it look like."""
    names = "|".join(sorted(PROGRAMS, key=lambda each: (-len(each), each)))
    return (
        re.compile(rf"(?<![\w.-])(?:{names})(?:\.exe)?(?=[\s\"'])"),
        re.compile(r"[|;&]|\n(?<!\\\n)|\\n|$"),
        re.compile(
            r"(?:\[REDACTED:[^\]\n]{1,120}\]|[^\s\"',\[\]()]|(?<=\w),(?=\w))+"
            r"|\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'"
        ),
    )

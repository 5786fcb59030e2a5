"""Tell which names have a secret beside them: keys, variables, options and commands.

Names stand before values as options (`--api-token`), keys (`"client_secret"`,
`<password>`) and environment variables (`DB_PASSWORD`). Programs have options that
don't say so: `curl -u me:…`, `mysql -p…`. Every run loads this module for its own
arguments, so expressions are compiled when they are first needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.redaction import MARK_START, WORDS, grammar

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction.marks import Removal, Search

KINDS_OF_KEYS: Final = tuple(WORDS["kinds_of_keys"])
"""What stands before `key` in the name of a secret: `api_key`, `signing-key`."""
_WORDS: Final = tuple(WORDS["ends_of_names"])
"""With one of these the name of a secret may end, whatever stands before it."""
_WHOLE_WORDS: Final = (
    "pass",
    "pwd",
    "pw",
    "auth",
)
"""These also end the names of other things, such as `--bypass`, unless a sign is before
them."""
_LONGEST_NAME: Final = 100
_ENDS: Final[Mapping[str, Mapping[str, str]]] = WORDS["names_beside_values"]
"""The words in names of secrets beside a value, and how a name may go on behind one.

They are listed by a part that they share: it is seldom there, and then its words need
not be looked for."""
_BEHIND: Final = r"[0-9]?(?:\\{0,2}[\"']|[\])]?(?:[\s=,>&;!}]|:(?!:)|/>))"
"""What follows a name that has a value.

With it the value may begin, or it ends an element or an item of a tuple that has its
value elsewhere."""
_OF_A_KEY: Final = tuple(
    [kind + joint for kind in KINDS_OF_KEYS for joint in ("", "_", "-")]
)
_LONGEST_KIND: Final = 12

_OPTION_ENDS: Final = (
    *_WORDS,
    "apikey",
    *[f"{kind}-key" for kind in KINDS_OF_KEYS],
)

_PARTS_OF_VARIABLES: Final = WORDS["parts_of_variables"]
"""The name of a variable that holds a secret has one of these, in capitals and between
`_`."""
_FOLDERS: Final = frozenset({"PWD", "OLDPWD"})
"""The shell's variables for the current folder and the one before."""

DECLARED: Final[set[str]] = set()
"""The environment variables whose values were declared to be secret, in this
process."""


def mark_id(name: str) -> str:
    """Return the words in the mark of a secret beside such a name."""
    # There are headers Cookie2 and Set-Cookie.
    name = name.lower().rstrip("2").removeprefix("set-")
    if name.endswith("key"):
        return "api-key"
    return name


def option_id(option: str) -> str:
    """Return the id of the secret that an option takes; empty if it takes none."""
    if not option.startswith("-") or option.startswith("--no-"):
        return ""
    name = option.lstrip("-").lower().replace("_", "-")
    for end in (*_OPTION_ENDS, *_WHOLE_WORDS):
        if f"-{name}".endswith(f"-{end}"):
            return mark_id(end)
    if option.startswith("--"):  # `-ktoken` is a value of `-k`
        for end in _OPTION_ENDS:
            if name.endswith(end):
                return mark_id(end)
    return ""


def find_name_words(lower: str) -> list[str]:
    """Return the words of secrets' names that a text, in lower case, has.

    They are looked for as plain texts, and only where they are an expression is tried:
    that takes a tenth of the time.
    """
    words = []
    for part, ends in _ENDS.items():
        if part in lower:
            words += [word for word in ends if find_name(lower, word) >= 0]
    return words


def find_name(lower: str, word: str, start: int = 0) -> int:
    """Return where a word stands in a name that a value may follow; -1 if nowhere."""
    is_key = word == "key"
    while (place := lower.find(word, start)) >= 0:
        start = place + len(word)
        if is_key:
            kind_start = max(0, place - _LONGEST_KIND)
            if not lower.endswith(_OF_A_KEY, kind_start, place):
                continue
        if _compile_name(word).match(lower, place):
            return place
    return -1


def lower_case(text: str) -> str:
    """Return the text in lower case, and as long as it was."""
    # The dotted I of Turkish is the one letter whose small form is two characters.
    if not text.isascii():
        text = text.replace("\u0130", "i")
    return text.lower()


def find_secret_key(name: str) -> str:
    """Return the end of a key's name that says secret; the empty text if none does."""
    end = grammar("secret_key").search(name[-_LONGEST_NAME:])
    return end["name"] if end else ""


def declare_secret_variables(names: Iterable[str]) -> None:
    """Take the values of these environment variables for secrets, in this process."""
    DECLARED.update(names)


def is_secret_variable(name: str) -> bool:
    """Return whether an environment variable of that name holds a secret.

    `TOKEN_FILE` and the like only say where the secret is.
    """
    if name in DECLARED:
        return True
    if grammar("secret_variable").search(name) is None:
        return False
    return grammar("pointing_variable").search(name) is None


def may_be_secret_variable(name: str) -> bool:
    """Tell quickly whether a variable of that name may hold a secret."""
    if name in DECLARED:
        return True
    if name not in _FOLDERS:
        upper = f"_{name.upper().rstrip('0123456789')}_"
        for part in _PARTS_OF_VARIABLES:
            if part in upper:
                return True
    return False


@cache
def _compile_name(word: str) -> re.Pattern[str]:
    if word.endswith("="):
        return re.compile(word)
    (end,) = [ends[word] for ends in _ENDS.values() if word in ends]
    return re.compile(f"{word}{end}{_BEHIND}")


# Options of programs

_PAIR: Final = "pair"
"""The value is `user:password`, in the next argument or behind the option's letter."""
_TOUCHING: Final = "touching"
"""The password stands behind the option's letter alone.

Where it is `next`, in the next argument, too."""
PROGRAMS: Final[Mapping[str, Mapping[str, str]]] = {
    name: group["options"]
    for group in WORDS["programs"]
    for name in group["names"].split()
}
"""Options whose name alone does not say that their value is secret, by the program that
has them.

Names without an end such as `.exe` or a version; a word before an option is a command
of it."""
SOME_IN_ALL: Final = [
    name
    for name in PROGRAMS
    if not any(other in name for other in PROGRAMS if other != name)
]
"""Names of programs; each name of a program has one of these in it."""

_LONGEST_COMMAND: Final = 2_000
"""Characters of a command behind the name of its program, or the value of an option."""
_STANDS_FOR_ONE: Final = frozenset(
    (
        "pass",
        "password",
        "passwd",
        "pwd",
        "secret",
        "token",
    )
)
_LOGIN: Final = "login"
"""A command that the passwords of some programs belong to."""
_ID: Final = "password"


def redact_arguments(
    args: Sequence[str], redact: Callable[[str], str]
) -> tuple[str, ...]:
    """Return a command's arguments without their secrets.

    Args:
        args: the arguments, one by one.
        redact: takes the secrets out of one text.

    Returns:
        As many arguments. Behind an option such as `--api-token` the next one is its
        value and goes as a whole, unless it begins with a dash.
    """
    shown = [redact(arg) for arg in args]
    for index, (start, name) in _find_secrets(args).items():
        mark, _, rest = shown[index].partition("]")
        if mark.startswith(MARK_START) and not rest:
            continue  # all of it is removed already
        before = redact(args[index][:start])
        shown[index] = f"{before}{MARK_START}{name}]"
    return tuple(shown)


def find_secret_arguments(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the ids and values of the secrets that stand in a secret's place."""
    for index, (start, name) in _find_secrets(args).items():
        yield name, args[index][start:]


def _find_secrets(args: Sequence[str]) -> dict[int, tuple[int, str]]:
    """Return the start and id of the secret in each argument that has one."""
    secrets = {}
    for index, (option, arg) in enumerate(pairwise(args), 1):
        if arg and not arg.startswith("-"):
            name = option_id(option)
            if name:
                secrets[index] = (0, name)
    for index, start in _find_program_values(args).items():
        secrets[index] = (start, _ID)
    return secrets


_Named = dict[str, tuple[str, str]]
"""What a command line has named so far: its programs' options, and a login, their
command."""


def _add_word(named: _Named, word: str) -> None:
    """Take note of a word that is no option."""
    if word == _LOGIN:
        named[word] = ("", "")
    program = word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    for option, kind in PROGRAMS.get(program, {}).items():
        command, _, name = option.rpartition(" ")
        named[name] = (kind, command)


def _get_kind(named: _Named, option: str) -> str:
    """Return the sort of value that an option has; empty if it is no secret."""
    kind, command = named.get(option, ("", ""))
    if command and command not in named:
        return ""
    return kind


def _find_secret_start(kind: str, value: str) -> int:
    """Return where in an option's value the secret begins; its length if nowhere."""
    if kind != _PAIR:
        return 0
    return value.find(":") + 1 or len(value)


def _find_program_values(args: Sequence[str]) -> dict[int, int]:
    """Return where the secrets begin in the arguments of programs' options."""
    starts = {}
    named: _Named = {}
    expected = ""
    for index, arg in enumerate(args):
        kind = expected
        expected = ""
        start = 0
        if not kind:
            if not arg.startswith("-"):
                _add_word(named, arg)
                continue
            start = 2
            if arg.startswith("--"):
                start = arg.find("=") + 1 or len(arg)
            kind = _get_kind(named, arg[:start].removesuffix("="))
            if not kind or start == len(arg):
                if kind != _TOUCHING:
                    expected = _get_kind(named, arg)
                continue
        start += _find_secret_start(kind, arg[start:])
        if start < len(arg):
            starts[index] = start
    return starts


def may_hold_command(text: str) -> bool:
    """Return whether the text may hold a command line with one of `PROGRAMS`."""
    if "-" in text and _BEGIN_OF_OPTION.search(text) is not None:
        for name in SOME_IN_ALL:
            if name in text:
                return True
    return False


def find_command_secrets(text: str, search: Search) -> Iterator[Removal]:
    """Yield the secrets on the command lines in a text, each of which is read once."""
    from pytest_failure_taxonomy.redaction.marks import Removal

    place = 0
    while program := grammar("program", **_PARTS).search(text, place):
        named: _Named = {}
        _add_word(named, program["program"])
        place = program.end()
        limit = place + _LONGEST_COMMAND
        while sign := grammar("sign_in_command", **_PARTS).search(text, place, limit):
            search.look(sign.start())
            place = sign.end()
            if sign["end"] is not None:
                break
            option = sign["option"]
            if option is None:
                _add_word(named, sign["program"] or sign.group())
                limit = place + _LONGEST_COMMAND
                continue
            kind = _get_kind(named, option)
            if not kind:
                continue
            name = "touching_value" if kind == _TOUCHING else "value_of_option"
            value = grammar(name).match(text, place, limit)
            if value is None:
                continue
            search.judge(*value.span())
            place = value.end()
            limit = place + _LONGEST_COMMAND
            start, end = value.span(value.lastgroup or 0)
            start += _find_secret_start(kind, text[start:end])
            secret = text[start:end]
            if not _is_none(secret):
                yield Removal(start, end, _ID, secret)
        else:
            place = max(place, limit)


def _is_none(value: str) -> bool:
    from pytest_failure_taxonomy.redaction.marks import MARK
    from pytest_failure_taxonomy.redaction.ordinary_values import is_placeholder

    if value.lower() in _STANDS_FOR_ONE or value.startswith("$"):
        return True
    return is_placeholder(value) or MARK.search(value) is not None


_OPTIONS: Final = sorted(
    {option.split(" ")[-1] for options in PROGRAMS.values() for option in options}
)
_LETTERS: Final = "".join(sorted({name[1] for name in _OPTIONS}))
_BEGIN_OF_OPTION: Final = re.compile(rf"-(?=[{_LETTERS}])(?<=[ '\",\t\n]-)")


_PARTS: Final = {
    "programs": "|".join(
        sorted(
            sorted(PROGRAMS),
            key=len,
            reverse=True,
        )
    ),
    "long_options": "|".join([name for name in _OPTIONS if len(name) > 2]),
    "letters": _LETTERS,
}
"""What the grammars of commands name that the table of programs has."""

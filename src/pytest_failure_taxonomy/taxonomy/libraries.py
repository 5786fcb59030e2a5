"""The meaning of exceptions of well-known libraries, without importing these libraries.

An exception is recognised by the dotted names of its class and base classes, which are made of
`__module__` and `__qualname__`; a class is not always imported by that name. The tables are in
`data/libraries.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, takewhile
from types import MappingProxyType
from typing import Final, Literal

from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import RaisedException
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason, reason_of

_SUBPROCESS_COMMAND: Final = "subprocess.CalledProcessError"
_GITPYTHON_COMMANDS: Final = frozenset(
    {"git.exc.CommandError", "git.exc.GitCommandError", "git.exc.GitCommandNotFound"}
)

_WORTH_A_PHRASE: Final = frozenset({"llm.bad_request", "llm.rate_limited", "llm.error"})
_STATUS: Final = re.compile(r"(?:Error code: )?([1-5][0-9]{2})\b")
_PRIVATE: Final = re.compile(r"\._[a-z]\w*(?=\.)")


def classify_exception(
    raised: RaisedException, traceback: str | None = None
) -> tuple[FailureReason, str] | None:
    """Return the reason and kind of a well-known library's exception.

    The most derived class in the tables decides. A user's own class counts as the library's class
    that it is derived from.

    Args:
        raised: The exception. If its base classes are unknown, only its own name is looked up.
        traceback: The traceback that pytest printed, if any; it shows which library raised an
            exception of a shared module.

    Returns:
        `None` for any other exception.
    """
    kind = _kind_of(raised, traceback or "")
    return None if kind is None else (reason_of(kind), kind)


@cache
def kinds_by_exception() -> Mapping[str, str]:
    """Return the kinds of single exceptions, by their dotted names."""
    return {
        f"{module}.{name}": kind
        for module, rows in packaged_table("libraries")["exceptions"].items()
        for kind, names in rows.items()
        for name in names
    }


def dotted_names(raised: RaisedException) -> tuple[str, ...]:
    """Return the dotted names of an exception's class and base classes, its own first."""
    return raised.bases or (f"{raised.module}.{raised.type}",)


def _kind_of(raised: RaisedException, traceback: str) -> str | None:
    names = [
        public_name(name)
        for name in dotted_names(raised)
        if not name.startswith(("builtins.", "_pytest.", "pytest."))
    ]
    if not names:
        return None
    if not _GITPYTHON_COMMANDS.isdisjoint(names):
        return _kind_of_command(git_subcommand(raised.message) or "")
    if _SUBPROCESS_COMMAND in names:
        subcommand = git_subcommand(raised.message)
        return None if subcommand is None else _kind_of_command(subcommand)
    known = next(_known(names, raised.message, traceback), None)
    if known == "llm.error":
        status = _STATUS.match(raised.message)
        known = packaged_table("libraries")["http"].get(status and status[1], known)
    if known in _WORTH_A_PHRASE:
        said = raised.message.lower()
        phrases = packaged_table("libraries")["phrases"].items()
        return next((kind for phrase, kind in phrases if phrase in said), known)
    return known


def _known(names: list[str], message: str, traceback: str) -> Iterator[str]:
    for table, part in ((kinds_by_exception(), 0), (packaged_table("libraries")["modules"], 1)):
        for name in names:
            module = name.rpartition(".")[0]
            kind = table.get((name, module)[part])
            if kind is None:
                continue
            texts = packaged_table("libraries")["only_within"].get(module)
            seen = "" if texts is None else message + traceback.replace("\\", "/")
            if texts is None or any(text in seen for text in texts):
                yield kind


def _kind_of_command(subcommand: str) -> str:
    return str(packaged_table("libraries")["git"].get(subcommand, "tool.git"))


def public_name(name: str) -> str:
    """Return a name without private modules, which some versions of a library have in it."""
    return _PRIVATE.sub("", name)


_MAX_COMMAND: Final = 2_000
"""Characters of a command that are looked at; the sub-command stands near its beginning."""
_MAX_SHELLS: Final = 3
"""How deep a shell may be started within a shell."""

_PROGRAMS: Final = frozenset({"git", "git.exe"})
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
_PREFIXES: Final = frozenset({"sudo", "env", "exec", "command", "nice", "nohup", "time"})
"""Programs that start another one, in the form without options of their own."""
_WITHOUT_WORK: Final = frozenset({"cd", "set", "export", "mkdir", "true", "echo", "umask"})
"""Commands of a shell's line that hardly fail, so that the git beside them was the one that did."""
_OPTIONS_WITH_A_VALUE: Final = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix"}
)
"""git's own options whose value is the next word, as `git help git` lists them."""

_SUBPROCESS: Final = "Command '"
_GITPYTHON: Final = "cmdline: "
_ELEMENT: Final = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_WORD: Final = re.compile(r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NEXT_COMMAND: Final = re.compile(r"&&|\|\||[;|\n]")


def git_subcommand(message: str) -> str | None:
    """Return the sub-command of the git that a message says has failed, such as `clone`.

    Args:
        message: of a `subprocess.CalledProcessError` or a `git.exc.CommandError`.

    Returns:
        An empty text for a git without a sub-command, `None` where it was no git, or where a
        shell's line has several commands and the message doesn't say which of them failed.
    """
    return _of_words(_words_of(message), _MAX_SHELLS)


def _words_of(message: str) -> list[str]:
    if message.startswith(_SUBPROCESS):
        command = message[len(_SUBPROCESS) :].rpartition("' ")[0] or message[len(_SUBPROCESS) :]
        if command.startswith(("[", "(")):
            return [
                (found[1] or found[2] or "").replace("\\\\", "\\").replace("\\n", "\n")
                for found in _ELEMENT.finditer(command[:_MAX_COMMAND])
            ]
        return ["sh", "-c", command.strip("'")]
    _, found, rest = message.partition(_GITPYTHON)
    return rest.partition("\n")[0][:_MAX_COMMAND].split() if found else []


def _of_words(words: Sequence[str], shells_left: int) -> str | None:
    prefixes = takewhile(lambda word: word in _PREFIXES or _ASSIGNMENT.match(word), words)
    words = words[len(list(prefixes)) :]
    if not words:
        return None
    program = re.split(r"[/\\]", words[0])[-1]
    if program in _PROGRAMS:
        return next(_subcommands(words[1:]), "")
    if program in _SHELLS and shells_left:
        for option, line in pairwise(words[1:]):
            if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
                commands = [
                    command
                    for part in _NEXT_COMMAND.split(line[:_MAX_COMMAND])
                    if (command := [word.strip("'\"") for word in _WORD.findall(part)])
                    and command[0] not in _WITHOUT_WORK
                ]
                return _of_words(commands[0], shells_left - 1) if len(commands) == 1 else None
    return None


def _subcommands(words: Sequence[str]) -> Iterator[str]:
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in _OPTIONS_WITH_A_VALUE
        else:
            yield word


Sort = Literal["options", "settings", "fixtures", "marks"]
"""What a plugin can add."""

_REFUSED: Final = re.compile(r"unrecognized arguments: (?P<options>.+?)(?: \(from .+\))?$")
_REQUIREMENT: Final = re.compile(r"[^\w.-]")
NOT_LOADED: Final = "is installed but not loaded"
"""What is said of a plugin that is there; installing it would not help."""
_SHORT: Final = re.compile(r"(-[a-zA-Z])(?!-).*")


@cache
def names_by_distribution(sort: Sort) -> Mapping[str, Sequence[str]]:
    """Return the names of one sort that distributions have."""
    plugins = packaged_table("plugins").items()
    return MappingProxyType({name: added[sort] for name, added in plugins if sort in added})


def distributions_with(sort: Sort, name: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have something of one sort."""
    return tuple(
        sorted(each for each, names in names_by_distribution(sort).items() if name in names)
    )


def distributions_with_option(argument: str) -> tuple[str, ...]:
    """Return the sorted names of the distributions that have an option.

    Args:
        argument: as it is typed, such as `--cov=src` or `-n4`.
    """
    short = _SHORT.fullmatch(argument)
    return distributions_with("options", short[1] if short else argument.partition("=")[0])


def refused_options(said: str) -> tuple[str, ...]:
    """Return the options that pytest has refused, by its words; none if it says something else."""
    found = _REFUSED.match(said)
    words = found["options"].split() if found else ()
    return tuple(each for each in words if each.startswith("-"))


def which_to_install(sort: Sort | Literal["plugins"], names: str) -> str:
    """Return how to install the plugins that have what is missing; empty where nobody is known.

    Args:
        sort: of what is missing; `plugins` themselves, with versions perhaps.
        names: one name, or for options and plugins several, as pytest lists them.
    """
    if sort == "options":
        options = refused_options(f"unrecognized arguments: {names}")
        wanted = dict.fromkeys(map(distributions_with_option, options))
    elif sort == "plugins":
        listed = [_REQUIREMENT.split(each.strip())[0] for each in names.split(",")]
        wanted = {(each,): None for each in listed if each in packaged_table("plugins")}
    else:
        wanted = {distributions_with(sort, names): None}
    known = [each for each in wanted if each]
    if any(len(each) > 1 for each in known):
        return f"install {' and '.join(' or '.join(each) for each in known)}"
    return install_command([each[0] for each in known]) if known else ""


def install_command(names: Sequence[str]) -> str:
    """Return the command that installs distributions."""
    return f"pip install {' '.join(names)}"

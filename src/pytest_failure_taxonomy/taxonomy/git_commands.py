"""Find the git command in what `subprocess` and GitPython say of a command that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

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
    words = _without_prefixes(words)
    if not words:
        return None
    program = _name(words[0])
    if program in _PROGRAMS:
        return next(_subcommands(words[1:]), "")
    if program in _SHELLS and shells_left:
        line = _line_of_shell(words[1:])
        return None if line is None else _of_line(line, shells_left - 1)
    return None


def _of_line(line: str, shells_left: int) -> str | None:
    commands = [
        words
        for part in _NEXT_COMMAND.split(line[:_MAX_COMMAND])
        if (words := [word.strip("'\"") for word in _WORD.findall(part)])
        and words[0] not in _WITHOUT_WORK
    ]
    return _of_words(commands[0], shells_left) if len(commands) == 1 else None


def _line_of_shell(words: Sequence[str]) -> str | None:
    for option, line in pairwise(words):
        if option.startswith("-") and not option.startswith("--") and option.endswith("c"):
            return line
    return None


def _without_prefixes(words: Sequence[str]) -> Sequence[str]:
    for number, word in enumerate(words):
        if word not in _PREFIXES and not _ASSIGNMENT.match(word):
            return words[number:]
    return ()


def _subcommands(words: Sequence[str]) -> Iterator[str]:
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in _OPTIONS_WITH_A_VALUE
        else:
            yield word


def _name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]

"""Say where pytest's options and settings come from.

An option in the `addopts` of a configuration file three folders up looks as if it had
been typed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pytest

from pytest_failure_taxonomy.survive import own_files

_SHORTEST: Final = 3
"""Characters that an argument must have to be looked for in a message of pytest."""
_WITH_VALUE_ATTACHED: Final = ("-p", "-k", "-m")


def file_of_settings(config: pytest.Config) -> str:
    """Return the configuration file's shown path; empty if there is none."""
    path = config.inipath
    if path is None:
        return ""
    return own_files.location(str(path), None, config.rootpath).path


def arguments_by_place(config: pytest.Config) -> Iterator[tuple[str, list[str]]]:
    """Yield the places of pytest's arguments with these; what counts comes first.

    The place is empty for what was typed.
    """
    typed = [str(argument) for argument in config.invocation_params.args]
    yield "", typed
    with suppress(ValueError):
        variable = os.environ.get("PYTEST_ADDOPTS", "")
        yield "from PYTEST_ADDOPTS", shlex.split(variable)
    file = file_of_settings(config)
    is_typed = any(word.partition("=")[0].endswith("addopts") for word in typed)
    place = "from -o addopts" if is_typed or not file else f"from addopts in {file}"
    with suppress(Exception):  # pytest is about to report what is wrong with it
        yield place, [str(argument) for argument in config.getini("addopts")]
    yield "from PYTEST_PLUGINS", os.environ.get("PYTEST_PLUGINS", "").split(",")


def place_quoted(config: pytest.Config, message: str) -> str:
    """Return where the first quoted argument stands; empty if it was typed."""
    for place, arguments in arguments_by_place(config):
        if any(_is_quoted(message, argument) for argument in arguments):
            return place
    return ""


def with_place(config: pytest.Config, words: str, *options: str) -> str:
    """Add to words about an option where it was given; nothing if it was typed.

    Args:
        config: of the run.
        words: such as `-k slow`.
        options: how an argument begins that gives the option.
    """
    for place, arguments in arguments_by_place(config):
        if any(argument.startswith(options) for argument in arguments):
            if place:
                return f"{words} ({place})"
            return words
    return words


def words_of_setting(config: pytest.Config, name: str) -> str:
    """Return a list's setting and file, such as `testpaths = spec in tox.ini`."""
    words = f"{name} = {' '.join(config.getini(name))}"
    # pytest 9 deprecates the public name; pytest 8 has no other one.
    settings = getattr(config, "_inicfg", None)
    settings = config.inicfg if settings is None else settings
    file = ""
    if name in settings:
        file = file_of_settings(config)
    if file:
        return f"{words} in {file}"
    return words


def _is_quoted(message: str, argument: str) -> bool:
    """Tell whether a message quotes an argument, with or without its value."""
    option = argument.partition("=")[0] if argument.startswith("-") else argument
    attached = ""
    if argument.startswith(_WITH_VALUE_ATTACHED):
        attached = argument[2:]
    return any(
        len(part) >= _SHORTEST and part in message for part in (option, attached)
    )

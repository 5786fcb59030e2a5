"""Find out from its command and files why a pytest failed before it loaded this plugin.

A configuration file can't be parsed; a plugin is not installed, be it named or one of its options
given; a plugin that pytest loads first has raised something. Nothing is executed.

`run` imports this module when a pytest has left no record: pytest takes longer to load than all of
ours.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.config.findpaths import load_config_dict_from_file, locate_config

from pytest_failure_taxonomy.hooks.exceptions import words_of
from pytest_failure_taxonomy.hooks.startup_errors import words_of_conflict
from pytest_failure_taxonomy.options import OPTIONS
from pytest_failure_taxonomy.survive.report_without_plugin import OFF_SWITCH
from pytest_failure_taxonomy.taxonomy.evidence import RunError

_IS_WITHOUT_US: Final = re.compile(
    r"-[a-zA-Z]*[hV]|--(help|version|markers|fixtures(-per-test)?|funcargs|co|collect-only)"
    r"|--cache-show.*|--disable-plugin-autoload|(-p)?no:failure_taxonomy"
)
"""Options with which a pytest runs no test, or doesn't load this plugin."""

_BEFORE_A_SESSION: Final = (0, 1, 3)
"""The exit codes of a pytest that one of the first plugins has ended, whatever was raised."""

_OURS: Final = ("failure_taxonomy", "pytest_failure_taxonomy")
_OUR_FLAGS: Final = frozenset(
    name for option in OPTIONS.values() for name in option.names
)


def early_refusal(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    code: int | None = None,
    *,
    lacks_us: bool = False,
    shown: Sequence[RunError] = (),
) -> RunError | None:
    """Return the error that pytest must have ended with, if there is one to see.

    A pytest that has not loaded this plugin, though nothing keeps it from doing so, was ended by
    one of the plugins that it loads first.

    Args:
        command: of pytest.
        environment: of pytest.
        folder: the absolute path that pytest was started in.
        code: its exit code, if known.
        lacks_us: this plugin is known not to be in its environment.
        shown: the errors that pytest has printed, as far as they can be read.
    """
    words = list(command)
    arguments = (
        words[words.index("pytest") + 1 :] if "pytest" in words[1:] else words[1:]
    )
    try:
        file, addopts = _configuration(arguments, folder)
    except (pytest.UsageError, pytest.fail.Exception) as error:
        broken = str(error).replace(f"{folder}{os.sep}", "")
        return RunError(origin="usage", message=broken) if code != 0 else None
    program = os.path.abspath(shutil.which(command[0]) or "/")
    is_elsewhere = os.path.dirname(program) != os.path.dirname(sys.executable)
    if is_elsewhere and (code == 0 or not lacks_us):
        return None  # what is installed in another environment is unknown
    written = (
        ("", arguments),
        (" (from PYTEST_ADDOPTS)", _words(environment.get("PYTEST_ADDOPTS", ""))),
        (f" (from addopts in {file})", addopts),
    )
    named = [
        (place, name.strip())
        for place, words in written
        for name in _given(words, "-p\0?")
        if not name.strip().startswith("no:")
    ]
    in_variable = environment.get("PYTEST_PLUGINS", "").split(",")
    from_variable = [(" (from PYTEST_PLUGINS)", name) for name in in_variable if name]
    for place, name in [*named, *from_variable] if code != 0 else ():
        if name.startswith(_OURS) if is_elsewhere else not _is_importable(name, folder):
            missing = f'Error importing plugin "{name}": no such module{place}'
            return RunError(origin="plugin", message=missing)
    for place, words in written if code != 0 else ():
        for option in words:
            name = option.partition("=")[0]
            if name in _OUR_FLAGS if is_elsewhere else _is_of_missing_plugin(option):
                unknown = f"unrecognized arguments: {option}{place}"
                return RunError(origin="usage", message=unknown)
    given = {word for _, words in written for word in words}
    is_without_us = any(map(_IS_WITHOUT_US.fullmatch, given)) or environment.get(
        OFF_SWITCH
    )
    if (
        is_elsewhere
        or is_without_us
        or not (named or code)
        or code not in _BEFORE_A_SESSION
    ):
        return None
    files = {_file_of(name, folder): f"{name}{place}" for place, name in named}
    return RunError(
        origin="plugin", message=_words_of_first_plugins(files, code, shown, folder)
    )


def _words_of_first_plugins(
    files: Mapping[str, str], code: int | None, shown: Sequence[RunError], folder: Path
) -> str:
    """Say which plugin has ended pytest, as precisely as that is known."""
    said = ""
    for error in shown[:1]:
        said = error.message
        if error.traceback:  # which says where that was raised
            said = words_of(Exception(error.traceback), folder)
    # From 9.2 on pytest ends with 3 where the import of a plugin raises.
    twice = words_of_conflict(files, said) if code == 1 else ""
    names = " or ".join(files.values()) or "something"
    return (
        twice or said or f"{names} ended pytest with status {code} before any test ran"
    )


def _configuration(arguments: list[str], folder: Path) -> tuple[str, list[str]]:
    """Return the configuration file of pytest and the `addopts` in it.

    Raises:
        pytest.UsageError: pytest can't parse that file, or one that it reads before it.
    """
    # Not public, but pytest alone knows which file it takes. Our caller can do without.
    named = _given(arguments, "-c\0?|--config-file[\0=]")
    if named:
        path: Path | None = folder / named[-1]
        values = load_config_dict_from_file(folder / named[-1])
    else:
        paths = [
            folder / each.partition("::")[0] for each in arguments if each[:1] != "-"
        ]
        start = next((path for path in paths if path.exists()), folder)
        _, path, values, *_ = locate_config(folder, [start])
    if path is None or not values:
        return "", []
    addopts: Any = values.get("addopts", "")
    addopts = getattr(
        addopts, "value", addopts
    )  # a text or a list itself before pytest 9
    words = _words(addopts) if isinstance(addopts, str) else [*map(str, addopts)]
    return os.path.relpath(path, folder), words


def _words(text: str) -> list[str]:
    with suppress(ValueError):
        return shlex.split(text)
    return []


def _given(arguments: Sequence[str], option: str) -> list[str]:
    """Return the values of an option; its pattern has a null character between two words."""
    return re.findall(f"\0(?:{option})([^\0]+)", "\0".join(["", *arguments]))


def _file_of(name: str, folder: Path) -> str:
    """Return the file of a plugin's module; its name where there is none."""
    spec = PathFinder.find_spec(name, [str(folder), *sys.path])
    return name if spec is None or spec.origin is None else spec.origin


def _is_of_missing_plugin(option: str) -> bool:
    """Tell whether an argument is an option of a well-known plugin that is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    from pytest_failure_taxonomy.taxonomy.recognition import (
        distributions_with_option,
    )

    names = distributions_with_option(option)
    for name in names:
        with suppress(PackageNotFoundError):
            distribution(name)
            return False
    return bool(names)


def _is_importable(name: str, folder: Path) -> bool:
    """Tell whether pytest can find a plugin: a module, one of its own, or an entry point."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    first = name.partition(".")[0]
    beside = (folder / first).is_dir() or (folder / f"{first}.py").is_file()
    with suppress(ImportError, ValueError, AttributeError):
        if (
            beside
            or find_spec(first) is not None
            or find_spec(f"_pytest.{name}") is not None
        ):
            return True
    return any(each.name == name for each in entry_points(group="pytest11"))

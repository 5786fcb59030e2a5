"""What pytest has refused, in its own words, and where it stands: an argument, a file, a variable.

pytest says what is wrong, and not who said so. An option in `addopts` of a configuration file that
is three folders up looks as if it had been typed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.recorder.describe import location, words_of
from pytest_failure_taxonomy.recorder.origin import frames_of

_UNKNOWN_SETTING: Final = "Unknown config option: "
_MISSING_PLUGINS: Final = "Missing required plugins"
_NOT_FOUND: Final = "not found: "
_SHORTEST: Final = 3
"""Characters of an argument that is looked for in what pytest says."""
_USAGE_ERROR: Final = "UsageError: "


def words_of_usage_error(error: BaseException, config: pytest.Config) -> str:
    """Return what pytest refuses, and behind the first line where that stands.

    Args:
        error: a `UsageError`; pytest gives it one argument for each thing that is wrong.
        config: of the run; it may be far from complete.
    """
    texts = [_without_synopsis(str(each)).strip() for each in error.args]
    text = "; ".join(_as_typed(each, config) for each in texts if each)
    first, newline, rest = text.partition("\n")
    place = _where(error, first, config)
    if place:
        return f"{first} ({place}){newline}{rest}"
    told = words_of(error, config.rootpath)  # where one of the user's own hooks has said so
    own = told.removeprefix(_USAGE_ERROR).partition("\n")[0]
    return f"{own}{newline}{rest}" if own.startswith(first) and first else text


def _without_synopsis(text: str) -> str:
    """Return what a usage error says, without the synopsis that argparse puts before it."""
    synopsis, found, rest = text.partition(": error: ")
    return rest if found and synopsis.startswith("usage:") else text


def _as_typed(text: str, config: pytest.Config) -> str:
    """Return an argument that was not found as the user has written it, on one line.

    pytest makes it absolute, and says in the next line what it was not found in.
    """
    if not text.startswith(_NOT_FOUND):
        return text
    wanted, *lines = text.removeprefix(_NOT_FOUND).splitlines()
    folder = config.invocation_params.dir
    for given in map(str, config.invocation_params.args):
        path, colons, names = given.partition("::")
        if (
            not path.startswith("-")
            and f"{os.path.abspath(folder / path)}{colons}{names}" == wanted
        ):
            wanted = given
            break
    return " ".join([f"{_NOT_FOUND}{wanted}", *map(str.strip, lines)])


def _where(error: BaseException, said: str, config: pytest.Config) -> str:
    """Return where it stands what pytest refuses, unless it was typed."""
    file = _configuration(config)
    if file and said.startswith(_UNKNOWN_SETTING):
        return f"set in {file}"
    if file and said.startswith(_MISSING_PLUGINS):
        return f"required_plugins in {file}"
    conftest = _conftest_naming_plugins(error, config.rootpath)
    if conftest:
        return f"pytest_plugins in {conftest}"
    return next((place for place, words in _written(config, file) if _quotes(said, words)), "")


def _written(config: pytest.Config, file: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the places that arguments come from, as pytest reads them, with what stands there."""
    typed = [str(each) for each in config.invocation_params.args]
    yield "", typed
    yield "from PYTEST_ADDOPTS", _words_in_variable("PYTEST_ADDOPTS")
    is_typed = any(each.partition("=")[0].endswith("addopts") for each in typed)
    yield "from -o addopts" if is_typed or not file else f"from addopts in {file}", _addopts(config)
    yield "from PYTEST_PLUGINS", os.environ.get("PYTEST_PLUGINS", "").split(",")


def _quotes(said: str, arguments: list[str]) -> bool:
    """Tell whether one of the arguments is quoted: as it is, or the option before its value."""
    for each in arguments:
        option = each.partition("=")[0] if each.startswith("-") else each
        attached = each[2:] if each.startswith(("-p", "-k", "-m")) else ""
        if any(len(part) >= _SHORTEST and part in said for part in (option, attached)):
            return True
    return False


def _configuration(config: pytest.Config) -> str:
    path = config.inipath
    return "" if path is None else location(str(path), None, config.rootpath).path


def _addopts(config: pytest.Config) -> list[str]:
    with suppress(Exception):  # whatever is wrong with it, pytest is about to say so
        return [str(each) for each in config.getini("addopts")]
    return []


def _words_in_variable(name: str) -> list[str]:
    with suppress(ValueError):
        return shlex.split(os.environ.get(name, ""))
    return []


def _conftest_naming_plugins(error: BaseException, rootdir: Path) -> str:
    """Return the conftest whose `pytest_plugins` names the plugin that is missing."""
    for each in frames_of(error.__traceback__):
        frame = each.tb_frame
        if frame.f_code.co_name == "consider_conftest":
            module: Any = frame.f_locals.get("conftestmodule")
            file = getattr(module, "__file__", None)
            return location(file, None, rootdir).path if isinstance(file, str) else ""
    return ""

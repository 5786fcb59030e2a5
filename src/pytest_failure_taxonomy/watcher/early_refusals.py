"""Find out why a pytest failed before it loaded this plugin, from its command and its files.

Its output may be a terminal or a pipe, which is not read. So the causes that can be seen from
outside are checked: a configuration file that can't be parsed, and a plugin that is not installed,
be it named or one of its options given. Nothing is executed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.options import OPTIONS
from pytest_failure_taxonomy.taxonomy.evidence import RunError

MAX_BYTES: Final = 1_000_000
"""The size of a configuration file; longer ones are not read."""

OFF_SWITCH: Final = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
_IS_WITHOUT_US: Final = re.compile(
    r"-[a-zA-Z]*[hV]|--(help|version|markers|fixtures(-per-test)?|funcargs|co|collect-only)"
    r"|--cache-show.*|--disable-plugin-autoload|(-p)?no:failure_taxonomy"
)
"""Options with which a pytest runs no test, or doesn't load this plugin."""

_OURS: Final = ("failure_taxonomy", "pytest_failure_taxonomy")
_OUR_FLAGS: Final = frozenset(name for option in OPTIONS.values() for name in option.names)

_FILES: Final = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
"""The configuration files that pytest looks for in each folder, in its order."""


def early_refusal(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    code: int | None = None,
    *,
    lacks_us: bool = False,
) -> RunError | None:
    """Return the error that pytest must have ended with, if there is one to see.

    A pytest that ended with status 0 and has not loaded this plugin, though nothing keeps it from
    doing so, was left by one of the plugins that it loads first.

    Args:
        command: of pytest.
        environment: of pytest.
        folder: the absolute path that pytest was started in.
        code: its exit code, if known.
        lacks_us: this plugin is known not to be in its environment.
    """
    words = list(command)
    arguments = words[words.index("pytest") + 1 :] if "pytest" in words[1:] else words[1:]
    try:
        file, addopts = _configuration(arguments, folder)
    except _BrokenFileError as error:
        return RunError(origin="usage", message=str(error)) if code != 0 else None
    program = os.path.abspath(shutil.which(command[0]) or "/")
    is_elsewhere = os.path.dirname(program) != os.path.dirname(sys.executable)
    if is_elsewhere and (code == 0 or not lacks_us):
        return None  # what is installed in another environment is unknown
    written = (
        ("", arguments),
        (" (from PYTEST_ADDOPTS)", _words(environment.get("PYTEST_ADDOPTS", ""))),
        (f" (from addopts in {file})", addopts),
    )
    named = [(place, name) for place, words in written for name in _plugins_in(words)]
    if code == 0:
        given = {word for _, words in written for word in words}
        is_without_us = any(map(_IS_WITHOUT_US.fullmatch, given)) or environment.get(OFF_SWITCH)
        names = " or ".join(f"{name}{place}" for place, name in named)
        said = f"{names} ended pytest with status 0 before any test ran"
        return RunError(origin="plugin", message=said) if names and not is_without_us else None
    in_variable = environment.get("PYTEST_PLUGINS", "").split(",")
    named += [(" (from PYTEST_PLUGINS)", name) for name in in_variable if name]
    for place, name in named:
        if name.startswith(_OURS) if is_elsewhere else not _is_importable(name, folder):
            said = f'Error importing plugin "{name}": no such module{place}'
            return RunError(origin="plugin", message=said)
    for place, words in written:
        for option in words:
            name = option.partition("=")[0]
            if name in _OUR_FLAGS if is_elsewhere else _is_of_missing_plugin(option):
                said = f"unrecognized arguments: {option}{place}"
                return RunError(origin="usage", message=said)
    return None


class _BrokenFileError(Exception):
    """A configuration file can't be parsed."""


def _configuration(arguments: list[str], folder: Path) -> tuple[str, list[str]]:
    """Return the configuration file of pytest and the `addopts` in it.

    Raises:
        _BrokenFileError: if that file, or one that pytest reads before it, can't be parsed.
    """
    for path in _candidates(arguments, folder):
        read = _read(path)
        if read is None:
            continue
        section = _pytest_section(path, read)
        if section is not None:
            addopts = section.get("addopts", "")
            words = _words(addopts) if isinstance(addopts, str) else [*map(str, addopts)]
            return os.path.relpath(path, folder), words
    return "", []


def _candidates(arguments: list[str], folder: Path) -> Iterator[Path]:
    for option, value in pairwise([*arguments, ""]):
        if option in ("-c", "--config-file"):
            yield folder / value
            return
        if option.startswith("--config-file="):
            yield folder / option.partition("=")[2]
            return
    paths = [folder / each.partition("::")[0] for each in arguments if not each.startswith("-")]
    start = next((path for path in paths if path.exists()), folder)
    for place in (start, *start.parents):
        yield from (place / name for name in _FILES)


def _read(path: Path) -> str | None:
    """Return the text of a file, or `None` if it does not exist, is special or too long."""
    with suppress(OSError, ValueError):
        if path.is_file() and path.stat().st_size <= MAX_BYTES:
            return path.read_text("utf-8")
    return None


def _pytest_section(path: Path, text: str) -> Mapping[str, Any] | None:
    if path.suffix == ".toml":
        import tomllib

        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise _BrokenFileError(f"{path.name}: {error}") from error
        if path.name != "pyproject.toml":
            return _table(document.get("pytest")) or {}
        tool = _table(_table(document.get("tool")).get("pytest"))
        return _table(tool.get("ini_options")) or tool or None
    import iniconfig  # pytest's own reader

    try:
        sections = iniconfig.IniConfig(str(path), data=text)
    except iniconfig.ParseError as error:
        raise _BrokenFileError(f"{path.name}:{error.lineno + 1}: {error.msg}") from error
    name = "tool:pytest" if path.suffix == ".cfg" else "pytest"
    if name in sections:
        return dict(sections[name].items())
    return {} if path.name.endswith("pytest.ini") else None


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(text: str) -> list[str]:
    with suppress(ValueError):
        return shlex.split(text)
    return []


def _plugins_in(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the plugins that arguments load by `-p`."""
    for option, value in pairwise([*arguments, ""]):
        attached = option.startswith("-p") and not option.startswith("--") and option != "-p"
        name = option[2:].strip() if attached else value.strip() if option == "-p" else ""
        if name and not name.startswith("no:"):
            yield name


def _is_of_missing_plugin(option: str) -> bool:
    """Tell whether an argument is an option of a well-known plugin that is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    from pytest_failure_taxonomy.taxonomy.libraries import distributions_with_option

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
        if beside or find_spec(first) is not None or find_spec(f"_pytest.{name}") is not None:
            return True
    return any(each.name == name for each in entry_points(group="pytest11"))

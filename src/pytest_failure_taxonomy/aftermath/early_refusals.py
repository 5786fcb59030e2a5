"""What a pytest has refused before it loaded any plugin: only its command and its files tell.

Then no plugin of ours was there to hear why, and what pytest has printed is not ours to read. So
the two things that end it so early and can be seen from outside are looked at: a configuration
file that can't be parsed, and a plugin that is named and not installed. Nothing is run.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.taxonomy.evidence import RunError

MAX_BYTES: Final = 1_000_000
"""Of a configuration file; a longer one is not looked at."""

_FILES: Final = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
"""Where pytest looks for its configuration in each folder, in its order."""


def early_refusal(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> RunError | None:
    """Return what pytest can't have got past, if that can be seen.

    Args:
        command: that ran pytest.
        environment: that it was given.
        folder: absolute; where it was started.
    """
    arguments = _arguments_of_pytest(command)
    try:
        file, addopts = _configuration(arguments, folder)
    except _BrokenFileError as error:
        return RunError(origin="usage", message=str(error))
    if not _is_our_interpreter(command[0]):
        return None  # what is installed there can't be seen from here
    written = (
        ("", arguments),
        (" (from PYTEST_ADDOPTS)", _words(environment.get("PYTEST_ADDOPTS", ""))),
        (f" (from addopts in {file})", addopts),
    )
    named = [(place, name) for place, words in written for name in _plugins_in(words)]
    in_variable = environment.get("PYTEST_PLUGINS", "").split(",")
    named += [(" (from PYTEST_PLUGINS)", name) for name in in_variable if name]
    for place, name in named:
        if not _is_importable(name, folder):
            said = f'Error importing plugin "{name}": no such module{place}'
            return RunError(origin="plugin", message=said)
    return None


class _BrokenFileError(Exception):
    """A configuration file can't be parsed."""


def _arguments_of_pytest(command: Sequence[str]) -> list[str]:
    words = list(command)
    return words[words.index("pytest") + 1 :] if "pytest" in words[1:] else words[1:]


def _configuration(arguments: list[str], folder: Path) -> tuple[str, list[str]]:
    """Return the file that pytest takes its configuration from, and the `addopts` in it.

    Raises:
        _BrokenFileError: it, or one that pytest reads before it, can't be parsed.
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
    """Return the text of a regular file that is not too long; `None` where there is none."""
    with suppress(OSError, ValueError):
        if path.is_file() and path.stat().st_size <= MAX_BYTES:
            return path.read_text("utf-8")
    return None


def _pytest_section(path: Path, text: str) -> Mapping[str, Any] | None:
    if path.suffix == ".toml":
        return _section_of_toml(path, text)
    import iniconfig  # pytest's own reader

    try:
        sections = iniconfig.IniConfig(str(path), data=text)
    except iniconfig.ParseError as error:
        raise _BrokenFileError(f"{path.name}:{error.lineno + 1}: {error.msg}") from error
    name = "tool:pytest" if path.suffix == ".cfg" else "pytest"
    if name in sections:
        return dict(sections[name].items())
    return {} if path.name.endswith("pytest.ini") else None


def _section_of_toml(path: Path, text: str) -> Mapping[str, Any] | None:
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _BrokenFileError(f"{path.name}: {error}") from error
    if path.name != "pyproject.toml":
        return _table(document.get("pytest")) or {}
    tool = _table(_table(document.get("tool")).get("pytest"))
    return _table(tool.get("ini_options")) or tool or None


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(text: str) -> list[str]:
    with suppress(ValueError):
        return shlex.split(text)
    return []


def _plugins_in(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the plugins that arguments name by `-p`, but for those that are switched off."""
    for option, value in pairwise([*arguments, ""]):
        attached = option.startswith("-p") and not option.startswith("--") and option != "-p"
        name = option[2:].strip() if attached else value.strip() if option == "-p" else ""
        if name and not name.startswith("no:"):
            yield name


def _is_our_interpreter(program: str) -> bool:
    """Tell whether a command is of the environment that this very process runs in."""
    found = shutil.which(program)
    return found is not None and os.path.dirname(os.path.abspath(found)) == os.path.dirname(
        sys.executable
    )


def _is_importable(name: str, folder: Path) -> bool:
    """Tell whether pytest could find a plugin: a module, one of its own, or an entry point."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    first = name.partition(".")[0]
    beside = (folder / first).is_dir() or (folder / f"{first}.py").is_file()
    with suppress(ImportError, ValueError, AttributeError):
        if beside or find_spec(first) is not None or find_spec(f"_pytest.{name}") is not None:
            return True
    return any(each.name == name for each in entry_points(group="pytest11"))

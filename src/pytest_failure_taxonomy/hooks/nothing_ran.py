"""Say why a session ran no test (pytest's status 5).

pytest says it in a warning, or not at all: a class has an `__init__`, no file has the
name of one with tests, `-k` in a configuration file selects none. Nothing is collected
again to find out.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import pytest

from pytest_failure_taxonomy.hooks import inspection, option_sources
from pytest_failure_taxonomy.survive import own_files
from pytest_failure_taxonomy.taxonomy.words import enumerated
from pytest_failure_taxonomy.text import with_place

MAX_NAMED: Final = 3
"""Classes, files or folders that are named."""
_UNCOLLECTED: Final = (
    r"^cannot collect (?:test class )?'(.{1,200}?)' because it "
    r"(has a __\w{1,20}__|is not a function).*"
)
"""How pytest warns of an object that has the name of a test and is not a test."""
_EMPTY_TESTPATHS: Final = "No files were found in testpaths"

_Options = Mapping[str, tuple[str, ...]]

_SELECTING: Final[_Options] = {
    "keyword": ("-k",),
    "markexpr": ("-m",),
    "deselect": ("--deselect",),
    "lf": ("--lf", "--last-failed"),
}
"""Options of pytest that deselect tests, by attribute, and as they are typed."""
_IGNORING: Final[_Options] = {
    "ignore": ("--ignore",),
    "ignore_glob": ("--ignore-glob",),
}


def explain_no_tests(
    config: pytest.Config,
    noted: Iterable[warnings.WarningMessage],
    empty: Collection[str],
    *,
    deselected: int,
) -> str:
    """Return why no test ran, in one line; empty where that isn't known.

    Args:
        config: of the run.
        noted: warnings of the collection and before it.
        empty: the node ids of what was collected and has nothing in it.
        deselected: how many tests were found and deselected.
    """
    if deselected:
        return _describe_options(config, _SELECTING)
    refused = {}  # each worker warns
    for warning in noted:
        message = warning.message
        words = message if isinstance(message, str) else inspection.text_of(message)
        if issubclass(warning.category, pytest.PytestCollectionWarning):
            place = own_files.location(
                warning.filename, warning.lineno, config.rootpath
            )
            words = re.sub(_UNCOLLECTED, r"\1 \2", words)
            refused[with_place(words, place.path, place.line)] = True
        elif words.startswith(_EMPTY_TESTPATHS):
            setting = option_sources.words_of_setting(config, "testpaths")
            return f"there is no file in {setting}"
    if refused:
        return enumerated([*refused][:MAX_NAMED], len(refused))
    files = [nodeid for nodeid in empty if os.path.splitext(nodeid)[1]]
    if files:
        functions = option_sources.words_of_setting(config, "python_functions")
        classes = option_sources.words_of_setting(config, "python_classes")
        named = enumerated(files[:MAX_NAMED], len(files))
        return f"nothing in {named} matches {functions}, {classes}"
    if ignoring := _describe_options(config, _IGNORING):
        return f"files are ignored by {ignoring}"
    setting = option_sources.words_of_setting(config, "python_files")
    return f"pytest finds no file that matches {setting}" if empty else ""


def _describe_options(config: pytest.Config, options: _Options) -> str:
    """Return the options that were given, with their values and places."""
    descriptions = []
    for name, spellings in options.items():
        value = getattr(config.option, name, None)
        if value:
            shown = " ".join(value) if isinstance(value, list) else value
            words = f"{spellings[0]} {shown}".removesuffix(" True")
            descriptions.append(option_sources.with_place(config, words, *spellings))
    return " and ".join(descriptions)

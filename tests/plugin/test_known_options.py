"""The tables of well-known options and settings agree with the plugins that are installed here."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.taxonomy import packaged_table
from tests.helpers.children import run_plain_pytest
from tests.plugin.test_known_fixtures import plugins_of

OPTIONS: Final = {
    name: added["options"]
    for name, added in packaged_table("plugins").items()
    if "options" in added
}
INI_NAMES: Final = {
    name: added["settings"]
    for name, added in packaged_table("plugins").items()
    if "settings" in added
}
MADE_FROM: Final = {
    "hypothesis": (6, 170),
    "pytest-asyncio": (1, 5),
    "pytest-cov": (7, 1),
    "pytest-rerunfailures": (16, 7),
    "pytest-timeout": (2, 4),
    "pytest-xdist": (3, 8),
}


def test_a_distribution_has_its_options(tmp_path: Path) -> None:
    """Each option and setting in the tables is one that pytest's help lists with the plugins.

    And none is pytest's own: what it has itself is never missing.
    """
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    installed = {
        name: plugins for name in sorted(OPTIONS) if (plugins := plugins_of(name))
    }
    if not installed:
        pytest.skip("none of the distributions is installed")
    plugins = [plugin for each in installed.values() for plugin in each]
    listed = names_in_help(run_plain_pytest(tmp_path, "--help", plugins=plugins).stdout)
    for name in installed:
        known = {*OPTIONS[name], *INI_NAMES.get(name, ())}
        assert known & listed, name
        assert known <= listed or is_older(name), name
    own = names_in_help(run_plain_pytest(tmp_path, "--help").stdout)
    known = {
        each
        for table in (OPTIONS, INI_NAMES)
        for names in table.values()
        for each in names
    }
    assert own.isdisjoint(known)


def is_older(name: str) -> bool:
    """Tell whether a distribution is older than the wheel that the table was made from.

    That of a version that is not listed here has been the newest.
    """
    installed = [int(part) for part in re.findall(r"\d+", version(name))]
    return name in MADE_FROM and installed < [*MADE_FROM[name]]


def names_in_help(text: str) -> set[str]:
    """Return the options and the settings that pytest's help lists."""
    options = re.findall(r"(?:^  |, )(-n|--[a-z][\w-]+)", text, re.MULTILINE)
    settings = re.findall(r"^  ([A-Za-z][\w-]*) \(\w+\):", text, re.MULTILINE)
    return {*options, *settings}

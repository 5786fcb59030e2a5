"""The tables of well-known fixtures and marks agree with the plugins that are installed here."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.recognition import (
    distributions_with,
)
from tests.helpers.children import run_plain_pytest

FIXTURES: Final = {
    name: added["fixtures"]
    for name, added in packaged_table("plugins").items()
    if "fixtures" in added
}
MARKS: Final = {
    name: added["marks"]
    for name, added in packaged_table("plugins").items()
    if "marks" in added
}
MARK: Final = re.compile(r"@pytest\.mark\.(\w+)")
NAME: Final = re.compile(r"(\w+)(?: \[\w+ scope\])? -- ")


def plugins_of(name: str) -> list[str]:
    """Return the names of a distribution's pytest plugins; none where it is not installed."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return []
    return [each.name for each in found.entry_points if each.group == "pytest11"]


@pytest.mark.parametrize("name", sorted(FIXTURES))
def test_a_distribution_has_its_fixtures(tmp_path: Path, name: str) -> None:
    """Each fixture in the table is one that pytest lists of the plugin."""
    plugins = plugins_of(name)
    if not plugins:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    run = run_plain_pytest(tmp_path, "--fixtures", "-v", plugins=plugins)
    listed = {
        match[1] for line in run.stdout.splitlines() if (match := NAME.match(line))
    }
    if "tmp_path" not in listed:
        pytest.skip(f"{name} can't be loaded without another package")
    assert set(FIXTURES[name]) <= listed


@pytest.mark.parametrize("name", sorted(MARKS))
def test_a_distribution_has_its_marks(tmp_path: Path, name: str) -> None:
    """Each mark in the table is one that pytest lists of the plugin."""
    plugins = plugins_of(name)
    if not plugins:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    run = run_plain_pytest(tmp_path, "--markers", plugins=plugins)
    listed = {
        match[1] for line in run.stdout.splitlines() if (match := MARK.match(line))
    }
    if "parametrize" not in listed:
        pytest.skip(f"{name} can't be loaded without another package")
    assert set(MARKS[name]) <= listed


def test_one_name_in_two_plugins() -> None:
    """All that have a fixture of one name are given, in the order of the alphabet."""
    assert distributions_with("fixtures", "snapshot") == ("pytest-snapshot", "syrupy")
    assert distributions_with("fixtures", "mocker") == ("pytest-mock",)
    assert distributions_with("fixtures", "shop") == ()


@pytest.mark.parametrize(
    "name", ["app", "browser", "client", "db", "fs", "page", "settings"]
)
def test_an_everyday_name_is_nobodys(name: str) -> None:
    """The project has its own, perhaps in another folder."""
    assert distributions_with("fixtures", name) == ()


def test_no_fixture_of_pytest_itself(tmp_path: Path) -> None:
    """What pytest itself has is not missing, and so is not in the table."""
    run = run_plain_pytest(tmp_path, "--fixtures", "-v")
    own = {match[1] for line in run.stdout.splitlines() if (match := NAME.match(line))}
    assert own.isdisjoint(name for names in FIXTURES.values() for name in names)

"""What is said of an option or a setting that belongs to a plugin which is not there."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.taxonomy.known_plugins import (
    distributions_with_option,
    hint_for,
    names_by_distribution,
    refused_options,
)

REFUSED = "unrecognized arguments: "
EXTRAS = 'pip install "pytest-failure-taxonomy[timeout,xdist]"'
HINTS = (
    ("--cov-append", "pytest-cov has it: pip install pytest-cov"),
    ("--cov-append (from addopts in tox.ini)", "pytest-cov has it: pip install pytest-cov"),
    ("--cov=src --cov-report=xml", "pytest-cov has it: pip install pytest-cov"),
    ("-n4", 'pytest-xdist has it: pip install "pytest-failure-taxonomy[xdist]"'),
    (
        "--timeout=5 -n",
        f"pytest-timeout and pytest-xdist have them: {EXTRAS}",
    ),
    (
        "--html=x --timeout=5 --nope",
        "pytest-html and pytest-timeout have them: pip install pytest-html pytest-timeout",
    ),
    ("--snapshot-update", "pytest-snapshot or syrupy has it"),
    (
        "--html=x --base-url=y",
        "pytest-html and pytest-base-url or pytest-playwright have them",
    ),
    ("--cov-app", ""),
    ("--no-such x.html", ""),
    ("--cov (pytest-cov 7.1.0 is installed but not loaded)", ""),
)


@pytest.mark.parametrize(("said", "hint"), HINTS)
def test_a_refused_option_names_its_plugin(said: str, hint: str) -> None:
    """The plugins are named in the order of the options, and how to install them if that is sure.

    pytest takes no abbreviations of an option, so no plugin has one.
    """
    assert hint_for(REFUSED + said) == hint


def test_a_refused_setting_names_its_plugin() -> None:
    """`--strict-config` refuses the settings of a plugin that is not there."""
    said = "Unknown config option: asyncio_mode (set in pytest.ini)"
    assert hint_for(said).startswith("pytest-asyncio has it: pip install ")
    assert hint_for("Unknown config option: DJANGO_SETTINGS_MODULE").startswith("pytest-django")
    assert hint_for("Unknown config option: colour") == ""
    assert hint_for("Missing required plugins: --cov") == ""


def test_only_options_are_refused() -> None:
    """The value of an option and the place where it stands are none."""
    said = f"{REFUSED}--cov src --x=y (from addopts in pytest.ini)"
    assert refused_options(said) == ("--cov", "--x=y")
    assert refused_options("file or directory not found: --cov") == ()


def test_the_tables_are_sorted_and_whole() -> None:
    """A name stands once, and every option is one."""
    options, settings, fixtures = map(names_by_distribution, ("options", "settings", "fixtures"))
    for table in (options, settings, fixtures):
        assert list(table) == sorted(table)
        for name, names in table.items():
            assert list(names) == sorted(set(names)), name
            assert names
    assert all(each.startswith("-") for names in options.values() for each in names)
    assert len(options) >= 40


@pytest.mark.parametrize("option", ["--cov", "--cov=x", "--cov=--x=y"])
def test_a_value_is_no_part_of_an_option(option: str) -> None:
    """It is what stands before the first equals sign."""
    assert distributions_with_option(option) == ("pytest-cov",)

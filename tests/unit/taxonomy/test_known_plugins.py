"""What is said of an option or a setting that belongs to a plugin which is not there."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.recognition import (
    distributions_with_option,
    refused_options,
    which_to_install,
)

REFUSED = "unrecognized arguments: "
BOTH = "pip install pytest-timeout pytest-xdist"
HOW_TO = (
    ("--cov-append", "pip install pytest-cov"),
    ("--cov=src --cov-report=xml", "pip install pytest-cov"),
    ("-n4", "pip install pytest-xdist"),
    ("--timeout=5 -n", BOTH),
    ("--html=x --timeout=5 --nope", "pip install pytest-html pytest-timeout"),
    ("--snapshot-update", "install pytest-snapshot or syrupy"),
    (
        "--html=x --base-url=y",
        "install pytest-html and pytest-base-url or pytest-playwright",
    ),
    ("--cov-app", ""),
    ("--no-such x.html", ""),
)


@pytest.mark.parametrize(("options", "how"), HOW_TO)
def test_a_refused_option_names_its_plugin(options: str, how: str) -> None:
    """The plugins are named in the order of the options, in a command if it is sure which.

    pytest takes no abbreviations of an option, so no plugin has one.
    """
    assert which_to_install("options", options) == how


def test_settings_fixtures_marks_and_plugins_name_their_plugin() -> None:
    """Whatever is missing, it is looked up in one table."""
    assert (
        which_to_install("settings", "DJANGO_SETTINGS_MODULE")
        == "pip install pytest-django"
    )
    assert which_to_install("settings", "colour") == ""
    assert which_to_install("fixtures", "mocker") == "pip install pytest-mock"
    assert which_to_install("marks", "django_db") == "pip install pytest-django"
    assert (
        which_to_install("marks", "flaky")
        == "install pytest-rerunfailures or pytest-retry"
    )
    assert (
        which_to_install("plugins", "pytest-mock>=3, pytest-nope")
        == "pip install pytest-mock"
    )


def test_only_options_are_refused() -> None:
    """The value of an option and the place where it stands are none."""
    said = f"{REFUSED}--cov src --x=y (from addopts in pytest.ini)"
    assert refused_options(said) == ("--cov", "--x=y")
    assert refused_options("file or directory not found: --cov") == ()


def test_the_tables_are_sorted_and_whole() -> None:
    """A name stands once, and every option is one."""
    sorts = ("options", "settings", "fixtures", "marks")
    plugins = packaged_table("plugins").items()
    options, *others = (
        {name: added[sort] for name, added in plugins if sort in added}
        for sort in sorts
    )
    for table in (options, *others):
        assert list(table) == sorted(table)
        for name, names in table.items():
            assert list(names) == sorted(set(names)), name
            assert names
    assert all(each.startswith("-") for names in options.values() for each in names)
    assert len(options) >= 40


@pytest.mark.slow
def test_our_own_names_are_those_of_the_help() -> None:
    """Whoever runs pytest where this plugin is not installed is told what to install."""
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    heads = re.findall(r"^  (--.+?)(?:  |$)", shown, re.MULTILINE)
    options = {
        name for head in heads for name in re.findall(r"(?:^|, )(--[\w-]+)", head)
    }
    settings = re.findall(r"^  (\w+) \(", shown, re.MULTILINE)
    ours = {
        each
        for each in options
        if re.match("--(why|failure-taxonomy|bench)(-|$)", each)
    }
    assert (
        sorted(ours) == packaged_table("plugins")["pytest-failure-taxonomy"]["options"]
    )
    ours = {
        each for each in settings if re.match("(failure_taxonomy|bench)(_|$)", each)
    }
    assert (
        sorted(ours) == packaged_table("plugins")["pytest-failure-taxonomy"]["settings"]
    )


@pytest.mark.parametrize("option", ["--cov", "--cov=x", "--cov=--x=y"])
def test_a_value_is_no_part_of_an_option(option: str) -> None:
    """It is what stands before the first equals sign."""
    assert distributions_with_option(option) == ("pytest-cov",)

"""pytest's entry point: the options, the hook specifications, and the switch.

Every pytest run of an environment imports this module, whether it wants a report or not, so it
imports nothing but pytest and what pytest itself has imported, and leaves the rest to
`hooks.start`, which is loaded when the option is given. The hook specifications stand here and not
in a module of their own for the same reason.
"""

from __future__ import annotations

import argparse
import os
import sys
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_failure_taxonomy.options import (
    EXPERIMENT_VARIABLE,
    OPTIONS,
    SUPERVISOR_VARIABLE,
    accept_types_of_toml,
    declare,
    free_names,
    long_names,
    typed_name,
    words_given,
)
from pytest_failure_taxonomy.system import imports_as_they_are

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_failure_taxonomy.hooks.attribution import FailureTaxonomy

_REQUESTED = pytest.StashKey[bool]()
"""Whether a report was asked for when pytest started."""

_STARTUP_FAILED = pytest.StashKey[Any]()
"""The function that reports an error that leaves pytest. A test may have emptied `sys.modules` by
then."""

_ONLY_ASK = (
    "help",
    "version",
    "markers",
    "showfixtures",
    "show_fixtures_per_test",
    "cacheshow",
)
"""Options with which pytest prints something and runs no test."""


class HookSpecs:
    """The hooks that other plugins and conftest files can implement."""

    @pytest.hookspec(firstresult=True)
    def pytest_failure_taxonomy_classify(
        self, exception: BaseException, nodeid: str, phase: str
    ) -> tuple[str, str] | None:
        """Say why a test failed: return its reason and its kind.

        Called for each failed phase of a test, in the process that ran it, unless the test itself
        has recorded a reason with the fixture `failure_taxonomy`. Return one of the 15 reasons and
        a kind, `return "SANDBOX_ERROR", "sandbox.browser"`, or None to leave the answer to others
        and to the rules. Do not keep a reference to the exception.
        """

    @pytest.hookspec
    def pytest_failure_taxonomy_report(
        self, report: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Add to the `extensions` of the report.

        Called once at the end of the run, on the controller, with the report as a JSON object. What
        the implementations return is merged, so use a namespace of your own as the only key:
        `return {"my_plugin": {...}}`. What JSON can't hold is omitted, and a line on stderr says
        so.
        """


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare our hooks, so that a conftest may implement them with the option off, too."""
    pluginmanager.add_hookspecs(HookSpecs)


def pytest_addoption(
    parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager
) -> None:
    """Declare the options, and watch for a start that fails before any hook could see it."""
    group = parser.getgroup(
        "failure-taxonomy", "why this run failed (pytest-failure-taxonomy)"
    )
    declare(parser, group, OPTIONS)
    config = pluginmanager.get_plugin("pytestconfig")
    if isinstance(config, pytest.Config):
        accept_types_of_toml(config)
        config.add_cleanup(partial(_after_a_failed_start, config))


@pytest.fixture
def failure_taxonomy(request: pytest.FixtureRequest) -> FailureTaxonomy:
    """Let a test record why it fails: `.record(reason, kind, detail)`."""
    from pytest_failure_taxonomy.hooks.attribution import FailureTaxonomy

    return FailureTaxonomy(request.node)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Begin to record before the first conftest is loaded, if a report was asked for."""
    words = long_names(early_config, args)
    if words != args:
        known = parser.parse_known_args(words, copy(early_config.option))
        known.confcutdir = early_config.known_args_namespace.confcutdir
        early_config.known_args_namespace = known
    requested = early_config.stash[_REQUESTED] = is_requested(early_config)
    # A worker of xdist gets the arguments of its controller, which need not ask for a report under
    # `failure-taxonomy run`.
    may_be_asked = (
        SUPERVISOR_VARIABLE in os.environ and "PYTEST_XDIST_WORKER" in os.environ
    )
    if requested or may_be_asked:
        with imports_as_they_are(early_config):
            from pytest_failure_taxonomy.hooks.start import begin, startup_failed

        early_config.stash[_STARTUP_FAILED] = startup_failed
        begin(early_config, requested=requested)
    elif (
        stage := early_config.known_args_namespace.failure_taxonomy_stage
    ) is not None:
        option = OPTIONS["stage"]
        if (
            stage not in option.choices
        ):  # with the report on, the settings say so, with all else
            raise pytest.UsageError(
                f"{option.flag}: {stage!r} is unknown; give {option.wanted}"
            )
    yield
    args[:] = long_names(early_config, args)  # without those that a conftest has taken
    if (
        early_config.known_args_namespace.help
    ):  # nobody comes any more who could take one
        group = parser.getgroup("failure-taxonomy")
        for short, flag in free_names(early_config).items():
            group.addoption(
                short, dest=flag, action="store_true", help=f"Short for {flag}"
            )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which of our options have no effect, because the report is off."""
    if config.stash.get(_REQUESTED, True):
        return None
    given = [
        typed_name(config, option.names)
        for option in OPTIONS.values()
        if config.getoption(option.dest, None) not in (None, False, [])
    ]
    if not given:
        return None
    have = "has" if len(given) == 1 else "have"
    return f"failure taxonomy: {', '.join(given)} {have} no effect without --failure-taxonomy"


def is_requested(config: pytest.Config) -> bool:
    """Tell whether options or ini values switch the report on."""
    options = config.known_args_namespace
    if any(getattr(options, name, False) for name in _ONLY_ASK):
        return False
    if EXPERIMENT_VARIABLE in os.environ:
        return False  # it tells of one test alone, and in its own way
    given = (
        options.failure_taxonomy
        or options.failure_taxonomy_report is not None
        or options.failure_taxonomy_prove is not None
        or options.failure_taxonomy_certify
        or options.failure_taxonomy_base is not None
    )
    if given or _is_supervised():
        return True
    try:
        switch = config.getini("failure_taxonomy")
        if switch is not None:
            return bool(switch)
        values = ("report", "certify", "base")
        return any(config.getini(f"failure_taxonomy_{value}") for value in values)
    except (TypeError, ValueError, pytest.UsageError):
        return True  # the settings report what is wrong with the value


def _is_supervised() -> bool:
    """Tell whether this is the pytest that `failure-taxonomy run` reports."""
    if SUPERVISOR_VARIABLE not in os.environ:
        return False
    from pytest_failure_taxonomy.survive.mailbox import find_mailbox, report_before_this

    if find_mailbox() is not None:
        return True
    report_before_this()
    return False


def _after_a_failed_start(config: pytest.Config) -> None:
    """Report an error that ended pytest before its main hook: a bad option, a missing plugin.

    Such an error reaches no hook; but pytest cleans its configuration up while it is handled.
    """
    error = sys.exception()
    if error is None or not hasattr(config, "known_args_namespace"):
        return  # no error, or one in the search for a configuration, when nothing is known yet
    if _REQUESTED not in config.stash:
        _parse_our_options(config)
        config.stash[_REQUESTED] = is_requested(config)
    if config.stash[_REQUESTED]:
        report_failure: Any = config.stash.get(_STARTUP_FAILED, None)
        if report_failure is None:
            from pytest_failure_taxonomy.hooks.start import (
                startup_failed as report_failure,
            )
        report_failure(config, error)


def _parse_our_options(config: pytest.Config) -> None:
    """Parse our options if pytest failed before it did; it reports what is wrong with them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in OPTIONS.values():
        if option.is_ini_alone:
            continue
        is_flag = option.type == "flag"
        parser.add_argument(
            option.flag,
            dest=option.dest,
            nargs="?",
            action="append" if option.type == "list" else "store",
            const=True if is_flag else option.left_out,
            default=False if is_flag else None,
        )
    words = long_names(config, words_given(config))
    parser.parse_known_args(words, config.known_args_namespace)

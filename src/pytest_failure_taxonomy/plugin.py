"""pytest's entry point: the options, the hook specifications, and the switch.

Every pytest run of an environment imports this module, whether it wants a report or not, so it
imports nothing but pytest and what pytest itself has imported, and leaves the rest to `lifecycle`,
which is loaded when the option is given. The hook specifications stand here and not in a module of
their own for the same reason.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_failure_taxonomy.imports import imports_as_they_are

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_failure_taxonomy.recorder.attribution import FailureTaxonomy

STAGES = ("git_clone", "git_checkout", "setup", "baseline_run", "agent_run", "final_test")
"""The values of `Stage`, repeated so that `--help` imports nothing; a test compares them."""

SUPERVISOR_VARIABLE = "FAILURE_TAXONOMY_SUPERVISOR"
"""Repeated from `aftermath.mailbox` for the same reason."""

_REQUESTED = pytest.StashKey[bool]()
"""Whether a report was asked for when pytest started."""

_ONLY_ASK = ("help", "version", "markers", "showfixtures", "show_fixtures_per_test", "cacheshow")
"""Options with which pytest prints something and runs no test."""


_OPTIONS: dict[str, dict[str, Any]] = {
    "--failure-taxonomy": {
        "action": "store_true",
        "default": False,
        "help": "Say why the run failed: a verdict on the terminal and a JSON report "
        "(ini: failure_taxonomy)",
    },
    "--failure-taxonomy-report": {
        "metavar": "PATH",
        "help": "Write the report to PATH and switch --failure-taxonomy on; default: "
        "failure-report.json where pytest was started (ini: failure_taxonomy_report)",
    },
    "--failure-taxonomy-stage": {
        "metavar": f"{{{','.join(STAGES)}}}",
        "help": "The step of an attempt that this run is; default: final_test "
        "(ini: failure_taxonomy_stage)",
    },
    "--failure-taxonomy-rules": {
        "metavar": "FILE",
        "help": "Take the reasons of failures from the rules in this YAML file first "
        "(ini: failure_taxonomy_rules)",
    },
    "--failure-taxonomy-redact": {
        "metavar": "REGEX",
        "action": "append",
        "help": "Keep what matches out of the report and the verdict, besides the secrets of known "
        "forms; the first group alone, if there is one; repeatable (ini: failure_taxonomy_redact)",
    },
    "--failure-taxonomy-strict-baseline": {
        "action": "store_true",
        "default": False,
        "help": "In the stage baseline_run take exit code 1 alone for a valid baseline "
        "(ini: failure_taxonomy_strict_baseline)",
    },
    "--failure-taxonomy-stall-seconds": {
        "metavar": "SECONDS",
        "help": "With --failure-taxonomy, look at what makes no progress for so long, and say "
        "where it hangs; 0 is off; default: 60 (ini: failure_taxonomy_stall_seconds)",
    },
    "--failure-taxonomy-end-stalled": {
        "action": "store_true",
        "default": False,
        "help": "With --failure-taxonomy, end what hangs for so long; under xdist the worker of a "
        "test alone, otherwise the run (ini: failure_taxonomy_end_stalled)",
    },
    "--failure-taxonomy-history": {
        "metavar": "URL",
        "nargs": "?",
        "const": "",
        "help": "With --failure-taxonomy, record the run in the history and say what is new, came "
        "back, is known or flaky; an SQLite database or a URL of SQLAlchemy; default: "
        "FAILURE_TAXONOMY_HISTORY, else .failure-taxonomy/history.db (ini: "
        "failure_taxonomy_history)",
    },
    "--failure-taxonomy-known": {
        "metavar": "FILE|history",
        "help": "With --failure-taxonomy, end with exit status 0 if tests failed and every failure "
        "is one of those that FILE lists, or that the history knows "
        "(ini: failure_taxonomy_known)",
    },
    "--failure-taxonomy-junit": {
        "metavar": "PATH",
        "help": "With --failure-taxonomy, write JUnit XML that has reasons, owners and the "
        "failures of the session, too, even if pytest dies (ini: failure_taxonomy_junit)",
    },
    "--failure-taxonomy-html": {
        "metavar": "PATH",
        "help": "With --failure-taxonomy, write one HTML page with everything in it "
        "(ini: failure_taxonomy_html)",
    },
    "--failure-taxonomy-github": {
        "metavar": "{auto,on,off}",
        "help": "Annotate the run and write a summary and outputs of the step, for GitHub Actions; "
        "default: auto, which is on there (ini: failure_taxonomy_github)",
    },
    "--failure-taxonomy-summary": {
        "metavar": "{short,groups,off}",
        "help": "What to print at the end: the verdict, each group of failures besides, or "
        "nothing; default: short, and groups with -v (ini: failure_taxonomy_summary)",
    },
    "--failure-taxonomy-shard": {
        "metavar": "I/N",
        "help": "Which part of the suite this run is, such as 2/4; found out for pytest-split, "
        "pytest-shard and some CI systems (ini: failure_taxonomy_shard)",
    },
    "--failure-taxonomy-subtask": {
        "metavar": "ID",
        "help": "The subtask that this run is an attempt at, for the history "
        "(ini: failure_taxonomy_subtask)",
    },
    "--failure-taxonomy-approach": {
        "metavar": "TEXT",
        "help": "How the attempt goes about it, in a few words (ini: failure_taxonomy_approach)",
    },
}
"""The options of the command line, as `addoption` takes them."""


_IN_FILE = ", relative to the configuration file"
_INI_VALUES: dict[str, tuple[str, Any, Any]] = {
    "stage": ("", None, ""),
    "rules": (_IN_FILE, None, ""),
    "redact": (", one a line", "linelist", []),
    "strict-baseline": ("", "bool", False),
    "stall-seconds": ("", None, ""),
    "end-stalled": ("", "bool", False),
    "history": ("; `true` for the default", None, ""),
    "known": (_IN_FILE, None, ""),
    "junit": (_IN_FILE, None, ""),
    "html": (_IN_FILE, None, ""),
    **dict.fromkeys(("github", "summary", "shard", "subtask", "approach"), ("", None, "")),
}
"""What an ini value's help says more than its option's; type and default, as `addini` has them."""


class HookSpecs:
    """The hooks that other plugins and conftest files can implement."""

    @pytest.hookspec(firstresult=True)
    def pytest_failure_taxonomy_classify(
        self, exception: BaseException, nodeid: str, phase: str
    ) -> tuple[str, str] | None:
        """Say what the reason of a failed test is.

        Called for each failed phase of a test, in the process that ran it, unless the test itself
        has said so by the fixture `failure_taxonomy`. Return a reason, one of the 15, and a kind:
        `return "SANDBOX_ERROR", "sandbox.browser"`; or None to leave it to others, and to the
        rules. The exception must not be kept.
        """

    @pytest.hookspec
    def pytest_failure_taxonomy_report(self, report: dict[str, Any]) -> dict[str, Any] | None:
        """Add to the `extensions` of the report.

        Called once at the end of the run, on the controller, with the report as a JSON object.
        What the implementations return is merged, so use a namespace of your own as the only key:
        `return {"my_plugin": {...}}`. What JSON can't hold is left out; a line on stderr says so.
        """


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare our hooks, so that a conftest may implement them with the option off, too."""
    pluginmanager.add_hookspecs(HookSpecs)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options, and watch for a start that fails before any hook could see it."""
    group = parser.getgroup("failure-taxonomy", "why this run failed (pytest-failure-taxonomy)")
    for name, settings in _OPTIONS.items():
        group.addoption(name, **settings)
    parser.addini(
        "failure_taxonomy", "Say why the run failed, as --failure-taxonomy", "bool", default=None
    )
    parser.addini(
        "failure_taxonomy_report",
        "Path of the failure report, relative to the configuration file; switches the report on "
        "unless failure_taxonomy is false",
        default="",
    )
    for name, (more, kind, default) in _INI_VALUES.items():
        ini = f"failure_taxonomy_{name.replace('-', '_')}"
        parser.addini(ini, f"As --failure-taxonomy-{name}{more}", kind, default=default)
    parser.addini(
        "failure_taxonomy_markers",
        "More reasons of failure markers, one a line: NAME, or NAME = one of the 15 reasons",
        "linelist",
        default=[],
    )
    parser.addini(
        "failure_taxonomy_watcher",
        "Have a second small process complete the report if pytest dies (Linux)",
        "bool",
        default=True,
    )
    config = pluginmanager.get_plugin("pytestconfig")
    if isinstance(config, pytest.Config):
        config.add_cleanup(partial(_after_a_failed_start, config))


@pytest.fixture
def failure_taxonomy(request: pytest.FixtureRequest) -> FailureTaxonomy:
    """Say why a test fails, when it knows better: `.record(reason, kind, detail)`."""
    from pytest_failure_taxonomy.recorder.attribution import FailureTaxonomy

    return FailureTaxonomy(request.node)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Begin to record before the first conftest is loaded, if that was asked for."""
    requested = early_config.stash[_REQUESTED] = is_requested(early_config)
    if requested or _may_be_worker_of_supervised():
        with imports_as_they_are(early_config):
            from pytest_failure_taxonomy.run.lifecycle import begin

        begin(early_config, requested=requested)
    elif (stage := early_config.known_args_namespace.failure_taxonomy_stage) not in (None, *STAGES):
        # If the report is on, the settings report this with all other problems.
        raise pytest.UsageError(
            f"--failure-taxonomy-stage: unknown stage {stage!r}; one of {', '.join(STAGES)}"
        )
    return (yield)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which of our options have no effect, because the report is off."""
    if config.stash.get(_REQUESTED, True):
        return None
    given = [
        name
        for name in _OPTIONS
        if config.getoption(name[2:].replace("-", "_"), None) not in (None, False, [])
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
    given = options.failure_taxonomy or options.failure_taxonomy_report is not None
    if given or _is_supervised():
        return True
    try:
        switch = config.getini("failure_taxonomy")
        return bool(config.getini("failure_taxonomy_report")) if switch is None else bool(switch)
    except (TypeError, ValueError, pytest.UsageError):
        return True  # the settings report what is wrong with the value


def _is_supervised() -> bool:
    """Tell whether `failure-taxonomy run` is the parent of this process."""
    if SUPERVISOR_VARIABLE not in os.environ:
        return False
    from pytest_failure_taxonomy.aftermath.mailbox import find_mailbox

    return find_mailbox() is not None


def _may_be_worker_of_supervised() -> bool:
    """Tell whether this may be an xdist worker of a pytest under `failure-taxonomy run`.

    A worker gets the arguments of its controller, which under `run` need not ask for a report.
    """
    return SUPERVISOR_VARIABLE in os.environ and "PYTEST_XDIST_WORKER" in os.environ


def _after_a_failed_start(config: pytest.Config) -> None:
    """Report an error that ended pytest before its main hook: a bad option, a missing plugin.

    Such an error reaches no hook; but pytest cleans its configuration up while it is handled.
    """
    error = sys.exception()
    if error is None or not hasattr(config, "known_args_namespace"):
        return  # no error, or one in the search for a configuration, when nothing is known yet
    if not hasattr(config.known_args_namespace, "failure_taxonomy"):
        _parse_our_options(config)
    if config.stash.get(_REQUESTED, False) or is_requested(config):
        from pytest_failure_taxonomy.run.lifecycle import startup_failed

        startup_failed(config, error)


def _parse_our_options(config: pytest.Config) -> None:
    """Parse our options if pytest failed before it did; it reports what is wrong with them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name, settings in _OPTIONS.items():
        is_flag = settings.get("action") == "store_true"
        parser.add_argument(
            name,
            nargs="?",
            action="append" if settings.get("action") == "append" else "store",
            const=True if is_flag else None,
            default=False if is_flag else None,
        )
    args = [
        *shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
        *config.getini("addopts"),
        *map(str, config.invocation_params.args),
    ]
    parser.parse_known_args(args, config.known_args_namespace)

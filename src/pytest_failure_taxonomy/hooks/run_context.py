"""The context of a run: what its start tells, and what only its end tells."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import pytest

from pytest_failure_taxonomy.hooks.settings import Settings
from pytest_failure_taxonomy.option_files import has_password
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.survive import machine
from pytest_failure_taxonomy.survive.machine import describe_environment
from pytest_failure_taxonomy.taxonomy import evidence
from pytest_failure_taxonomy.taxonomy.values import replace

_VARIABLES: Final = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")
"""Environment variables from which pytest takes options and plugins."""


def start_context(
    config: pytest.Config,
    settings: Settings,
    secrets: Secrets,
    run_id: str,
    started_at: datetime,
) -> evidence.RunContext:
    """Return what is known at a run's start, before a test can patch anything."""
    # Where the run goes into the history: that starts git.
    commit: machine.Commit = (None, None)
    if settings.history is not None:
        commit = machine.find_commit(config.rootpath, machine.ci_job())
    git, repository = commit
    plugins = config.pluginmanager.list_plugin_distinfo()
    environment = describe_environment(
        pytest.__version__, [distribution for _, distribution in plugins]
    )
    history = settings.history
    args = [str(arg) for arg in config.invocation_params.args]
    return evidence.RunContext(
        id=run_id,
        started_at=started_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        duration_seconds=None,
        args=secrets.redact_arguments(args),
        rootdir=str(config.rootpath),
        environment=replace(environment, git=git),
        shard=settings.shard,
        repository=repository,
        attempt=settings.attempt,
        history=None if history is None or has_password(history) else history,
        faces=settings.faces,
        surroundings=_surroundings(config, args),
    )


def _surroundings(config: pytest.Config, args: Sequence[str]) -> evidence.Surroundings:
    """Return what a command that repeats a failure has to know about this run."""
    rootdir, folder = config.rootpath, config.invocation_params.dir
    has_cache = config.pluginmanager.has_plugin("cacheprovider")
    return evidence.Surroundings(
        variables=tuple(filter(os.environ.get, _VARIABLES)),
        cache=has_cache or "no:cacheprovider" in " ".join(args),
        folder=None if folder == rootdir else str(folder),
        root=machine.find_root(rootdir),
        python=evidence.python_options(" ".join(sys.orig_argv[1:])),
        path=machine.find_path_of_start(folder, rootdir),
    )


def add_watcher(
    context: evidence.RunContext, watcher: evidence.WatcherState
) -> evidence.RunContext:
    """Add what is known of the watcher, the process that outlives pytest."""
    environment = replace(context.environment, watcher=watcher)
    return replace(context, environment=environment)


def complete_context(
    context: evidence.RunContext,
    config: pytest.Config,
    duration_seconds: float,
    installed_in: Sequence[str] | None,
) -> evidence.RunContext:
    """Return the context of a run that has ended.

    Args:
        context: of its start.
        config: of the run.
        duration_seconds: of the run.
        installed_in: the folders of `sys.path`, if an experiment may have to know the
            commit and what is installed; `None` if not.
    """
    environment, repository = context.environment, context.repository
    # A test may have patched anything; the rest is enough.
    with suppress(Exception):
        if installed_in is not None:
            environment, (_, repository) = machine.look_closer(
                environment,
                (environment.git, repository),
                config.rootpath,
                installed_in,
            )
    with suppress(Exception):
        environment = replace(environment, memory=machine.memory_use())
    return replace(
        context,
        duration_seconds=duration_seconds,
        environment=environment,
        repository=repository,
    )

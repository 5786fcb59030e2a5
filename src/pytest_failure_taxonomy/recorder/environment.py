"""What a pytest run ran on."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.recorder.machine import ci_job, platform_name, python_version
from pytest_failure_taxonomy.taxonomy.evidence import Environment


def describe_environment(config: pytest.Config) -> Environment:
    """Return the interpreter, the system, pytest, its installed plugins, and the CI job."""
    return Environment(
        python=python_version(),
        platform=platform_name(),
        pytest=pytest.__version__,
        plugins=_plugins(config),
        ci=ci_job(),
    )


def _plugins(config: pytest.Config) -> tuple[str, ...]:
    found = config.pluginmanager.list_plugin_distinfo()
    return tuple(sorted({f"{dist.project_name}-{dist.version}" for _, dist in found}))

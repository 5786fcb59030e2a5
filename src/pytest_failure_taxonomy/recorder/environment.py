"""What a run ran on, without asking anything slow and without any variable that is not listed."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Final

import pytest

from pytest_failure_taxonomy.taxonomy.evidence import ContinuousIntegration, Environment


@dataclass(frozen=True, slots=True)
class _Provider:
    """The environment variables in which a CI provider says what it runs."""

    name: str
    given_away_by: str
    run_id: str
    job: str
    commit: str
    ref: str


CI_PROVIDERS: Final = (
    _Provider(
        "github", "GITHUB_ACTIONS", "GITHUB_RUN_ID", "GITHUB_JOB", "GITHUB_SHA", "GITHUB_REF"
    ),
    _Provider(
        "gitlab",
        "GITLAB_CI",
        "CI_PIPELINE_ID",
        "CI_JOB_NAME",
        "CI_COMMIT_SHA",
        "CI_COMMIT_REF_NAME",
    ),
    _Provider(
        "azure",
        "TF_BUILD",
        "BUILD_BUILDID",
        "SYSTEM_JOBNAME",
        "BUILD_SOURCEVERSION",
        "BUILD_SOURCEBRANCH",
    ),
    _Provider(
        "circleci", "CIRCLECI", "CIRCLE_WORKFLOW_ID", "CIRCLE_JOB", "CIRCLE_SHA1", "CIRCLE_BRANCH"
    ),
    _Provider(
        "buildkite",
        "BUILDKITE",
        "BUILDKITE_BUILD_ID",
        "BUILDKITE_LABEL",
        "BUILDKITE_COMMIT",
        "BUILDKITE_BRANCH",
    ),
    _Provider("jenkins", "JENKINS_URL", "BUILD_TAG", "JOB_NAME", "GIT_COMMIT", "GIT_BRANCH"),
)
"""All variables that are ever read into a report; published in the report's reference."""


def describe_environment(config: pytest.Config) -> Environment:
    """Return the interpreter, the system, pytest, its installed plugins, and the CI job."""
    return Environment(
        python=".".join(map(str, sys.version_info[:3])),
        platform=_platform(),
        pytest=pytest.__version__,
        plugins=_plugins(config),
        ci=_ci(),
    )


def _plugins(config: pytest.Config) -> tuple[str, ...]:
    found = config.pluginmanager.list_plugin_distinfo()
    return tuple(sorted({f"{dist.project_name}-{dist.version}" for _, dist in found}))


def _platform() -> str:
    # platform.platform() reads the C library from the executable, 5 ms; uname says enough.
    if not hasattr(os, "uname"):
        return sys.platform
    system = os.uname()
    return f"{system.sysname}-{system.release}-{system.machine}"


def _ci() -> ContinuousIntegration | None:
    for provider in CI_PROVIDERS:
        if provider.given_away_by in os.environ:
            return ContinuousIntegration(
                provider=provider.name,
                run_id=os.environ.get(provider.run_id),
                job=os.environ.get(provider.job),
                commit=os.environ.get(provider.commit),
                ref=os.environ.get(provider.ref),
            )
    return None

"""What machine and what CI job this is, without asking anything slow.

No environment variable is read into a report that is not listed here.
"""

from __future__ import annotations

import os
import sys
from typing import Final, NamedTuple

from pytest_failure_taxonomy.taxonomy.evidence import ContinuousIntegration


class _Provider(NamedTuple):
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


def python_version() -> str:
    """Return the interpreter's version, such as `3.11.7`."""
    return ".".join(map(str, sys.version_info[:3]))


def platform_name() -> str:
    """Return the system's name, release and machine."""
    # platform.platform() reads the C library from the executable, 5 ms; uname says enough.
    if not hasattr(os, "uname"):
        return sys.platform
    system = os.uname()
    return f"{system.sysname}-{system.release}-{system.machine}"


def ci_job() -> ContinuousIntegration | None:
    """Return the CI job that this is, by the first provider that gives itself away."""
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

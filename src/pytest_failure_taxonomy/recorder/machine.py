"""What a run ran on: interpreter, operating system, pytest, its plugins, and the CI job.

Nothing slow is asked. `CI_PROVIDERS` lists every environment variable that a report can quote.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from pytest_failure_taxonomy.system.memory import find_control_group, peak_rss_bytes
from pytest_failure_taxonomy.taxonomy.evidence import ContinuousIntegration, Environment, MemoryUse

_METADATA_FOLDER: Final = re.compile(r"(?P<name>.+)-(?P<version>[^-]+)\.dist-info")


class _Provider(NamedTuple):
    """The environment variables in which a CI provider describes the job."""

    name: str
    detected_by: str
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
"""Published in the reference of the report."""


def describe_environment(pytest_version: str, plugins: Iterable[Any] = ()) -> Environment:
    """Describe what a run runs on.

    Args:
        pytest_version: such as `8.4.0`.
        plugins: the distributions of the plugins that pytest has loaded.
    """
    return Environment(
        python=".".join(map(str, sys.version_info[:3])),
        platform=_platform_name(),
        pytest=pytest_version,
        plugins=tuple(sorted(set(map(_name_and_version, plugins)))),
        ci=ci_job(),
    )


def memory_use() -> MemoryUse | None:
    """Return how much memory this process and its control group have used, and may use."""
    group = find_control_group()
    peak = None if group is None else group.peak_bytes or group.used_bytes
    use = MemoryUse(
        limit_bytes=None if group is None else group.limit_bytes,
        cgroup_peak_bytes=peak,
        peak_rss_bytes=peak_rss_bytes(),
    )
    return None if use == MemoryUse() else use


def _platform_name() -> str:
    """Return the system's name, release and machine."""
    # platform.platform() reads the C library from the executable, 5 ms; uname says enough.
    if not hasattr(os, "uname"):
        return sys.platform
    system = os.uname()
    return f"{system.sysname}-{system.release}-{system.machine}"


def ci_job() -> ContinuousIntegration | None:
    """Return the CI job that this process belongs to, or `None` if no provider is detected."""
    for provider in CI_PROVIDERS:
        if provider.detected_by in os.environ:
            return ContinuousIntegration(
                provider=provider.name,
                run_id=os.environ.get(provider.run_id),
                job=os.environ.get(provider.job),
                commit=os.environ.get(provider.commit),
                ref=os.environ.get(provider.ref),
            )
    return None


def _name_and_version(distribution: Any) -> str:
    """Return the `name-version` of a distribution.

    The name of its metadata folder has both; reading the metadata takes 0.3 ms a plugin.
    """
    folder = getattr(getattr(distribution, "_dist", None), "_path", None)
    named = _METADATA_FOLDER.fullmatch(getattr(folder, "name", ""))
    if named is None:
        return f"{distribution.project_name}-{distribution.version}"
    return f"{named['name'].replace('_', '-')}-{named['version']}"

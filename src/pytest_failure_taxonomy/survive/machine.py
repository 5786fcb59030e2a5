"""What a run ran on: interpreter, system, pytest, plugins, CI job and commit.

Nothing slow is asked, but for the commit: git is started only where a run has failed or
goes into the history. `ci_providers` returns every environment variable that a report
can quote.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.system.process import (
    ask_git,
    find_control_group,
    peak_rss_bytes,
)
from pytest_failure_taxonomy.taxonomy import evidence, read_packaged
from pytest_failure_taxonomy.taxonomy.order import Plan
from pytest_failure_taxonomy.taxonomy.values import replace

MAX_SECONDS: Final = 1.0
"""How long all calls of git may take together."""
_MAIN_BRANCHES: Final = (
    "origin/HEAD",
    "origin/main",
    "origin/master",
    "main",
    "master",
)
"""Where a branch may have begun, the most likely one first."""
_URL: Final = re.compile(r"(?:.*[/:])?([^/:]+/[^/:]+?)(?:\.git)?/?")
_METADATA_FOLDER: Final = re.compile(
    r"(?P<name>.+?)-(?P<version>[^-]+)(-py[0-9.]+)?\.(dist|egg)-info"
)
_MAX_DISTRIBUTIONS: Final = 2_000
_SEED: Final = re.compile("[0-9]{1,18}")
_UNASKED: Final = "default:"
"""How pytest-random-order's seed begins if the user has given none."""


def describe_environment(
    pytest_version: str, plugins: Iterable[Any] = ()
) -> evidence.Environment:
    """Describe what a run runs on.

    Args:
        pytest_version: such as `8.4.0`.
        plugins: the distributions of the plugins that pytest has loaded.
    """
    names = set()
    for plugin in plugins:
        # The name of its metadata folder has both; reading the metadata takes 0.3 ms a
        # plugin.
        folder = getattr(getattr(plugin, "_dist", None), "_path", None)
        installed = _name_and_version(getattr(folder, "name", ""))
        names.add(installed or (plugin.project_name, plugin.version))
    # platform.platform() reads the C library from the executable, 5 ms; uname says
    # enough.
    platform = sys.platform
    if hasattr(os, "uname"):
        system = os.uname()
        platform = f"{system.sysname}-{system.release}-{system.machine}"
    return evidence.Environment(
        python=".".join(map(str, sys.version_info[:3])),
        platform=platform,
        pytest=pytest_version,
        plugins=tuple(sorted([f"{name}-{version}" for name, version in names])),
        ci=ci_job(),
    )


def _name_and_version(folder: str) -> tuple[str, str] | None:
    """Return both of a distribution, by the name of the folder with its metadata."""
    parts = _METADATA_FOLDER.fullmatch(folder)
    return parts and (parts["name"].replace("_", "-"), parts["version"])


def find_root(rootdir: Path) -> str | None:
    """Return a folder's path from the top of its Git repository; None outside of one.

    git isn't asked, so that it can be had in each run.
    """
    for folder in (rootdir, *rootdir.parents):
        if (folder / ".git").exists():
            return rootdir.relative_to(folder).as_posix()
    return None


def find_path_of_start(folder: Path, rootdir: Path) -> str | None:
    """Return the folder that Python put in front of `sys.path`, from the root.

    `python -m pytest` puts the current one there, a script that calls `pytest.main()`
    its own, and the command `pytest` none of the project's: that of installed commands,
    for which this is None.

    Args:
        folder: where pytest was started.
        rootdir: pytest's root directory.
    """
    script = Path(sys.argv[0])  # `-c` for a program on the command line
    front = folder if script.name == "__main__.py" else folder / script.parent
    is_command = script.stem == "pytest" or front == Path(sys.executable).parent
    if not (is_command or sys.flags.safe_path):
        with suppress(ValueError):  # another drive
            return os.path.relpath(front, rootdir).replace(os.sep, "/")
    return None


def plan_of(config: Any) -> Plan:
    """Return a run's seeds, and how xdist distributes its tests."""
    shuffled = str(config.getoption("random_order_seed", ""))
    is_unasked = shuffled.startswith(_UNASKED)
    if is_unasked and not config.getoption("random_order_enabled", None):
        shuffled = ""
    distribution = config.getoption("dist", "no")
    return Plan(
        hash=_parse_seed(os.environ.get("PYTHONHASHSEED")),
        randomly=_parse_seed(config.getoption("randomly_seed", None)),
        random_order=_parse_seed(shuffled.removeprefix(_UNASKED)),
        distribution=None if distribution == "no" else distribution,
    )


def _parse_seed(seed: object) -> int | None:
    digits = str(seed)
    if _SEED.fullmatch(digits):
        return int(digits)
    return None


def memory_use() -> evidence.MemoryUse | None:
    """Return the memory of this process and its control group, used and allowed."""
    group = find_control_group()
    peak = None
    if group is not None:
        peak = group.peak_bytes or group.used_bytes
    use = evidence.MemoryUse(
        limit_bytes=None if group is None else group.limit_bytes,
        cgroup_peak_bytes=peak,
        peak_rss_bytes=peak_rss_bytes(),
    )
    if use == evidence.MemoryUse():
        return None
    return use


@cache
def ci_providers() -> dict[str, dict[str, str]]:
    """Return the variables of each CI provider by what they hold; nobody changes them.

    The table is `data/ci_providers.json`: the variable that the provider is detected
    by, and those with the id of the run, the job, the commit and the ref, and with the
    branch of a pull request, where the commit is that of its merge.
    """
    providers: dict[str, dict[str, str]] = json.loads(
        read_packaged("ci_providers.json")
    )
    return providers


def ci_job() -> evidence.ContinuousIntegration | None:
    """Return the CI job of this process, or `None` without a known provider."""
    for provider, variables in ci_providers().items():
        if variables["detected_by"] in os.environ:
            return evidence.ContinuousIntegration(
                provider=provider,
                run_id=os.environ.get(variables["run_id"]),
                job=os.environ.get(variables["job"]),
                commit=os.environ.get(variables["commit"]),
                ref=os.environ.get(variables.get("ref", "")),
            )
    return None


Commit = tuple[evidence.GitState | None, evidence.Repository | None]
"""The commit that is checked out, and whose it is; `None` where that is not known."""


def look_closer(
    environment: evidence.Environment,
    commit: Commit,
    rootdir: Path,
    folders: Iterable[str],
) -> tuple[evidence.Environment, Commit]:
    """Add the commit and distributions, which an experiment has to know.

    Args:
        environment: without them.
        commit: of the start of the run; nothing where nobody has looked.
        rootdir: of the run.
        folders: those of `sys.path`.
    """
    if commit[0] is None:
        commit = find_commit(rootdir, environment.ci)
    installed = list_distributions(folders)
    return replace(environment, git=commit[0], distributions=installed), commit


def list_distributions(folders: Iterable[str]) -> tuple[str, ...]:
    """Return `name-version` of what is installed, by metadata folders alone."""
    distributions: dict[str, str] = {}
    for folder in folders:
        entries: list[str] = []
        with suppress(OSError):
            entries = os.listdir(folder)
        for entry in entries:
            installed = _name_and_version(entry)
            if installed is not None:
                name, version = installed
                # As in imports, the first one counts.
                distributions.setdefault(name.lower(), f"{name}-{version}")
    return tuple(sorted(distributions.values())[:_MAX_DISTRIBUTIONS])


def find_commit(rootdir: Path, ci: evidence.ContinuousIntegration | None) -> Commit:
    """Return the commit that is checked out, and the repository; `None` outside of one.

    Untracked files are not looked at. The network is never used.

    Args:
        rootdir: a folder of the repository.
        ci: the CI job, whose commit and branch count where git says nothing.
    """
    until = time.monotonic() + MAX_SECONDS

    def ask(arguments: str) -> str:
        status, answer = ask_git(rootdir, until, *arguments.split())
        return answer if status == 0 else ""

    head = ask("rev-parse HEAD --show-toplevel").splitlines()
    branch = ""
    if ci is not None:
        branch = _branch_of_job(ci)
    if head and not branch:
        branch = ask("symbolic-ref --quiet --short HEAD")
    if len(head) != 2:
        if ci is None or ci.commit is None:
            return None, None
        return evidence.GitState(commit=ci.commit, branch=branch or None), None
    commit, top = head
    status, _ = ask_git(rootdir, until, "diff-index", "--quiet", "HEAD", "--")
    state = evidence.GitState(
        commit=commit,
        branch=branch or None,
        dirty={0: False, 1: True}.get(status),
    )
    url = ask("config --get remote.origin.url")
    name = Path(top).name
    hosted = None
    if ":" in url:
        hosted = _URL.fullmatch(url)
    if hosted is not None:
        name = hosted[1]
    merge_base = None
    for main in _MAIN_BRANCHES:
        merge_base = merge_base or ask(f"merge-base HEAD {main}") or None
    return state, evidence.Repository(name=name, merge_base=merge_base)


def _branch_of_job(ci: evidence.ContinuousIntegration) -> str:
    """Return the branch that a CI job is of; empty for a tag, say."""
    variable = ci_providers().get(ci.provider, {}).get("branch", "")
    ref = os.environ.get(variable)
    if not ref:
        ref = ci.ref or ""
        if ref.startswith("refs/") and not ref.startswith("refs/heads/"):
            return ""
    return ref.removeprefix("refs/heads/").removeprefix("origin/")

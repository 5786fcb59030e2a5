"""Which commit a run tests: from git in the root directory and from the variables of CI systems.

It starts git, so it is asked only where a run goes into the history.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.taxonomy.evidence import ContinuousIntegration, GitState, Repository

MAX_SECONDS: Final = 1.0
"""How long all calls of git may take together."""
_MAIN_BRANCHES: Final = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Where a branch may have begun, the most likely one first."""
_OF_PULL_REQUESTS: Final = {
    "github": ("GITHUB_HEAD_REF",),
    "gitlab": ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",),
    "azure": ("SYSTEM_PULLREQUEST_SOURCEBRANCH",),
    "jenkins": ("CHANGE_BRANCH",),
}
"""Variables with the branch of a pull request, where the commit is that of its merge."""
_URL: Final = re.compile(r"(?:.*[/:])?([^/:]+/[^/:]+?)(?:\.git)?/?")


def find_commit(
    rootdir: Path, ci: ContinuousIntegration | None
) -> tuple[GitState | None, Repository | None]:
    """Return the commit that is checked out, and the repository; `None` outside of one.

    Untracked files are not looked at. The network is never used.

    Args:
        rootdir: a folder of the repository.
        ci: the CI job, whose commit and branch count where git says nothing.
    """
    git = _Git(rootdir)
    head = git.ask("rev-parse", "HEAD", "--show-toplevel").splitlines()
    branch = git.ask("symbolic-ref", "--quiet", "--short", "HEAD") if head else ""
    branch = _branch_of(ci, os.environ) or branch
    commit = head[0] if len(head) == 2 else ""
    if not commit:
        if ci is None or ci.commit is None:
            return None, None
        return GitState(commit=ci.commit, branch=branch or None), None
    status = git.ask_whether("diff-index", "--quiet", "HEAD", "--")
    state = GitState(
        commit=commit,
        branch=branch or None,
        dirty=None if status is None else not status,
    )
    url = git.ask("config", "--get", "remote.origin.url")
    found = _URL.fullmatch(url)
    name = found[1] if (found and "://" in url) or (":" in url and found) else Path(head[1]).name
    base = next(filter(None, (git.ask("merge-base", "HEAD", each) for each in _MAIN_BRANCHES)), "")
    return state, Repository(name=name, merge_base=base or None)


def _branch_of(ci: ContinuousIntegration | None, environ: Mapping[str, str]) -> str:
    if ci is None:
        return ""
    for name in _OF_PULL_REQUESTS.get(ci.provider, ()):
        if environ.get(name):
            return environ[name].removeprefix("refs/heads/")
    ref = ci.ref or ""
    if ref.startswith("refs/") and not ref.startswith("refs/heads/"):
        return ""
    return ref.removeprefix("refs/heads/").removeprefix("origin/")


class _Git:
    """Call git in a folder, as long as all calls together may take."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._until = time.monotonic() + MAX_SECONDS

    def ask(self, *arguments: str) -> str:
        """Return what git prints; nothing if it fails, is not there or takes too long."""
        done = self._run(arguments)
        return done.stdout.strip() if done is not None and done.returncode == 0 else ""

    def ask_whether(self, *arguments: str) -> bool | None:
        """Return whether git ends with 0 rather than 1; `None` if it can't say."""
        done = self._run(arguments)
        return None if done is None or done.returncode > 1 else done.returncode == 0

    def _run(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str] | None:
        left = self._until - time.monotonic()
        if left <= 0:
            return None
        # Guests take no locks, and ask no program of the user's.
        environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        try:
            return subprocess.run(  # noqa: S603 - git, with words of ours
                ["git", "-c", "core.fsmonitor=false", *arguments],  # noqa: S607 - the user's git
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=left,
                check=False,
            )
        except (OSError, subprocess.SubprocessError, ValueError):
            return None

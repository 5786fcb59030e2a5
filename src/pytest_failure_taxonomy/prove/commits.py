"""Find the commit since which a test fails, in a checkout beside the user's.

The question at each commit is the failure's fingerprint: a test that can't be imported there, or
fails in another way, decides nothing. `git bisect run` can ask the same by `bisect-step`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.prove import recorded
from pytest_failure_taxonomy.prove.causes import causes_of, in_turn, tell_and_keep
from pytest_failure_taxonomy.prove.experiment import (
    ExperimentError,
    Experiments,
    Outcome,
)
from pytest_failure_taxonomy.prove.places import Place
from pytest_failure_taxonomy.prove.rates import make_proof
from pytest_failure_taxonomy.prove.repository import git, toplevel_of
from pytest_failure_taxonomy.prove.search import Walk
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.evidence import GitState
from pytest_failure_taxonomy.taxonomy.judgement import Proof
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import counted, listed
from pytest_failure_taxonomy.text import first_line

_SHOWN: Final = 5
"""Commits that are told where none is proven, and files."""
_GIVE_ONE: Final = "give a commit by --good, or keep a history, which knows the last"
_IMPORTED: Final = (".py", ".so", ".pyd")


@contextmanager
def checkout_beside(source: Path) -> Iterator[Path]:
    """Check a repository out into a temporary worktree; git forgets it at the end."""
    prefix = "failure-taxonomy-commits-"
    with tempfile.TemporaryDirectory(
        prefix=prefix,
        ignore_cleanup_errors=True,
    ) as around:
        # The same name: it is that of the package where tests lie in the top folder.
        folder = Path(around).resolve() / source.name
        git(source, "worktree", "add", "--no-checkout", "--detach", str(folder))
        try:
            yield folder
        finally:
            with suppress(ExperimentError):
                git(source, "worktree", "remove", "--force", str(folder))


def commits_between(source: Path, good: str, bad: str) -> list[list[str]]:
    """Return a good commit, and those that the bad one contains and it does not.

    Each is followed by its parents, and comes after them. Where the good one is no ancestor,
    their last common one takes its place.

    Raises:
        ExperimentError: one of them is not there, or none lies between.
    """
    hint = f"; {source} has to have both commits: after a shallow clone, git fetch --unshallow"
    base = git(source, "merge-base", good, bad, hint=hint)
    commits = f"{base}..{bad}"
    order = ("--topo-order", "--reverse", "--parents")
    lines = git(source, "rev-list", *order, commits).splitlines()
    if not lines:
        raise ExperimentError(
            f"no commit lies after {good} up to {bad}; give an earlier one"
        )
    rows = [[base], *map(str.split, lines)]
    for row in rows[1:]:
        # Before the first commit of another history, which was merged, is what was there before.
        if not row[1:]:
            row.append(base)
    return rows


def built_modules(source: Path) -> list[str]:
    """Return modules that git ignores, beside the project's own: what a build has made.

    Without a file with the version, or a compiled extension, nothing is imported.
    """
    tracked = git(source, "ls-files", "-z").split("\0")
    others = ("--others", "--ignored", "--exclude-standard")
    ignored = git(source, "ls-files", "-z", *others).split("\0")
    folders = {os.path.dirname(name) for name in tracked if name.endswith(".py")}
    return [
        name
        for name in ignored
        if name.endswith(_IMPORTED) and os.path.dirname(name) in folders
    ]


def find_commits(
    task: recorded.Task, good: str | None = None
) -> tuple[FailureReport, bool]:
    """Return a report with the commits since which its causes fail, and whether all are proven.

    Args:
        task: what is asked for.
        good: a commit at which the tests pass; else the last one that the history knows.

    Raises:
        ExperimentError: git or pytest can't be run, or what would be tested is not the commit's.
        SettingsError: there is no such cause.
    """
    report, tell = task.report, task.tell
    chosen = causes_of(report, task.number)
    setup = recorded.setup_of(report)
    source = toplevel_of(setup.folder)
    git_then = report.environment.git or GitState()
    if built := built_modules(source):
        tell(f"what git ignores is taken as it is in {source}: {listed(built, _SHOWN)}")
    not_found = len(chosen)
    with checkout_beside(source) as folder:
        place = Place(setup, source, folder)
        with recorded.experiments_of(task, place.setup) as experiments:
            for cause in in_turn(task, chosen, experiments):
                begin = good
                if begin is None and cause.history is not None:
                    begin = cause.history.last_passed_commit
                if begin is None:
                    tell(f"   it is not known where it passed; {_GIVE_ONE}")
                    continue
                repeat = recorded.repeat_of(report, cause, experiments)
                rows = commits_between(source, begin, git_then.commit or "HEAD")
                proof = _prove(place, rows, built, experiments, repeat, tell)
                if git_then.dirty and proof.status == "undecided":
                    words = "what was not committed when it failed"
                    proof = replace(proof, suspicions=(*proof.suspicions, words))
                report = tell_and_keep(task, report, cause, proof)
                not_found -= proof.status == "proven"
    return report, not not_found


def _prove(
    place: Place,
    rows: Sequence[Sequence[str]],
    built: Sequence[str],
    experiments: Experiments,
    repeat: recorded.Repeat,
    tell: Callable[[str], None],
) -> Proof:
    """Return a proof that says since which commit a cause is there."""

    def words(commit: str) -> str:
        return git(place.folder, "show", "-s", "--format=%h %an: %s", commit)

    def ask(commit: str) -> Outcome:
        git(place.folder, "checkout", "--quiet", "--force", "--detach", commit)
        git(place.folder, "clean", "-ffdxq")  # what the run before has left behind
        for name in built:
            with suppress(OSError):
                shutil.copy2(place.source / name, place.folder / name)
        place.setup.folder.mkdir(parents=True, exist_ok=True)  # it may have come later
        outcome = place.run(experiments, repeat)
        if not walk.counts[commit].runs and commit not in walk.untestable:
            result: str = outcome.result
            if result == "other":
                result = f"can't be tested: {first_line(outcome.words)}"
            tell(f"   {words(commit)}: {result}")
        return outcome

    walk = Walk(rows, ask, repeat.known)
    good, bad = rows[0][0], rows[-1][0]
    commits = counted(len(rows) - 1, "commit")
    steps = counted(len(rows).bit_length() - 1, "step")
    tell(f"   {commits} since {words(good)}: about {steps}")
    result = walk.find()
    if isinstance(result, str):
        suspicions = []
        if walk.counts[bad].failed:
            for commit, share in walk.likeliest()[:_SHOWN]:
                if commit != good:
                    suspicions.append(f"{share:.0%} {words(commit)}")
        suspected = tuple(suspicions)
        return make_proof("commit", "undecided", state=result, suspicions=suspected)
    commit, parent = result
    return make_proof(
        "commit",
        "proven",
        walk.counts[commit],
        walk.counts[parent],
        state=words(commit),
        command=f"git show {commit[:12]}",
    )


def bisect_step(report: FailureReport, *, number: int, times: int) -> Outcome:
    """Return how the test of a cause ends in the checkout that is the working directory.

    Args:
        report: of a run.
        number: of the cause, from 1 on.
        times: how often it runs, unless it fails before.

    Raises:
        ExperimentError: pytest can't be run as it was, or not with the code of this checkout.
        SettingsError: there is no such cause, or nothing to run.
    """
    ((_, cause),) = causes_of(report, number)
    if not recorded.victims_of(report, cause):
        raise SettingsError(
            "bisect-step: no test of this cause fails, so there is nothing to run"
        )
    setup = recorded.setup_of(report)
    place = Place(setup, toplevel_of(setup.folder), toplevel_of(Path.cwd()))
    limit = recorded.limit_of(report)
    until = time.monotonic() + 2 * limit * times
    experiments = Experiments(
        place.setup, until=until, limit_seconds=limit, allows_effects=True
    )
    with experiments:
        repeat = recorded.repeat_of(report, cause, experiments)
        for _ in range(times):
            outcome = place.run(experiments, repeat)
            if outcome.result != "passed":
                break
    return outcome

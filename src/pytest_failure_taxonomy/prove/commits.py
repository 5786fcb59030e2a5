"""Find the commit since which a test fails, in a checkout beside the user's.

The question at each commit is the failure's fingerprint: a test that can't be imported there, or
fails in another way, decides nothing. `git bisect run` can ask the same by `bisect-step`.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.prove import recorded
from pytest_failure_taxonomy.prove.causes import causes_of, in_turn, tell_and_keep
from pytest_failure_taxonomy.prove.experiment import (
    ExperimentError,
    Experiments,
    Outcome,
    Setup,
)
from pytest_failure_taxonomy.prove.places import Place
from pytest_failure_taxonomy.prove.rates import make_proof
from pytest_failure_taxonomy.prove.repository import git, hash_or_none, toplevel_of
from pytest_failure_taxonomy.prove.search import Walk
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.judgement import Proof
from pytest_failure_taxonomy.taxonomy.values import replace
from pytest_failure_taxonomy.taxonomy.words import counted, listed
from pytest_failure_taxonomy.text import first_line

_SHOWN: Final = 5
"""How many commits to name if none is proven, and how many files."""
_GIVE_ONE: Final = (
    "give a commit with --good, or keep a history, which knows the last pass"
)
_IMPORTED: Final = ("*.py", "*.so", "*.pyd")


class Checkout(Place):
    """A place that has one commit after the other, and knows what files were called there.

    Attributes:
        built: what git ignores and is taken from the user's checkout.
        since: the commit of the report.
    """

    built: Iterable[str] = ()
    since = "HEAD"
    _names: Mapping[str, str] = {}
    """Files that have another name here than in the report, by their names there."""

    def check_out(self, commit: str, nodeids: Iterable[str]) -> None:
        """Check a commit out, without what the run before has left behind.

        Args:
            commit: its name.
            nodeids: tests whose files are followed from name to name.
        """
        git(self.folder, "checkout", "--quiet", "--force", "--detach", commit)
        git(self.folder, "clean", "-ffdxq")
        for name in self.built:
            with suppress(OSError):
                shutil.copy2(self.source / name, self.folder / name)
        self.setup.folder.mkdir(parents=True, exist_ok=True)  # it may have come later
        self.find_names(nodeids)

    def find_names(self, nodeids: Iterable[str]) -> None:
        """Find out what files of the report's commit are called in this checkout."""
        since, rootdir = self.since, self.setup.rootdir
        # Step by step a file may have changed so much that its first and last are not alike.
        names = dict(self._renames("diff", "HEAD", since))
        for file in {nodeid.partition("::")[0] for nodeid in nodeids} - names.keys():
            path = rootdir / file
            if not path.exists():
                for _, old in self._renames("log", "--follow", since, "--", str(path)):
                    if (rootdir / old).exists():
                        names.setdefault(file, old)
        self._names = names

    def _renames(self, command: str, *words: str) -> Iterator[tuple[str, str]]:
        """Yield new and old names of files, as in node ids."""
        form = ("--format=", "-M", "--diff-filter=R", "--name-status", "-z")
        listing = git(self.folder, command, *form, *words)
        for paths in re.findall("(?:^|[\0\n])R\\d+\0([^\0]+)\0([^\0]+)", listing):
            old, new = (self._in_rootdir(self.folder / path) for path in paths)
            yield new, old

    def _in_rootdir(self, path: Path) -> str:
        return os.path.relpath(path, self.setup.rootdir).replace(os.sep, "/")

    def name_of(self, nodeid: str) -> str:
        """Return a test's node id here."""
        file, colons, test = nodeid.partition("::")
        return f"{self._names.get(file, file)}{colons}{test}"

    def file_of(self, nodeid: str) -> Path:
        """Return where the file of a test is here, or would be."""
        return self.setup.rootdir / self.name_of(nodeid).partition("::")[0]

    def run(
        self, experiments: Experiments, repeat: recorded.Repeat, **more: Any
    ) -> Outcome:
        """Run a test as it failed, by the names that it and others have here."""
        args = tuple(self._args_here())
        experiments.setup = replace(self.setup, args=args)
        victim = repeat.victim
        repeat = replace(
            repeat,
            victim=replace(victim, nodeid=self.name_of(victim.nodeid)),
            before=tuple(map(self.name_of, repeat.before)),
        )
        renames = {old: new for new, old in self._names.items()}
        return super().run(experiments, repeat, renames=renames, **more)

    def _args_here(self) -> Iterator[str]:
        """Yield pytest's arguments: of test files those that are here, each as a whole.

        pytest would run nothing if a file or a test that it is given is missing.
        """
        option = ""
        for arg in self.setup.args:
            file = arg.partition("::")[0]
            path = self._in_rootdir(self.setup.folder / file)
            # It may be the value of an option, such as `--ignore`.
            is_value = option.startswith("--") and "=" not in option
            option = arg
            if is_value or arg.startswith("-") or not file.endswith(".py"):
                yield arg
            elif self.file_of(path).exists():
                yield str(self.file_of(path))


@contextmanager
def checkout_beside(
    report: FailureReport, setup: Setup, source: Path, tell: Callable[[str], None]
) -> Iterator[Checkout]:
    """Have a temporary worktree of a repository, after saying what it lacks.

    Args:
        report: of the run.
        setup: how to run pytest in the user's own checkout.
        source: the folder of that.
        tell: prints a line.
    """
    if (source / ".gitmodules").exists():
        tell("submodules are not checked out: what needs them can't be tested")
    built = built_modules(source)
    if built:
        tell(f"what git ignores is taken as it is in {source}: {listed(built, _SHOWN)}")
    prefix = "failure-taxonomy-commits-"
    with tempfile.TemporaryDirectory(
        prefix=prefix,
        ignore_cleanup_errors=True,
    ) as around:
        # The same name: it is that of the package where tests lie in the top folder.
        folder = Path(around).resolve() / source.name
        git(source, "worktree", "add", "--no-checkout", "--detach", str(folder))
        try:
            place = Checkout(setup, source, folder)
            place.built = built
            place.since = commit_of(report) or git(source, "rev-parse", "HEAD")
            yield place
        finally:
            with suppress(ExperimentError):
                git(source, "worktree", "remove", "--force", str(folder))


def commit_of(report: FailureReport) -> str | None:
    """Return the commit of a report's run; `None` where it has none."""
    git_then = report.environment.git
    return hash_or_none(None if git_then is None else git_then.commit)


def is_shallow(source: Path) -> bool:
    """Tell whether a clone lacks commits."""
    return git(source, "rev-parse", "--is-shallow-repository") == "true"


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
    others = ("--others", "--ignored", "--exclude-standard", "--", *_IMPORTED)
    sources = git(source, "ls-files", "-z", "*.py").split("\0")
    folders = {*map(os.path.dirname, sources)}
    ignored = git(source, "ls-files", "-z", *others).split("\0")
    return [name for name in ignored if name and os.path.dirname(name) in folders]


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
    if is_shallow(source):
        tell(
            "the clone is shallow, so it lacks commits; git fetch --unshallow gets them"
        )
    if changed := git(source, "diff", "--name-only", "HEAD"):
        changed_files = listed(changed.splitlines(), _SHOWN)
        tell(f"not committed, and so not tested: {changed_files}")
    not_found = len(chosen)
    with (
        checkout_beside(report, setup, source, tell) as place,
        recorded.experiments_of(task, place.setup) as experiments,
    ):
        for cause in in_turn(task, chosen, experiments):
            begin = good
            if begin is None and cause.history is not None:
                begin = hash_or_none(cause.history.last_passed_commit)
            if begin is None:
                tell(f"   it is not known where it passed; {_GIVE_ONE}")
                continue
            repeat = recorded.repeat_of(report, cause, experiments)
            rows = commits_between(source, begin, place.since)
            proof = _prove(place, rows, experiments, repeat, tell)
            if proof.status == "undecided" and _was_dirty(report):
                words = "what was not committed when it failed"
                proof = replace(proof, suspicions=(*proof.suspicions, words))
            report = tell_and_keep(task, report, cause, proof)
            not_found -= proof.status == "proven"
    return report, not not_found


def _was_dirty(report: FailureReport) -> bool:
    git_then = report.environment.git
    return git_then is not None and bool(git_then.dirty)


def _prove(
    place: Checkout,
    rows: Sequence[Sequence[str]],
    experiments: Experiments,
    repeat: recorded.Repeat,
    tell: Callable[[str], None],
) -> Proof:
    """Return a proof that says since which commit a cause is there."""

    def words(commit: str) -> str:
        return git(place.folder, "show", "-s", "--format=%h %an: %s", commit)

    good, bad = rows[0][0], rows[-1][0]
    nodeids = (*repeat.before, repeat.victim.nodeid)

    def ask(commit: str) -> Outcome:
        place.check_out(commit, nodeids)
        outcome = place.run(experiments, repeat)
        if not walk.counts[commit].runs and commit not in walk.untestable:
            tell(f"   {words(commit)}: {result_words(outcome)}")
        return outcome

    walk = Walk(rows, ask, repeat.known)
    commits = counted(len(rows) - 1, "commit")
    steps = counted(len(rows).bit_length() - 1, "step")
    tell(f"   {commits} since {words(good)}: about {steps}")
    place.check_out(good, nodeids)
    files = [place.file_of(nodeid) for nodeid in nodeids]
    if absent := [file.name for file in files if not file.exists()]:
        lacking = f"{words(good)} has no {listed(absent, 1)}"
        tell(f"   {lacking}: commits without it can't be tested")
    result = walk.find()
    if isinstance(result, str):
        likeliest = walk.likeliest()[:_SHOWN] if walk.counts[bad].failed else ()
        suspicions = [
            f"{share:.0%} {words(commit)}"
            for commit, share in likeliest
            if commit != good
        ]
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


def result_words(outcome: Outcome) -> str:
    """Return how a test ended, for people."""
    if outcome.result == "other":
        return f"can't be tested: {first_line(outcome.words)}"
    return outcome.result


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
    place = Checkout(setup, toplevel_of(setup.folder), toplevel_of(Path.cwd()))
    limit = recorded.limit_of(report)
    until = time.monotonic() + 2 * limit * times
    experiments = Experiments(
        place.setup, until=until, limit_seconds=limit, allows_effects=True
    )
    with experiments:
        repeat = recorded.repeat_of(report, cause, experiments)
        if since := commit_of(report):
            place.since = since
            with suppress(ExperimentError):  # the repository may lack that commit
                place.find_names(cause.nodeids)
        for _ in range(times):
            outcome = place.run(experiments, repeat)
            if outcome.result != "passed":
                break
    return outcome

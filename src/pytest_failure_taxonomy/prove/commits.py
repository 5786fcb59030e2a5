"""Find the commit since which a test fails, in a checkout beside the user's.

The question at each commit is the failure's fingerprint: a test that can't be imported there, or
fails in another way, decides nothing. `git bisect run` can ask the same by `bisect-step`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import log2
from pathlib import Path
from typing import Any, Final

from pytest_failure_taxonomy.errors import SettingsError
from pytest_failure_taxonomy.prove import causes, recorded
from pytest_failure_taxonomy.prove.experiment import (
    ExperimentError,
    Experiments,
    Outcome,
    OutOfTime,
    Setup,
    Victim,
)
from pytest_failure_taxonomy.prove.rates import (
    FEWEST,
    Count,
    are_apart,
    in_report,
    passes_needed,
    upper_bound,
)
from pytest_failure_taxonomy.prove.recorded import Repeat
from pytest_failure_taxonomy.prove.search import Culprits
from pytest_failure_taxonomy.report.build import NO_PROOF, JSONObject
from pytest_failure_taxonomy.report.text import first_line
from pytest_failure_taxonomy.system.process import ask_git
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import counted, listed

_SURE: Final = 0.95
"""How likely a commit has to be before it is compared with its parents."""
_MOST_AT_ENDS: Final = 20
"""Runs at each end, where the good commit has failed now and then."""
_SHOWN: Final = 5
"""Commits that are told where none is proven, and files."""
_SECONDS_OF_GIT: Final = 120.0
_OF_A_HOOK: Final = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})
"""What git sets for its hooks; it would be asked about another checkout than ours."""
_ABBREVIATED: Final = 12
"""Characters of a commit's name in a command."""
_IMPORTED: Final = (".py", ".so", ".pyd")
_SUBMODULE: Final = "160000"


@value
class Commits:
    """A good commit, which is number 0, those after it up to the bad one, and other parents."""

    names: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]
    contained: tuple[int, ...]
    """Of each, which of them up to the bad one it contains, as bits; 0 stands for all before."""
    bad: int


@value
class Found:
    """What a walk over commits has found."""

    status: str
    why: str = ""
    commit: int | None = None
    parent: int | None = None
    """The one of its parents of which least is known that it passes there."""


class Walk:
    """Asks at as few commits as possible whether a test fails, until one is known as the first.

    Where it fails each time this is plain bisection. Else each run is weighed, by the rate at which
    it fails, and commits are asked again.

    Attributes:
        counts: of the runs, by commit.
        untestable: what happened at commits where nothing could be decided.
        culprits: how likely each commit is.
    """

    def __init__(self, commits: Commits, ask: Callable[[int], Outcome], known: Count) -> None:
        """Prepare.

        Args:
            commits: where to look.
            ask: runs the test at one of them.
            known: earlier runs that tell how often it fails at the bad commit.
        """
        self._commits, self._ask, self._known = commits, ask, known
        self._others = Counter[int]()
        self._comes_and_goes = False
        self.counts: dict[int, Count] = {}
        self.untestable: dict[int, str] = {}
        self.culprits = Culprits(commits.contained, {}, 1.0)

    def find(self) -> Found:
        """Return the first commit at which it fails, or why that is not known."""
        try:
            return self._find()
        except OutOfTime:
            return Found(status="undecided", why="time ran out")

    def count(self, commit: int) -> Count:
        """Return how often it has failed at a commit."""
        return self.counts.get(commit, Count())

    def _find(self) -> Found:
        bad, known = self._commits.bad, self._known
        is_rare = 0 < known.failed < known.runs
        tries = passes_needed(known.failed / known.runs) if is_rare else FEWEST
        while not self.count(bad).failed:
            if bad in self.untestable:
                why = f"at the failing commit it ends in another way: {self.untestable[bad]}"
                return Found(status="undecided", why=why)
            if self.count(bad).runs >= tries:
                why = f"at the failing commit it passes ({tries} of {tries})"
                return Found(status="undecided", why=why)
            self._run(bad)
        self._run(0)
        while True:
            self.culprits = Culprits(self._commits.contained, self.counts, *self._rates())
            if not self.culprits.groups:  # it has passed where it had to fail
                self._comes_and_goes = True
                continue
            (likeliest, share), *_ = self.culprits.likeliest(1)
            found: Found | int | None
            if share >= _SURE:
                found = self._compare(likeliest)
            else:
                found = self.culprits.most_telling(self.untestable)
            if isinstance(found, Found):
                return found
            if found is None:
                return Found(status="undecided", why="the other commits can't be tested")
            self._run(found)

    def _run(self, commit: int) -> None:
        outcome = self._ask(commit)
        if outcome.result != "other":
            self.counts[commit] = self.count(commit).plus(outcome.result)
            return
        self._others[commit] += 1
        if self._others[commit] > self.count(commit).runs:
            self.untestable[commit] = outcome.words

    def _rates(self) -> tuple[float, float]:
        """Return how often it fails from the first commit on, and how often before it."""
        good, bad = self.count(0), self.count(self._commits.bad)
        failed, runs = bad.failed + self._known.failed, bad.runs + self._known.runs
        is_certain = failed == runs and not self._comes_and_goes
        rate = 1.0 if is_certain else (failed + 0.5) / (runs + 1)
        return rate, good.failed / good.runs if good.failed and are_apart(bad, good) else 0.0

    def _compare(self, commit: int) -> Found | int:
        """Return what is proven of the likeliest commit, or where to ask next."""
        parents = self._commits.parents[commit] if commit else (self._commits.bad,)
        sides = [each for each in (commit, *parents) if each not in self.untestable]
        # At the good commit it may have failed by chance, and seldom: that takes more runs.
        is_seldom = commit == 0 and self.count(0).failed < self.count(0).runs
        for side in sides:
            if self.count(side).runs < (_MOST_AT_ENDS if is_seldom else FEWEST):
                return side
        if commit == 0:
            why = f"it fails before: {self.count(0)} at the good commit; give an earlier by --good"
            return Found(status="undecided", why=why)
        parent = max(
            parents, key=lambda each: (each in self.untestable, upper_bound(self.count(each)))
        )
        if parent in self.untestable:
            return Found(status="suspected", commit=commit, parent=parent)
        if are_apart(self.count(commit), self.count(parent)):
            return Found(status="proven", commit=commit, parent=parent)
        return min(sides, key=lambda each: self.count(each).runs)


class Place:
    """A checkout in which tests run, while what is installed may be another one.

    Attributes:
        setup: how to run pytest in it.
    """

    def __init__(self, setup: Setup, source: Path, folder: Path) -> None:
        """Prepare.

        Args:
            setup: how to run pytest in the user's own checkout.
            source: the folder of that.
            folder: that of the one in which the tests run.
        """
        self.source, self.folder = source, folder
        self._roots: list[str] = []
        rootdir = self._moved(str(setup.rootdir.resolve()))
        self.setup = replace(
            setup,
            args=(*map(self._moved, setup.args), f"--rootdir={rootdir}"),
            folder=Path(self._moved(str(setup.folder.resolve()))),
            rootdir=Path(rootdir),
        )

    def run(self, experiments: Experiments, victim: Victim, repeat: Repeat) -> Outcome:
        """Run a test as it failed, with the project's modules from this checkout.

        Raises:
            ExperimentError: they come from elsewhere whatever `sys.path` says.
        """
        while True:
            inherited = self._moved(os.environ.get("PYTHONPATH", ""))
            path = os.pathsep.join(filter(None, [*self._roots, inherited]))
            variables = (*repeat.conditions.variables, ("PYTHONPATH", path or None))
            conditions = replace(repeat.conditions, variables=variables)
            outcome = experiments.run(
                victim, repeat.before, conditions, is_fresh=True, tells_modules=True
            )
            missing = dict(self._missing_roots(outcome.answer("modules") or {}))
            if not missing:
                return outcome
            for root in missing.keys() & self._roots:
                raise ExperimentError(
                    f"{missing[root]}, and not from the commit's files; install the project in a "
                    "way that lets PYTHONPATH come first, such as: pip install -e ."
                )
            self._roots += missing

    def _moved(self, text: str) -> str:
        """Return a text in which paths of the user's checkout have become those of this one."""
        paths = rf"{re.escape(str(self.source))}(?![^/\\:;,\[])"
        return re.sub(paths, lambda _: str(self.folder), text)

    def _missing_roots(self, modules: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield folders of this checkout that `sys.path` lacks, with a module that shows it."""
        places = {self.folder, self.setup.rootdir, self.setup.folder}
        tops = sorted(places | {place / "src" for place in places})
        for name, file in modules.items():
            path = Path(file)
            words = f"{name} is imported from {file}"
            if path.is_relative_to(self.folder) or name == "__main__":
                continue
            if path.is_relative_to(self.source):
                same = self.folder / path.relative_to(self.source)
                if same.exists():  # else it is no file of the project's
                    yield str(same.parents[name.count(".") + (path.stem == "__init__")]), words
            elif name not in sys.stdlib_module_names:  # a copy of a package may be installed
                for top in tops:
                    if (top / name / "__init__.py").is_file() or (top / f"{name}.py").is_file():
                        yield str(top), words


@contextmanager
def checkout_beside(source: Path) -> Iterator[Path]:
    """Have a checkout of a repository in a folder of its own, of which git knows until the end."""
    around = Path(tempfile.mkdtemp(prefix="failure-taxonomy-commits-")).resolve()
    # The same name: it is that of the package where tests lie in the top folder.
    folder = around / source.name
    try:
        git(source, "worktree", "add", "--no-checkout", "--detach", str(folder))
        yield folder
    finally:
        with suppress(ExperimentError):
            git(source, "worktree", "remove", "--force", str(folder))
        shutil.rmtree(around, ignore_errors=True)


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints; no hooks run.

    Raises:
        ExperimentError: it fails, or is not there.
    """
    off = ("-c", f"core.hooksPath={os.devnull}", "-c", "gc.auto=0")
    until = time.monotonic() + _SECONDS_OF_GIT
    status, said = ask_git(folder, until, *off, *arguments, without=_OF_A_HOOK)
    if status:
        raise ExperimentError(f"git {arguments[0]}: {said.rpartition(chr(10))[2] or 'no answer'}")
    return said


def toplevel_of(folder: Path) -> Path:
    """Return the folder of the checkout that another is in.

    Raises:
        ExperimentError: it is in none.
    """
    return Path(git(folder, "rev-parse", "--show-toplevel")).resolve()


def commits_between(source: Path, good: str, bad: str) -> Commits:
    """Return a good commit, and those that the bad one contains and it does not.

    Where the good one is no ancestor, their last common one takes its place.

    Raises:
        SettingsError: one of them is not there, or none lies between.
    """
    try:
        base = git(source, "merge-base", good, bad)
        said = git(source, "rev-list", "--topo-order", "--reverse", "--parents", f"{base}..{bad}")
    except ExperimentError as error:
        raise SettingsError(
            f"{error}; {source} has to have both commits (a shallow clone has only the last ones: "
            "git fetch --unshallow)"
        ) from None
    rows = [[base], *(line.split() for line in said.splitlines())]
    if len(rows) == 1:
        raise SettingsError(f"prove: no commit lies after {good} up to {bad}; give an earlier one")
    numbers = {row[0]: number for number, row in enumerate(rows)}
    parents: list[tuple[int, ...]] = []
    contained: list[int] = []
    for number, (_, *names) in enumerate(rows):
        of_row = tuple(numbers.setdefault(name, len(numbers)) for name in names)
        bits = 1 << number
        for parent in of_row:
            bits |= contained[parent] if parent < number else 1
        parents.append(of_row)
        contained.append(bits)
    outer = len(numbers) - len(rows)
    return Commits(
        names=tuple(numbers),
        parents=(*parents, *((),) * outer),
        contained=(*contained, *(1,) * outer),
        bad=len(rows) - 1,
    )


def find_commits(
    report: JSONObject,
    *,
    good: str | None = None,
    number: int | None = None,
    budget_seconds: float,
    allows_effects: bool = False,
    tell: Callable[[str], None],
    save: Callable[[JSONObject], None],
) -> JSONObject:
    """Return a report with the commits since which its causes fail.

    Args:
        report: its JSON object.
        good: a commit at which the tests pass; else the last one that the history knows.
        number: of the only cause that is looked at, from 1 on.
        budget_seconds: for all causes together.
        allows_effects: run tests that use the network, a database or other processes.
        tell: prints a line.
        save: keeps the report, after each cause.

    Raises:
        ExperimentError: git or pytest can't be run, or what would be tested is not the commit's.
        SettingsError: there is no such cause or commit.
    """
    chosen = causes.causes_of(report, number)
    setup, until = recorded.setup_of(report), time.monotonic() + budget_seconds
    source = toplevel_of(setup.folder)
    git_then = report["environment"]["git"] or {}
    goods = {
        cause["key"]: good or (cause["history"] or {}).get("last_passed_commit")
        for _, cause in chosen
    }
    if not any(goods.values()):
        raise SettingsError(
            "prove: no commit is known at which it passed; give one by --good COMMIT, or keep a "
            "history, which knows the last"
        )
    submodules, ignored = not_in_git(source)
    if submodules:
        tell(f"submodules are not checked out: {listed(submodules, _SHOWN)}")
    if ignored:
        tell(f"what git ignores is taken as it is in {source}: {listed(ignored, _SHOWN)}")
    with checkout_beside(source) as folder:
        place = Place(setup, source, folder)
        for cause, ends in causes.in_turn(chosen, until, tell):
            victims, known_good = recorded.victims_of(report, cause), goods[cause["key"]]
            if not victims or known_good is None:
                why = "it is not known where it passed" if victims else "no test of its own fails"
                tell(f"   {why}, so no commit is looked at")
                continue
            commits = commits_between(source, known_good, git_then.get("commit") or "HEAD")
            with recorded.experiments_of(
                report, place.setup, ends, allows_effects=allows_effects
            ) as experiments:
                repeat = recorded.repeat_of(report, cause, experiments, victims[0])
                ask = partial(_ask, experiments, place, ignored, victims[0], repeat)
                proof = _prove(place.folder, commits, ask, repeat, tell)
            if git_then.get("dirty") and proof["status"] == "undecided":
                proof["suspicions"].append("what was not committed when it failed")
            report = causes.tell_and_keep(report, cause, proof, tell, save)
    return report


def not_in_git(source: Path) -> tuple[list[str], list[str]]:
    """Return what a checkout of a commit lacks: submodules, and modules that a build has made.

    Without those, such as a file with the version or a compiled extension, nothing is imported.
    """
    rows = [row.partition("\t") for row in git(source, "ls-files", "-z", "--stage").split("\0")]
    beside = {os.path.dirname(name) for _, _, name in rows if name.endswith(".py")}
    listing = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard")
    ignored = [name for name in git(source, *listing).split("\0") if name.endswith(_IMPORTED)]
    return (
        [name for mode, _, name in rows if mode.startswith(_SUBMODULE)],
        [name for name in ignored if os.path.dirname(name) in beside],
    )


def _ask(
    experiments: Experiments,
    place: Place,
    ignored: Sequence[str],
    victim: Victim,
    repeat: Repeat,
    commit: str,
) -> Outcome:
    """Run a test at a commit."""
    git(place.folder, "checkout", "--quiet", "--force", "--detach", commit)
    git(place.folder, "clean", "-ffdxq")  # what the run before has left behind
    for name in ignored:
        with suppress(OSError):
            shutil.copy2(place.source / name, place.folder / name)
    if not place.setup.folder.is_dir():
        return Outcome(result="other", words="the folder of the tests is not there", seconds=0.0)
    return place.run(experiments, victim, repeat)


def _prove(
    folder: Path,
    commits: Commits,
    ask: Callable[[str], Outcome],
    repeat: Repeat,
    tell: Callable[[str], None],
) -> JSONObject:
    """Return a proof that says since which commit a cause is there."""

    def words(commit: int) -> str:
        return git(folder, "show", "-s", "--format=%h %an: %s", commits.names[commit])

    def ask_and_tell(commit: int) -> Outcome:
        outcome = ask(commits.names[commit])
        if commit not in walk.counts and commit not in walk.untestable:
            why = f"can't be tested: {first_line(outcome.words)}"
            tell(f"   {words(commit)}: {why if outcome.result == 'other' else outcome.result}")
        return outcome

    walk = Walk(commits, ask_and_tell, repeat.known)
    steps = max(1, round(log2(commits.bad)))
    tell(f"   {counted(commits.bad, 'commit')} since {words(0)}: about {counted(steps, 'step')}")
    found = walk.find()
    proof: JSONObject = {
        **NO_PROOF,
        "type": "commit",
        "status": found.status,
        "nodeids": [*repeat.before],
    }
    if found.commit is None or found.parent is None:
        likely = [(each, share) for each, share in walk.culprits.likeliest(_SHOWN) if share < 1]
        told = [
            f"{share:.0%} {words(each)}{'' if each else ' or before'}" for each, share in likely
        ]
        is_begun = walk.count(commits.bad).failed > 0
        return {**proof, "state": found.why, "suspicions": told if is_begun else []}
    untestable = walk.untestable.get(found.parent)
    return {
        **proof,
        "state": words(found.commit),
        **in_report(walk.count(found.commit), walk.count(found.parent)),
        "command": f"git show {commits.names[found.commit][:_ABBREVIATED]}",
        "suspicions": [] if untestable is None else [f"at its parent: {first_line(untestable)}"],
    }


def bisect_step(report: Mapping[str, Any], *, number: int, times: int) -> Outcome:
    """Return how the test of a cause ends in the checkout that is the working directory.

    Args:
        report: its JSON object.
        number: of the cause, from 1 on.
        times: how often it runs, unless it fails before.

    Raises:
        ExperimentError: pytest can't be run as it was, or not with the code of this checkout.
        SettingsError: there is no such cause, or nothing to run.
    """
    ((_, cause),) = causes.causes_of(report, number)
    victims = recorded.victims_of(report, cause)
    if not victims:
        raise SettingsError("bisect-step: no test of this cause fails, so there is nothing to run")
    setup = recorded.setup_of(report)
    place = Place(setup, toplevel_of(setup.folder), toplevel_of(Path.cwd()))
    until = time.monotonic() + 2 * recorded.limit_of(report) * times
    with recorded.experiments_of(report, place.setup, until, allows_effects=True) as experiments:
        repeat = recorded.repeat_of(report, cause, experiments, victims[0])
        for _ in range(times):
            outcome = place.run(experiments, victims[0], repeat)
            if outcome.result != "passed":
                break
    return outcome

"""Find the release that breaks a test, by putting older ones in front of the path.

What differs from the last pass is installed as it was then, each distribution without dependencies
into a folder of the experiments' own. A fresh process with some of these folders on PYTHONPATH
imports old versions where the environment has new ones, and the environment stays as it is. A run
counts only if its process says that it has imported the old ones.

Only wheels are installed: to build anything else is to run code of the package's.
"""

from __future__ import annotations

import os
import platform
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from pytest_failure_taxonomy.cli.reports import load
from pytest_failure_taxonomy.errors import HistoryError, SettingsError
from pytest_failure_taxonomy.hooks.owners import normal_name
from pytest_failure_taxonomy.prove import recorded
from pytest_failure_taxonomy.prove.causes import causes_of, in_turn, tell_and_keep
from pytest_failure_taxonomy.prove.experiment import (
    Experiments,
    Outcome,
    OutOfTime,
)
from pytest_failure_taxonomy.prove.rates import (
    FEWEST,
    MOST_PAIRS,
    NO_RUNS,
    Count,
    Pairs,
    Tally,
    Verdict,
    compare,
    make_proof,
    passes_needed,
)
from pytest_failure_taxonomy.prove.search import fewest
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.report.reproduce import reproduction_of
from pytest_failure_taxonomy.survive.machine import list_distributions
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import Cause, Proof
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import counted, listed
from pytest_failure_taxonomy.text import first_line

_SHOWN: Final = 4
"""Distributions that a line names."""
_REQUIREMENT: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?==[0-9][A-Za-z0-9.+!]*")
"""A normal name (PEP 503) and one version (PEP 440): no option, path or URL."""
_NOT_PUT_BACK: Final = {
    "python": "it takes another environment",
    "pytest-failure-taxonomy": "the experiments need the one that is installed",
}
_GIVE_ONE: Final = "give the report of a run that passed by --good"
InstalledThen = Callable[[Cause], Sequence[str] | None]
"""Returns `name-version` of what was installed without a cause; `None` if that is not known."""


@value
class Source:
    """Where older versions are listed, and where they come from."""

    good: str | None
    """The path of a report of a run that passed; `None` for the history's last one."""
    history: str | None
    """The URL of the history; `None` for the usual one."""
    find_links: Sequence[str]
    """Folders or pages of wheels, besides the index."""
    offline: bool
    """Ask no index."""


@value
class Change:
    """A distribution that is not as it was in the run that passed."""

    name: str
    new: str | None
    """The version that is installed now; `None` if none is."""
    old: str | None
    """That of the run that passed; `None` if it had none."""

    @property
    def requirement(self) -> str:
        """What has to be installed to have it as it was."""
        return f"{self.name}=={self.old}"

    @property
    def now(self) -> str:
        """How it is now, which makes the test fail if this does."""
        return f"{self.name} {self.new or 'removed'}"

    def __str__(self) -> str:
        return f"{self.name} {self.old or 'none'} -> {self.new or 'removed'}"


def find_releases(task: recorded.Task, source: Source) -> tuple[FailureReport, bool]:
    """Return a report with the releases that break its tests, and whether all are proven.

    Args:
        task: what is asked for.
        source: of the older versions.

    Raises:
        ExperimentError: pytest can't be run as it was.
        ReportError: the report of the run that passed can't be read.
        SettingsError: there is no such cause; nothing says what was installed when it passed; or
            a file says it, which anybody may have written.
    """
    report = task.report
    chosen = causes_of(report, task.number)
    find_last_pass = _find_in_report if source.good else _find_in_history
    installed_then = find_last_pass(report, source)
    not_proven = len(chosen)
    with recorded.experiments_of(task, recorded.setup_of(report)) as experiments:
        releases = OldReleases(experiments, source, task)
        for cause in in_turn(task, chosen, experiments):
            then = installed_then(cause)
            if then is None:
                task.tell(f"   it is not known what it passed with; {_GIVE_ONE}")
                continue
            proof = _prove(report, cause, _changes_since(then), releases)
            report = tell_and_keep(task, report, cause, proof)
            not_proven -= proof.status == "proven"
    return report, not not_proven


def _find_in_report(_: FailureReport, source: Source) -> InstalledThen:
    """Return what was installed in the run of a good report, if it has not failed, too."""
    good = load(Path(str(source.good)))
    environment = good.environment
    if environment.distributions is None:
        raise SettingsError(
            f"prove: {source.good} does not say what was installed; give the report of a run "
            "with a history (--failure-taxonomy-history), or in which other tests failed"
        )
    installed = [f"python-{environment.python}", *environment.distributions]
    failing = {cause.key for cause in good.causes}
    return lambda cause: None if cause.key in failing else installed


def _find_in_history(report: FailureReport, source: Source) -> InstalledThen:
    """Return what was installed when the tests of a cause passed last.

    The report says in a few words what has changed since then; the history has had all of it.
    """
    try:
        from pytest_failure_taxonomy.history import open_history  # slow
        from pytest_failure_taxonomy.history.questions import changed_versions
        from pytest_failure_taxonomy.history.tables import ENVIRONMENTS, installed_in

        now, rootdir = installed_in(report), report.run.invocation.rootdir
        history = open_history(source.history, rootdir=rootdir, create=False)
        with history, history.reading() as connection:
            rows = connection.execute(ENVIRONMENTS.select()).all()
    except HistoryError as error:
        raise SettingsError(f"prove: {error}; or {_GIVE_ONE}") from None
    environments = {}
    for row in rows:
        installed = row.installed.splitlines()
        environments[changed_versions(installed, now)] = installed
    return lambda cause: (
        environments.get(cause.history.distributions_changed) if cause.history else None
    )


def _changes_since(then: Sequence[str]) -> list[Change]:
    """Return what is not installed as it was, by name.

    Args:
        then: `name-version` of what was installed.
    """
    now = [f"python-{platform.python_version()}", *list_distributions(sys.path)]
    new, old = dict(map(_split, now)), dict(map(_split, then))
    names = sorted(new.keys() | old.keys())
    return [
        Change(name=name, new=new.get(name), old=old.get(name))
        for name in names
        if new.get(name) != old.get(name)
    ]


def _split(installed: str) -> tuple[str, str]:
    name, _, version = installed.rpartition("-")
    return normal_name(name), version


class OldReleases:
    """Installs old versions, and runs tests with them in front of the path."""

    def __init__(
        self, experiments: Experiments, source: Source, task: recorded.Task
    ) -> None:
        """Prepare.

        Args:
            experiments: run the tests, and have a folder.
            source: of the old versions.
            task: what is asked for.
        """
        self.experiments, self.tell = experiments, task.tell
        self._find_wheel = cache(self._install)
        # What the history has was installed here; without an index nothing comes from outside.
        self._asks = bool(source.good) and not (source.offline or task.allows_effects)
        name = "pip" if find_spec("pip") else "uv"
        installer = packaged_table("experiments")["installers"][name]
        self._command = [
            word.format(python=sys.executable) for word in installer["command"]
        ]
        places = [installer["index"]]
        if source.offline:
            self._command.append(installer["offline"])
            places = ["no index"]
        for place in source.find_links:
            self._command.append(f"--find-links={place}")
            places.append(place)
        self.tell(
            f"old versions come from {' and '.join(places)}, by {name}: wheels alone, into a "
            "temporary folder"
        )

    def install(self, change: Change) -> bool:
        """Install the old version of a distribution; tell why not if it can't be had.

        Raises:
            OutOfTime: the budget is spent.
            SettingsError: it needs `--yes`.
        """
        why = why_not_put_back(change)
        if not why:
            if self._asks:
                raise SettingsError(
                    "prove: anybody may have written the good report; to install what it lists: "
                    "failure-taxonomy prove --environment --yes"
                )
            why = self._find_wheel(change.requirement)
        if why:
            self.tell(f"   not tried: {change}: {why}")
        return not why

    def _install(self, requirement: str) -> str:
        """Return why it can't be had; empty once it is there."""
        folder = self._folder(requirement)
        try:
            done = subprocess.run(  # noqa: S603 - the user's own installer
                [*self._command, f"--target={folder}", requirement],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=max(0.0, self.experiments.until - time.monotonic()),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OutOfTime from None
        except FileNotFoundError:
            return "neither pip nor uv is there to install it"
        error = done.stderr.rstrip().rpartition("\n")[2]
        return f"no wheel can be had: {error}" if done.returncode else ""

    def _folder(self, requirement: str) -> Path:
        return self.experiments.folder / f"site-{requirement}"

    def run(self, repeat: recorded.Repeat, changes: Sequence[Change]) -> Outcome:
        """Run a test with some distributions as they were, which are installed.

        The outcome is `other` where an old version was not the one that was imported.
        """
        conditions = repeat.conditions
        variables = {
            **os.environ,
            **self.experiments.setup.variables,
            **dict(conditions.variables),
        }
        folders = [self._folder(change.requirement) for change in changes]
        entries = [*map(str, folders), variables.get("PYTHONPATH")]
        path = ("PYTHONPATH", os.pathsep.join(filter(None, entries)) or None)
        outcome = self.experiments.run(
            repeat.victim,
            repeat.before,
            replace(conditions, variables=(*conditions.variables, path)),
            is_fresh=True,
            tells_modules=True,
        )
        if outcome.result != "other":
            for change, folder in zip(changes, folders, strict=True):
                if why := _why_unused(change.name, folder, outcome):
                    return replace(outcome, result="other", words=why)
        return outcome


def why_not_put_back(change: Change) -> str:
    """Return why a distribution is not put back; empty if it may be."""
    if change.old is None:
        return "it was added since, and can't be hidden"
    if _REQUIREMENT.fullmatch(change.requirement) is None:
        return "it is no release"
    for copy in distributions(name=change.name):
        # Of a folder or a repository, say by `-e`: an index has nothing like it, or another one.
        if "archive_info" not in (copy.read_text("direct_url.json") or "archive_info"):
            return "it is not installed from an index"
    return _NOT_PUT_BACK.get(change.name, "")


def _why_unused(name: str, folder: Path, outcome: Outcome) -> str:
    """Return which module is imported as it is installed, although a folder has an old one."""
    if str(folder) not in outcome.answer("path"):
        return "PYTHONPATH has no effect, so that no old version is used"
    modules = outcome.answer("modules")
    places = [str(copy.locate_file("")) for copy in distributions(name=name)]
    for path in folder.rglob("[!.]*"):
        # `a/b/__init__.py`, `a/b.py` and `a/b.cpython-312-x86_64-linux-gnu.so` are all `a.b`.
        stem = path.with_name(path.name.partition(".")[0]).relative_to(folder)
        module = ".".join(stem.parts).removesuffix(".__init__")
        used = Path(modules.get(module, folder))
        if any(map(used.is_relative_to, places)):
            return f"{module} is imported from {used}, and not from {folder.name}"
    return ""


class _Search:
    """Looks for the fewest old versions with which a test passes.

    Attributes:
        passing: the fewest so far.
        count: of the runs with those that were tried last.
    """

    def __init__(self, releases: OldReleases, repeat: recorded.Repeat) -> None:
        self._releases, self._repeat = releases, repeat
        self.passing: tuple[Change, ...] = ()
        self.count = NO_RUNS
        self._ask = cache(self._run)

    def find(self, changes: tuple[Change, ...]) -> str:
        """Find them among changes that are installed; return why there are none, else nothing."""
        now = self._ask(())
        if now != "failed":
            return f"it does not fail so with what is installed now ({now})"
        if self._passes(changes):
            fewest(changes, self._passes)
        elif self._ask(changes) == "failed":
            old = counted(len(changes), "old version")
            return f"it fails with {old} put back, too ({self.count})"
        # One that doesn't fit the rest may hide another one that decides.
        elif not any(self._passes((change,)) for change in changes):
            return "with old versions it passes no more than now"
        return ""

    def _passes(self, changes: tuple[Change, ...]) -> bool:
        is_passing = self._ask(changes) == "passed"
        if is_passing:
            self.passing = changes
        return is_passing

    def _run(self, changes: tuple[Change, ...]) -> str:
        """Return how it ends with some of them put back: the first time it doesn't pass, if any."""
        known = self._repeat.known
        times = passes_needed(known.share) if known.failed else 1
        if not changes:
            times = max(times, FEWEST)
        self.count = NO_RUNS
        for _ in range(times):
            outcome = self._releases.run(self._repeat, changes)
            self.count = self.count.plus(outcome.result)
            if outcome.result != "passed":
                break
        words: str = outcome.result
        if words == "other":
            words = f"can't be tested: {first_line(outcome.words)}"
        old = [f"{change.name} {change.old}" for change in changes]
        shown = listed(old, _SHOWN) or "nothing put back"
        self._releases.tell(f"   with {shown}: {words}")
        return words


def compare_sides(
    run_with: Callable[[], str], run_without: Callable[[], str], chance: random.Random
) -> tuple[Count, Count, Literal["proven", "suspected", "undecided"]]:
    """Run two sides in pairs until they are told apart; return their counts, and what they show.

    The order within a pair is random: what else changes meanwhile, such as the load, falls on both
    alike. Where the time runs out before, a difference is suspected at most.

    Args:
        run_with: runs the test where it fails; returns the result.
        run_without: the same where it passes.
        chance: decides which is first.
    """
    sides = {"effect": run_with, "without": run_without}
    pairs = Pairs()
    verdict: Verdict = "go on"
    with suppress(OutOfTime):
        for _ in range(2 * MOST_PAIRS):
            for name in chance.sample([*sides], 2):
                count: Count = getattr(pairs, name).plus(sides[name]())
                pairs = replace(pairs, **{name: count})
            effect, without = Tally(fresh=pairs.effect), Tally(fresh=pairs.without)
            verdict = compare(pairs, effect, without)
            if verdict != "go on":
                break
    status: Literal["proven", "suspected", "undecided"] = "undecided"
    if verdict == "apart":
        status = "proven"
    elif verdict == "go on" and pairs.effect.failed and pairs.without.runs:
        status = "suspected"  # time ran out, and both sides were seen
    return pairs.effect, pairs.without, status


def _prove(
    report: FailureReport,
    cause: Cause,
    changes: Sequence[Change],
    releases: OldReleases,
) -> Proof:
    """Return a proof that says which release breaks the first test of a cause."""
    repeat = recorded.repeat_of(report, cause, releases.experiments)
    names = [*map(str, changes)]
    releases.tell(f"   since the last pass: {listed(names, len(names)) or 'no change'}")
    search = _Search(releases, repeat)
    installed: list[Change] = []
    why = "there is nothing to put back"
    try:
        installed += filter(releases.install, changes)
        if installed:
            why = search.find(tuple(installed))
    except OutOfTime:
        why = "time ran out"
    passing = search.passing
    suspicions = tuple(
        f"{change}, not tried" for change in changes if change not in installed
    )
    if not passing:
        return make_proof("environment", "undecided", state=why, suspicions=suspicions)
    # Without time it comes to no run, and the fewest so far are suspected.
    effect, without, status = compare_sides(
        lambda: releases.run(repeat, ()).result,
        lambda: releases.run(repeat, passing).result,
        random.Random(repeat.victim.nodeid),  # noqa: S311 - it guards nothing
    )
    return make_proof(
        "environment",
        status,
        effect,
        without,
        other=" and ".join(str(change.old) for change in passing),
        state=" with ".join(change.now for change in passing),
        command=reproduction_of(report).command(repeat.victim.nodeid),
        suspicions=() if status == "proven" else suspicions,
    )

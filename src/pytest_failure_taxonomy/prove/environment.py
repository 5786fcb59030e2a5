"""Find the release that breaks a test, by putting older ones in front of the path.

What differs from the last pass is installed as it was then, each distribution without dependencies
into a folder of the experiments' own. A fresh process with some of these folders on PYTHONPATH
imports old versions where the environment has new ones, and the environment stays as it is.

Only wheels are installed: to build anything else is to run code of the package's.
"""

from __future__ import annotations

import os
import platform
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from pytest_failure_taxonomy.cli.reports import load
from pytest_failure_taxonomy.errors import HistoryError, SettingsError
from pytest_failure_taxonomy.history.versions import Change, find_changes
from pytest_failure_taxonomy.hooks.owners import normal_name
from pytest_failure_taxonomy.prove import recorded
from pytest_failure_taxonomy.prove.causes import causes_of, in_turn, tell_and_keep
from pytest_failure_taxonomy.prove.commits import result_words
from pytest_failure_taxonomy.prove.experiment import (
    Conditions,
    Experiments,
    OutOfTime,
)
from pytest_failure_taxonomy.prove.ledger import Comparison, Side
from pytest_failure_taxonomy.prove.rates import FEWEST, make_proof, passes_needed
from pytest_failure_taxonomy.prove.search import fewest
from pytest_failure_taxonomy.prove.shell import program_of
from pytest_failure_taxonomy.prove.trials import Trials
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.survive.machine import list_distributions
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import Cause, Proof
from pytest_failure_taxonomy.taxonomy.values import replace, value
from pytest_failure_taxonomy.taxonomy.words import counted, listed

_SHOWN: Final = 4
"""Distributions that a line names."""
_REQUIREMENT: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?==[0-9][A-Za-z0-9.+!]*")
"""A normal name (PEP 503) and one version (PEP 440): no option, path or URL."""
_NOT_PUT_BACK: Final = {
    "python": "it needs another environment",
    "pytest-failure-taxonomy": "the experiments need the installed one",
}
_GIVE_ONE: Final = "give the report of a run that passed with --good"
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
    find_last_pass = find_in_report if source.good else find_in_history
    installed_then = find_last_pass(report, source)
    not_proven = len(chosen)
    with recorded.experiments_of(task, recorded.setup_of(report)) as experiments:
        releases = OldReleases(experiments, source, task)
        for cause in in_turn(task, chosen, experiments):
            then = installed_then(cause)
            if then is None:
                task.tell(
                    f"   it is not known which versions it passed with; {_GIVE_ONE}"
                )
                continue
            proof = _prove(report, cause, _changes_since(then), releases)
            report = tell_and_keep(task, report, cause, proof)
            not_proven -= proof.status == "proven"
    return report, not not_proven


def find_in_report(_: FailureReport, source: Source) -> InstalledThen:
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


def find_in_history(report: FailureReport, source: Source) -> InstalledThen:
    """Return what was installed when the tests of a cause passed last.

    The report says in a few words what has changed since then; the history has all of it.
    """
    try:
        from pytest_failure_taxonomy.history import open_history  # slow
        from pytest_failure_taxonomy.history.questions import installed_at_last_pass

        rootdir = report.run.invocation.rootdir
        with open_history(source.history, rootdir=rootdir, create=False) as history:
            installed = installed_at_last_pass(history, report)
    except HistoryError as error:
        raise SettingsError(f"prove: {error}; or {_GIVE_ONE}") from None
    return lambda cause: next(
        filter(None, map(installed.get, cause.fingerprints)), None
    )


def _changes_since(then: Sequence[str]) -> list[Change]:
    """Return the distributions that differ from those of the last pass.

    Args:
        then: `name-version` of what was installed.
    """
    now = [f"python-{platform.python_version()}", *list_distributions(sys.path)]
    return find_changes([*map(_normal, then)], [*map(_normal, now)])


def _normal(installed: str) -> str:
    name, _, version = installed.rpartition("-")
    return f"{normal_name(name)}-{version}"


def requirement_of(change: Change) -> str:
    """Return what has to be installed to have a distribution as it was."""
    return f"{change.name}=={change.old}"


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
        offline = [installer["offline"]] if source.offline else []
        links = [f"--find-links={place}" for place in source.find_links]
        command = [*installer["command"], *offline, *links]
        self._command = [word.replace("{python}", sys.executable) for word in command]
        index = [] if source.offline else [installer["index"]]
        places = " and ".join([*index, *source.find_links]) or "no index"
        verb = "installs" if source.offline else "downloads"
        self.tell(
            f"{name} {verb} old versions from {places} into a temporary folder (wheels only)"
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
            why = self._find_wheel(requirement_of(change))
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
            shutil.rmtree(
                folder, ignore_errors=True
            )  # else a half would count as whole
            raise OutOfTime from None
        except FileNotFoundError:
            return "neither pip nor uv is there to install it"
        error = done.stderr.rstrip().rpartition("\n")[2]
        return f"no wheel can be had: {error}" if done.returncode else ""

    def _folder(self, requirement: str) -> Path:
        return self.experiments.folder / f"site-{requirement}"

    def put_back(self, conditions: Conditions, changes: Sequence[Change]) -> Conditions:
        """Return conditions in which some distributions are as they were."""
        if not changes:
            return conditions
        folders = [str(self._folder(requirement_of(change))) for change in changes]
        variables = {
            **os.environ,
            **self.experiments.setup.variables,
            **dict(conditions.variables),
        }
        if inherited := variables.get("PYTHONPATH"):
            folders.append(inherited)
        path = ("PYTHONPATH", os.pathsep.join(folders))
        return replace(conditions, variables=(*conditions.variables, path))

    def why_unused(self, changes: Sequence[Change], modules: Mapping[str, str]) -> str:
        """Return which module is imported as it is installed, although an old one is there."""
        for change in changes:
            folder = self._folder(requirement_of(change))
            for copy in distributions(name=change.name):
                site = Path(str(copy.locate_file("")))
                for name, file in modules.items():
                    path = Path(file)
                    is_site = path.is_relative_to(site)
                    if is_site and (folder / path.relative_to(site)).exists():
                        return f"{name} is imported from {file}, and not from {folder.name}"
        return ""


def why_not_put_back(change: Change) -> str:
    """Return why a distribution is not put back; empty if it may be."""
    if change.old is None:
        return "it was added since, and can't be hidden"
    if _REQUIREMENT.fullmatch(requirement_of(change)) is None:
        return "it is no release"
    if change.name in _NOT_PUT_BACK:
        return _NOT_PUT_BACK[change.name]
    for copy in distributions(name=change.name):
        # Of a folder or a repository, say by `-e`: an index has nothing like it, or another one.
        if "archive_info" not in (copy.read_text("direct_url.json") or "archive_info"):
            return "it is not installed from an index"
    return ""


class _Search:
    """Looks for the fewest old versions with which a test passes, and compares them.

    Attributes:
        tried: the changes that can be put back.
    """

    def __init__(
        self, report: FailureReport, repeat: recorded.Repeat, releases: OldReleases
    ) -> None:
        self._releases, self._repeat = releases, repeat
        shuffles = random.Random(repeat.victim.nodeid)  # noqa: S311 - it guards nothing
        self._trials = Trials(
            releases.experiments,
            repeat.victim,
            program_of(report),
            shuffles=shuffles,
        )
        self.tried: list[Change] = []
        self._passing: tuple[Change, ...] = ()
        self._ask = cache(self._run)

    def prove(self, changes: Sequence[Change]) -> Proof:
        """Return a proof that says which of the changes breaks the test."""
        why = "time ran out"
        with suppress(OutOfTime):
            self.tried += filter(self._releases.install, changes)
            why = self._find(tuple(self.tried))
        if self._passing:
            return self._compare()
        return make_proof("environment", "undecided", state=why)

    def _find(self, changes: tuple[Change, ...]) -> str:
        """Find the fewest; return why there are none, else nothing."""
        if not changes:
            return "there is nothing to put back"
        now = self._ask(())
        if now != "failed":
            return f"it does not fail so with what is installed now ({now})"
        if self._passes(changes):
            fewest(changes, self._passes)
        elif self._ask(changes) == "failed":
            return self._why_no_difference(changes)
        # One that doesn't fit the rest may hide another one that decides.
        elif not any(self._passes((change,)) for change in changes):
            return "with old versions it passes no more than now"
        return ""

    def _why_no_difference(self, changes: Sequence[Change]) -> str:
        """Return why it fails as it does now: an old version may not have been imported."""
        side = self._side(changes)
        outcome = self._releases.experiments.run(
            self._trials.victim,
            side.before,
            side.conditions,
            is_fresh=True,
            tells_modules=True,
        )
        modules = outcome.answer("modules") or {}
        why = self._releases.why_unused(changes, modules)
        old = counted(len(changes), "old version")
        return why or f"it fails with {old} put back, too"

    def _passes(self, changes: tuple[Change, ...]) -> bool:
        is_passing = self._ask(changes) == "passed"
        if is_passing:
            self._passing = changes
        return is_passing

    def _run(self, changes: tuple[Change, ...]) -> str:
        """Return how it ends with some of them put back: the first time it doesn't pass, if any."""
        known = self._repeat.known
        times = passes_needed(known.share) if known.failed else 1
        if not changes:
            times = max(times, FEWEST)
        for _ in range(times):
            outcome = self._trials.run(self._side(changes), is_fresh=True)
            if outcome.result != "passed":
                break
        words = result_words(outcome)
        old = [f"{change.name} {change.old}" for change in changes]
        shown = listed(old, _SHOWN) or "the current versions"
        self._releases.tell(f"   with {shown}: {words}")
        return words

    def _side(self, changes: Sequence[Change]) -> Side:
        conditions = self._releases.put_back(self._repeat.conditions, changes)
        return Side(before=self._repeat.before, conditions=conditions)

    def _compare(self) -> Proof:
        """Compare what is installed with the fewest old versions; without time it is suspected."""
        changes, trials = self._passing, self._trials
        comparison = Comparison(self._side(()), self._side(changes))
        status: Literal["proven", "suspected", "undecided"] = "undecided"
        try:
            if trials.compare(comparison):
                status = "proven"
        except OutOfTime:
            pairs = comparison.pairs
            if pairs.effect.failed and pairs.without.runs:
                status = "suspected"
        return make_proof(
            "environment",
            status,
            comparison.pairs.effect,
            comparison.pairs.without,
            other=" and ".join(str(change.old) for change in changes),
            state=" with ".join(
                f"{change.name} {change.new or 'removed'}" for change in changes
            ),
            command=trials.verified_command(comparison.failing),
        )


def _prove(
    report: FailureReport,
    cause: Cause,
    changes: Sequence[Change],
    releases: OldReleases,
) -> Proof:
    """Return a proof that says which release breaks the first test of a cause."""
    names = [*map(str, changes)]
    releases.tell(f"   since the last pass: {listed(names, len(names)) or 'no change'}")
    repeat = recorded.repeat_of(report, cause, releases.experiments)
    search = _Search(report, repeat, releases)
    proof = search.prove(changes)
    if proof.status == "proven":
        return proof
    suspicions = tuple(
        f"{change}, not tried" for change in changes if change not in search.tried
    )
    return replace(proof, suspicions=suspicions)

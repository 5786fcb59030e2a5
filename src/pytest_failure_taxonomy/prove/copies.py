"""Copies of the project without the files that the recorded run has left.

Where such a file decides, experiments in the user's folder can't tell: it is there in all
of them. Each run in a copy gets a new one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

from pytest_failure_taxonomy.prove import recorded
from pytest_failure_taxonomy.prove.experiment import (
    ExperimentError,
    Experiments,
    Outcome,
)
from pytest_failure_taxonomy.prove.ledger import Tree
from pytest_failure_taxonomy.prove.places import Place
from pytest_failure_taxonomy.prove.repository import git, hash_or_none, toplevel_of
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.code_owners import NOT_SOURCES
from pytest_failure_taxonomy.taxonomy.values import value

_MOST_BYTES: Final = 300 << 20
_MOST_FILES: Final = 30_000
_NOT_COPIED: Final = NOT_SOURCES | {"__pycache__", "node_modules", ".git"}
_MOST_OLDER: Final = 500
_SOURCES: Final = (".py", ".pyi", ".pyx", ".so", ".pyd", ".toml", ".ini", ".cfg")
_GRACE_NS: Final = 2_000_000_000
"""How long after the end of a run what it has started may still write."""


@value
class Leftovers:
    """What a run has left in the project's folder."""

    between_ns: tuple[int, int] = (0, 0)
    """When it began, and when the last of it may have written."""
    names: tuple[str, ...] = ()
    """Files that were written while it ran, relative to pytest's root directory, and
    since then those that are no sources."""
    older: tuple[str, ...] = ()
    """Files from before it that are no sources, and that an earlier run may have left."""
    tracked: tuple[str, ...] = ()
    """Those of them that git knows, so that they were there before."""
    may_be_edited: bool = False
    """Whether one of these was written since, which may be an edit of the user's."""
    commit: str = "HEAD"
    """What git has of them from before the run, unless that was not committed."""


def leftovers_of(
    report: FailureReport, files: Mapping[str, tuple[int, int]], rootdir: Path
) -> Leftovers:
    """Return what the run of a report has left.

    Args:
        report: says when it ran.
        files: size and time of writing of the project's files, as `take_files` has them.
        rootdir: the folder that they are in.
    """
    began_ns = int(recorded.time_of(report).timestamp() * 1e9)
    lasted_ns = int((report.run.duration_seconds or 0.0) * 1e9)
    until_ns = began_ns + lasted_ns + _GRACE_NS
    between_ns = began_ns, until_ns
    names = {
        name
        for name, (_, at_ns) in files.items()
        if began_ns <= at_ns < until_ns
        or (at_ns >= until_ns and not name.endswith(_SOURCES))
    }
    is_late = {name for name in names if files[name][1] >= until_ns}
    tracked = _tracked(rootdir)
    before = {name: at_ns for name, (_, at_ns) in files.items() if at_ns < began_ns}
    older = _find_older(before, tracked)
    then = report.environment.git
    commit = hash_or_none(then.commit if then is not None else None)
    return Leftovers(
        between_ns=between_ns,
        names=tuple(sorted(names)),
        older=older if len(older) <= _MOST_OLDER else (),
        tracked=tuple(sorted(tracked & names)),
        may_be_edited=not is_late.isdisjoint(tracked),
        commit=commit or "HEAD",
    )


def _find_older(before: Mapping[str, int], tracked: frozenset[str]) -> tuple[str, ...]:
    """Return files that an earlier run may have left.

    These are what git doesn't know; without git, what is newer than all sources.

    Args:
        before: times of writing by name.
        tracked: the names that git knows.
    """
    sources = [name for name in before if name.endswith(_SOURCES)]
    since = max((before[name] for name in sources), default=0)
    return tuple(
        name
        for name, at_ns in sorted(before.items())
        if not name.endswith(_SOURCES)
        and (name not in tracked if tracked else at_ns > since)
    )


def _tracked(rootdir: Path) -> frozenset[str]:
    try:
        return frozenset(git(rootdir, "ls-files", "-z").split("\0"))
    except ExperimentError:
        return frozenset()  # it is in no repository


class Copies:
    """Runs tests in copies of the project; to be used in a `with` statement.

    Attributes:
        leftovers: what a clean copy doesn't have.
        why_not: a sentence, where no copy is made.
    """

    def __init__(self, experiments: Experiments, leftovers: Leftovers) -> None:
        self.leftovers = leftovers
        self.why_not = ""
        self._here = experiments
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._around = Path(
            self._stack.enter_context(
                tempfile.TemporaryDirectory(
                    prefix="failure-taxonomy-copies-", ignore_cleanup_errors=True
                )
            )
        ).resolve()
        setup = self._here.setup
        self._source = _source_of(setup.rootdir)
        # It keeps what the experiments change in the user's folder meanwhile out.
        self._template = self._around / "template"
        self.why_not = _copy(self._source, self._template)
        place = self._around / "copy" / self._source.name
        self._place = Place(setup, self._source, place)
        self._within = setup.rootdir.resolve().relative_to(self._source)
        self._earlier = self._around / "earlier"
        self._earlier.mkdir()
        self._take_earlier(setup.rootdir)
        self._there = self._stack.enter_context(self._here.elsewhere(self._place.setup))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(
        self,
        repeat: recorded.Repeat,
        tree: Tree,
        left: Collection[str] = (),
        **more: Any,
    ) -> Outcome:
        """Run a test in a new copy.

        Args:
            repeat: the test, what runs before it, and what is different.
            tree: which copy.
            left: files that a clean one has after all.
            more: what else is asked for, as `Request` has it.
        """
        self._there.until = self._here.until
        folder = self._place.folder
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._template, folder, symlinks=True)
        if tree == "clean copy":
            self._clean(folder / self._within, left)
        return self._place.run(self._there, repeat, **more)

    def has(self, name: str) -> bool:
        """Tell whether the last copy has a file now, or another one than git has."""
        path, earlier = self._place.folder / self._within / name, self._earlier / name
        if path.is_file() and earlier.is_file():
            return path.read_bytes() != earlier.read_bytes()
        return os.path.lexists(path)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Files that were there before the run, without what was in them then."""
        tracked = self.leftovers.tracked
        return tuple(name for name in tracked if not (self._earlier / name).is_file())

    @property
    def runs(self) -> int:
        """How many processes have run in copies."""
        return self._there.fresh_runs

    def _take_earlier(self, rootdir: Path) -> None:
        """Take the files that the run has changed out of git, as they were before."""
        leftovers = self.leftovers
        if not leftovers.tracked:
            return
        archive = self._around / "earlier.zip"
        words = ("archive", "--format=zip", f"--output={archive}", leftovers.commit)
        with suppress(ExperimentError):
            git(rootdir, *words, "--", *leftovers.tracked)
            with zipfile.ZipFile(archive) as file:
                file.extractall(self._earlier)

    def _clean(self, rootdir: Path, left: Collection[str]) -> None:
        """Remove what the run has left, and put back what it has changed."""
        leftovers = self.leftovers
        for name in {*leftovers.names, *leftovers.older} - {*left}:
            path, earlier = rootdir / name, self._earlier / name
            if earlier.is_file():
                path.unlink(missing_ok=True)  # it may be a link by now
                shutil.copy2(earlier, path)
            elif name not in leftovers.tracked:
                path.unlink(missing_ok=True)


def _source_of(rootdir: Path) -> Path:
    try:
        return toplevel_of(rootdir)
    except ExperimentError:
        return rootdir.resolve()


def _copy(source: Path, folder: Path) -> str:
    """Copy a project's own files; return why that can't be done, or nothing."""
    size = 0
    for count, path in enumerate(_files_in(source), 1):
        size += path.lstat().st_size
        if size > _MOST_BYTES or count > _MOST_FILES:
            return f"{source} is too big to be copied"
    try:
        shutil.copytree(source, folder, symlinks=True, ignore=_not_copied)
    except (OSError, shutil.Error) as error:
        return f"{source} can't be copied: {error}"
    return ""


def _files_in(source: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(source):
        folders[:] = sorted({*folders} - _not_copied(folder, folders))
        for name in names:
            yield Path(folder, name)


def _not_copied(folder: str, names: list[str]) -> set[str]:
    """Return what isn't copied of a folder: caches, environments, special files."""
    skipped = {name for name in names if name in _NOT_COPIED}
    for name in names:
        path = os.path.join(folder, name)
        is_environment = os.path.exists(os.path.join(path, "pyvenv.cfg"))
        is_special = not os.path.isdir(path) and not os.path.isfile(path)
        if is_environment or (is_special and not os.path.islink(path)):
            skipped.add(name)
    return skipped

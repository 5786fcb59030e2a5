"""Which kept run the run of a source continues: one that the user named, or its latest."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.bench.plugin.results import Source
from pytest_failure_taxonomy.bench.plugin.session_of_runs import LATEST, SessionOfRuns
from pytest_failure_taxonomy.bench.runs.file import SUFFIX, RunHeader
from pytest_failure_taxonomy.bench.runs.reader import named_runs, read_header, run_paths
from pytest_failure_taxonomy.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_MAX_NAME: Final = 60


class RunsToResume:
    """Finds the kept runs that a pytest run is to continue."""

    def __init__(self, rootdir: Path, session: SessionOfRuns) -> None:
        self._rootdir = rootdir
        self._session = session

    def find(self, source: Source, shard: tuple[int, int] | None) -> tuple[Path | None, str | None]:
        """Return the file of the run that a source's is to continue, or why there is none.

        A test runs anew, since its code around the run may have changed.

        Args:
            source: Where the cases come from.
            shard: Which part of the class is to run, and of how many; `None` for all of it.

        Raises:
            BenchError: The file can't be read.
        """
        given = self._session.resumes
        if not given or source.test:
            return None, None
        if given != LATEST:
            return self._named(given, source)
        ending = f"-{name_of_source(self._rootdir, source)}{SUFFIX}"
        found = [each for each in self._earlier() if each.name.endswith(ending)]
        for path in reversed(found):
            its = read_header(path).shard
            if (None if its is None else (its.index, its.total)) == shard:
                return path, None
        return (
            (found[-1], None) if found else (None, "no run of it was kept that could be continued")
        )

    def check(self, sources: Collection[Source], shard: tuple[int, int] | None) -> None:
        """Refuse what would have all cases paid for again, though the user has named a run.

        Raises:
            BenchError: A run that would go on can't be read, or the named one is of other sources.
        """
        found = [self.find(source, shard) for source in sources]
        if not found or self._session.resumes in ("", LATEST) or any(path for path, _ in found):
            return
        wanted = ", ".join(sorted({relative(self._rootdir, each.folder) for each in sources}))
        raise BenchError(f"{found[0][1]}, and none of {wanted}; name another, or leave it out")

    def _named(self, given: str, source: Source) -> tuple[Path | None, str | None]:
        paths = named_runs(given, self._earlier())
        headers = [read_header(path) for path in paths]
        for path, header in zip(paths, headers, strict=True):
            if source_of_run(self._rootdir, header) == source:
                return path, None
        return None, f"{Path(given).name} is a run of {_what_ran(headers)}"

    def _earlier(self) -> Sequence[Path]:
        """Return the runs of the storage that other pytest runs began, the oldest first."""
        paths = run_paths(Path(self._session.folder))
        return [each for each in paths if not each.name.startswith(self._session.name)]


def _what_ran(headers: Iterable[RunHeader]) -> str:
    """Return the classes and systems of runs, in words."""
    found = set()
    for each in headers:
        label = each.system.label
        found.add((each.folder or each.task_class) + (f" with {label}" if label else ""))
    return ", ".join(sorted(found)) or "nothing that is kept"


def source_of_run(rootdir: Path, header: RunHeader) -> Source:
    """Return where the cases of a kept run came from."""
    folder = str(rootdir / header.folder) if header.folder else ""
    return Source(folder, header.test, header.system.label)


def name_of_source(rootdir: Path, source: Source) -> str:
    """Return what the name of a run's file says of its source; equal for equal sources."""
    parts = (relative(rootdir, source.folder), source.test, source.system)
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    name = "-".join(filter(None, (Path(source.folder).name, source.system)))
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:_MAX_NAME] or "bench"
    return f"{readable}-{digest[:8]}"


def relative(rootdir: Path, folder: str) -> str:
    """Return a folder relative to the root directory, if it lies below it."""
    path = Path(folder)
    if not folder or not path.is_relative_to(rootdir):
        return folder
    return path.relative_to(rootdir).as_posix()

"""What a pytest run keeps on disk of each run of a task class.

The file of a run is a new one, or that of a run that is continued.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_failure_taxonomy.bench.kept import file as run_file
from pytest_failure_taxonomy.bench.kept import reader
from pytest_failure_taxonomy.bench.kept.file import RunFile, RunHeader
from pytest_failure_taxonomy.bench.kept.reader import KeptRun
from pytest_failure_taxonomy.bench.plugin.storage import BenchStorage, Source
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import LATEST, RUN_SUFFIX, STORAGE
from pytest_failure_taxonomy.system import files
from pytest_failure_taxonomy.system.process import ask_git

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase, RunShard, TaskClass

_IGNORE: Final = b"# Made by pytest-failure-taxonomy: what systems returned is not for git.\n*\n"
_CLOCKS_DIFFER_SECONDS: Final = 2.0
"""By how much the time of a file system may be behind ours."""
_GIT_SECONDS: Final = 1.0
_MAX_NAME: Final = 60
_MOST_NAMED: Final = 3


class KeptRuns:
    """The files of the runs of one process."""

    def __init__(self, config: pytest.Config, storage: BenchStorage, worker: str = "") -> None:
        self._config = config
        self._storage = storage
        self._rootdir = config.rootpath
        self._began = time.time() - _CLOCKS_DIFFER_SECONDS
        self.worker = worker
        """The name of this process among those of xdist; empty for a single one."""
        self._files: list[RunFile] = []

    def check(self, sources: Collection[Source], shard: tuple[int, int] | None) -> None:
        """Refuse what would have all cases paid for again, though the user has named a run.

        Raises:
            pytest.UsageError: It can't be read, or is of other sources.
        """
        if not self._storage.folder:
            return
        try:
            found = [self._find(source, shard) for source in sources]
        except BenchError as error:
            raise pytest.UsageError(f"--bench-resume: {error}") from None
        if not found or self._storage.resumes in ("", LATEST) or any(path for path, _ in found):
            return
        wanted = ", ".join(sorted({relative(self._rootdir, each.folder) for each in sources}))
        raise pytest.UsageError(
            f"--bench-resume: {found[0][1]}, and none of {wanted}; name another, or leave it out"
        )

    def _find(
        self, source: Source, shard: tuple[int, int] | None
    ) -> tuple[Path | None, str | None]:
        """Return the file of the run that a source's is to continue, or why there is none.

        A test runs anew, since its code around the run may have changed.

        Args:
            source: Where the cases come from.
            shard: Which part of the class is to run, and of how many; `None` for all of it.

        Raises:
            BenchError: The file can't be read.
        """
        given = self._storage.resumes
        if not given or source.test:
            return None, None
        paths = reader.run_paths(Path(self._storage.folder))
        # The runs that other pytest runs began, the oldest first.
        earlier = [each for each in paths if not each.name.startswith(self._storage.name)]
        if given == LATEST:
            ending = f"-{name_of_source(self._rootdir, source)}{RUN_SUFFIX}"
            found = [each for each in earlier if each.name.endswith(ending)]
            for path in reversed(found):
                its = KeptRun(path).header.shard
                if (None if its is None else (its.index, its.total)) == shard:
                    return path, None
            why_not = "no run of it was kept that could be continued"
            return (found[-1], None) if found else (None, why_not)
        paths = reader.named_runs(given, earlier)
        headers = [KeptRun(path).header for path in paths]
        for path, header in zip(paths, headers, strict=True):
            if source_of_run(self._rootdir, header) == source:
                return path, None
        ran = set()
        for header in headers:
            label = header.system.label
            ran.add((header.folder or header.task_class) + (f" with {label}" if label else ""))
        what = ", ".join(sorted(ran)) or "nothing that is kept"
        return None, f"{Path(given).name} is a run of {what}"

    def open(
        self,
        source: Source,
        task_class: TaskClass,
        system: run_file.SystemGiven,
        cases: Sequence[BenchCase],
        shard: RunShard | None = None,
    ) -> RunFile | None:
        """Return the file of a source's run; `None` if nothing is kept.

        The first process that asks creates it. All processes come to the same file, because they
        all know the same of the run.

        Args:
            source: Where the cases come from.
            task_class: Their class, with the settings that options have given it.
            system: What is called.
            cases: The cases to run, in all processes together.
            shard: Which shard of the class these are.
        """
        if not self._storage.folder:
            return None
        header = RunHeader(
            **run_file.facts_of_class(task_class),
            run_id=f"{self._storage.name}-{name_of_source(self._rootdir, source)}",
            task_class=task_class.name,
            folder=relative(self._rootdir, source.folder),
            test=source.test,
            system=system,
            commit=_commit(self._rootdir),
            shard=shard,
        )
        listed = [run_file.scheduled(case) for case in cases]
        part = None if shard is None else (shard.index, shard.total)
        earlier = None
        try:
            path, why_not = self._find(source, part)
            if path is not None:
                earlier = reader.read_run(path, has_outputs=False)
        except BenchError as error:
            why_not = str(error)
        if earlier is not None:
            why_not = _why_not_resumed(earlier.header, header)
        if earlier is not None and why_not is None:
            # Its cases and those that were selected now, if the class still has them.
            known = {each.case_id: each for each in (*earlier.scheduled(), *listed)}
            whole = [known[each.case_id] for each in task_class.cases if each.case_id in known]
            file = RunFile(earlier.path, whole, self._redact, self.worker)
            file.resume(self._storage.name, header.commit, header.cases_in_class)
        else:
            path = self._make_folder() / f"{header.run_id}{RUN_SUFFIX}"
            file = RunFile(path, listed, self._redact, self.worker)
            file.create(header.model_copy(update={"not_resumed": why_not}))
        self._files.append(file)
        return file

    def note_problems(self) -> Iterator[str]:
        """Yield why runs could not be written."""
        yield from filter(None, [self._storage.problem, *(file.problem for file in self._files)])

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()

    def _make_folder(self) -> Path:
        folder = Path(self._storage.folder)
        with suppress(OSError):  # the file's own error says what is wrong
            if self._storage.is_temporary:
                with files.make_folder(folder):
                    pass  # it has to be there, and nobody else's
            elif not folder.is_dir() or folder == self._rootdir / STORAGE:  # of a worker, maybe
                folder.mkdir(parents=True, exist_ok=True)
                files.write_new(folder / ".gitignore", _IGNORE)
        return folder

    @cached_property
    def _redact(self) -> Callable[[Any], Any]:
        from pytest_failure_taxonomy.redaction import Redactor

        given: list[str] = self._config.getoption("failure_taxonomy_redact", None) or []
        ini: list[str] = []
        with suppress(KeyError, ValueError):  # the plugin that declares it is switched off
            ini = self._config.getini("failure_taxonomy_redact")
        redact: Callable[[Any], Any] = Redactor((*ini, *given)).redact_json
        return redact

    # On the process that prints the summary.

    def kept(self, is_known: Callable[[Source], bool]) -> Iterator[tuple[Source, KeptRun]]:
        """Yield the runs of this session, of all its processes, with their sources.

        Args:
            is_known: Tells of a source whether this process knows all that its file holds. Then
                the file is not read: ten thousand cases take 60 MiB.
        """
        if not self._storage.folder:
            return
        name = self._storage.name
        for path in self._paths(Path(self._storage.folder)):
            with suppress(BenchError):
                run = KeptRun(path, has_outputs=False)
                source = source_of_run(self._rootdir, run.header)
                is_own = path.name.startswith(name)
                if not (is_own and is_known(source)):
                    run.read(is_over=True)
                if is_own or name in run.sessions:
                    yield source, run

    def _paths(self, folder: Path) -> list[Path]:
        """Return the files that processes of this session may have written, the oldest first."""
        paths = reader.run_paths(folder)
        if not self._storage.resumes:
            return [each for each in paths if each.name.startswith(self._storage.name)]
        given = Path(self._storage.resumes)
        if given.is_file() and given not in paths:
            paths.append(given)
        return [each for each in paths if each.stat().st_mtime >= self._began]


def check_resumed(given: str, storage: Path, config: pytest.Config) -> None:
    """Refuse to continue a run that does not exist, before any system is called.

    Raises:
        pytest.UsageError: There is none, or there are several.
    """
    paths = reader.run_paths(storage)
    named = reader.named_runs(given, paths)
    sessions = list(dict.fromkeys(reader.session_of(path) for path in reversed(named)))
    listed = ", ".join(path.stem for path in paths[: -_MOST_NAMED - 1 : -1])
    try:
        tests = [KeptRun(path).header.test for path in named if len(sessions) == 1]
    except BenchError as error:
        raise pytest.UsageError(f"--bench-resume: {error}") from None
    if len(sessions) > 1:
        right = f"name one, such as {', '.join(sessions[:_MOST_NAMED])}"
        problem = f"{given}: {len(sessions)} runs begin so; {right}"
    elif named and all(tests):
        problem = f"{given} is a run of the test {tests[0]}, which is not continued; run the test"
    elif named:
        return
    elif os.path.exists(config.invocation_params.dir / given):
        right = f"write --bench-resume={LATEST}, or the option behind the paths"
        problem = f"{given} is no run; {right}"
    else:
        right = f"the latest are {listed}" if listed else "nothing was kept there"
        problem = f"there is no run {given} in {storage}; {right}"
    raise pytest.UsageError(f"--bench-resume: {problem}")


def resumed_line(run: KeptRun) -> str:
    """Return what a session that continued a run had left to do, in words; '' for a new run."""
    if not run.sessions:
        return f"all cases run: {run.header.not_resumed}" if run.header.not_resumed else ""
    both = [
        (case.done_before, case.scheduled)
        for case in run.cases.values()
        if case.done_before is not None and case.scheduled is not None
    ]
    changed = [each.case_id for call, each in both if call.input_digest != each.digest]
    done = [each for call, each in both if each.case_id not in changed and run.settles(call)]
    line = f"{len(done)} of {len(run.cases)} cases were done before"
    if changed:
        line += f"; {len(changed)} had changed and ran again: {', '.join(changed[:5])}"
    return line


def _why_not_resumed(old: RunHeader, new: RunHeader) -> str | None:
    """Return what has changed since a run so that its scores don't count any more."""
    changes = {
        "the failure codes or breakdown keys": old.digests.taxonomy != new.digests.taxonomy,
        "the rubric": old.digests.rubric != new.digests.rubric,
        "the system": old.system.name != new.system.name,
        "the system's version": old.system.version != new.system.version,
        "the shard": old.shard != new.shard,
    }
    changed = [what for what, is_other in changes.items() if is_other]
    if not changed:
        return None
    verb = "has" if len(changed) == 1 else "have"
    return f"{' and '.join(changed)} {verb} changed since {old.run_id}"


@cache
def _commit(rootdir: Path) -> str | None:
    """Return the commit that is checked out, as git says it."""
    code, said = ask_git(rootdir, time.monotonic() + _GIT_SECONDS, "rev-parse", "HEAD")
    return said if code == 0 and re.fullmatch(r"[0-9a-f]{40,64}", said) else None


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

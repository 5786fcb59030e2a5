"""Which file each run of a pytest session is kept in: a new one, or that of a run it continues."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_failure_taxonomy.bench.plugin.results import Source
from pytest_failure_taxonomy.bench.plugin.runs_to_resume import (
    RunsToResume,
    name_of_source,
    relative,
    source_of_run,
)
from pytest_failure_taxonomy.bench.plugin.session_of_runs import SessionOfRuns
from pytest_failure_taxonomy.bench.runs.file import (
    SUFFIX,
    RunFile,
    RunHeader,
    SystemGiven,
    facts_of_class,
    scheduled,
)
from pytest_failure_taxonomy.bench.runs.reader import (
    KeptRun,
    RunReader,
    read_header,
    read_run,
    run_paths,
)
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.named_files import STORAGE
from pytest_failure_taxonomy.system.files import make_folder, write_new

if TYPE_CHECKING:
    from pytest_failure_taxonomy.bench.models import BenchCase, RunShard, TaskClass

_IGNORE: Final = b"# Made by pytest-failure-taxonomy: what systems returned is not for git.\n*\n"
_CLOCKS_DIFFER_SECONDS: Final = 2.0
"""By how much the time of a file system may be behind ours."""
_GIT_SECONDS: Final = 1.0


class KeptRuns:
    """The files of the runs of one process."""

    def __init__(self, config: pytest.Config, session: SessionOfRuns, worker: str = "") -> None:
        self._config = config
        self._session = session
        self._to_continue = RunsToResume(config.rootpath, session)
        self._began = time.time() - _CLOCKS_DIFFER_SECONDS
        self._worker = worker
        self._files: dict[Source, RunFile] = {}
        self._resumed: set[Source] = set()
        self._readers: dict[Source, RunReader] = {}
        self._redact: Callable[[Any], Any] | None = None

    @property
    def is_keeping(self) -> bool:
        """Whether anything is written."""
        return bool(self._session.folder)

    def check(self, sources: Collection[Source], shard: tuple[int, int] | None) -> None:
        """Refuse a run that can't be continued by any of the sources.

        Raises:
            pytest.UsageError: It can't be read, or is of other sources.
        """
        try:
            if self.is_keeping:
                self._to_continue.check(sources, shard)
        except BenchError as error:
            raise pytest.UsageError(f"--bench-resume: {error}") from None

    def open(
        self,
        source: Source,
        task_class: TaskClass,
        system: SystemGiven,
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
        if not self.is_keeping:
            return None
        if source not in self._files:
            self._files[source] = self._open(source, task_class, system, cases, shard)
        return self._files[source]

    def before(self, source: Source) -> KeptRun | None:
        """Return what the file of a source's run holds now, by whichever process."""
        file = self._files.get(source)
        if file is None:
            return None
        try:
            if source not in self._readers:
                self._readers[source] = RunReader(file.path, has_outputs=False)
            return self._readers[source].read()
        except BenchError:
            return None

    def is_resumed(self, source: Source) -> bool:
        """Return whether the run of a source continues an earlier one."""
        return source in self._resumed

    def note_problems(self) -> Iterator[str]:
        """Yield why runs could not be written."""
        if self._session.problem:
            yield self._session.problem
        for file in self._files.values():
            if file.problem:
                yield file.problem

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    def _open(
        self,
        source: Source,
        task_class: TaskClass,
        system: SystemGiven,
        selected: Sequence[BenchCase],
        shard: RunShard | None,
    ) -> RunFile:
        header = self._header(source, task_class, system, shard)
        listed = [scheduled(case) for case in selected]
        part = None if shard is None else (shard.index, shard.total)
        earlier = None
        try:
            path, why_not = self._to_continue.find(source, part)
            if path is not None:
                earlier = read_run(path, has_outputs=False)
        except BenchError as error:
            why_not = str(error)
        if earlier is not None:
            why_not = _why_not_resumed(earlier.header, header)
        if earlier is not None and why_not is None:
            file = RunFile(earlier.path, self._redacting(), self._worker)
            self._resumed.add(source)
            # Its cases and those that were selected now, if the class still has them.
            cases = {**earlier.cases, **{each.case_id: each for each in listed}}
            whole = [cases[each.case_id] for each in task_class.cases if each.case_id in cases]
            file.resume(self._session.name, header.commit, whole, header.cases_in_class)
            return file
        folder = self._make_folder()
        file = RunFile(folder / f"{header.run_id}{SUFFIX}", self._redacting(), self._worker)
        file.create(header.model_copy(update={"not_resumed": why_not}), listed)
        return file

    def _make_folder(self) -> Path:
        folder = Path(self._session.folder)
        with suppress(OSError):  # the file's own error says what is wrong
            if self._session.is_temporary:
                make_folder(folder).close()
            elif not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                write_new(folder / ".gitignore", _IGNORE)
            elif folder == self._config.rootpath / STORAGE:  # a worker has created it
                write_new(folder / ".gitignore", _IGNORE)
        return folder

    def _header(
        self, source: Source, task_class: TaskClass, system: SystemGiven, shard: RunShard | None
    ) -> RunHeader:
        rootdir = self._config.rootpath
        return RunHeader(
            **facts_of_class(task_class),
            run_id=f"{self._session.name}-{name_of_source(rootdir, source)}",
            task_class=task_class.name,
            folder=relative(rootdir, source.folder),
            test=source.test,
            system=system,
            commit=_commit(rootdir),
            shard=shard,
        )

    def _redacting(self) -> Callable[[Any], Any]:
        if self._redact is None:
            from pytest_failure_taxonomy.redaction import Redactor

            given: list[str] = self._config.getoption("failure_taxonomy_redact", None) or []
            ini: list[str] = []
            with suppress(KeyError, ValueError):  # the plugin that declares it is switched off
                ini = self._config.getini("failure_taxonomy_redact")
            self._redact = Redactor((*ini, *given)).redact_json
        return self._redact

    # On the process that prints the summary.

    def kept(self, is_known: Callable[[Source], bool]) -> Iterator[tuple[Source, KeptRun]]:
        """Yield the runs of this session, of all its processes, with their sources.

        Args:
            is_known: Tells of a source whether this process knows all that its file holds. Then
                the file is not read: ten thousand cases take 60 MiB.
        """
        if not self.is_keeping:
            return
        name = self._session.name
        for path in self._paths(Path(self._session.folder)):
            with suppress(BenchError):
                header = read_header(path)
                source = source_of_run(self._config.rootpath, header)
                if path.name.startswith(name) and is_known(source):
                    yield source, KeptRun(path, header)
                    continue
                run = read_run(path, has_outputs=False)
                if path.name.startswith(name) or name in run.sessions:
                    yield source, run

    def _paths(self, folder: Path) -> list[Path]:
        """Return the files that processes of this session may have written, the oldest first."""
        paths = run_paths(folder)
        if not self._session.resumes:
            return [each for each in paths if each.name.startswith(self._session.name)]
        given = Path(self._session.resumes)
        if given.is_file() and given not in paths:
            paths.append(given)
        return [each for each in paths if each.stat().st_mtime >= self._began]

    def shown(self, run: KeptRun) -> str:
        """Return the path of a run's file as a user would type it; '' if it is not kept."""
        if self._session.is_temporary:
            return ""
        started_in = self._config.invocation_params.dir
        path = run.path.absolute()
        is_below = path.is_relative_to(started_in)
        return os.path.relpath(path, started_in) if is_below else str(path)

    def remove_temporary(self) -> None:
        """Remove files that were only for the processes of this pytest run."""
        if self._session.is_temporary:
            for path in self._paths(Path(self._session.folder)):
                with suppress(OSError):
                    path.unlink()


def resumed_line(run: KeptRun) -> str:
    """Return what a session that continued a run had left to do, in words; '' for a new run."""
    if not run.sessions:
        return f"all cases run: {run.header.not_resumed}" if run.header.not_resumed else ""
    before = [
        (run.done_before[key], key, case.digest)
        for key, case in run.cases.items()
        if key in run.done_before
    ]
    done = [key for call, key, digest in before if run.settles(call, digest)]
    changed = [key for call, key, digest in before if call.input_digest != digest]
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
    environment: Mapping[str, str] = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - the user's git
            cwd=rootdir,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    said = done.stdout.decode("ascii", "replace").strip()
    return said if done.returncode == 0 and re.fullmatch(r"[0-9a-f]{40,64}", said) else None

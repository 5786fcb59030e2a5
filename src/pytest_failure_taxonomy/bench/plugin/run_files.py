"""The files in which a pytest run keeps the runs of its task classes: begun or continued."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.bench import models
from pytest_failure_taxonomy.bench.kept.lines import (
    RunHeader,
    ScheduledCase,
    SystemGiven,
    begin_header,
    schedule_case,
)
from pytest_failure_taxonomy.bench.kept.reader import KeptRun, read_run
from pytest_failure_taxonomy.bench.kept.runs import find_runs, run_paths, session_of
from pytest_failure_taxonomy.bench.kept.writer import RunFile
from pytest_failure_taxonomy.bench.plugin.storage import BenchStorage, Source
from pytest_failure_taxonomy.bench.run.workspaces import Workspaces
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.option_files import LATEST, RUN_SUFFIX, STORAGE
from pytest_failure_taxonomy.system import files
from pytest_failure_taxonomy.system.process import ask_git

_IGNORE: Final = (
    b"# Made by pytest-failure-taxonomy: what systems returned is not for git.\n*\n"
)
_CLOCKS_DIFFER_SECONDS: Final = 2.0
"""By how much the time of a file system may be behind ours."""
_GIT_SECONDS: Final = 1.0
_MAX_NAME: Final = 60
_MOST_NAMED: Final = 3
_MAIN: Final = "main"
"""What the process is called that decides which runs are continued."""


class RunFiles:
    """The files to which the processes of one pytest run write."""

    def __init__(
        self, config: pytest.Config, storage: BenchStorage, worker: str
    ) -> None:
        self._config = config
        self._storage = storage
        self._worker = worker
        self._rootdir = config.rootpath
        self._began = time.time() - _CLOCKS_DIFFER_SECONDS
        self._files: list[RunFile] = []

    def check(self, sources: Iterable[Source], shard: tuple[int, int] | None) -> None:
        """Refuse what would have all cases paid for again, though the user has named a run.

        Raises:
            pytest.UsageError: It can't be read, a process of another pytest works on it, or it is
                of other sources.
        """
        if not self._storage.folder:
            return
        sources = [source for source in sources if not source.test]
        whys_not = []
        is_any = False
        try:
            for source in sources:
                path, why_not = self._find(source, shard)
                whys_not.append(why_not)
                if path is None:
                    continue
                is_any = True
                # That of another shard is only looked at.
                if _part(KeptRun(path).header.shard) == shard:
                    self._add(path, (), _MAIN).hold(self._storage.name)
        except (BenchError, OSError) as error:
            raise pytest.UsageError(f"--bench-resume: {error}") from None
        if is_any or not whys_not or self._storage.resumes in ("", LATEST):
            return
        folders = {relative(self._rootdir, source.folder) for source in sources}
        wanted = ", ".join(sorted(folders))
        raise pytest.UsageError(
            f"--bench-resume: {whys_not[0]}, and none of {wanted}; name another, or leave it out"
        )

    def _add(self, path: Path, cases: Iterable[ScheduledCase], worker: str) -> RunFile:
        file = RunFile(path, cases, self._redact, worker)
        self._files.append(file)
        return file

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
        resumed = self._storage.resumes
        if not resumed or source.test:
            return None, None
        paths = run_paths(Path(self._storage.folder))
        # The runs that other pytest runs began, the oldest first.
        own = self._storage.name
        earlier = [path for path in paths if not path.name.startswith(own)]
        if resumed == LATEST:
            ending = f"-{name_of_source(self._rootdir, source)}{RUN_SUFFIX}"
            same = [path for path in earlier if path.name.endswith(ending)]
            for path in reversed(same):
                if _part(KeptRun(path).header.shard) == shard:
                    return path, None
            why_not = "no run of it was kept that could be continued"
            return (same[-1], None) if same else (None, why_not)
        headers = []
        for path in find_runs(resumed, earlier):
            header = KeptRun(path).header
            if self.source_of(header) == source:
                return path, None
            headers.append(header)
        ran = set()
        for header in headers:
            label = f" with {header.system.label}" if header.system.label else ""
            ran.add((header.folder or header.task_class) + label)
        what = ", ".join(sorted(ran)) or "nothing that is kept"
        return None, f"{Path(resumed).name} is a run of {what}"

    def open(
        self,
        source: Source,
        task_class: models.TaskClass,
        system: SystemGiven,
        cases: Iterable[models.BenchCase],
        shard: models.RunShard | None = None,
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
        header = begin_header(
            task_class,
            run_id=f"{self._storage.name}-{name_of_source(self._rootdir, source)}",
            folder=relative(self._rootdir, source.folder),
            test=source.test,
            system=system,
            commit=_commit(self._rootdir),
            shard=shard,
        )
        listed = [schedule_case(case) for case in cases]
        earlier = None
        try:
            path, why_not = self._find(source, _part(shard))
            if path is not None:
                earlier = read_run(path, has_outputs=False)
        except BenchError as error:
            why_not = str(error)
        if earlier is not None:
            why_not = _why_not_resumed(earlier.header, header)
        if earlier is not None and why_not is None:
            # Its cases and those that were selected now, if the class still has them.
            by_id = {case.case_id: case for case in (*earlier.scheduled(), *listed)}
            ids = [case.case_id for case in task_class.cases]
            whole = [by_id[case_id] for case_id in ids if case_id in by_id]
            file = self._add(earlier.path, whole, self._worker)
            file.hold(self._storage.name)
            file.resume(self._storage.name, header.commit, header.cases_in_class)
        else:
            path = self._make_folder() / f"{header.run_id}{RUN_SUFFIX}"
            file = self._add(path, listed, self._worker)
            file.create(header.model_copy(update={"not_resumed": why_not}))
            if not source.test and not self._storage.is_temporary:
                with suppress(OSError):  # the file's own problem says what is wrong
                    file.hold(self._storage.name)
        return file

    def workspaces(
        self, task_class: models.TaskClass, file: RunFile | None
    ) -> Workspaces | None:
        """Return what makes the workspaces of a run that is kept; they are beside its file."""
        settings = task_class.settings.workspace
        if settings is None or file is None or self._storage.is_temporary:
            return None
        return Workspaces(task_class, settings, file.path.with_suffix(""))

    def close(self) -> None:
        """Close the files of the runs, which other pytest runs may continue then."""
        for file in self._files:
            file.close()

    def problems(self) -> list[str]:
        """Return why runs could not be written."""
        problems = [self._storage.problem, *(file.problem for file in self._files)]
        return [problem for problem in problems if problem]

    def _make_folder(self) -> Path:
        folder = Path(self._storage.folder)
        with suppress(OSError):  # the file's own error says what is wrong
            if self._storage.is_temporary:
                with files.make_folder(folder):
                    pass  # it has to be there, and nobody else's
            elif (
                not folder.is_dir() or folder == self._rootdir / STORAGE
            ):  # of a worker, maybe
                folder.mkdir(parents=True, exist_ok=True)
                files.write_new(folder / ".gitignore", _IGNORE)
        return folder

    @cached_property
    def _redact(self) -> Callable[[Any], Any]:
        from pytest_failure_taxonomy.redaction.redactor import Redactor

        given: list[str] = self._config.getoption("failure_taxonomy_redact", None) or []
        ini: list[str] = []
        with suppress(
            KeyError, ValueError
        ):  # the plugin that declares it is switched off
            ini = self._config.getini("failure_taxonomy_redact")
        redact: Callable[[Any], Any] = Redactor((*ini, *given)).redact_json
        return redact

    def paths(self) -> list[Path]:
        """Return the files that processes of this session may have written, the oldest first."""
        paths = run_paths(Path(self._storage.folder)) if self._storage.folder else []
        if not self._storage.resumes:
            own = self._storage.name
            return [path for path in paths if path.name.startswith(own)]
        resumed = Path(self._storage.resumes)
        if resumed.is_file() and resumed not in paths:
            paths.append(resumed)
        return [path for path in paths if path.stat().st_mtime >= self._began]

    def note_baseline(
        self, path: Path, comparison: models.BenchComparison | str
    ) -> None:
        """Write into the file of a run how it differs from its baseline."""
        file = RunFile(path, (), self._redact)
        file.note_baseline(comparison)
        file.close()

    def source_of(self, header: RunHeader) -> Source:
        """Return where the cases of a kept run came from."""
        folder = str(self._rootdir / header.folder) if header.folder else ""
        return Source(folder, header.test, header.system.label)


def check_resumed(storage: Path, config: pytest.Config) -> None:
    """Refuse to continue a run that does not exist, before any system is called.

    Raises:
        pytest.UsageError: There is none, or there are several.
    """
    given = str(config.getoption("bench_resume"))
    if given == LATEST:
        return
    paths = run_paths(storage)
    named = find_runs(given, paths)
    sessions = list(dict.fromkeys(map(session_of, reversed(named))))
    try:
        tests = [KeptRun(path).header.test for path in named if len(sessions) == 1]
    except BenchError as error:
        raise pytest.UsageError(f"--bench-resume: {error}") from None
    if len(sessions) > 1:
        right = f"name one, such as {', '.join(sessions[:_MOST_NAMED])}"
        problem = f"{given}: {len(sessions)} runs begin like this; {right}"
    elif named and all(tests):
        problem = f"{given} is a run of the test {tests[0]}, which is not continued; run the test"
    elif named:
        return
    elif os.path.exists(config.invocation_params.dir / given):
        right = f"write --bench-resume={LATEST}, or the option behind the paths"
        problem = f"{given} is no run; {right}"
    else:
        latest = ", ".join(path.stem for path in paths[: -_MOST_NAMED - 1 : -1])
        right = f"the latest are {latest}" if latest else "nothing was kept there"
        problem = f"there is no run {given} in {storage}; {right}"
    raise pytest.UsageError(f"--bench-resume: {problem}")


def _part(shard: models.RunShard | None) -> tuple[int, int] | None:
    """Return which shard it is, and of how many."""
    return None if shard is None else (shard.index, shard.total)


def _why_not_resumed(old: RunHeader, new: RunHeader) -> str | None:
    """Return what has changed since a run so that its scores don't count any more."""
    changes = {
        "the failure codes or breakdown keys": old.digests.taxonomy
        != new.digests.taxonomy,
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
    until = time.monotonic() + _GIT_SECONDS
    code, answer = ask_git(rootdir, until, "rev-parse", "HEAD")
    is_commit = code == 0 and re.fullmatch(r"[0-9a-f]{40,64}", answer)
    return answer if is_commit else None


def name_of_source(rootdir: Path, source: Source) -> str:
    """Return what the name of a run's file says of its source; equal for equal sources."""
    parts = (relative(rootdir, source.folder), source.test, source.system)
    digest = hashlib.sha256(
        "\0".join(parts).encode("utf-8", "surrogateescape")
    ).hexdigest()
    name = "-".join(filter(None, (Path(source.folder).name, source.system)))
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:_MAX_NAME] or "bench"
    return f"{readable}-{digest[:8]}"


def relative(rootdir: Path, folder: str) -> str:
    """Return a folder relative to the root directory, if it lies below it."""
    path = Path(folder)
    if not folder or not path.is_relative_to(rootdir):
        return folder
    return path.relative_to(rootdir).as_posix()

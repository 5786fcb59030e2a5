"""Where a pytest run keeps the runs of its task classes, and the journal of its xdist workers.

xdist's controller imports this module in every run, so it imports nothing heavy.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.option_files import LATEST, RUN_SUFFIX, STORAGE, chosen
from pytest_failure_taxonomy.system import files
from pytest_failure_taxonomy.system.process import has_process
from pytest_failure_taxonomy.taxonomy.values import replace, value

JOURNAL = pytest.StashKey[str]()
"""In the stash of xdist's controller: the folder of the journal that its workers write."""
WORKERS_FOLDER: Final = ".workers-"
"""How the name of a journal's folder in a storage begins; the controller's process id follows."""
TEMPORARY_FOLDER: Final = "pytest-bench-workers-"
"""The same of one in the temporary folder, where the runs are beside the journal."""
WIRE_KEY: Final = "failure_taxonomy_bench"
"""Under it a worker's input holds where to write what it knows, and a test's report its results."""

_JOURNAL_SUFFIX: Final = ".journal"
"""The suffix of our files; other files in the folder are neither read nor removed."""
_OWN_SUFFIXES: Final = (_JOURNAL_SUFFIX, RUN_SUFFIX, ".tmp")
"""Of all files that we create beside a journal."""
_FIELD_COUNTS: Final = {"started": 2, "scheduled": 5}
"""The number of fields in a line, by its first field."""
_MAX_JOURNAL_BYTES: Final = 256 * 1024 * 1024
"""Limit of one worker's file; a case takes a few hundred bytes."""

_STORAGE: pytest.StashKey[BenchStorage] = pytest.StashKey()
_MOST_NAMED: Final = 3


class Source(NamedTuple):
    """Where results come from."""

    folder: str
    """The folder of the task class."""
    test: str = ""
    """The test that ran the cases, without its parameters; empty for the items of the class."""
    system: str = ""
    """Which of several systems under test was called; empty for a single one."""


@value
class BenchStorage:
    """What all processes of one pytest run know of the runs that it keeps."""

    name: str
    """Begins the names of the files that the session creates."""
    folder: str = ""
    """Where the files are; empty if nothing is kept."""
    is_temporary: bool = False
    """Whether the files are only for the processes of this run, and are removed at its end."""
    resumes: str = ""
    """The run that is continued, as the user named it; empty if none is."""
    problem: str = ""
    """Why nothing is kept, though that was not asked for."""

    @classmethod
    def begin(cls, config: pytest.Config) -> BenchStorage:
        """Decide where the runs of a pytest run are kept.

        Raises:
            pytest.UsageError: The folder that the user named can't be used, or there is no run to
                continue.
        """
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"{stamp}-{os.urandom(3).hex()}"
        resumes = str(config.getoption("bench_resume") or "")
        if config.getoption("bench_no_save") or config.getini("bench_no_save"):
            if resumes:
                raise pytest.UsageError(
                    "--bench-resume: continues a run that is kept; leave --bench-no-save out"
                )
            return cls(name=name)
        storage, is_named = storage_of(config)
        problem = _why_not_writable(storage)
        if problem and is_named:
            raise pytest.UsageError(f"--bench-storage: {storage}: {problem}; name another folder")
        if problem:
            return cls(name=name, problem=f"{storage}: {problem}")
        if resumes and resumes != LATEST:
            _check_resumed(resumes, storage, config)
            resumes = str(Path(resumes).absolute()) if Path(resumes).is_file() else resumes
        return cls(name=name, folder=str(storage), resumes=resumes)


def bench_storage(config: pytest.Config) -> BenchStorage:
    """Return where a pytest run keeps the runs of its task classes; decide it at the first call."""
    if _STORAGE not in config.stash:
        given = getattr(config, "workerinput", {}).get(WIRE_KEY)
        config.stash[_STORAGE] = (
            BenchStorage.begin(config) if given is None else BenchStorage(**given["storage"])
        )
    return config.stash[_STORAGE]


def share_with_worker(config: pytest.Config, workerinput: dict[str, Any]) -> None:
    """Tell an xdist worker where to write what it knows; nothing is created yet."""
    storage, stash = bench_storage(config), config.stash
    if JOURNAL not in stash:
        own = f"{os.getpid()}-{os.urandom(6).hex()}"
        if storage.folder:
            stash[JOURNAL] = os.path.join(storage.folder, f"{WORKERS_FOLDER}{own}")
        else:
            # In the temporary folder only now: what is killed leaves it there.
            folder = os.path.join(tempfile.gettempdir(), f"{TEMPORARY_FOLDER}{own}")
            stash[JOURNAL] = folder
            storage = replace(storage, folder=folder, is_temporary=True)
            stash[_STORAGE] = storage
    shared = ("name", "folder", "is_temporary", "resumes")
    workerinput[WIRE_KEY] = {
        "journal": stash[JOURNAL],
        "storage": {name: getattr(storage, name) for name in shared},
    }


def storage_of(config: pytest.Config) -> tuple[Path, bool]:
    """Return the folder in which runs are kept, and whether the user has named it."""
    given = _path_of(config, "bench_storage")
    return (config.rootpath / STORAGE, False) if given is None else (given, True)


def json_file_of(config: pytest.Config) -> Path | None:
    """Return the file of `--bench-json`; `None` if none is asked for."""
    return _path_of(config, "bench_json")


def _path_of(config: pytest.Config, name: str) -> Path | None:
    """Return the path that an option gives, or an ini value of the same name."""
    given, base = chosen(config, config.getoption(name) or None, config.getini(name))
    return base / str(given) if given else None


def _why_not_writable(folder: Path) -> str:
    """Return why no file can be created in a folder, which may not exist yet; '' if one can."""
    existing = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not existing.is_dir():
        return f"{existing} is no folder"
    return "" if os.access(existing, os.W_OK | os.X_OK) else "can't be written"


def _check_resumed(given: str, storage: Path, config: pytest.Config) -> None:
    """Refuse to continue a run that does not exist, before any system is called."""
    from pytest_failure_taxonomy.bench.kept.reader import (
        named_runs,
        read_header,
        run_paths,
        session_of,
    )
    from pytest_failure_taxonomy.errors import BenchError

    paths = run_paths(storage)
    named = named_runs(given, paths)
    sessions = list(dict.fromkeys(session_of(path) for path in reversed(named)))
    if len(sessions) > 1:
        right = f"name one, such as {', '.join(sessions[:_MOST_NAMED])}"
        raise pytest.UsageError(f"--bench-resume: {given}: {len(sessions)} runs begin so; {right}")
    try:
        tests = [read_header(path).test for path in named]
    except BenchError as error:
        raise pytest.UsageError(f"--bench-resume: {error}") from None
    if named and all(tests):
        what = f"is a run of the test {tests[0]}, which is not continued; run the test"
        raise pytest.UsageError(f"--bench-resume: {given} {what}")
    if named:
        return
    if os.path.exists(config.invocation_params.dir / given):
        right = f"write --bench-resume={LATEST}, or the option behind the paths"
        raise pytest.UsageError(f"--bench-resume: {given} is no run; {right}")
    listed = ", ".join(path.stem for path in paths[: -_MOST_NAMED - 1 : -1])
    right = f"the latest are {listed}" if listed else "nothing was kept there"
    raise pytest.UsageError(f"--bench-resume: there is no run {given} in {storage}; {right}")


def remove_stale_journals(storage: Path) -> None:
    """Remove the journals of pytest runs that were killed, in a storage and the temporary folder.

    In the temporary folder the files of their runs are removed with them.
    """
    temporary = Path(tempfile.gettempdir())
    for folder, begin in ((storage, WORKERS_FOLDER), (temporary, TEMPORARY_FOLDER)):
        for path in folder.glob(f"{begin}*"):
            process_id = path.name.removeprefix(begin).partition("-")[0]
            is_dead = process_id.isdecimal() and not has_process(int(process_id))
            with suppress(OSError):
                # To root, too, what others have isn't its own.
                is_own = not hasattr(os, "geteuid") or path.lstat().st_uid == os.geteuid()
                if is_dead and is_own:
                    Journal(path, "controller").remove()


class Journal:
    """A folder in which each xdist worker appends to a file what it knows of its cases.

    There is no journal without xdist, nor if the workers are on other machines.
    """

    def __init__(self, folder: Path, worker: str) -> None:
        self._folder = folder
        self._name = f"{worker}{_JOURNAL_SUFFIX}"
        self._journal: files.Journal | None = None

    def begin(self) -> None:
        """Create the folder, which tells the controller that there will be results."""
        self._append("")

    def note_start(self, nodeid: str) -> None:
        """Record that the system under test is about to be called for a case."""
        self._append(f"started\t{nodeid}\n")

    def note_schedule(self, source: Source, case_id: str) -> None:
        """Record that a test will run a case, which its node id does not tell the controller."""
        self._append(f"scheduled\t{source.folder}\t{source.test}\t{source.system}\t{case_id}\n")

    def started_elsewhere(self) -> frozenset[str]:
        """Return the node ids of the cases that other workers have started."""
        return frozenset(fields[1] for name, fields in self._lines("started") if name != self._name)

    def started(self) -> frozenset[str]:
        """Return the node ids of the cases that any worker has started."""
        return frozenset(fields[1] for _, fields in self._lines("started"))

    def scheduled(self) -> list[tuple[Source, str]]:
        """Return the cases that tests will run, each once, in the order of the files."""
        lines = (fields for _, fields in self._lines("scheduled"))
        return list(dict.fromkeys((Source(*each[1:4]), each[4]) for each in lines))

    def remove(self) -> None:
        """Remove our files, and the folder if that leaves it empty."""
        with suppress(OSError), files.open_folder(self._folder) as folder:
            for name in folder.names():
                if name.endswith(_OWN_SUFFIXES):
                    folder.unlink(name)
            folder.rmdir()

    def _append(self, line: str) -> None:
        # If the disk is full, the journal is lost, but not the run.
        with suppress(OSError):
            if self._journal is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                with files.make_folder(self._folder) as folder:
                    self._journal = files.Journal(folder.open_file(self._name, flags))
            self._journal.append(line.encode("utf-8", "backslashreplace"))

    def _lines(self, sort: str) -> Iterator[tuple[str, list[str]]]:
        with suppress(OSError), files.open_folder(self._folder) as folder:
            for name in folder.names():
                if not name.endswith(_JOURNAL_SUFFIX):
                    continue
                try:
                    content = folder.read(name, _MAX_JOURNAL_BYTES)
                except OSError:  # a link, a pipe
                    continue
                for _, line in files.whole_lines(BytesIO(content)):
                    fields = line.decode("utf-8", "replace").rstrip("\n").split("\t")
                    if fields[0] == sort and len(fields) == _FIELD_COUNTS[sort]:
                        yield name, fields

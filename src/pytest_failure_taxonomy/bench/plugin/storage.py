"""Where a pytest run keeps the runs of its task classes, and what its xdist workers will run.

xdist's controller imports this module in every run, so it imports nothing heavy.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pytest_failure_taxonomy.option_files import RUN_SUFFIX, STORAGE, chosen
from pytest_failure_taxonomy.system import files
from pytest_failure_taxonomy.system.process import has_process
from pytest_failure_taxonomy.taxonomy.values import replace, to_dict, value

TEMPORARY_FOLDER: Final = "pytest-bench-workers-"
"""How the name of a journal's folder begins, in the temporary folder; the controller's process id
follows. The runs are beside the journal if they are not kept."""
WIRE_KEY: Final = "failure_taxonomy_bench"
"""Under it a worker's input holds where to write what it knows, and a test's report its results."""

_JOURNAL: Final = "cases.journal"
_OWN_SUFFIXES: Final = (".journal", RUN_SUFFIX, ".tmp")
"""Of all files that we create in a journal's folder; other files are not removed."""
_MAX_JOURNAL_BYTES: Final = 256 * 1024 * 1024
"""A case takes a few hundred bytes for each worker."""

_STORAGE: pytest.StashKey[BenchStorage] = pytest.StashKey()


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
    does_all: bool = False
    """Whether each of xdist's workers runs all cases, as `--dist each` has it."""
    journal: str = ""
    """The folder of what xdist's workers note for their controller; empty without xdist."""

    @classmethod
    def begin(cls, config: pytest.Config) -> BenchStorage:
        """Decide where the runs of a pytest run are kept.

        Raises:
            pytest.UsageError: The folder that the user named can't be used.
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
            raise pytest.UsageError(
                f"--bench-storage: {storage}: {problem}; name another folder"
            )
        if problem:
            return cls(name=name, problem=f"{storage}: {problem}")
        if resumes and Path(resumes).is_file():
            resumes = str(Path(resumes).absolute())
        return cls(name=name, folder=str(storage), resumes=resumes)


def bench_storage(config: pytest.Config) -> BenchStorage:
    """Return where a pytest run keeps the runs of its task classes; decide it at the first call."""
    if _STORAGE not in config.stash:
        given = getattr(config, "workerinput", {}).get(WIRE_KEY)
        config.stash[_STORAGE] = (
            BenchStorage.begin(config) if given is None else BenchStorage(**given)
        )
    return config.stash[_STORAGE]


def share_with_worker(config: pytest.Config, workerinput: dict[str, object]) -> None:
    """Tell an xdist worker where to write what it knows; nothing is created yet."""
    storage = bench_storage(config)
    if not storage.journal:
        own = f"{TEMPORARY_FOLDER}{os.getpid()}-{os.urandom(6).hex()}"
        journal = os.path.join(tempfile.gettempdir(), own)
        config.stash[_STORAGE] = storage = replace(
            storage,
            does_all=config.getoption("dist", "no") == "each",
            journal=journal,
            folder=storage.folder or journal,
            is_temporary=not storage.folder,
        )
    workerinput[WIRE_KEY] = to_dict(storage)


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


def remove_stale_journals() -> None:
    """Remove the journals of pytest runs that were killed, and the runs beside them."""
    for path in Path(tempfile.gettempdir()).glob(f"{TEMPORARY_FOLDER}*"):
        process_id = path.name.removeprefix(TEMPORARY_FOLDER).partition("-")[0]
        is_dead = process_id.isdecimal() and not has_process(int(process_id))
        with suppress(OSError):
            # To root, too, what others have isn't its own.
            is_own = not hasattr(os, "geteuid") or path.lstat().st_uid == os.geteuid()
            if is_dead and is_own:
                CasesOfTests(path).remove()


class CasesOfTests:
    """A folder in which all xdist workers append to a file which cases their tests will run.

    A test's node id does not tell that to the controller. There is no journal without xdist, nor if
    the workers are on other machines.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, cases: Iterable[tuple[Source, str]]) -> None:
        """Add cases, if any; the folder alone tells the controller that there will be results."""
        lines = "".join(
            ["\t".join([*source, case_id]) + "\n" for source, case_id in cases]
        )
        # If the disk is full, the journal is lost, but not the run.
        with suppress(OSError), files.make_folder(self._folder) as folder:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            journal = files.Journal(folder.open_file(_JOURNAL, flags))
            journal.append(lines.encode("utf-8", "backslashreplace"))
            journal.close()

    def cases(self) -> list[tuple[Source, str]]:
        """Return the cases that tests will run, each once, in the order of the file."""
        found: dict[tuple[Source, str], None] = {}
        with suppress(OSError), files.open_folder(self._folder) as folder:
            content = folder.read(_JOURNAL, _MAX_JOURNAL_BYTES)
            for _, line in files.whole_lines(BytesIO(content)):
                fields = line.decode("utf-8", "replace").rstrip("\n").split("\t")
                if len(fields) == len(Source._fields) + 1:
                    found[Source(*fields[:-1]), fields[-1]] = None
        return list(found)

    def remove(self) -> None:
        """Remove our files, and the folder if that leaves it empty."""
        with suppress(OSError), files.open_folder(self._folder) as folder:
            for name in folder.names():
                if name.endswith(_OWN_SUFFIXES):
                    folder.unlink(name)
            folder.rmdir()

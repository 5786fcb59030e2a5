"""The folder of a task class: its file names, its links, and the problems of each file.

`write_starter` writes a new one: a small working class, which its author then changes.

The pytest plugin calls `is_task_class` while it collects, so this module imports nothing heavy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.documents.problems import Problems, quoted, shown
from pytest_failure_taxonomy.errors import BenchError

MARKER_FILE: Final = "failure_modes.yaml"
"""The file that makes a folder a task class."""
RUBRIC: Final = "rubric.py"
RUBRICS: Final = "rubrics"
"""The folder of several rubrics, each named by its file."""
CASES_MODULE: Final = "cases.py"
"""Gives cases by a function, beside the files in `cases/`."""
PARTS: Final = frozenset(
    {
        *(MARKER_FILE, "breakdown_keys.yaml", "breakdown_keys.py", "bench.yaml"),
        *(RUBRIC, RUBRICS, CASES_MODULE, "cases", "oracle"),
    }
)
"""The names that have a meaning in a task class."""
DATA_SUFFIXES: Final = (".arrow", ".parquet")
"""Files of data sets, which may stand in folders of `cases/`."""
CASE_SUFFIXES: Final = (
    *(".yaml", ".yml", ".json", ".jsonl", ".ndjson", ".jsonlines", ".jsonl.gz"),
    *(".csv", ".tsv", *DATA_SUFFIXES),
)
METADATA: Final = frozenset({"dataset_info.json", "state.json", "dataset_dict.json"})
"""What `datasets` writes beside the files of a data set."""
MAX_DEPTH: Final = 4
"""The folders in which the files of a data set may stand, `cases/` among them."""
ORACLE_SUFFIXES: Final = (".yaml", ".yml")
_SUFFIXES: Final = {"cases": CASE_SUFFIXES, "oracle": ORACLE_SUFFIXES}
_TELLING: Final = (
    "bench.yaml",
    "breakdown_keys.yaml",
    "breakdown_keys.py",
    "failure_modes.yml",
)
"""Files that, next to a rubric and cases, only a task class has."""
_MISNAMED: Final = {
    "failure_modes.yml": MARKER_FILE,
    "breakdown_keys.yml": "breakdown_keys.yaml",
    "bench.yml": "bench.yaml",
}
"""File names that would be ignored, and the names that were meant."""
_RIGHT: Final = f"a task class is a folder with a {MARKER_FILE}"


def is_task_class(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a task class, valid or not.

    A folder that has the other files of a task class is one even without its marker file. If that
    file is only misnamed, the user gets an error instead of a run without cases.
    """

    def has(is_there: Callable[[str], bool], *names: str) -> bool:
        return any(is_there(os.path.join(path, name)) for name in names)

    return has(os.path.isfile, MARKER_FILE) or (
        (has(os.path.isfile, RUBRIC) or has(os.path.isdir, RUBRICS))
        and (has(os.path.isdir, "cases") or has(os.path.isfile, CASES_MODULE))
        and has(os.path.isfile, *_TELLING)
    )


def task_class_folder(case_file: Path) -> Path | None:
    """Return the folder of the task class to which a file of cases or oracle examples belongs.

    Args:
        case_file: Any path. The file system is only consulted if the names fit.

    Returns:
        The folder, spelled as in the path, or `None` if the file belongs to no task class.
    """
    folder, name = case_file.parent, case_file.name
    if name != CASES_MODULE:
        suffix = suffix_of(name)
        if suffix in DATA_SUFFIXES:
            above = [*case_file.parents][:MAX_DEPTH]
            folder = next((each for each in above if each.name == "cases"), folder)
        suffixes = _SUFFIXES.get(folder.name, ())
        if name.startswith(".") or name in METADATA or suffix not in suffixes:
            return None
        folder = folder.parent
    return folder if is_task_class(folder) else None


def suffix_of(name: str) -> str:
    """Return the suffix of a file's name, with the one before it if that is compressed."""
    stem, suffix = os.path.splitext(name)
    return os.path.splitext(stem)[1] + suffix if suffix == ".gz" else suffix


class ClassFolder:
    """The folder of a task class, which of its files may be read, and the problems of each."""

    def __init__(self, given: str | os.PathLike[str]) -> None:
        """Check the folder and all links in it.

        Raises:
            BenchError: The path is not a folder.
        """
        self._given = os.fspath(given)
        self._problems: dict[str, Problems] = {}
        try:
            self.path = Path(os.path.abspath(self._given))
            self.name = Path(os.path.realpath(self._given)).name
            is_folder = self.path.is_dir()
        except (OSError, ValueError) as error:
            raise BenchError(
                f"{shown(self._given)}: is no path ({error}); {_RIGHT}"
            ) from None
        if not is_folder:
            what = (
                "is no folder"
                if os.path.lexists(self.path)
                else "there is no such folder"
            )
            raise BenchError(f"{shown(self._given)}: {what}; {_RIGHT}")
        if not self.name:
            raise BenchError(f"{shown(self._given)}: has no name of its own; {_RIGHT}")
        root = os.path.realpath(self.path)
        outside = []
        for link in _links_below(root):
            target = os.path.realpath(os.path.join(root, link))
            if target != root and not target.startswith(os.path.join(root, "")):
                what = "is a link that leaves the folder; put the file itself here"
                self.problems_of(link).add(None, what)
                outside.append(link)
        self._outside = frozenset(outside)
        for name, meant in _MISNAMED.items():
            if os.path.lexists(self.path / name):
                self.problems_of(name).add(None, f"is never read; name it {meant}")

    def problems_of(self, name: str) -> Problems:
        """Return the problems of a file, to be added to, by its name within the folder."""
        where = os.path.join(self._given, name)
        return self._problems.setdefault(name, Problems(where, BenchError))

    def has(self, name: str) -> bool:
        """Return whether something with this name exists and may be read."""
        return os.path.lexists(self.path / name) and not self.is_outside(name)

    def is_outside(self, name: str) -> bool:
        """Return whether a file is a link out of the folder, which is already a problem."""
        return name in self._outside

    def has_problems(self, folder: str) -> bool:
        """Return whether there is a problem of what is in a subfolder."""
        return any(
            name.startswith(f"{folder}/") and len(problems)
            for name, problems in self._problems.items()
        )

    def names_in(self, name: str) -> list[str] | None:
        """Return the sorted names in a subfolder without hidden files; `None` if it is missing."""
        try:
            found = sorted(os.listdir(self.path / name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            what = f"can't be read ({error.strerror or error}); make it readable"
            self.problems_of(name).add(None, what)
            return []
        visible = (f"{name}/{each}" for each in found if not each.startswith("."))
        return [each for each in visible if not self.is_outside(each)]

    def raise_problems(self) -> None:
        """Raise a `BenchError` with all problems, by file and line, if there are any."""
        bad = [
            problems for _, problems in sorted(self._problems.items()) if len(problems)
        ]
        if bad:
            raise BenchError("\n".join(str(problems.as_error()) for problems in bad))


def _links_below(root: str) -> Iterator[str]:
    """Yield the symbolic links in a folder and its subfolders, except hidden ones."""
    # A folder that can't be read is reported when it is read.
    for parent, folders, names in os.walk(root):
        folders[:] = [
            each for each in folders if each[0] != "." and each != "__pycache__"
        ]
        for name in (*folders, *(each for each in names if each[0] != ".")):
            path = Path(parent, name)
            if path.is_symlink():
                yield path.relative_to(root).as_posix()


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def write_starter(folder: Path, kind: str = "mail") -> None:
    """Write a starter task class into a new or empty folder.

    Args:
        folder: Its name is the name of the class. Missing parent folders are created.
        kind: Which of `starters/`.

    Raises:
        BenchError: The name is not valid, or the folder can't be written. Files that were already
            written are removed.
    """
    where = shown(os.fspath(folder))
    if _NAME.fullmatch(folder.name) is None:
        right = "write letters, digits, - and _, such as bench/bug-fixes"
        raise BenchError(
            f"{where}: {quoted(folder.name)} is no name of a task class; {right}"
        )
    made: list[Path] = []
    try:
        if folder.is_dir():
            if any(folder.iterdir()):
                raise BenchError(
                    f"{where}: is not empty; give the name of a new folder"
                )
        elif os.path.lexists(folder):
            raise BenchError(f"{where}: is no folder; give the name of a new one")
        _make(folder, made)
        for name, text in starter_files(kind):
            path = folder / name
            _make(path.parent, made)
            # "x" refuses to overwrite a file that was created after the folder was checked.
            with path.open("x", encoding="utf-8", newline="\n") as file:
                made.append(path)
                file.write(text)
    except OSError as error:
        for path in reversed(made):  # what was created, and nothing else
            with suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
                else:
                    path.unlink()
        why = error.strerror or error
        raise BenchError(
            f"{where}: can't be written ({why}); choose another place"
        ) from None
    except ValueError as error:
        raise BenchError(
            f"{where}: is no path ({error}); give the name of a new folder"
        ) from None


def starter_files(kind: str = "mail") -> Iterator[tuple[str, str]]:
    """Yield the names and contents of a starter's files."""
    yield from _texts(files("pytest_failure_taxonomy.bench") / "starters" / kind, "")


def _texts(folder: Traversable, name: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.name.startswith((".", "__")):
            continue  # created by an interpreter or the operating system
        below = f"{name}{entry.name}"
        if entry.is_dir():
            yield from _texts(entry, f"{below}/")
        else:
            # Here they end in .txt, so that no tool mistakes them for files of this package.
            yield below.removesuffix(".txt"), entry.read_text("utf-8")


def _make(folder: Path, made: list[Path]) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir()
        made.append(each)

"""Write a small working task class, which its author then changes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.documents.problems import quoted, shown
from pytest_failure_taxonomy.errors import BenchError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def write_starter(folder: Path) -> None:
    """Write the starter task class into a new or empty folder.

    Args:
        folder: Its name is the name of the class. Missing parent folders are created.

    Raises:
        BenchError: The name is not valid, or the folder can't be written. Files that were already
            written are removed.
    """
    where = shown(os.fspath(folder))
    if _NAME.fullmatch(folder.name) is None:
        right = "write letters, digits, - and _, such as bench/bug-fixes"
        raise BenchError(f"{where}: {quoted(folder.name)} is no name of a task class; {right}")
    made: list[Path] = []
    try:
        if folder.is_dir():
            if any(folder.iterdir()):
                raise BenchError(f"{where}: is not empty; give the name of a new folder")
        elif os.path.lexists(folder):
            raise BenchError(f"{where}: is no folder; give the name of a new one")
        _write(folder, made)
    except OSError as error:
        _remove(made)
        why = error.strerror or error
        raise BenchError(f"{where}: can't be written ({why}); choose another place") from None
    except ValueError as error:
        raise BenchError(f"{where}: is no path ({error}); give the name of a new folder") from None


def starter_files() -> Iterator[tuple[str, str]]:
    """Yield the names and contents of the starter's files."""
    yield from _texts(files("pytest_failure_taxonomy.bench") / "starter", "")


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


def _write(folder: Path, made: list[Path]) -> None:
    _make(folder, made)
    for name, text in starter_files():
        path = folder / name
        _make(path.parent, made)
        # "x" refuses to overwrite a file that was created after the folder was checked.
        with path.open("x", encoding="utf-8", newline="\n") as file:
            made.append(path)
            file.write(text)


def _make(folder: Path, made: list[Path]) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def _remove(made: list[Path]) -> None:
    """Remove what was created, and nothing else."""
    for path in reversed(made):
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()

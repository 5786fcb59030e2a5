"""The folder of a task class: its files, its links, and the problems of each file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.bench.loading.places import MARK
from pytest_failure_taxonomy.documents.problems import Problems, shown
from pytest_failure_taxonomy.errors import BenchError

_MISNAMED: Final = {
    "failure_modes.yml": MARK,
    "breakdown_keys.yml": "breakdown_keys.yaml",
    "bench.yml": "bench.yaml",
}
"""Names that would be passed over in silence, and what they were meant to be."""


class ClassFolder:
    """A task class's folder, which files of it may be read, and what is wrong with each."""

    def __init__(self, given: str | os.PathLike[str]) -> None:
        """Look at the folder and all links in it.

        Raises:
            BenchError: it is no folder.
        """
        self._given = os.fspath(given)
        self._problems: dict[str, Problems] = {}
        try:
            self.path = Path(os.path.abspath(self._given))
            self.name = Path(os.path.realpath(self._given)).name
            is_folder = self.path.is_dir()
        except (OSError, ValueError) as error:
            raise BenchError(f"{shown(self._given)}: is no path ({error}); {_RIGHT}") from None
        if not is_folder:
            what = "is no folder" if os.path.lexists(self.path) else "there is no such folder"
            raise BenchError(f"{shown(self._given)}: {what}; {_RIGHT}")
        if not self.name:
            raise BenchError(f"{shown(self._given)}: has no name of its own; {_RIGHT}")
        self._outside = frozenset(self._links_that_leave())
        for name, meant in _MISNAMED.items():
            if os.path.lexists(self.path / name):
                self.problems_of(name).add(None, f"is never read; name it {meant}")

    def problems_of(self, name: str) -> Problems:
        """Return where to tell what is wrong with a file, by its name within the folder."""
        where = os.path.join(self._given, name)
        return self._problems.setdefault(name, Problems(where, BenchError))

    def has(self, name: str) -> bool:
        """Return whether there is a file, of whatever sort, that may be read."""
        return os.path.lexists(self.path / name) and not self.is_outside(name)

    def is_outside(self, name: str) -> bool:
        """Return whether a file is a link that leaves the folder, which was told already."""
        return name in self._outside

    def names_in(self, name: str) -> list[str] | None:
        """Return the names of what is visible in a sub-folder, sorted, `None` for no folder."""
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
        """Raise one `BenchError` that says all problems, by file and line, if there are any."""
        bad = [problems for _, problems in sorted(self._problems.items()) if len(problems)]
        if bad:
            raise BenchError("\n".join(str(problems.as_error()) for problems in bad))

    def _links_that_leave(self) -> Iterator[str]:
        root = os.path.realpath(self.path)
        for link in _links_below(root, ""):
            target = os.path.realpath(os.path.join(root, link))
            if target != root and not target.startswith(os.path.join(root, "")):
                what = "is a link that leaves the folder; put the file itself here"
                self.problems_of(link).add(None, what)
                yield link


_RIGHT: Final = f"a task class is a folder with a {MARK}"


def _links_below(root: str, name: str) -> Iterator[str]:
    """Yield the links of a folder and of those within it, hidden ones aside."""
    try:
        entries = sorted(os.scandir(os.path.join(root, name)), key=lambda entry: entry.name)
    except OSError:
        return  # told where it is read, if it is
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        below = f"{name}/{entry.name}" if name else entry.name
        if entry.is_symlink():
            yield below
        elif entry.is_dir(follow_symlinks=False):
            yield from _links_below(root, below)

"""Find what changed since a commit, and which test files that can affect.

A room is a folder or a module directly in `src/pytest_failure_taxonomy`. A test file needs the rooms
that it and the test modules behind it name, and those that these rooms import. A file that starts
whole runs needs every room; of the neighbours, which a run loads only on demand, those it names.
What can't be attributed to a room (a top-level module, a helper, `pyproject.toml`) affects all.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Final

PACKAGE: Final = "pytest_failure_taxonomy"
NEIGHBOURS: Final = frozenset({"history", "mcp", "prove"})
"""Rooms that a run of pytest or of the command loads only if it is asked to."""

_SOURCE: Final = f"src/{PACKAGE}"
_NO_TESTS_READ: Final = (".github/", "example_project/.github/")
_STARTERS: Final = frozenset({"tests/helpers/runs.py", "tests/helpers/warm_pytest.py"})
"""How tests start any run, so that what they name says nothing about one test."""

_ROOM: Final = re.compile(rf"\b{PACKAGE}\.(\w+)")
_FROM_PACKAGE: Final = re.compile(rf"\bfrom {PACKAGE} import (\([^)]*\)|.*)")
_OWN_NAMES: Final = frozenset({"VERSION"})
"""What the package itself defines; it loads any other name from a room."""
_TEST_MODULE: Final = re.compile(r"\bfrom (tests(?:\.\w+)+|\.\w+) import ")
_WHOLE_RUN: Final = re.compile(
    r"sys\.executable|\bpytester\b|\bPytestRuns\b|\bimport_module\b|\bmultiprocessing\b"
)
_NEIGHBOUR: Final = re.compile(
    rf"(?<![a-z])(?:{'|'.join(sorted(NEIGHBOURS))})(?![a-z])"
)
_DOCUMENT: Final = re.compile(r"\.md\b|\bdocs\b|\bREADME\b")


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed, by what can be affected."""

    rooms: frozenset[str] = frozenset()
    test_files: frozenset[str] = frozenset()
    has_documents: bool = False
    is_for_all: bool = False
    """Something changed that no room owns."""


def list_changed_paths(root: Path, revision: str) -> list[str] | None:
    """Return the paths that differ from a revision, or None if git doesn't know it."""
    command = ["git", "diff", "--name-only", "--no-renames", "-z", revision, "--"]
    try:
        result = subprocess.run(command, cwd=root, capture_output=True, check=False)
    except OSError:
        return None
    if result.returncode != 0:
        return None
    return result.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


def sort_changes(paths: Iterable[str]) -> Changes:
    """Attribute changed paths to rooms, test files and documents."""
    rooms: set[str] = set()
    test_files: set[str] = set()
    has_documents = False
    is_for_all = False
    for path in map(PurePosixPath, paths):
        match path.parts:
            case ("src", str(package), str(room), _, *_) if package == PACKAGE:
                rooms.add(room)
            case ("tests", "attacks", "cheats", *_):
                test_files.add("tests/attacks/test_cheats.py")
            case ("tests", *_, str(name)) if re.fullmatch(r"test_\w+\.py", name):
                test_files.add(str(path))
            case ("docs" | "changelog.d", *_):
                has_documents = True
            case (str(name),) if name.endswith(".md"):
                has_documents = True
            case _ if not str(path).startswith(_NO_TESTS_READ):
                is_for_all = True
    return Changes(frozenset(rooms), frozenset(test_files), has_documents, is_for_all)


@dataclass(frozen=True, slots=True)
class _Mentions:
    """What the text of a file names."""

    rooms: frozenset[str]
    """Names that stand behind the package's, of rooms if there are such."""
    public_names: frozenset[str]
    """Names imported from the package itself."""
    neighbours: frozenset[str]
    test_modules: tuple[str, ...]
    has_whole_run: bool
    has_document: bool


@cache
def _read_mentions(path: Path) -> _Mentions:
    text = path.read_text("utf-8")
    imported = " ".join(_FROM_PACKAGE.findall(text))
    return _Mentions(
        rooms=frozenset(_ROOM.findall(text)),
        public_names=frozenset(re.findall(r"\w+", imported)),
        neighbours=frozenset(_NEIGHBOUR.findall(text)),
        test_modules=tuple(_TEST_MODULE.findall(text)),
        has_whole_run=_WHOLE_RUN.search(text) is not None,
        has_document=_DOCUMENT.search(text) is not None,
    )


class Selection:
    """Say whether changes can affect a test file.

    Args:
        root: The repository.
        changes: What changed in it.
    """

    def __init__(self, root: Path, changes: Changes) -> None:
        self._root: Final = root
        self._changes: Final = changes

    def is_affected(self, file: Path) -> bool:
        """Return whether a test in the file can end differently than before."""
        changes = self._changes
        mentions = dict(self._read_with_modules(file))
        if changes.is_for_all or changes.test_files & mentions.keys():
            return True
        kind = file.relative_to(self._root / "tests").parts[0]
        if kind == "contract":
            return bool(changes.rooms) or changes.has_documents
        reads_pages = any(mention.has_document for mention in mentions.values())
        if changes.has_documents and reads_pages:
            return True
        return bool(changes.rooms & self._find_needs(mentions, is_unit=kind == "unit"))

    def changed_any(self, rooms: Iterable[str], file: Path) -> bool:
        """Return whether one of the rooms changed, or the test file that is about them."""
        changes = self._changes
        name = file.relative_to(self._root).as_posix()
        is_changed = not changes.rooms.isdisjoint(rooms) or name in changes.test_files
        return is_changed or changes.is_for_all

    def _find_needs(
        self, mentions: Mapping[str, _Mentions], *, is_unit: bool
    ) -> frozenset[str]:
        every_room = frozenset(self._imports)
        own = [mentions[name] for name in mentions.keys() - _STARTERS]
        public_names = frozenset[str]().union(
            *(mention.public_names for mention in own)
        )
        rooms = public_names.union(*(mention.rooms for mention in own)) & every_room
        needs = self._close(rooms)
        starts_runs = any(mention.has_whole_run for mention in own)
        starts_runs |= not is_unit or bool(mentions.keys() & _STARTERS)
        starts_runs |= "cli" in rooms  # which loads the neighbours' commands by name
        if starts_runs or public_names - every_room - _OWN_NAMES:
            needs |= every_room - NEIGHBOURS
            needs |= needs.union(*(mention.neighbours for mention in own))
        return needs

    def _read_with_modules(self, file: Path) -> Iterator[tuple[str, _Mentions]]:
        """Yield a test file, its folders' conftests, and all test modules behind them."""
        tests = self._root / "tests"
        folders = [folder for folder in file.parents if tests in folder.parents]
        waiting = [file, *(folder / "conftest.py" for folder in folders)]
        seen: set[Path] = set()
        while waiting:
            path = waiting.pop()
            if path in seen or not path.is_file():
                continue
            seen.add(path)
            mentions = _read_mentions(path)
            yield path.relative_to(self._root).as_posix(), mentions
            for module in mentions.test_modules:
                start = path.parent if module.startswith(".") else self._root
                place = start.joinpath(*module.strip(".").split("."))
                # A package may give any of its modules.
                waiting += [place.with_suffix(".py"), *sorted(place.rglob("*.py"))]

    @cached_property
    def _imports(self) -> Mapping[str, frozenset[str]]:
        """The rooms that each room names."""
        places = (self._root / _SOURCE).iterdir()
        rooms = {path.stem: path for path in places if path.stem[0] != "_"}
        return {
            name: _find_names(place).intersection(rooms)
            for name, place in rooms.items()
        }

    def _close(self, rooms: frozenset[str]) -> frozenset[str]:
        """Add the rooms that these import, directly or not."""
        while True:
            reached = rooms.union(*(self._imports[room] for room in rooms))
            if reached == rooms:
                return rooms
            rooms = reached


def _find_names(room: Path) -> frozenset[str]:
    """Return what a room imports of the package, rooms and other names."""
    files = sorted(room.rglob("*.py")) if room.is_dir() else [room]
    mentions = [_read_mentions(file) for file in files]
    names = [mention.rooms | mention.public_names for mention in mentions]
    return frozenset[str]().union(*names)


def _print_rooms(revision: str) -> None:
    """Print the rooms that changed between blanks, or `all`."""
    root = Path(__file__).resolve().parents[2]
    paths = list_changed_paths(root, revision) if revision else None
    changes = sort_changes(paths or [])
    if paths is None or changes.is_for_all or changes.test_files:
        sys.stdout.write(" all \n")
    else:
        sys.stdout.write(f" {' '.join(sorted(changes.rooms))} \n")


if __name__ == "__main__":
    _print_rooms(sys.argv[1])

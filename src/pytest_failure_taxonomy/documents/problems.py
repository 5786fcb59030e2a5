"""Values of files that know where they stand, and all problems of a file at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pytest_failure_taxonomy.errors import FailureTaxonomyError
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.taxonomy.words import and_more, shortened

if TYPE_CHECKING:
    import yaml

MAX_PROBLEMS: Final = 100
"""The maximal number of problems that are listed for one file."""
_MAX_WORD: Final = 60
_MAX_LINE: Final = 300
MAX_DEPTH: Final = 100
"""Maximal nesting of lists and mappings."""

WRONG: Final = object()
"""Takes the place of a value that was already reported as a problem."""


class WrongError(ValueError):
    """A value, a text or a file can't be used; says what is wrong; what would be right."""

    def __init__(self, what: str, right: str = "", *, line: int | None = None) -> None:
        """Take what is wrong; what would be right, if that is said apart from it; and the line."""
        super().__init__(f"{what}; {right}" if right else what)
        self.what = what
        self.right = right
        self.line = line


class Problems:
    """The problems of one file, each with its line if it has one."""

    def __init__(self, where: str, error: type[FailureTaxonomyError]) -> None:
        """Take the name of the file, and the class of the error for its problems."""
        self._where = shown(where)
        self._error = error
        self._found: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, line: int | None, what: str) -> None:
        """Add a problem in words: what is wrong; what would be right."""
        self._found.append((line or 0, what))

    def ended_by(self, error: WrongError, right: str) -> FailureTaxonomyError:
        """Add what ends the reading of the file, and return the error that lists all problems."""
        self.add(error.line, f"{error.what}; {right}")
        return self.as_error()

    def as_error(self) -> FailureTaxonomyError:
        """Return the error that lists all problems in the order of their lines."""
        problems = sorted(self._found, key=itemgetter(0))
        lines = []
        for line, what in problems[:MAX_PROBLEMS]:
            where = f"{self._where}:{line}" if line else self._where
            lines.append(f"{where}: {what}")
        more = and_more(len(problems) - MAX_PROBLEMS)
        if more:
            lines.append(f"{self._where}: ...{more} problems")
        return self._error("\n".join(lines))


def quoted(text: str) -> str:
    """Return a string in quotes, escaped for a terminal and shortened."""
    return repr(shortened(text, _MAX_WORD))


def shown(text: str) -> str:
    """Return a string as one line, escaped for a terminal and shortened."""
    line = shortened(text, _MAX_LINE)
    if line.isprintable():
        return line
    return repr(line)[1:-1]


def nearest(given: str, allowed: Iterable[str], *, count: int = 3) -> list[str]:
    """Return the allowed words that are most similar to a wrong one; case doesn't count."""
    import difflib

    by_lower_case = {word.lower(): word for word in allowed}
    close = difflib.get_close_matches(
        given.lower()[:_MAX_WORD],
        by_lower_case,
        n=count,
        cutoff=0.6,
    )
    return [by_lower_case[word] for word in close]


def closest(given: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed word that is most similar to a wrong one, if any."""
    words = nearest(given, allowed, count=1)
    return words[0] if words else None


def right_words(given: str, allowed: Iterable[str], *, otherwise: str) -> str:
    """Return the question whether the closest allowed word was meant, or `otherwise`."""
    meant = closest(given, allowed)
    return otherwise if meant is None else f"did you mean {meant}?"


@value
class Tree:
    """A value from a file, or a part of one, and where it stands."""

    value: Any
    """What JSON can represent: None, a bool, an int, a finite float, a string, a list,
    or a dict.

    `WRONG` replaces what was reported as a problem.
    """
    line: int
    """The line in which it begins, from 1; for a value of a mapping, that of its
    key."""
    node: yaml.Node | None = None
    """The node from which it was read; `None` for a file of JSON lines."""
    places: Mapping[int, Mapping[str, tuple[int, yaml.Node]]] = MappingProxyType({})
    """For each mapping, by the `id` of its node, the line of each key and the node of
    its value."""

    def at(self, *path: int | str) -> Tree:
        """Return the part at a path of keys and indexes, or the last one on the way that exists."""
        found = self
        for step in path:
            values, line, node = found.value, found.line, None
            if isinstance(values, dict) and step in values:
                if found.node is not None:
                    line, node = found.places[id(found.node)][str(step)]
            elif (
                isinstance(values, list)
                and isinstance(step, int)
                and step < len(values)
            ):
                if found.node is not None:
                    node = found.node.value[step]
                    line = line_of(node)
            else:
                break
            found = Tree(
                value=values[step],
                line=line,
                node=node,
                places=self.places,
            )
        return found

    def items(self) -> Iterator[tuple[str, Tree]]:
        """Yield the keys of a mapping with their values."""
        for key in self.value:
            yield key, self.at(key)

    def __iter__(self) -> Iterator[Tree]:
        """Yield the parts of a list."""
        for index in range(len(self.value)):
            yield self.at(index)

    def in_words(self) -> str:
        """Return the value as messages show it: as the file has it, if it is a scalar."""
        if self.value is None:
            return "an empty value"
        if isinstance(self.value, list):
            return "a list"
        if isinstance(self.value, dict):
            return "a mapping"
        text = str(self.value)
        if self.node is not None and isinstance(self.node.value, str):
            text = self.node.value
        elif isinstance(self.value, bool):
            text = text.lower()
        is_number = isinstance(self.value, int | float)  # or true or false
        return shortened(text, _MAX_WORD) if is_number else quoted(text)


def line_of(node: yaml.Node) -> int:
    """Return the line in which a node begins, from 1."""
    return int(node.start_mark.line) + 1


def kind_of(tree: Tree) -> str:
    """Return in words what a value is: empty, a list, a mapping, or the value itself."""
    if tree.value is None:
        return "empty"
    words = tree.in_words()
    return words if isinstance(tree.value, list | dict) else f"the value {words}"


def not_a_string(tree: Tree) -> str:
    """Return the message about a value that should be a string."""
    if tree.value is None:
        return "is empty; give it a value or leave it out"
    if isinstance(tree.value, list | dict):
        return f"is {tree.in_words()}, not a string; write one"
    what = "not a string"
    if isinstance(tree.value, int | float) and not isinstance(tree.value, bool):
        what = "a number, not a string"
    return f"{tree.in_words()} is {what}; put it in quotes"

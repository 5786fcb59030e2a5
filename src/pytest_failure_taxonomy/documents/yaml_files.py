"""Read YAML files as values with their lines, within bounds.

The bounds are those of size, depth and repeated references.

Plain scalars have the types of YAML 1.2's core schema: `no`, `on`, `1_000`, `12:30` and
dates are strings.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import yaml
from yaml.composer import Composer
from yaml.resolver import Resolver

from pytest_failure_taxonomy.documents.content import read_text
from pytest_failure_taxonomy.documents.problems import (
    MAX_DEPTH,
    WRONG,
    Problems,
    Tree,
    WrongError,
    kind_of,
    line_of,
    not_a_string,
    quoted,
    shown,
)
from pytest_failure_taxonomy.taxonomy.values import value

_YAML: Final = "tag:yaml.org,2002:"
_STRING: Final = f"{_YAML}str"
_NULL: Final = f"{_YAML}null"
_MERGE: Final = f"{_YAML}merge"

_Places = dict[int, dict[str, tuple[int, yaml.Node]]]
"""For each mapping, by the `id` of its node, the line of each key and the node of its
value."""

_TOO_DEEP: Final = "nested too deep"
REFUSED: Final = "!refused"
"""The tag of a node that was already reported as a problem."""
MAX_REPEATED: Final = 100_000
"""Maximal number of values that the aliases of a file repeat."""

_FLOAT: Final = (
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_CORE: Final = (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", _FLOAT, "-+.0123456789"),
    ("merge", r"<<", "<"),
)
"""The tags of plain scalars in the core schema (YAML 1.2.2, section 10.3.2): name,
expression, and the characters with which they begin.

The core schema has no merge key; it is recognized here to be refused with a message of
its own.
"""


@value
class Form:
    """How files of one kind are read."""

    right: str
    """What the file should be, for the message about a file that is something else."""
    max_bytes: int = 64 * 1024
    """The maximal size; parsing YAML is slow."""
    takes_aliases: bool = False
    """Whether aliases are followed, within `MAX_REPEATED`; otherwise each one is a
    problem."""
    is_fast: bool = False
    """Whether libyaml parses it if PyYAML has it: faster, but with poorer error
    messages."""


def _compose(text: str, problems: Problems, form: Form) -> yaml.Node | None:
    # Checked here because libyaml and PyYAML report it with different words and
    # positions.
    forbidden = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if forbidden is not None:
        line = text.count("\n", 0, forbidden.start()) + 1
        problem = f"holds the character {quoted(forbidden[0])}, which YAML forbids"
        raise WrongError(problem, line=line)
    loader = (_FastLoader if form.is_fast else _Loader)(text)
    loader.yaml_implicit_resolvers = _CORE_RESOLVERS
    loader.problems = problems
    loader.takes_aliases = form.takes_aliases
    try:
        root: yaml.Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        # libyaml's own limit, in the words of PyYAML 6.0.4 and later.
        if error.problem is not None and error.problem.endswith(
            "maximum nesting depth"
        ):
            raise WrongError(_TOO_DEEP) from None
        mark = error.problem_mark or error.context_mark
        words = "; ".join(part for part in (error.context, error.problem) if part)
        at = mark.line + 1 if mark is not None else None
        raise WrongError(f"not YAML ({shown(words)})", line=at) from None
    except yaml.YAMLError as error:
        raise WrongError(f"not YAML ({shown(str(error))})") from None
    except RecursionError:
        raise WrongError(_TOO_DEEP) from None
    finally:
        loader.dispose()
    return root


class _Bounded(Composer):
    """Composes nodes, and limits their depth and what aliases repeat."""

    problems: Problems
    takes_aliases: bool
    # Methods of the parser that this is mixed with; the stubs lack some of their types.
    check_event: Any
    peek_event: Any
    get_event: Any

    def __init__(self) -> None:
        Composer.__init__(self)
        self._depth = 0
        self._deepest = 0
        self._count = 0
        self._repeated = 0
        self._extents: dict[str, tuple[int, int]] = {}
        """The number of values and levels of each anchor whose value is complete."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            return self._follow_alias(parent, index)
        if self._depth == MAX_DEPTH:
            raise WrongError(_TOO_DEEP)
        anchor = self.peek_event().anchor
        # All counters go on below this node; the differences are its extent.
        count, deepest = self._count, self._deepest
        self._count += 1
        self._depth += 1
        self._deepest = self._depth
        node: yaml.Node | None = super().compose_node(parent, index)
        if anchor is not None:
            self._extents[anchor] = (
                self._count - count,
                self._deepest - self._depth + 1,
            )
        self._deepest = max(deepest, self._deepest)
        self._depth -= 1
        return node

    def _follow_alias(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        name = quoted(f"*{event.anchor}")
        if not self.takes_aliases:
            return self._refuse(
                f"{name} refers to an anchor; write the value itself here"
            )
        # PyYAML notes an anchor before its value, we after it.
        if event.anchor in self.anchors and event.anchor not in self._extents:
            return self._refuse(f"{name} contains itself; write a value that ends")
        count, levels = self._extents.get(event.anchor, (0, 0))
        self._count += count
        self._repeated += count
        # A few short lines can stand for billions of values ("billion laughs").
        if self._repeated > MAX_REPEATED:
            problem = f"its references repeat more than {MAX_REPEATED:,} values"
            raise WrongError(problem, line=event.start_mark.line + 1)
        self._deepest = max(self._deepest, self._depth + levels)
        if self._deepest > MAX_DEPTH:
            raise WrongError(_TOO_DEEP)
        # Raises if there is no such anchor.
        return super().compose_node(parent, index)

    def _refuse(self, problem: str) -> yaml.Node:
        event = self.get_event()
        self.problems.add(event.start_mark.line + 1, problem)
        return yaml.ScalarNode(REFUSED, "", event.start_mark, event.end_mark)


class _Loader(_Bounded, yaml.SafeLoader):
    """Parses in pure Python."""

    def __init__(self, text: str) -> None:
        yaml.SafeLoader.__init__(self, text)
        _Bounded.__init__(self)


if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    class _FastLoader(_Bounded, CParser, Resolver):
        """Parses with libyaml."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Resolver.__init__(self)
            _Bounded.__init__(self)

else:

    class _FastLoader(_Loader):  # type: ignore[no-redef]  # one of the two
        """Parses in pure Python: this PyYAML was built without libyaml."""


def _build_resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for name, expression, firsts in _CORE:
        pattern = re.compile(rf"(?:{expression})\Z")
        for first in firsts:
            # PyYAML looks resolvers up by the first character, and by "" for an empty
            # scalar.
            of_first = resolvers.setdefault(first.strip("\0"), [])
            of_first.append((f"{_YAML}{name}", pattern))
    return resolvers


_CORE_RESOLVERS: Final = _build_resolvers()


def read_tree(
    path: str | os.PathLike[str],
    problems: Problems,
    form: Form,
    *,
    root: tuple[type, ...],
    example: str,
    if_empty: str | None,
) -> Tree | None:
    """Return the value of a YAML file.

    Args:
        path: Of a regular file.
        problems: Receives everything that JSON can't represent, with its line.
        form: How to read the file.
        root: The types that the whole value may have: `dict`, `list`, or both.
        example: What to write, for the message about another type.
        if_empty: The message about a file without a value; `None` if that is no
            problem.

    Returns:
        The value, or `None` if the file has none or one of another type.

    Raises:
        FailureTaxonomyError: The file can't be read or isn't YAML; of the problems'
            error class.
    """
    text = read_text(
        path,
        problems,
        right=form.right,
        max_bytes=form.max_bytes,
    )
    try:
        node = _compose(text, problems, form)
    except WrongError as error:
        raise problems.ended_by(error, form.right) from None
    if node is None or node.tag == _NULL:
        if if_empty is not None:
            problems.add(1, if_empty)
        return None
    reader = _Reader(problems)
    tree = Tree(
        value=reader.read(node),
        line=line_of(node),
        node=node,
        places=reader.places,
    )
    if isinstance(tree.value, root):
        return tree
    # What is wrong was reported when it was read.
    if tree.value is not WRONG:
        problems.add(tree.line, f"the file begins with {kind_of(tree)}; {example}")
    return None


class _Reader:
    """Reads the nodes of one document, and reports a repeated node once."""

    def __init__(self, problems: Problems) -> None:
        self.places: _Places = {}
        self._problems = problems
        self._reported: set[int] = set()

    def read(self, node: yaml.Node) -> Any:
        """Return the value of a node, whose depth is bounded."""
        try:
            return self._read_value(node)
        except WrongError as error:
            return self._report_once(node, str(error))

    def _read_value(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return _SCALARS[node.tag](node.value)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_YAML}seq":
            return [self.read(item) for item in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_YAML}map":
            return self._read_mapping(node)
        tag = node.tag.removeprefix(_YAML)
        prefix = "!!" if tag != node.tag else ""
        name = quoted(prefix + tag)
        raise WrongError(f"the tag {name} is not supported; write a plain value")

    def _read_mapping(self, node: yaml.MappingNode) -> dict[str, object]:
        values: dict[str, object] = {}
        places = self.places[id(node)] = {}
        for key_node, value_node in node.value:
            key = self._read_key(key_node)
            if not isinstance(key, str):
                # Its problems are the user's, too.
                self.read(value_node)
            elif key in values:
                first = places[key][0]
                name = quoted(key)
                problem = f"the key {name} stands in line {first} already; give it once"
                self._report_once(key_node, problem)
            else:
                values[key] = self.read(value_node)
                places[key] = (line_of(key_node), value_node)
        return values

    def _read_key(self, node: yaml.Node) -> object:
        if node.tag == _MERGE:
            problem = "a key '<<' merges other mappings; write the keys themselves"
            return self._report_once(node, problem)
        key = self.read(node)
        if isinstance(key, str) or key is WRONG:
            return key
        tree = Tree(value=key, line=line_of(node), node=node)
        problem = not_a_string(tree)
        return self._report_once(node, f"a key {problem}")

    def _report_once(self, node: yaml.Node, problem: str) -> object:
        if node.tag != REFUSED and id(node) not in self._reported:
            self._reported.add(id(node))
            self._problems.add(line_of(node), problem)
        return WRONG


def _check_text(text: str) -> str:
    try:
        if not text.isascii():
            text.encode("utf-8")
    except UnicodeEncodeError:
        raise WrongError(
            f"{quoted(text)} holds half a character, which UTF-8 can't; "
            "write a whole one"
        ) from None
    return text


def _read_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise WrongError(f"{quoted(text)} is neither true nor false; write one of them")
    return text.lower() == "true"


def _read_integer(text: str) -> int:
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    try:
        number = int(text, base)
        # Fails where Python could not write it to JSON either.
        str(number)
    except ValueError:
        raise _refuse_number(text) from None
    return number


def _read_float(text: str) -> float:
    try:
        number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        raise _refuse_number(text) from None
    if not math.isfinite(number):
        problem = f"{quoted(text)} is no number to JSON"
        raise WrongError(problem, "write null or put it in quotes")
    return number


def _refuse_number(text: str) -> WrongError:
    problem = f"{quoted(text)} can't be read as a number"
    return WrongError(problem, "put it in quotes")


_SCALARS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {
        _STRING: _check_text,
        _NULL: lambda _: None,
        f"{_YAML}bool": _read_boolean,
        f"{_YAML}int": _read_integer,
        f"{_YAML}float": _read_float,
        # A plain `<<` merges only as a key.
        _MERGE: _check_text,
    }
)
"""The functions that read the scalars of the core schema, by tag."""

"""Compose the nodes of a YAML text within bounds: no depth and no reference without end."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from yaml.composer import Composer
from yaml.resolver import Resolver

from pytest_failure_taxonomy.documents.problems import Problems, quoted

REFUSED: Final = "!refused"
"""The tag of a node about which everything has been said."""
MAX_DEPTH: Final = 100
"""Levels of lists and mappings within each other."""
MAX_REPEATED: Final = 100_000
"""Values that the references of a file may repeat."""

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
"""What plain scalars are in the core schema (YAML 1.2.2, section 10.3.2), by first character.

The merge key is none of it, but whoever writes one means it; it is told apart to be refused.
"""


class TooDeepError(Exception):
    """A value is nested deeper than `MAX_DEPTH`."""


class TooManyError(Exception):
    """References repeat more values than `MAX_REPEATED`."""

    def __init__(self, line: int) -> None:
        super().__init__(f"its references repeat more than {MAX_REPEATED:,} values")
        self.line = line


def compose(
    text: str, problems: Problems, *, takes_aliases: bool, is_core: bool, is_large: bool
) -> yaml.Node | None:
    """Return the root node of a YAML text, `None` where it holds no value.

    Args:
        text: without characters that YAML forbids.
        problems: takes references that can't be followed.
        takes_aliases: follow references; each is a problem otherwise, however often it stands.
        is_core: read plain scalars in the core schema of YAML 1.2.
        is_large: use libyaml where PyYAML has it.

    Raises:
        yaml.YAMLError: it is no YAML.
        TooDeepError: it is nested too deep.
        TooManyError: its references repeat too much.
    """
    loader = (_LargeLoader if is_large else _Loader)(text)
    if is_core:
        loader.yaml_implicit_resolvers = _CORE_RESOLVERS
    loader.problems = problems
    loader.takes_aliases = takes_aliases
    try:
        root: yaml.Node | None = loader.get_single_node()
    finally:
        loader.dispose()
    return root


class _Bounded(Composer):
    """Composes nodes, counting what they hold; a reference is never followed unseen."""

    problems: Problems
    takes_aliases: bool
    # Of the parser that it is mixed with; the stubs leave some of their types out.
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
        """The number of values and of levels of each anchor whose value is whole."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            return self._follow(parent, index)
        if self._depth == MAX_DEPTH:
            raise TooDeepError
        anchor = self.peek_event().anchor
        count, deepest = self._count, self._deepest
        self._count += 1
        self._depth += 1
        self._deepest = self._depth
        node: yaml.Node | None = super().compose_node(parent, index)
        if anchor is not None:
            self._extents[anchor] = (self._count - count, self._deepest - self._depth + 1)
        self._deepest = max(deepest, self._deepest)
        self._depth -= 1
        return node

    def _follow(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()
        name = quoted(f"*{event.anchor}")
        if not self.takes_aliases:
            return self._refuse(f"{name} refers to an anchor; write the value itself here")
        if event.anchor in self.anchors and event.anchor not in self._extents:
            return self._refuse(f"{name} stands in what it refers to; write a value that ends")
        count, levels = self._extents.get(event.anchor, (0, 0))
        self._count += count
        self._repeated += count
        if self._repeated > MAX_REPEATED:
            raise TooManyError(event.start_mark.line + 1)
        self._deepest = max(self._deepest, self._depth + levels)
        if self._deepest > MAX_DEPTH:
            raise TooDeepError
        return super().compose_node(parent, index)  # which refuses an anchor that there is not

    def _refuse(self, what: str) -> yaml.Node:
        event = self.get_event()
        self.problems.add(event.start_mark.line + 1, what)
        return yaml.ScalarNode(REFUSED, "", event.start_mark, event.end_mark)


class _Loader(_Bounded, yaml.SafeLoader):
    """In pure Python."""

    def __init__(self, text: str) -> None:
        yaml.SafeLoader.__init__(self, text)
        _Bounded.__init__(self)


if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    class _LargeLoader(_Bounded, CParser, Resolver):
        """On libyaml's parser."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Resolver.__init__(self)
            _Bounded.__init__(self)

else:

    class _LargeLoader(_Loader):  # type: ignore[no-redef]  # the one or the other
        """In pure Python as well: this PyYAML was built without libyaml."""


def _core_resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for name, expression, firsts in _CORE:
        for first in firsts:
            # PyYAML asks by the first character, and for the empty text by the empty one.
            resolvers.setdefault(first.strip("\0"), []).append(
                (f"tag:yaml.org,2002:{name}", re.compile(rf"(?:{expression})\Z"))
            )
    return resolvers


_CORE_RESOLVERS: Final = _core_resolvers()

"""What newer versions of Python take away is not used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = [
    path
    for folder in ("src", "tests", "example_project/src")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
GONE: Final = frozenset(
    {
        # 3.15: no longer set
        *("__package__", "__cached__", "__loader__"),
        # 3.16: event loop policies
        *("get_event_loop_policy", "set_event_loop_policy"),
        # deprecated since 3.14 or removed by then
        *(
            "codecs.open",
            "argparse.FileType",
            "os.popen",
            "ast.Num",
            "ast.Str",
            "typing.ByteString",
        ),
        *(
            "asyncio.get_event_loop",
            "asyncio.iscoroutinefunction",
            "os.path.commonprefix",
        ),
        *("datetime.utcnow", "datetime.utcfromtimestamp", "importlib.abc.Traversable"),
    }
)


def names_of(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each name that a module uses, with the one that it is an attribute of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
            yield ast.unparse(node), node.lineno
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


@pytest.mark.slow
def test_what_is_deprecated_is_not_used() -> None:
    """No module uses a name that is deprecated in Python 3.14 or gone after it."""
    assert [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in SOURCES
        for name, line in names_of(ast.parse(path.read_text("utf-8")))
        if name in GONE
    ] == []


@pytest.mark.slow
def test_the_annotations_of_values_are_texts() -> None:
    """A class of `taxonomy.values` stands in a module whose annotations stay texts: Python 3.14
    evaluates others when they are asked for, which the class that is made of it could not.
    """
    makers = []
    for path in SOURCES:
        tree = ast.parse(path.read_text("utf-8"))
        if any(
            isinstance(node, ast.ClassDef) and _makes_value(node)
            for node in ast.walk(tree)
        ):
            makers.append(path)
            imported = [
                node.module for node in tree.body if isinstance(node, ast.ImportFrom)
            ]
            assert imported[0] == "__future__", path
    assert makers


def _makes_value(node: ast.ClassDef) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id == "value"
        for each in node.decorator_list
    )

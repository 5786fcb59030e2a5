"""Read the entries of the files in `cases/` and `oracle/`: plain dicts that know their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from pytest_failure_taxonomy.bench.loading.folder import CASE_SUFFIXES, ClassFolder
from pytest_failure_taxonomy.documents.composing import REFUSED
from pytest_failure_taxonomy.documents.document import Form, read_document, why_no_file
from pytest_failure_taxonomy.documents.fields import WrongError
from pytest_failure_taxonomy.documents.json_values import json_value
from pytest_failure_taxonomy.documents.nodes import is_null, line_of, sort_of
from pytest_failure_taxonomy.documents.problems import Problems, quoted
from pytest_failure_taxonomy.documents.values import value_of
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.values import value

MAX_YAML_BYTES: Final = 4 * 1024 * 1024
MAX_JSONL_BYTES: Final = 64 * 1024 * 1024

_EXAMPLE: Final = "write one mapping with an id, or a list of such"
_FORM: Final = Form(
    right="it is YAML in UTF-8 with one mapping, or a list of such",
    max_bytes=MAX_YAML_BYTES,
    takes_aliases=True,
    is_core=True,
    is_large=True,
)
_RIGHT: Final = "it is text in UTF-8 with one JSON object a line"
_LIKE_CASES: Final = (*CASE_SUFFIXES, ".json", ".jsonlines", ".ndjson")
"""Endings of what looks like a file of cases, and would be passed over in silence."""


@value
class Entry:
    """What a file says of one case or example."""

    fields: dict[str, Any]
    """As the file has it."""
    line: int
    lines: Mapping[str, int]
    """The line of each key; empty where all stand in the entry's own."""
    is_whole: bool
    """Nothing in it was a problem so far."""

    def line_of(self, key: str) -> int:
        """Return the line of a key, or that of the entry for one that it has not."""
        return self.lines.get(key, self.line)


def file_names(folder: ClassFolder, name: str, suffixes: tuple[str, ...]) -> list[str] | None:
    """Return the files of a sub-folder that are to be read, sorted.

    Args:
        folder: of the task class; takes what is there by mistake.
        name: of the sub-folder.
        suffixes: of the files.

    Returns:
        Names within the task class, or `None` where there is no such sub-folder.
    """
    found = folder.names_in(name)
    if found is None:
        return None
    names = []
    allowed = " or ".join(suffix for suffix in suffixes if suffix != ".yml")
    for each in found:
        suffix = Path(each).suffix
        if suffix in suffixes:
            names.append(each)
        elif (folder.path / each).is_dir():
            if each != f"{name}/__pycache__":
                what = f"folders in {name}/ are not searched; put the files in {name}/ itself"
                folder.problems_of(each).add(None, what)
        elif suffix.lower() in _LIKE_CASES:
            folder.problems_of(each).add(None, f"is never read; write a {allowed} file")
    return names


def read_entries(folder: ClassFolder, name: str) -> Iterator[Entry]:
    """Yield the entries of a file; what is wrong with it goes to the folder's problems."""
    problems = folder.problems_of(name)
    path = folder.path / name
    try:
        if name.endswith(".jsonl"):
            yield from _read_lines(path, problems)
        else:
            yield from _read_yaml(path, problems)
    except BenchError:
        pass  # it is among the problems


def _read_yaml(path: Path, problems: Problems) -> Iterator[Entry]:
    root = read_document(path, problems, _FORM)
    if root is None or is_null(root):
        problems.add(1, f"the file is empty; {_EXAMPLE}")
        return
    if isinstance(root, yaml.SequenceNode) and not root.value:
        problems.add(line_of(root), f"the list is empty; {_EXAMPLE}")
    for node in root.value if isinstance(root, yaml.SequenceNode) else [root]:
        if isinstance(node, yaml.MappingNode):
            read = value_of(node, problems)
            if isinstance(read.value, dict):
                lines = {str(key.value): line_of(key) for key, _ in node.value}
                yield Entry(
                    fields=read.value, line=line_of(node), lines=lines, is_whole=read.is_whole
                )
        elif node.tag != REFUSED:
            what = f"{sort_of(node)} where an entry begins; {_EXAMPLE}"
            problems.add(line_of(node), what)


def _read_lines(path: Path, problems: Problems) -> Iterator[Entry]:
    why = why_no_file(path)
    if why is None and path.stat().st_size > MAX_JSONL_BYTES:
        why = f"bigger than {MAX_JSONL_BYTES // 1024:,} KiB"
    if why is not None:
        problems.add(None, f"{why}; {_RIGHT}")
        return
    number, is_empty = 0, True
    try:
        with path.open("rb") as file:
            for number, content in enumerate(file, start=1):
                line = content.strip()
                if line:
                    is_empty = False
                    entry = _read_line(line, number, problems)
                    if entry is not None:
                        yield entry
    except OSError as error:
        problems.add(number or None, f"can't be read ({error.strerror or error}); {_RIGHT}")
        return
    if is_empty:
        problems.add(1, f"the file is empty; {_RIGHT}")


def _read_line(content: bytes, number: int, problems: Problems) -> Entry | None:
    try:
        text = content.decode("utf-8-sig" if number == 1 else "utf-8")
        fields = json_value(text)
    except UnicodeDecodeError:
        problems.add(number, f"not UTF-8; {_RIGHT}")
    except WrongError as error:
        problems.add(number, str(error))
    else:
        if isinstance(fields, dict):
            return Entry(fields=fields, line=number, lines={}, is_whole=True)
        shown = "a list" if isinstance(fields, list) else f"the value {quoted(text)}"
        problems.add(number, f"{shown} where an entry begins; {_RIGHT}")
    return None

"""Read the keys that a breakdown may have, from `breakdown_keys.yaml` or `breakdown_keys.py`."""

from __future__ import annotations

from typing import Final

import yaml

from pytest_failure_taxonomy.bench.codes import banned_part
from pytest_failure_taxonomy.bench.loading.folder import ClassFolder
from pytest_failure_taxonomy.bench.loading.key_enum import read_enum
from pytest_failure_taxonomy.bench.loading.words import code_of, why_not_code
from pytest_failure_taxonomy.documents.composing import REFUSED
from pytest_failure_taxonomy.documents.document import Form, read_document, read_text
from pytest_failure_taxonomy.documents.fields import WrongError
from pytest_failure_taxonomy.documents.nodes import is_null, line_of, sort_of
from pytest_failure_taxonomy.documents.problems import Problems, quoted
from pytest_failure_taxonomy.errors import BenchError

_YAML: Final = "breakdown_keys.yaml"
_PYTHON: Final = "breakdown_keys.py"
_EXAMPLE: Final = "write a list of keys, such as `- precision`, or [] for none"
_MAX_BYTES: Final = 1024 * 1024
_FORM: Final = Form(
    right=f"{_YAML} is YAML in UTF-8 with a list of keys",
    max_bytes=_MAX_BYTES,
    is_core=True,
    is_large=True,
)


def read_breakdown_keys(folder: ClassFolder) -> frozenset[str]:
    """Return the keys of a task class; of a file with problems, those that can be used."""
    if folder.is_outside(_YAML) or folder.is_outside(_PYTHON):
        return frozenset()
    if not folder.has(_PYTHON):
        if not folder.has(_YAML):
            what = f"there is no such file; {_EXAMPLE}"
            folder.problems_of(_YAML).add(None, what)
            return frozenset()
        return _checked(_read_yaml(folder), folder.problems_of(_YAML))
    if folder.has(_YAML):
        what = f"stands beside {_YAML}; keep one of the two"
        folder.problems_of(_PYTHON).add(None, what)
        return frozenset()
    return _checked(_read_python(folder), folder.problems_of(_PYTHON))


def _read_yaml(folder: ClassFolder) -> list[tuple[str, int]]:
    problems = folder.problems_of(_YAML)
    try:
        root = read_document(folder.path / _YAML, problems, _FORM)
    except BenchError:  # it is among the problems
        return []
    if root is None or is_null(root):
        problems.add(1, f"the file is empty; {_EXAMPLE}")
        return []
    if not isinstance(root, yaml.SequenceNode):
        problems.add(line_of(root), f"{sort_of(root)} where the file begins; {_EXAMPLE}")
        return []
    keys = []
    for node in root.value:
        try:
            keys.append((code_of(node), line_of(node)))
        except WrongError as error:
            if node.tag != REFUSED:
                problems.add(line_of(node), f"a key {error}")
    return keys


def _read_python(folder: ClassFolder) -> list[tuple[str, int]]:
    problems = folder.problems_of(_PYTHON)
    right = f"{_PYTHON} is Python in UTF-8 with one StrEnum"
    try:
        text = read_text(folder.path / _PYTHON, problems, right=right, max_bytes=_MAX_BYTES)
    except BenchError:  # it is among the problems
        return []
    keys = []
    for key, line in read_enum(text, problems):
        try:
            why_not_code(key)
            keys.append((key, line))
        except WrongError as error:
            problems.add(line, f"a key {error}")
    return keys


def _checked(keys: list[tuple[str, int]], problems: Problems) -> frozenset[str]:
    lines: dict[str, int] = {}
    for key, line in keys:
        banned = banned_part(key)
        if banned is not None:
            what = f"the key {quoted(key)} holds {banned!r}, a model's opinion of itself"
            problems.add(line, f"{what}; name what the rubric measures")
        if key in lines:
            what = f"the key {quoted(key)} stands in line {lines[key]} already; give it once"
            problems.add(line, what)
        lines.setdefault(key, line)
    return frozenset(lines)

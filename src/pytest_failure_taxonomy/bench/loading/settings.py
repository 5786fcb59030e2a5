"""Read `bench.yaml`: what the model of the settings allows, told in words and with lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pytest_failure_taxonomy.bench.loading.folder import ClassFolder
from pytest_failure_taxonomy.bench.loading.words import MAX_NUMBER, in_words
from pytest_failure_taxonomy.bench.models import BenchSettings, GateSettings
from pytest_failure_taxonomy.documents.document import Form, read_document
from pytest_failure_taxonomy.documents.nodes import is_null, line_of, pairs_of, sort_of
from pytest_failure_taxonomy.documents.problems import Problems, quoted, right_words
from pytest_failure_taxonomy.documents.values import value_of
from pytest_failure_taxonomy.errors import BenchError

_NAME: Final = "bench.yaml"
_EXAMPLE: Final = "write keys and values, such as `concurrency: 4`"
_FORM: Final = Form(
    right=f"{_NAME} is YAML in UTF-8 with keys and values", is_core=True, is_large=True
)
_SUT: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_MAX_REPEAT: Final = 1_000
_GATE: Final = "gate"

_WORDS: Final[Mapping[str, str]] = {
    "greater_than": "{given} is not more than {gt:g}; write a bigger number",
    "greater_than_equal": "{given} is less than {ge:g}; write {ge:g} or more",
    "less_than_equal": "{given} is more than {le:g}; write {le:g} or less",
    "float_type": "{given} is no number; write one, without quotes",
    "int_type": "{given} is no whole number; write one, without quotes",
    "string_type": "{given} is no text; put it in quotes",
}
"""What is wrong with a value, by the type that pydantic gives the error."""


def read_settings(folder: ClassFolder) -> BenchSettings:
    """Return the settings of a task class; a value with a problem has its default."""
    if not folder.has(_NAME):
        return BenchSettings()
    problems = folder.problems_of(_NAME)
    try:
        root = read_document(folder.path / _NAME, problems, _FORM)
    except BenchError:  # it is among the problems
        return BenchSettings()
    if root is None or is_null(root):
        return BenchSettings()  # a file of comments alone sets nothing
    if not isinstance(root, yaml.MappingNode):
        problems.add(line_of(root), f"{sort_of(root)} where the file begins; {_EXAMPLE}")
        return BenchSettings()
    values = _read_keys(root, BenchSettings, "", problems)
    return BenchSettings(**values)


def _read_keys(
    root: yaml.MappingNode, model: type[BaseModel], prefix: str, problems: Problems
) -> dict[str, Any]:
    """Return the good values of a mapping by the field of the model that each fills."""
    good: dict[str, Any] = {}
    fields = model.model_fields
    for key, line, node in pairs_of(root, problems):
        name = prefix + key
        if key not in fields:
            right = right_words(key, fields, otherwise=f"the keys are {', '.join(fields)}")
            problems.add(line, f"unknown key {quoted(name)}; {right}")
        elif is_null(node):
            problems.add(line, f"{name}: is empty; give it a value or leave it out")
        elif name == _GATE:
            if isinstance(node, yaml.MappingNode):
                good[key] = GateSettings(**_read_keys(node, GateSettings, f"{_GATE}.", problems))
            else:
                right = "write keys below it, such as `min_cases: 10`"
                problems.add(line, f"{name}: {sort_of(node)} is no mapping; {right}")
        else:
            read = value_of(node, problems)
            why = _why_wrong(model, key, read.value) if read.is_whole else None
            if why is not None:
                problems.add(line, f"{name}: {why}")
            elif read.is_whole:
                good[key] = read.value
    return good


def _why_wrong(model: type[BaseModel], key: str, given: Any) -> str | None:
    if key == "sut" and isinstance(given, str) and _SUT.fullmatch(given) is None:
        return f"{quoted(given)} names no callable; write it as package.module:callable"
    most = _MAX_REPEAT if key == "repeat" else MAX_NUMBER
    if isinstance(given, int | float) and given > most:
        shown = str(given) if given < 10**30 else "the number"
        return f"{shown} is more than {most:,}; write {most:,} or less"
    try:
        model(**{key: given})
    except ValidationError as error:
        return _in_words(error.errors(include_url=False)[0], model, key, given)
    return None


def _in_words(error: ErrorDetails, model: type[BaseModel], key: str, given: Any) -> str:
    shown = in_words(given)
    if error["type"] == "literal_error":
        words = get_args(model.model_fields[key].annotation)
        right = right_words(str(given), words, otherwise=f"write {' or '.join(words)}")
        return f"{shown} is unknown; {right}"
    form = _WORDS.get(error["type"])
    if form is None:
        return f"{shown} can't be used ({error['msg']}); see docs/reference/task-class.md"
    return form.format(given=shown, **error.get("ctx", {}))

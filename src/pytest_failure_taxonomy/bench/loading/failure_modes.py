"""Read `failure_modes.yaml`: the codes that a rubric may give, each with severity and meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import yaml

from pytest_failure_taxonomy.bench.codes import RUNNER_CODES, SEVERITIES, Severity
from pytest_failure_taxonomy.bench.loading.folder import MARKER_FILE, ClassFolder
from pytest_failure_taxonomy.bench.loading.words import code_of
from pytest_failure_taxonomy.documents.composing import REFUSED
from pytest_failure_taxonomy.documents.document import Form, read_document
from pytest_failure_taxonomy.documents.fields import WrongError, one_of, text_of
from pytest_failure_taxonomy.documents.nodes import is_null, line_of, pairs_of, sort_of
from pytest_failure_taxonomy.documents.problems import Problems, closest, quoted, right_words
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.taxonomy.values import value

_EXAMPLE: Final = (
    "write codes, such as `tests.failed: {severity: block, description: A test fails}`"
)
_FORM: Final = Form(
    right=f"{MARKER_FILE} is YAML in UTF-8 with a code in each line",
    max_bytes=1024 * 1024,
    is_core=True,
    is_large=True,
)


@value
class FailureModes:
    """The codes of a task class."""

    severities: Mapping[str, Severity]
    descriptions: Mapping[str, str]


def read_failure_modes(folder: ClassFolder) -> FailureModes:
    """Return the codes of a task class; of those with a problem, what can be used."""
    modes = FailureModes(severities={}, descriptions={})
    if folder.is_outside(MARKER_FILE):
        return modes
    problems = folder.problems_of(MARKER_FILE)
    try:
        root = read_document(folder.path / MARKER_FILE, problems, _FORM)
    except BenchError:  # it is among the problems
        return modes
    if root is None or is_null(root):
        problems.add(1, f"the file is empty; {_EXAMPLE}, or {{}} for none")
    elif not isinstance(root, yaml.MappingNode):
        problems.add(line_of(root), f"{sort_of(root)} where the file begins; {_EXAMPLE}")
    else:
        return _read_codes(root, problems)
    return modes


def _read_codes(root: yaml.MappingNode, problems: Problems) -> FailureModes:
    severities: dict[str, Severity] = {}
    descriptions: dict[str, str] = {}
    for node, _ in root.value:
        try:
            code_of(node)
        except WrongError as error:
            # What is no text at all is told with the keys.
            if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str":
                problems.add(line_of(node), f"a code {error}")
    for code, line, node in pairs_of(root, problems):
        entry = _read_entry(code, line, node, problems)
        severities[code] = cast("Severity", entry.get("severity", "block"))
        descriptions[code] = str(entry.get("description", ""))
    return FailureModes(severities=severities, descriptions=descriptions)


def _read_entry(code: str, line: int, node: yaml.Node, problems: Problems) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if not isinstance(node, yaml.MappingNode):
        if node.tag != REFUSED:
            what = f"{quoted(code)} is {sort_of(node)}; write severity: and description: below it"
            problems.add(line, what)
        return entry
    named: set[str] = set()
    for key, at, each in pairs_of(node, problems):
        # What a misspelled key was meant to be is not missing.
        named.add(closest(key, _FIELDS) or key)
        if key not in _FIELDS:
            right = right_words(key, _FIELDS, otherwise="the keys are severity and description")
            problems.add(at, f"{quoted(code)} has an unknown key {quoted(key)}; {right}")
        elif each.tag != REFUSED:
            try:
                entry[key] = _FIELDS[key](each)
            except WrongError as error:
                problems.add(at, f"{key} of {quoted(code)}: {error}")
        if key == "severity" and code in RUNNER_CODES and entry.get(key, "block") != "block":
            problems.add(at, f"{quoted(code)} is the runner's own code; its severity is block")
    for key in _FIELDS:
        if key not in named:
            problems.add(line, f"{quoted(code)} has no {key}; {_MISSING[key]}")
    return entry


def _description(node: yaml.Node) -> str:
    if is_null(node) or not (text := text_of(node)).strip():
        raise WrongError("is empty; say what the code means")
    return text


_FIELDS: Final[Mapping[str, Callable[[yaml.Node], str]]] = {
    "severity": one_of(*SEVERITIES),
    "description": _description,
}
_MISSING: Final = {
    "severity": f"add one of {', '.join(SEVERITIES)}",
    "description": "say what the code means",
}

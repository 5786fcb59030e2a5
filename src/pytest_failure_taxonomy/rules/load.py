"""Turn a user's file of rules into rules, or say everything that is wrong with it."""

from __future__ import annotations

import os
from typing import Any, Final

import yaml

from pytest_failure_taxonomy.documents.composing import REFUSED
from pytest_failure_taxonomy.documents.document import Form, read_document
from pytest_failure_taxonomy.documents.fields import WrongError
from pytest_failure_taxonomy.documents.nodes import is_null, line_of, pairs_of, sort_of
from pytest_failure_taxonomy.documents.problems import Problems, closest, quoted, right_words
from pytest_failure_taxonomy.errors import RulesError
from pytest_failure_taxonomy.rules.fields import FIELDS, MATCH_FIELDS
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason
from pytest_failure_taxonomy.taxonomy.user_rules import Rule, default_kind, reasons_of_kind

MAX_BYTES: Final = 64 * 1024
"""Room for hundreds of rules."""

_FORM: Final = Form(
    right="a file of rules is YAML in UTF-8 that begins with `rules:`", max_bytes=MAX_BYTES
)
_EXAMPLE: Final = "write `rules:` and below it a list of rules, each beginning with `- `"
_KEYS: Final = ", ".join(FIELDS)


def load_rules(path: str | os.PathLike[str]) -> tuple[Rule, ...]:
    """Read a file of rules.

    Args:
        path: of a YAML file; docs/how-to/write-rules.md says what may stand in it.

    Returns:
        The rules in the order of the file, which is the order in which they are asked.

    Raises:
        RulesError: the file can't be read or used; the message has one line for each problem, as
            `FILE:LINE: what is wrong; what would be right`.
    """
    problems = Problems(os.fspath(path), RulesError)
    root = read_document(path, problems, _FORM)
    rules = _read_rules(root, problems)
    if problems:
        raise problems.as_error()
    return rules


def _read_rules(root: yaml.Node | None, problems: Problems) -> tuple[Rule, ...]:
    if root is None or is_null(root):
        problems.add(1, f"the file is empty; {_EXAMPLE}")
        return ()
    if not isinstance(root, yaml.MappingNode):
        problems.add(line_of(root), f"{sort_of(root)} where the file begins; {_EXAMPLE}")
        return ()
    given = {}
    for key, line, node in pairs_of(root, problems):
        if key == "rules":
            given[key] = node
        else:
            right = right_words(key, ["rules"], otherwise="the only key here is `rules`")
            problems.add(line, f"unknown key {quoted(key)}; {right}")
    if "rules" not in given:
        problems.add(line_of(root), f"there are no rules; {_EXAMPLE}")
        return ()
    return _read_list(given["rules"], problems)


def _read_list(node: yaml.Node, problems: Problems) -> tuple[Rule, ...]:
    if node.tag == REFUSED:
        return ()
    if not isinstance(node, yaml.SequenceNode):
        problems.add(line_of(node), f"rules: is {sort_of(node)} and not a list; {_EXAMPLE}")
        return ()
    if not node.value:
        problems.add(line_of(node), f"rules: the list is empty; {_EXAMPLE}")
    rules: list[Rule] = []
    lines: dict[str, int] = {}
    for number, each in enumerate(node.value, start=1):
        name, rule = _read_rule(each, f"rule-{number}", problems)
        if name in lines:
            problems.add(
                line_of(each),
                f"name: {quoted(name)} is the name of the rule in line {lines[name]};"
                " each rule needs its own",
            )
        lines.setdefault(name, line_of(each))
        if rule is not None:
            rules.append(rule)
    return tuple(rules)


def _read_rule(node: yaml.Node, name: str, problems: Problems) -> tuple[str, Rule | None]:
    """Return the name of a rule, and the rule unless something is wrong with it."""
    if not isinstance(node, yaml.MappingNode):
        if node.tag != REFUSED:
            what = f"a rule is {sort_of(node)}; write keys and values, such as `reason: LLM_ERROR`"
            problems.add(line_of(node), what)
        return name, None
    given: dict[str, Any] = {"name": name}
    named: set[str] = set()
    for key, line, each in pairs_of(node, problems):
        # What a misspelled key was meant to be is not missing.
        named.add(closest(key, FIELDS) or key)
        if key not in FIELDS:
            right = right_words(key, FIELDS, otherwise=f"the keys are {_KEYS}")
            problems.add(line, f"unknown key {quoted(key)}; {right}")
        elif each.tag != REFUSED:
            try:
                given[key] = FIELDS[key](each)
            except WrongError as error:
                problems.add(line, f"{key}: {error}")
    _check_whole(node, named, problems)
    reason = given.get("reason")
    if reason is None:
        return given["name"], None
    kind = given.setdefault("kind", default_kind(reason))
    _check_kind(node, reason, kind, problems)
    return given["name"], Rule(**given)


def _check_whole(node: yaml.Node, named: set[str], problems: Problems) -> None:
    if "reason" not in named:
        problems.add(
            line_of(node),
            "the rule has no reason; add one of the fifteen, such as `reason: SANDBOX_ERROR`",
        )
    if named.isdisjoint(MATCH_FIELDS):
        problems.add(
            line_of(node),
            "the rule would match every failure; add at least one of " + ", ".join(MATCH_FIELDS),
        )


def _check_kind(
    node: yaml.MappingNode, reason: FailureReason, kind: str, problems: Problems
) -> None:
    reasons = reasons_of_kind(kind)
    if reasons and reason not in reasons:
        line = next(line_of(each) for key, each in node.value if key.value == "kind")
        problems.add(
            line,
            f"kind: {kind} belongs to {' or '.join(reasons)} and not to {reason};"
            " change one of the two",
        )

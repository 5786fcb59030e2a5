"""`failure-taxonomy validate`: check rules, reports and task classes."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.cli.output import answer, tell_plainly
from pytest_failure_taxonomy.cli.reports import load
from pytest_failure_taxonomy.documents import content
from pytest_failure_taxonomy.documents.problems import shown
from pytest_failure_taxonomy.errors import FailureTaxonomyError
from pytest_failure_taxonomy.system import import_named
from pytest_failure_taxonomy.system.files import read_named_file
from pytest_failure_taxonomy.taxonomy.words import counted

_GOOD, _BAD, _NOT_READ = range(3)
"""The exit codes of single files; the command ends with the highest of them."""
_HEAD_BYTES: Final = 1_024
"""Bytes that tell a report from a file of rules, if the name doesn't."""
_RIGHT: Final = "give rules (YAML), reports (JSON) or task classes (folders)"


def validate(options: argparse.Namespace) -> int:
    """Check all files and print the result of each."""
    find_subjects = import_named(options.asks["subjects"])
    check_task_class = import_named(options.asks["task_class"])
    code = _GOOD
    checked: set[str] = set()
    for path in options.paths:
        for subject, is_task_class in find_subjects(path):
            if is_task_class:
                # A class is checked once, however many of its files are given.
                real = os.path.realpath(subject)
                if real in checked:
                    continue
                checked.add(real)
            elif why := _why_unread(subject):
                tell_plainly(f"{shown(os.fspath(subject))}: {why}; {_RIGHT}")
                code = _NOT_READ
                continue
            try:
                if is_task_class:
                    words = check_task_class(subject, runs_oracle=options.oracle)
                else:
                    words = _check_file(subject)
            except FailureTaxonomyError as error:
                tell_plainly(str(error))
                code = max(code, _BAD)
            else:
                answer(f"ok {shown(os.fspath(subject))} ({words})\n")
    return code


def _why_unread(path: Path) -> str | None:
    try:
        if path.is_dir():
            with os.scandir(path):
                return "has no task class in it"
        why = content.why_no_file(path)
        if why is None:
            read_named_file(path, 1)
    except (OSError, ValueError) as error:
        return content.why_unread(error)
    return why


def _check_file(path: Path) -> str:
    """Return in words what is in a good file.

    Raises:
        FailureTaxonomyError: it is not good.
    """
    suffix = path.suffix.lower()
    is_report = suffix == ".json"
    if suffix not in (".json", ".yaml", ".yml"):
        head = read_named_file(path, _HEAD_BYTES)
        is_report = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    if is_report:
        return f"report, {load(path).completeness}"
    from pytest_failure_taxonomy.rules.files import load_rules

    return counted(len(load_rules(path)), "rule")

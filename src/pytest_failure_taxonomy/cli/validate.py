"""`failure-taxonomy validate`: check task classes, files of rules and reports."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.bench.load.folder import (
    PARTS,
    RUBRICS,
    is_task_class,
    task_class_folder,
)
from pytest_failure_taxonomy.cli.output import answer, tell_plainly
from pytest_failure_taxonomy.cli.reports import load
from pytest_failure_taxonomy.documents.content import why_no_file, why_unread
from pytest_failure_taxonomy.errors import FailureTaxonomyError
from pytest_failure_taxonomy.system.files import read_named_file
from pytest_failure_taxonomy.taxonomy.words import counted

_GOOD, _BAD, _NOT_READ = range(3)
"""The exit codes of single files; the command ends with the highest of them."""
_BYTES_LOOKED_AT: Final = 1_024
"""Bytes that are read to tell a report from a file of rules, if the name doesn't."""
_RIGHT: Final = "give rules (YAML), reports (JSON) or task classes (folders)"
_NOT_SEARCHED: Final = frozenset({"node_modules", "__pycache__", "venv"})
"""Folders that are not searched for task classes."""


def validate(options: argparse.Namespace) -> int:
    """Check all files and print the result of each."""
    code = _GOOD
    seen: set[str] = set()
    for path in options.paths:
        for each in _subjects(path):
            # A class is checked once, however many of its files are given.
            real = os.path.realpath(each) if is_task_class(each) else ""
            if real not in seen:
                code = max(code, _validate(each))
            if real:
                seen.add(real)
    return code


def _subjects(path: Path) -> Iterator[Path]:
    """Yield what a path stands for: the task classes in a folder, the class of a file, itself."""
    try:
        if path.name in PARTS and is_task_class(path.parent):
            yield path.parent
        elif path.parent.name == RUBRICS and is_task_class(path.parent.parent):
            yield path.parent.parent
        elif path.is_dir():
            classes = list(_task_classes(path))
            yield from classes or [path]
        else:
            yield task_class_folder(path) or path
    except (OSError, ValueError):
        yield path  # the check will say why it can't be read


def _task_classes(folder: Path) -> Iterator[Path]:
    if is_task_class(folder):
        yield folder
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        yield folder  # the check will say why it can't be read
        return
    for entry in entries:
        if (
            entry.is_dir(follow_symlinks=False)
            and not entry.name.startswith(".")
            and entry.name not in _NOT_SEARCHED
            and not os.path.lexists(os.path.join(entry, "pyvenv.cfg"))
        ):
            yield from _task_classes(folder / entry.name)


def _validate(path: Path) -> int:
    unread = None if is_task_class(path) else _why_unread(path)
    if unread is not None:
        tell_plainly(f"{_shown(path)}: {unread}; {_RIGHT}")
        return _NOT_READ
    try:
        what = _checked(path)
    except FailureTaxonomyError as error:
        tell_plainly(str(error))
        return _BAD
    answer(f"ok {_shown(path)} ({what})\n")
    return _GOOD


def _why_unread(path: Path) -> str | None:
    try:
        if path.is_dir():
            with os.scandir(path):
                return "has no task class in it"
        why = why_no_file(path)
        if why is None:
            read_named_file(path, 1)
    except (OSError, ValueError) as error:
        return why_unread(error)
    return why


def _checked(path: Path) -> str:
    """Return in words what is in a good file.

    Raises:
        FailureTaxonomyError: it is not good.
    """
    if is_task_class(path):
        from pytest_failure_taxonomy.bench.load.task_class import load_task_class

        task_class = load_task_class(path)
        times = task_class.settings.repeat
        cases = counted(len(task_class.cases) // times, "case")
        return f"task class, {cases}" + (f", each run {times} times" if times > 1 else "")
    suffix = path.suffix.lower()
    is_report = suffix == ".json"
    if suffix not in (".json", ".yaml", ".yml"):
        head = read_named_file(path, _BYTES_LOOKED_AT)
        is_report = head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    if is_report:
        return f"report, {load(path)['completeness']}"
    from pytest_failure_taxonomy.rules.files import load_rules

    return counted(len(load_rules(path)), "rule")


def _shown(path: Path) -> str:
    text = os.fspath(path)
    return text if text.isprintable() else repr(text)[1:-1]

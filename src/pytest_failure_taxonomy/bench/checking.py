"""What `failure-taxonomy validate` asks of task classes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pytest_failure_taxonomy.bench.load.folder import PARTS, is_task_class
from pytest_failure_taxonomy.bench.models import CaseFields, TaskClass
from pytest_failure_taxonomy.cli.output import MAX_LINE
from pytest_failure_taxonomy.documents.problems import shown
from pytest_failure_taxonomy.errors import BenchError
from pytest_failure_taxonomy.redaction.secrets import Secrets
from pytest_failure_taxonomy.taxonomy.words import counted
from pytest_failure_taxonomy.text import safe_text

_NOT_SEARCHED: Final = frozenset({"node_modules", "__pycache__", "venv"})
"""Folders that are not searched for task classes."""


def find_subjects(path: Path) -> list[tuple[Path, bool]]:
    """Return what a path stands for, and whether that is a task class.

    It stands for the class of which it is a part, for the classes in a folder, or for itself.
    """
    for part in (path, path.parent):
        if part.name in PARTS and is_task_class(part.parent):
            return [(part.parent, True)]
    subjects: list[tuple[Path, bool]] = []

    def add_unsearched(error: OSError) -> None:
        """Add what can't be searched, such as a file; its check says why."""
        subjects.append((Path(error.filename), False))

    for place, folders, _ in os.walk(path, onerror=add_unsearched):
        if is_task_class(place):
            subjects.append((Path(place), True))
            folders.clear()
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _NOT_SEARCHED
            and not os.path.lexists(os.path.join(place, name, "pyvenv.cfg"))
        )
    return subjects or [(path, False)]


def _likely_input(task_class: TaskClass) -> str:
    """Return the field that may be the input of cases; '' if one has an input, or none is.

    It is a text of each case that the system may see, the longest one of the first case.
    """
    cases, settings = task_class.cases, task_class.settings
    if not cases or any("input" in case.fields for case in cases):
        return ""
    not_inputs = {*CaseFields.model_fields, *settings.hidden, "workspace"}
    first = {
        name: text
        for name, text in cases[0].fields.items()
        if name not in not_inputs
        and all(isinstance(case.fields.get(name), str) for case in cases)
    }
    texts = {name: text for name, text in first.items() if len(text.split()) > 1}
    return max(texts, key=lambda name: len(texts[name]), default="")


def check_task_class(folder: Path, *, runs_oracle: bool) -> str:
    """Return in words what a good task class has.

    Args:
        folder: of the class.
        runs_oracle: whether its rubric has to grade its examples as they expect.

    Raises:
        FailureTaxonomyError: it is not good.
    """
    from pytest_failure_taxonomy.bench.load.task_class import load_task_class
    from pytest_failure_taxonomy.bench.scores import check_variables

    task_class = load_task_class(folder)
    check_variables(task_class, str(folder / "bench.yaml"))
    times = task_class.settings.repeat
    words = f"task class, {counted(len(task_class.cases) // times, 'case')}"
    if times > 1:
        words += f", each run {times} times"
    field = _likely_input(task_class)
    if field:
        right = f"say `fields: {{input: {shown(field)}}}`"
        words += f"; note: no case has an input; {right}"
    if not runs_oracle:
        return words
    from pytest_failure_taxonomy.bench.oracle import grade_examples, why_wrong
    from pytest_failure_taxonomy.bench.scores import one_line

    tests = [example for example in task_class.oracle if example.expect is not None]
    if not tests:
        count = len(task_class.oracle)
        have = "has" if count == 1 else "have"
        labelled = f"its {counted(count, 'example')} {have} a label, but no `expect`"
        return f"{words}, nothing tested: {labelled if count else 'it has no oracle'}"
    outcomes, problems = grade_examples(task_class, tests), []
    redact = Secrets().redact
    for example in tests:
        score = outcomes[example.example_id].score
        why = why_wrong(example, score)
        if not why:
            continue
        file = folder / "oracle" / (example.path or folder).name
        problem = f"{why}; the rubric said {one_line(score)}"
        line = f"{file}:{example.line}: {example.example_id}: {problem}"
        problems.append(safe_text(redact(line), MAX_LINE))
    if problems:
        raise BenchError("\n".join(problems))
    return f"{words}, {counted(len(tests), 'example')} graded as expected"

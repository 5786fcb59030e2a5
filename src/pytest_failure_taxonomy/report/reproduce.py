"""The command that runs a failed test again, as the run itself ran it.

A report has the arguments of its run. What of them is no selection, no report and no look of the
terminal belongs to the test; pytest reads its configuration by itself.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_failure_taxonomy.options import OPTIONS
from pytest_failure_taxonomy.report.build import REDACTED
from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import Surroundings, python_options
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.text import encodable, safe_text

LONGEST_WORD: Final = 400
"""Characters; what is longer is no command for people."""
_IS_PYTEST: Final = re.compile(r"(?:^|[/\\])(?:pytest|py\.test)(?:\.exe)?$")
_TAKE_A_PATH: Final = frozenset(
    {"-c", "--config-file", "--rootdir", "--confcutdir", "--ignore"}
)
_BEGINS_AN_OPTION: Final = ("-", "@")


@value
class Reproduction:
    """How to run tests of a run again."""

    program: str
    """With the options of the run, for a POSIX shell."""
    folder: str
    """Where to run it."""
    missing: tuple[str, ...]
    """What of the run the command can't have, in words."""
    other: str = ""
    """The command of a run that was no pytest: it runs all tests of it."""

    def command(self, nodeid: str) -> str:
        """Return the command that runs one test; empty where there can't be one.

        What a shell can't be given, such as a control character, a secret that was removed or
        a megabyte, is only in the parameters or the names of a test: then the next larger part is
        run, all parameters of the test or its whole file. Another program runs all of its tests.
        """
        if self.other:
            return self.other if _can_be_given(self.other) else ""
        path, separator, names = nodeid.partition("::")
        for target in (nodeid, f"{path}{separator}{names.partition('[')[0]}", path):
            if _can_be_given(target):
                # pytest would take these for an option, and for a file of arguments.
                here = "./" if target.startswith(_BEGINS_AN_OPTION) else ""
                return f"{self.program} {shlex.quote(here + target)}"
        return ""


def reproduction_of(report: FailureReport) -> Reproduction:
    """Return how to run the tests of a report again."""
    args = report.run.invocation.args
    is_recorded = report.environment.pytest != "unknown"
    is_pytest = is_recorded or any(map(_IS_PYTEST.search, args))
    lost: list[str] = []
    options: list[str] = []
    for option in _options_of_tests(args if is_recorded else (), _files_of(report)):
        words = _seen_from_root(option, report)
        if _can_be_given(" ".join(words)):
            options += words
        else:
            lost.append(words[0].partition("=")[0])
    missing = []
    if lost:
        names = ", ".join(lost)
        missing.append(f"{names}, whose value is not in the report")
    around = report.surroundings or Surroundings()
    variables = [f"the environment variable {name}" for name in around.variables]
    missing += [f"{words}, which the run had" for words in variables]
    # Alone, a pytest that leaves before its end may exit with 0, as if nothing had failed.
    leaves = any(held.kind == "process.exited" for held in report.reasons)
    supervisor = ["failure-taxonomy", "run", "--"] if leaves else []
    assignments, start = start_of(report)
    program = [*assignments, *supervisor, *start, *map(shlex.quote, options)]
    return Reproduction(
        program=" ".join(program),
        folder=report.run.invocation.rootdir,
        missing=tuple(missing),
        other="" if is_pytest else shlex.join(args),
    )


def _seen_from_root(option: tuple[str, ...], report: FailureReport) -> tuple[str, ...]:
    """Return an option whose path, relative to where pytest was called, is one from the root."""
    name, is_joined, path = option[0].partition("=")
    path = path if is_joined else option[-1]
    folder = report.surroundings and report.surroundings.folder
    is_path = name in _TAKE_A_PATH and (is_joined or len(option) > 1)
    if not is_path or not folder or os.path.isabs(path):
        return option
    rootdir = report.run.invocation.rootdir
    place = os.path.relpath(os.path.join(folder, path), rootdir)
    return (f"{name}={place}",) if is_joined else (*option[:-1], place)


def start_of(report: FailureReport) -> tuple[list[str], list[str]]:
    """Return how pytest was started: variables to set, and the words of the command.

    They put the same folder in front of `sys.path`, where the command is run in pytest's root
    directory. `-P` puts none there, as the command `pytest` does.
    """
    options, path = start_of_python(report)
    if path == ".":
        return [], ["python", *options, "-m", "pytest"]
    variables = [] if path is None else [f"PYTHONPATH={shlex.quote(path)}"]
    if options:
        return variables, ["python", *options, "-P", "-m", "pytest"]
    return variables, ["pytest"]


def start_of_python(report: FailureReport) -> tuple[list[str], str | None]:
    """Return Python's own options, and what it has put in front of `sys.path`.

    A report may be anybody's, so that only options that run no code are taken.
    """
    around = report.surroundings or Surroundings()
    path = around.path
    is_path = path is not None and _can_be_given(path)
    return python_options(around.python).split(), path if is_path else None


def _files_of(report: FailureReport) -> str:
    """Return the files of a report's tests, each between slashes."""
    nodeids = [failure.nodeid for failure in report.failures]
    nodeids += [error.nodeid for error in report.collection_errors]
    nodeids += [test.nodeid for test in report.in_flight]
    nodeids += [test.nodeid for test in report.tests or ()]
    files = {nodeid.partition("::")[0] for nodeid in nodeids}
    return "\n".join([f"/{file}/" for file in files])


def _can_be_given(text: str) -> bool:
    """Tell whether a shell can be given a text: nothing in it was escaped, cut or removed."""
    is_safe = safe_text(text, len(text) + 1) == text == encodable(text)
    return 0 < len(text) <= LONGEST_WORD and is_safe and REDACTED not in text


def _options_of_tests(args: Sequence[str], files: str) -> Iterator[tuple[str, ...]]:
    """Yield the options that belong to the test, each with its value.

    Args:
        args: of the run.
        files: of its tests, each between slashes; they and their folders are no values.
    """
    sorts = _sorts_of_options()
    words = list(args)
    while words:
        word = words.pop(0)
        if word == "--":
            return
        if len(word) < 2 or not word.startswith("-"):
            continue  # what to run
        is_long = word.startswith("--")
        name, value_in_word = word[:2], word[2:]
        if is_long:
            name, _, value_in_word = word.partition("=")
        is_joined = len(word) > len(name)
        sort = sorts.get(name, "")  # nothing for an option that nobody knows
        has_value = sort.endswith("with_value")
        if is_long and not sort:
            has_value = bool(words) and not _is_selection(words[0], files)
        elif is_joined and not has_value and not is_long:  # `-xv` is `-x -v`
            words.insert(0, f"-{value_in_word}")
            word = name
        option = [word]
        if has_value and not is_joined and words:
            option.append(words.pop(0))
        if not sort.startswith("left_out"):
            yield tuple(option)


def _sorts_of_options() -> dict[str, str]:
    """Return what happens to each option of pytest, of known plugins and of this one."""
    sorts: dict[str, str] = {}
    for sort, names in packaged_table("pytest_options").items():
        sorts |= dict.fromkeys(names, sort)
    for option in OPTIONS.values():
        sort = "left_out_with_value"
        if option.name == "rules":
            sort = "kept_with_value"
        elif option.type in ("flag", "database"):
            sort = "left_out"
        sorts |= dict.fromkeys(option.names, sort)
    return sorts


def _is_selection(word: str, files: str) -> bool:
    """Tell whether a word after an option of unknown plugins is no value of it."""
    path = word.partition("::")[0].removeprefix("./").rstrip("/")
    # A run that was started in a folder names files and folders from there.
    is_named = path == "." or f"/{path}/" in files
    return word.startswith("-") or "::" in word or path.endswith(".py") or is_named

"""The command that runs a failed test again, as the run itself ran it.

A report has the arguments of its run. What of them is no selection, no report and no look of the
terminal belongs to the test; pytest reads its configuration by itself.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_failure_taxonomy.options import OPTIONS
from pytest_failure_taxonomy.report import build
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.evidence import python_options
from pytest_failure_taxonomy.taxonomy.values import value
from pytest_failure_taxonomy.text import encodable, safe_text

LONGEST_WORD: Final = 400
"""Characters; what is longer is no command for people."""
_IS_PYTEST: Final = re.compile(r"(?:^|[/\\])(?:pytest|py\.test)(?:\.exe)?$")
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


def reproduction_of(report: build.JSONObject) -> Reproduction:
    """Return how to run the tests of a report again."""
    invocation = report["run"]["invocation"]
    around = report["surroundings"] or {}
    is_recorded = report["environment"]["pytest"] != "unknown"
    args = invocation["args"] if is_recorded else []
    is_other = not is_recorded and not any(map(_IS_PYTEST.search, invocation["args"]))
    lists = ("failures", "collection_errors", "in_flight", "tests")
    tests = [each["nodeid"] for name in lists for each in report[name] or ()]
    files = "\n".join({f"/{nodeid.partition('::')[0]}/" for nodeid in tests})
    kept = list(_kept(args, files))
    lost = [words for words in kept if not _can_be_given(" ".join(words))]
    options = [word for words in kept if words not in lost for word in words]
    variables = build.texts_at(around, "variables")
    names = ", ".join(words[0].partition("=")[0] for words in lost)
    # Alone, a pytest that leaves before its end may exit with 0, as if nothing had failed.
    leaves = any(each["kind"] == "process.exited" for each in report["reasons"])
    supervisor = ["failure-taxonomy", "run", "--"] if leaves else []
    variables_of_start, start = start_of(report)
    return Reproduction(
        program=" ".join(
            [*variables_of_start, *supervisor, *start, *map(shlex.quote, options)]
        ),
        folder=invocation["rootdir"],
        missing=(
            *(
                [f"{names}, which had a value that the report doesn't have"]
                if names
                else []
            ),
            *(
                f"the environment variable {name}, which the run had"
                for name in variables
            ),
        ),
        other=shlex.join(invocation["args"]) if is_other else "",
    )


def start_of(report: build.JSONObject) -> tuple[list[str], list[str]]:
    """Return how pytest was started: variables to set, and the words of the command.

    They put the same folder in front of `sys.path`, where the command is run in pytest's root
    directory. `-P` puts none there, as the command `pytest` does.
    """
    options, path = start_of_python(report)
    if path == ".":
        return [], ["python", *options, "-m", "pytest"]
    variables = [] if path is None else [f"PYTHONPATH={shlex.quote(path)}"]
    return variables, ["python", *options, "-P", "-m", "pytest"] if options else [
        "pytest"
    ]


def start_of_python(report: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """Return Python's own options, and what it has put in front of `sys.path`.

    A report may be anybody's, so that only options that run no code are taken.
    """
    around = report["surroundings"] or {}
    path = around.get("path")
    is_path = isinstance(path, str) and _can_be_given(path)
    return python_options(
        str(around.get("python", ""))
    ).split(), path if is_path else None


def _can_be_given(text: str) -> bool:
    """Tell whether a shell can be given a text: nothing in it was escaped, cut or removed."""
    is_safe = safe_text(text, len(text) + 1) == text == encodable(text)
    return 0 < len(text) <= LONGEST_WORD and is_safe and build.REDACTED not in text


def _kept(args: Sequence[str], files: str) -> Iterator[tuple[str, ...]]:
    """Yield the options that belong to the test, each with its value.

    Args:
        args: of the run.
        files: of its tests, each between slashes; they and their folders are no values.
    """
    table = {
        name: sort
        for sort, names in packaged_table("pytest_options").items()
        for name in names
    }
    for option in OPTIONS.values():
        sort = (
            "left_out" if option.type in ("flag", "database") else "left_out_with_value"
        )
        table |= dict.fromkeys(
            option.names, "kept_with_value" if option.name == "rules" else sort
        )
    words = list(args)
    while words:
        word = words.pop(0)
        if word == "--":
            return
        if len(word) < 2 or not word.startswith("-"):
            continue  # what to run
        if word.startswith("--"):
            name, is_joined, _ = word.partition("=")
        else:
            name, is_joined = word[:2], word[2:]
        sort = table.get(name, "")  # nothing for an option that nobody knows
        has_value = sort.endswith("with_value")
        if word.startswith("--") and not sort:
            has_value = bool(words) and not _is_selection(words[0], files)
        elif (
            is_joined and not has_value and not word.startswith("--")
        ):  # `-xv` is `-x -v`
            words.insert(0, f"-{is_joined}")
            word = name
        value_of = (words.pop(0),) if has_value and not is_joined and words else ()
        if not sort.startswith("left_out"):
            yield word, *value_of


def _is_selection(word: str, files: str) -> bool:
    """Tell whether a word after an option of unknown plugins is no value of it."""
    path = word.partition("::")[0].removeprefix("./").rstrip("/")
    # A run that was started in a folder names files and folders from there.
    is_named = path == "." or f"/{path}/" in files
    return word.startswith("-") or "::" in word or path.endswith(".py") or is_named

"""Compare `classify` with what BugSwarm's log analyzer is tested to read of CI logs.

Give the folder of a clone of BugSwarm/bugswarm:

    python -m tests.benchmarks.accuracy.bugswarm FOLDER

Its tests assert of logs from Travis CI and GitHub: status, number of failed tests, and their names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.accuracy.corpus import (
    Found,
    answer_of,
    is_of_half,
    quoted,
    report,
)

_ASSERTED: Final = {
    "compare_status": "status",
    "compare_num_t_failed": "failed",
    "compare_tr_t_failed": "names",
    "compare_dep_error": "line",
}
"""The methods that assert something, and what."""


def compared(folder: Path, half: int | None) -> Iterator[tuple[str, Found]]:
    """Yield each log that something is asserted of, and how its answer agrees."""
    for source in sorted((folder / "tests/analyzer").glob("test_*.py")):
        for log, told in asserted(ast.parse(source.read_text())):
            path = source.parent / log
            # A clone from a mirror may lack large files.
            if path.is_file() and is_of_half(content := path.read_bytes(), half):
                yield log, compare(content, told)


def asserted(tree: ast.Module) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path of each log that tests read, and what they assert of it."""
    suite = next(each for each in tree.body if isinstance(each, ast.ClassDef))
    folders = {
        node.targets[0].id: "".join(
            str(part.value) if isinstance(part, ast.Constant) else ""
            for part in ast.walk(node.value)
        )
        for node in suite.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    data = folders["data_dir"]
    for test in suite.body:
        if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
            continue
        log, folder, told = "", "", {}
        for node in ast.walk(test):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "log":
                log = str(ast.literal_eval(node.value))
            elif isinstance(node, ast.Attribute) and node.attr in folders:
                folder = folders[node.attr]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = _ASSERTED.get(node.func.attr)
                if name is not None and isinstance(node.args[-1], ast.Constant):
                    told[name] = node.args[-1].value
        if log and told:
            yield f"{data}{folder}{log}", told


def compare(content: bytes, told: dict[str, Any]) -> Found:
    """Return what of an answer agrees with `told`: `status`, `failed`, `names` or `line`."""
    answer = answer_of(content)
    is_broken, names = told.get("status", "ok") != "ok", name_set(told.get("names", ""))
    if answer is None:
        what = (
            "says nothing"
            if is_broken or told.get("failed")
            else "says nothing of a success"
        )
        return [(what, "no line of an error" if is_broken else "")]
    kind, found = answer["kind"], []
    if "status" in told:
        if (kind is not None) == is_broken:
            found.append(("status agrees", ""))
        else:
            is_certain = answer["confidence"] == "certain" or kind is None
            what = "false certainty: status differs" if is_certain else "status differs"
            found.append((what, f"{told['status']}; {quoted(answer)}"))
    # A file that could not be collected counts as one of its failed tests.
    of_tests = ("test.", "collection.")
    count = sum(
        held["count"] for held in answer["reasons"] if held["kind"].startswith(of_tests)
    )
    if "failed" in told:
        found.append(_of_number(told["failed"], count, answer))
    if names:
        ours = {test_of(name) for held in answer["reasons"] for name in held["nodeids"]}
        missing = sorted(names ^ ours)
        if not ours:
            found.append(("names are not read", quoted(answer)))
        else:
            found.append(
                ("names differ", ", ".join(missing)) if missing else ("names agree", "")
            )
    if "line" in told:
        is_quoted = any(
            told["line"].strip() in line["text"] for line in answer["lines"]
        )
        found.append(
            ("the line is quoted", "")
            if is_quoted
            else ("another line", quoted(answer))
        )
    return found


def _of_number(failed: int, count: int, answer: dict[str, Any]) -> tuple[str, str]:
    if count == failed:
        return "number of failed tests agrees", ""
    if not count:
        return "number of failed tests is not read", f"{failed}; {quoted(answer)}"
    return "number of failed tests differs", f"{failed}, not {count}; {quoted(answer)}"


def name_set(names: str) -> set[str]:
    """Return the tests of a list as BugSwarm writes it, without their classes."""
    return {test_of(name) for name in names.split("#") if name}


def test_of(name: str) -> str:
    """Return a test's own name: `test_a` of `file.py::B::test_a`, and of `test_a(package.B)`."""
    name = name.replace(" > ", ".")  # as Gradle writes it
    bare = re.sub(r" ?\([\w.$]+\)$", "", name)
    return bare.rpartition("::")[2]


if __name__ == "__main__":
    report(__doc__, compared)

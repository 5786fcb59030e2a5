"""Grade a patched module by tests that the bug fixer has not seen.

The module runs in a process of its own: it may hang, exit, or print what it likes.
"""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MOST_LINES = 3
LIMIT_SECONDS = 5.0

RUN_HIDDEN_TESTS = """\
import json, runpy

names = runpy.run_path("patched.py")
passed = []
for test in json.load(open("hidden_tests.json")):
    try:
        passed.append(bool(eval(test, names)))
    except Exception:
        passed.append(False)
json.dump(passed, open("passed.json", "w"))
"""


def grade(case: dict[str, Any], output: object) -> dict[str, Any]:
    """Return the score: the share of the hidden tests that the patched module passes."""
    if not isinstance(output, str):
        return failed("fix.no_text", type(output).__name__)
    try:
        compile(output, "patched.py", "exec")
    except (SyntaxError, ValueError) as error:
        return failed("fix.syntax_error", str(error))
    tests = case["hidden_tests"]
    try:
        passed = run_hidden_tests(output, tests)
    except subprocess.TimeoutExpired:
        return failed("fix.endless", f"stopped after {LIMIT_SECONDS:g} s")
    share = sum(passed) / len(tests)
    changed = changed_lines(case["input"]["source"], output)
    modes = []
    if share < 1:
        broken = [test for test, is_passed in zip(tests, passed, strict=True) if not is_passed]
        modes.append({"code": "fix.tests_failed", "detail": "; ".join(broken)})
    if changed > MOST_LINES:
        modes.append({"code": "fix.too_big", "detail": f"{changed} lines"})
    if changed == 0:
        modes.append({"code": "fix.unchanged"})
    return {
        "passed": share == 1,
        "score": share,
        "breakdown": {"hidden_tests": share, "size_of_change": 2 / max(2, changed)},
        "failure_modes": modes,
    }


def run_hidden_tests(source: str, tests: list[str]) -> list[bool]:
    """Return for each hidden test whether it passes; none does where the module itself fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "patched.py").write_text(source, "utf-8")
        (folder / "hidden_tests.json").write_text(json.dumps(tests))
        (folder / "run.py").write_text(RUN_HIDDEN_TESTS)
        subprocess.run(
            [sys.executable, "run.py"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_SECONDS,
            check=False,  # what it wrote counts
        )
        answer = folder / "passed.json"
        return json.loads(answer.read_text()) if answer.exists() else [False] * len(tests)


def changed_lines(before: str, after: str) -> int:
    """Return how many lines were replaced, removed or added."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return sum(
        max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"
    )


def failed(code: str, detail: str) -> dict[str, Any]:
    """Return the score of an output that no test can be run on."""
    return {
        "passed": False,
        "score": 0.0,
        "breakdown": {"hidden_tests": 0.0, "size_of_change": 0.0},
        "failure_modes": [{"code": code, "detail": detail}],
    }

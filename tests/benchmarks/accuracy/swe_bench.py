"""Compare `classify` with what SWE-bench's harness makes of texts: its table, its parsers' tests.

Give the folder of a clone of SWE-bench/SWE-bench:

    python -m tests.benchmarks.accuracy.swe_bench FOLDER

`infra_failure.py` has words that an environment's failure is told by: each is a log of one line.
The tests of the log parsers have outputs of test runners, and the tests that failed in them.
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

_CHARGES: Final = {
    "TIER_ENVIRONMENT": ("environment",),
    "TIER_AMBIGUOUS": ("ambiguous", "subject"),
}
"""Whom a failure may be charged to: what may be a patch's fault is never the environment's."""


def compared(folder: Path, half: int | None) -> Iterator[tuple[str, Found]]:
    """Yield each text's name, and how its answer agrees."""
    table = ast.parse((folder / "swebench/harness/infra_failure.py").read_text())
    for reason, tier, words in signatures(table):
        content = f"$ run-tests\n{words}\n".encode()
        if is_of_half(content, half):
            yield f"{reason}: {words}", compare_charge(content, tier)
    for source in sorted((folder / "tests").glob("test_log_parsers_*.py")):
        for name, log, failed in parsed(ast.parse(source.read_text())):
            if is_of_half(log.encode(), half):
                yield f"{source.name}: {name}", compare_names(log.encode(), failed)


def signatures(table: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield the reason, the tier and each alternative of the pattern of each row."""
    for node in ast.walk(table):
        if isinstance(node, ast.Tuple) and len(node.elts) == 3:
            reason, tier, pattern = node.elts
            if isinstance(pattern, ast.Constant) and isinstance(tier, ast.Name):
                for words in str(pattern.value).split("|"):
                    yield (
                        ast.literal_eval(reason),
                        tier.id,
                        re.sub(r"\\d\+|[\^$]", _shown, words),
                    )


def _shown(found: re.Match[str]) -> str:
    return "60" if found[0].startswith("\\") else ""


def parsed(tree: ast.Module) -> Iterator[tuple[str, str, set[str]]]:
    """Yield the name of each test, the log that it parses, and the tests that failed in it."""
    for test in ast.walk(tree):
        if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
            continue
        logs, failed = [], set()
        for node in ast.walk(test):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                logs.append(node.value.value)
            elif isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                failed |= {_name(key) for key, status in pairs if _is_failed(status)}
            elif (
                isinstance(node, ast.Compare)
                and isinstance(node.left, ast.Subscript)
                and _is_failed(node.comparators[0])
            ):
                failed.add(_name(node.left.slice))
        if len(logs) == 1 and isinstance(logs[0], str):
            yield test.name, logs[0], failed


def _name(node: Any) -> str:
    return str(ast.literal_eval(node))


def _is_failed(node: ast.expr) -> bool:
    return ast.unparse(node) in ("FAILED", "TestStatus.FAILED.value")


def compare_charge(content: bytes, tier: str) -> Found:
    """Return whether what an answer is charged to is what the harness's tier allows."""
    answer = answer_of(content)
    if answer is None:
        return [("says nothing", tier)]
    charge = answer["charge_to"]
    if charge in _CHARGES[tier]:
        return [("the charge agrees", "")]
    is_certain = answer["confidence"] == "certain"
    what = "false certainty: the charge differs" if is_certain else "the charge differs"
    return [(what, f"{tier}; {charge}; {quoted(answer)}")]


def compare_names(content: bytes, failed: set[str]) -> Found:
    """Return whether an answer has the tests that failed, and no success where some did."""
    answer = answer_of(content)
    if answer is None:
        return (
            [("says nothing", ", ".join(sorted(failed)))]
            if failed
            else [("no failure", "")]
        )
    if (answer["kind"] is None) != (not failed):
        return [("success differs", quoted(answer))]
    names = {name for held in answer["reasons"] for name in held["nodeids"]}
    differ = sorted(names ^ failed)
    return [
        ("names differ", ", ".join(map(str, differ))) if differ else ("names agree", "")
    ]


if __name__ == "__main__":
    report(__doc__, compared)

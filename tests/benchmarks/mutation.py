"""Say what share of small mistakes in a module its room's tests notice.

``python -m tests.benchmarks.mutation taxonomy/judge.py`` makes one mistake after another
(a mutant) in a copy of the sources, and runs the module's unit tests against it. A mutant
is killed if a test fails or takes far too long. Those that survive are listed: each is
either a behaviour that no test of these checks, or a change that makes no difference.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "src"
PACKAGE: Final = "pytest_failure_taxonomy"
SPARE_SECONDS: Final = 20.0
"""A mutant has three times as long as the unchanged module, and this besides."""

UNIT_TESTS: Final[Mapping[str, Sequence[str]]] = {
    "taxonomy/judge.py": (
        "taxonomy/test_judge.py",
        "taxonomy/test_deaths.py",
        "taxonomy/test_charges.py",
        "taxonomy/test_recovery.py",
        "survive/test_recorded_deaths.py",
        "logs/test_never_started.py",
    ),
    "taxonomy/causes.py": (
        "taxonomy/test_causes.py",
        "taxonomy/test_sentence.py",
        "taxonomy/test_judge.py",
        "taxonomy/test_recovery.py",
        "taxonomy/test_recognition.py",
    ),
    "survive/facts.py": (
        "survive/test_facts.py",
        "survive/test_recorded_deaths.py",
        "survive/test_stall_detection.py",
    ),
    "report/codec.py": (
        "report/test_codec.py",
        "report/test_model.py",
    ),
}
"""The unit tests that concern a module; of others, all tests of the room are run."""

_FLIPPED: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_DELETED: Final = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one mistake in it."""

    line: int
    before: str
    after: str
    source: str
    """The whole module."""


def find_mutants(source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order of its lines."""
    places = [
        (node, after)
        for node in _walk_code(ast.parse(source), is_in_function=False)
        for after in _mutate(node)
    ]
    mutants = [_replace(source, node, after) for node, after in places]
    return sorted(mutants, key=lambda mutant: (mutant.line, mutant.before))


def _walk_code(node: ast.AST, *, is_in_function: bool) -> Iterator[ast.expr | ast.stmt]:
    """Yield what can be mutated: no annotations, decorators, docstrings and imports."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        children = value if isinstance(value, list) else [value]
        for child in children:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue  # what is in an f-string has no place of its own in Python 3.11
            is_text = isinstance(child, ast.Expr) and isinstance(
                child.value, ast.Constant
            )
            if is_text:
                continue
            is_outside = not is_in_function and isinstance(child, ast.stmt)
            if isinstance(child, ast.expr | ast.stmt) and not is_outside:
                yield child
            inside = is_in_function or isinstance(child, _FUNCTIONS)
            yield from _walk_code(child, is_in_function=inside)


def _mutate(node: ast.expr | ast.stmt) -> Iterator[str]:
    """Yield the code of each mistake that can be made at a node."""
    match node:
        case ast.Compare(left=left, ops=[operator, *others], comparators=values):
            flipped = [_FLIPPED[type(operator)](), *others]
            yield f"({ast.unparse(ast.Compare(left, flipped, values))})"
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield repr(not value)
        case ast.Constant(value=int(number)):
            yield repr(number + 1)
        case ast.Constant(value=str(text)) if text:
            yield '""'
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return None"
        case ast.stmt() if isinstance(node, _DELETED):
            yield "pass"


def _replace(source: str, node: ast.expr | ast.stmt, after: str) -> Mutant:
    """Return the source with other code in the place of a node."""
    lines = source.encode().splitlines(keepends=True)  # offsets are of bytes
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    content = source.encode()
    mutated = content[:start] + after.encode() + content[end:]
    before = content[start:end].decode()
    return Mutant(node.lineno, before, after, mutated.decode())


def sample_mutants(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return some mutants, the same ones for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - a sample, no secret
    if count >= len(mutants):
        return list(mutants)
    numbers = sorted(chance.sample(range(len(mutants)), count))
    return [mutants[number] for number in numbers]


class MutatedSources:
    """A copy of the sources in which one module can be changed and tested.

    Args:
        folder: An empty folder for the copy.
        module: The path of the module in the package.
        tests: Arguments of pytest: the tests that should notice a mistake.
    """

    def __init__(self, folder: Path, module: str, tests: Sequence[str]) -> None:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCES, folder, dirs_exist_ok=True, ignore=ignored)
        self._path: Final = folder / PACKAGE / module
        bytecode = importlib.util.cache_from_source(str(self._path))
        self._bytecode: Final = Path(bytecode)
        self._command: Final = [
            *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
            *("--hypothesis-profile=few", "--hypothesis-seed=0", *tests),
        ]
        # Compiling the copy again for each mutant would take longer than its tests.
        self._environment: Final = {**os.environ, "PYTHONPATH": str(folder)}
        for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
            self._environment.pop(name, None)

    def is_noticed(self, source: str, limit_seconds: float | None = None) -> bool:
        """Return whether the tests fail, or exceed the limit, with this source of the module.

        Raises:
            SystemExit: pytest ran no test.
        """
        self._path.write_text(source, "utf-8")
        # Python compares times in seconds, and mutants come faster than that.
        self._bytecode.unlink(missing_ok=True)
        try:
            status = subprocess.run(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=limit_seconds,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return True
        if status == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise SystemExit("no test was selected; name others by --tests")
        return status != 0


def choose_tests(module: str) -> list[str]:
    """Return a module's unit tests, else those of its room, its namesakes first.

    Raises:
        SystemExit: The room has no folder of unit tests.
    """
    if module in UNIT_TESTS:
        return [str(ROOT / "tests/unit" / name) for name in UNIT_TESTS[module]]
    path = Path(module)
    folder = ROOT / "tests/unit" / path.parts[0]
    if not folder.is_dir():
        raise SystemExit(f"{module}: there is no {folder}; name tests by --tests")
    namesakes = sorted(folder.rglob(f"test_{path.stem}*.py"))
    return [*map(str, namesakes), str(folder)]


def main() -> None:
    """Mutate a module, and print the share of killed mutants and those that survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", help="such as taxonomy/judge.py")
    parser.add_argument("--mutants", type=int, default=40, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument(
        "--tests", nargs="+", help="default: the unit tests that concern it"
    )
    options = parser.parse_args()
    source = (SOURCES / PACKAGE / options.module).read_text("utf-8")
    mutants = sample_mutants(find_mutants(source), options.mutants, options.seed)
    tests = options.tests or choose_tests(options.module)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        sources = MutatedSources(Path(folder), options.module, tests)
        start = monotonic()
        if sources.is_noticed(source):
            raise SystemExit("the tests fail without a mistake")
        limit_seconds = 3 * (monotonic() - start) + SPARE_SECONDS
        survivors = []
        for mutant in mutants:
            if sources.is_noticed(mutant.source, limit_seconds):
                continue
            survivors.append(mutant)
            place = f"{options.module}:{mutant.line}"
            sys.stdout.write(f"{place}: {mutant.before!r} -> {mutant.after!r}\n")
            sys.stdout.flush()
    killed = len(mutants) - len(survivors)
    share = killed / len(mutants)
    sys.stdout.write(f"{killed} of {len(mutants)} mutants killed, {share:.0%}\n")


if __name__ == "__main__":
    main()

"""Rules about imports that import-linter can't say: what is allowed, not what is forbidden."""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

import pytest_failure_taxonomy
from pytest_failure_taxonomy.options import NEIGHBOURS
from pytest_failure_taxonomy.system import import_named
from tests.helpers.children import run_child

PACKAGE: Final = "pytest_failure_taxonomy"
SOURCE: Final = Path(pytest_failure_taxonomy.__file__).parent

PURE: Final = frozenset(
    {
        *("json", "tomllib"),  # the packaged tables
        "__future__",
        "collections",
        "builtins",
        "collections.abc",
        "difflib",
        "enum",
        "fnmatch",
        "functools",
        "hashlib",
        "itertools",
        "math",
        "operator",
        "re",
        "signal",
        "types",
        "typing",
    }
)
"""Of the standard library, what computes and does nothing else; `signal` is there for its names."""

IMPURE: Final = (
    "asyncio",
    "concurrent.futures",
    "datetime",
    "importlib",
    "io",
    "jsonschema",
    "logging",
    "os",
    "os.path",
    "pathlib",
    "pluggy",
    "pydantic",
    "pytest",
    "scipy",
    "shutil",
    "sqlite3",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "yaml",
)


def modules_below(folder: str) -> list[Path]:
    """Return the files of a part of the package."""
    return sorted((SOURCE / folder).rglob("*.py"))


def imports_in(source: str) -> Iterator[str]:
    """Find all modules that a source imports, in functions and by name, too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.Name) and node.id == "__import__":
            yield "__import__"


def impure_imports(source: str) -> list[str]:
    """Return what a module of the taxonomy must not import."""
    ours = f"{PACKAGE}.taxonomy"
    return sorted(
        name
        for name in imports_in(source)
        if name not in PURE and name != ours and not name.startswith(f"{ours}.")
    )


@pytest.mark.parametrize("path", modules_below("taxonomy"), ids=lambda path: path.stem)
def test_the_taxonomy_is_pure(path: Path) -> None:
    """It imports itself and a few modules that compute: no clock, no file, no thread, no log."""
    assert impure_imports(path.read_text("utf-8")) == []


@pytest.mark.parametrize("name", IMPURE)
@pytest.mark.parametrize(
    "form",
    [
        "import {0}",
        "import re, {0} as x",
        "from {0} import x",
        "def f():\n    if 1:\n        from {0} import x",
    ],
)
def test_an_impure_import_is_found(form: str, name: str) -> None:
    """However a module imports it, and wherever."""
    assert impure_imports(form.format(name)) == [name]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from . import x", "."),
        (f"from {PACKAGE}.report import x", f"{PACKAGE}.report"),
        (f"from {PACKAGE} import report", PACKAGE),
        ("__import__('time')", "__import__"),
    ],
)
def test_a_way_around_is_found(source: str, found: str) -> None:
    """Neither a relative import, nor the rest of the package, nor a call gets through."""
    assert impure_imports(source) == [found]


def test_what_is_allowed_is_used() -> None:
    """The list has nothing to spare."""
    used = {
        name
        for path in modules_below("taxonomy")
        for name in imports_in(path.read_text("utf-8"))
    }
    assert used >= PURE


def named_functions() -> list[str]:
    """Return the names by which the core loads functions of its neighbours and commands."""
    table = tomllib.loads((SOURCE / "cli" / "commands.toml").read_text("utf-8"))
    names = {name for row in NEIGHBOURS.values() for name in row.values()}
    for command in table["command"]:
        names.update(command.get("asks", {}).values())
        if "runs" in command:
            names.add(command["runs"].partition(" ")[0])
    return sorted(names)


@pytest.mark.parametrize("name", named_functions())
def test_what_a_table_names_is_there(name: str) -> None:
    """No type checker looks at names of functions in tables."""
    assert callable(import_named(name))


def test_the_report_knows_no_bench() -> None:
    """No module of the report imports one of the bench."""
    of_bench = {
        name
        for path in modules_below("report")
        for name in imports_in(path.read_text("utf-8"))
        if name.startswith(f"{PACKAGE}.bench")
    }
    assert of_bench == set()


@pytest.mark.parametrize("package", [PACKAGE, f"{PACKAGE}.bench"])
def test_no_module_has_the_name_of_a_public_name(package: str) -> None:
    """Once it is imported, a module takes the place of what its package would load by that name."""
    public = import_module(package).__all__
    assert [name for name in public if find_spec(f"{package}.{name}") is not None] == []


@pytest.mark.parametrize("package", [PACKAGE, f"{PACKAGE}.bench"])
def test_type_checkers_are_told_of_each_public_name_and_where_it_is(
    package: str,
) -> None:
    """The stub of a package imports what the package loads when it is first used."""
    module = import_module(package)
    stub = ast.parse(
        (Path(str(module.__file__)).with_suffix(".pyi")).read_text("utf-8")
    )
    told = {
        each.asname: node.module
        for node in ast.walk(stub)
        if isinstance(node, ast.ImportFrom) and node.module != "collections.abc"
        for each in node.names
    }
    assert told == {name: f"{package}.{home}" for name, home in module._HOMES.items()}
    assert told.keys() == set(module.__all__)


CLASSIFY: Final = """
import json, sys
from pytest_failure_taxonomy.cli.main import main
main(["classify", "x.log"])
ours = (name for name in sys.modules if name.startswith("pytest_failure_taxonomy"))
print(json.dumps(sorted(ours)), file=sys.stderr)
"""


def test_classify_imports_little(tmp_path: Path) -> None:
    """A log is classified without the record of a run, the faces, rules and benches."""
    (tmp_path / "x.log").write_text("E   assert 1 == 2\n1 failed in 0.1s\n", "utf-8")
    child = run_child(tmp_path, [sys.executable, "-c", CLASSIFY])
    modules = json.loads(child.stderr)
    assert f"{PACKAGE}.logs.log_answer" in modules
    assert len(modules) <= 52

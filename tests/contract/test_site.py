"""The parts of the documentation's site that come from the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import pytest_failure_taxonomy
import pytest_failure_taxonomy.bench
from pytest_failure_taxonomy.taxonomy.charges import charges
from pytest_failure_taxonomy.taxonomy.judgement import known_kinds

ROOT: Final = Path(__file__).resolve().parents[2]


def load_extension() -> ModuleType:
    """Import the extension from where Sphinx finds it."""
    path = ROOT / "docs" / "_ext" / "from_code.py"
    spec = importlib.util.spec_from_file_location("from_code", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


from_code: Final = load_extension()


def filled(page: str) -> str:
    """Return a page of `docs/` as the site has it."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    made: str = from_code.fill(text)
    assert "<!-- from the code" not in made
    return made.removeprefix(text.partition("<!-- from the code")[0])


def test_each_part_has_its_place() -> None:
    """Every part is on a page."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    asked = [
        name
        for page in pages
        for name in from_code._ASKED.findall(page.read_text("utf-8"))
    ]
    assert sorted({*asked}) == sorted(from_code.PARTS)


def test_a_part_that_is_not_there_breaks_the_build() -> None:
    """A misspelt comment is an error, not an empty place."""
    with pytest.raises(KeyError, match="kindz"):
        from_code.fill("<!-- from the code: kindz -->")


def test_the_table_of_charges() -> None:
    """Each row says what it is about, and why it is charged so."""
    rows = filled("explanation/charges.md").split("\n\n")[1].splitlines()[2:]
    assert len(rows) == len(charges())
    assert rows[-1].startswith(f"| {len(rows)} | any |  | ambiguous | ")
    told = "| `bench.gate` |  | subject | the system under test scored below the gate |"
    assert any(row.endswith(told) for row in rows)


def test_the_contents_are_those_of_the_index() -> None:
    """The site's navigation has a page for each link of the index, under its heading."""
    made = filled("README.md")
    assert ":caption: Begin\n\ntutorial\n" in made
    assert ":caption: Project\n\n../README\n" in made


def test_options_show_their_help() -> None:
    """The page of the bench's options has what `--help` says, of ini values, too."""
    bench = filled("bench/options.md")
    assert "| `--bench-only` | Run only bench cases" in bench
    assert "| `bench_root` | " in bench


def test_every_recognised_cause_is_there() -> None:
    """The page on causes has a row for each sentence of the table."""
    made = filled("explanation/causes.md")
    rows = [line for line in made.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(from_code.recognised()) > 80
    assert "\n| {name} is not installed | no | `{install}` |" in made


def test_the_fields_of_a_kept_run_are_all_there() -> None:
    """The page of the file has each field of its records with its words."""
    made = filled("bench/run-file.md")
    for field in ("run.run_id", "cases.cases[].digest", "attempt.transcript"):
        assert f"\n| `{field}` | " in made


def test_every_command_shows_its_help() -> None:
    """The page of the command has the help of each command, and of those below it."""
    made = filled("reference/command-line.md")
    for name in ("run", "show", "history", "history flaky", "bench regrade"):
        assert f"usage: failure-taxonomy {name} " in made


def test_kinds_and_fields_are_all_there() -> None:
    """Each kind is put in words, and each field has the words of its schema."""
    kinds = filled("reference/reasons-and-kinds.md")
    assert [kind for kind in known_kinds() if f"\n| `{kind}` | " not in kinds] == []
    fields = filled("reference/report.md")
    assert "\n| `failures[].exception.type` | string | " in fields
    assert "\n| `bench[].per_case[].score` | number | " in fields
    assert "\n| `verdict.retryable` | boolean or null | " in fields
    assert [line for line in fields.splitlines() if line.endswith("|  |")] == []


@pytest.mark.parametrize(
    ("page", "package"),
    [
        ("reference/python.md", pytest_failure_taxonomy),
        ("bench/options.md", pytest_failure_taxonomy.bench),
    ],
)
def test_public_names_are_all_there(page: str, package: ModuleType) -> None:
    """Each public name is documented from its docstring."""
    made = filled(page)
    for name in package.__all__:
        assert f":: {package.__name__}.{name}\n" in made

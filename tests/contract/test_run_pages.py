"""The pages on kept runs: commands do what they show, and the tables of fields are whole."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.bench.kept.reader import read_run
from pytest_failure_taxonomy.bench.kept.shown import rows_of
from pytest_failure_taxonomy.cli.main import main
from tests.contract.test_bench_pages import follow, run_command
from tests.contract.test_docs import (
    code_blocks,
    code_in,
    read_page,
    section,
    table,
    tables,
)
from tests.helpers.kept_runs import keep_run, write_files
from tests.helpers.task_classes import passing_cases, task_class_files

pytest.importorskip("scipy")

HOW_TO: Final = "docs/bench/run-a-bench.md"
REFERENCE: Final = "docs/bench/run-file.md"
COMMANDS: Final = "docs/reference/command-line.md"


@pytest.mark.slow
def test_the_page_from_a_run_to_its_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes each file and runs each command in turn sees what the page shows."""
    assert run_command(tmp_path, "failure-taxonomy bench init bench/mail")[0] == 0
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert follow(HOW_TO, tmp_path) > 6
    monkeypatch.chdir(tmp_path)
    (example,) = (
        each for each in code_blocks(read_page(HOW_TO), "python") if "run.csv" in each
    )
    (tmp_path / "example.py").write_text(example)
    names = runpy.run_path("example.py")
    assert names["outputs"]["upper-case"] == ["ANN@EXAMPLE.ORG"]
    assert names["tokens"] > 100


def test_every_record_is_documented() -> None:
    """The page has those of the module's own table."""
    from pytest_failure_taxonomy.bench.kept import lines as run_records

    listed = [
        code_in(row[0])[0] for row in table(section(read_page(REFERENCE), "Records"))
    ]
    own = tables(run_records.__doc__ or "")[0][1:]
    assert listed == [row[0] for row in own]


def test_every_column_of_an_export_is_documented(tmp_path: Path) -> None:
    """The table has all columns, in their order."""
    write_files(tmp_path, task_class_files(passing_cases(1)))
    (row,) = rows_of(read_run(keep_run(tmp_path, [])))
    rows = table(section(read_page(REFERENCE), "Columns of an export"))
    assert [name for each in rows for name in code_in(each[0])] == list(row)


def test_every_command_on_runs_is_documented(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The table has the commands that the help has, but for those with a section of their own."""
    heading = "Kept runs: `bench list`, `show`, `regrade`, `export`"
    rows = table(section(read_page(COMMANDS), heading))
    documented = {code_in(row[0])[0].split()[1] for row in rows}
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    listed = re.findall("^    ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)
    assert documented == {
        each for each in listed if f"## `bench {each} " not in read_page(COMMANDS)
    }

"""A task class as a whole: what arrives of a good one, and how all problems are told."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from pytest_failure_taxonomy.bench.models import (
    BenchSettings,
    GateSettings,
    RetrySettings,
)
from pytest_failure_taxonomy.documents import yaml_files
from pytest_failure_taxonomy.errors import BenchError
from tests.unit.bench.load.a_class import problems_of, write_class

MORE: Final = ["on", 15, 31, "1_000", "12:30:45", None, "TRUE", False, 0.5]
NO_FOLDER: Final = "a task class is a folder with a failure_modes.yaml"

EVERYTHING: Final[dict[str, str | bytes | None]] = {
    "failure_modes.yaml": (
        "tests.failed:\n  severity: block\n  description: |\n    A test\n    failed.\n"
        "no: {severity: info, description: no reason}\n"
        "rubric.timeout: {severity: block, description: as the runner has it}\n"
    ),
    "breakdown_keys.yaml": None,
    "breakdown_keys.py": (
        '"""Keys."""\n\nfrom __future__ import annotations\n\nfrom enum import StrEnum\n\n\n'
        'class Keys(StrEnum):\n    """All."""\n\n    A = "a"\n    B = "b.c"\n'
    ),
    "bench.yaml": (
        "sut: my.package:Agent.solve\nsut_isolation: process\nrubric_isolation: fresh\n"
        "timeout_per_case_seconds: 5\nrubric_wall_clock_seconds: 1.5\nrubric_memory_mb: 64\n"
        "concurrency: 2\nmax_cost_usd: 0.5\nrepeat: 2\nsut_version: '1.0'\n"
        "stop_after_same_failure: 0\n"
        "retry: {on: [llm.rate_limited, sandbox.*], attempts: 1, backoff_seconds: 0}\n"
        "gate:\n  lower_bound_95: 0.7\n"
        "  min_passed_cases: 10\n"
    ),
    "rubric.py": "import json, sys\nprint(json.load(sys.stdin))\n",
    "cases/b.yaml": "- id: third\n  input: {a: [1, 2.5, null, true, no, 2026-01-01, 010,\n"
    "    on, 0o17, 0x1F, 1_000, 12:30:45, ~, 'TRUE', FALSE, .5]}\n",
    "cases/a.yaml": None,
    "cases/a.jsonl": (
        b'\xef\xbb\xbf{"id": "first", "tags": ["slow", "db"], "more": {"x": 1}}\r\n\r\n'
        b'{"id": "second", "timeout_per_case_seconds": 3, "rubric_wall_clock_seconds": 0.5}'
    ),
    "cases/.hidden.yaml": "[",
    "cases/notes.md": "[",
    "oracle/o.yml": (
        "- {id: good, case: first, output: [x], expect: gold}\n"
        "- {id: bad, case: third, output: null, expect: null}\n"
    ),
    "data/unrelated.yaml": "[",
}


def test_everything_that_a_class_can_say_arrives(tmp_path: Path) -> None:
    """Files by name, entries in their order, each case as often as the class repeats it."""
    folder = write_class(tmp_path / "vuln", EVERYTHING)
    loaded = load_task_class(folder)
    assert (loaded.name, loaded.folder, loaded.rubric) == (
        "vuln",
        folder,
        folder / "rubric.py",
    )
    assert loaded.breakdown_keys == {"a", "b.c"}
    severities = {"tests.failed": "block", "no": "info", "rubric.timeout": "block"}
    assert loaded.failure_mode_taxonomy == severities
    assert loaded.descriptions["tests.failed"] == "A test\nfailed.\n"
    assert loaded.settings == BenchSettings(
        sut="my.package:Agent.solve",
        sut_isolation="process",
        rubric_isolation="fresh",
        timeout_per_case_seconds=5,
        rubric_wall_clock_seconds=1.5,
        rubric_memory_mb=64,
        concurrency=2,
        max_cost_usd=0.5,
        repeat=2,
        sut_version="1.0",
        stop_after_same_failure=0,
        retry=RetrySettings(
            on=("llm.rate_limited", "sandbox.*"), attempts=1, backoff_seconds=0
        ),
        gate=GateSettings(lower_bound_95=0.7, min_passed_cases=10),
    )
    places = [(case.case_id, case.repetition, case.line) for case in loaded.cases]
    assert places == [
        ("first#1", 1, 1),
        ("first#2", 2, 1),
        ("second#1", 1, 3),
        ("second#2", 2, 3),
        ("third#1", 1, 1),
        ("third#2", 2, 1),
    ]
    assert [example.example_id for example in loaded.oracle] == ["good", "bad"]
    assert [example.expect for example in loaded.oracle] == ["gold", "null"]


def test_a_case_has_what_its_file_says(tmp_path: Path) -> None:
    """A rubric is given the entry as it stands there; YAML is read in its core schema."""
    write_class(tmp_path, EVERYTHING)
    first, _, second, _, third, _ = load_task_class(tmp_path).cases
    assert first.fields == {"id": "first", "tags": ["slow", "db"], "more": {"x": 1}}
    assert (first["more"], first.input, first.tags) == ({"x": 1}, None, ("slow", "db"))
    assert first.path == tmp_path / "cases" / "a.jsonl"
    assert (second.timeout_per_case_seconds, second.rubric_wall_clock_seconds) == (
        3.0,
        0.5,
    )
    assert third.input == {"a": [1, 2.5, None, True, "no", "2026-01-01", 10, *MORE]}


def test_without_libyaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyYAML that was built without it reads the same."""
    write_class(tmp_path, EVERYTHING)
    with_it = load_task_class(tmp_path)
    monkeypatch.setattr(yaml_files, "_FastLoader", yaml_files._Loader)
    assert load_task_class(tmp_path) == with_it


def test_the_smallest_class(tmp_path: Path) -> None:
    """No settings, no oracle, no codes, no keys: the defaults hold."""
    write_class(tmp_path, {"failure_modes.yaml": "{}", "breakdown_keys.yaml": "[]"})
    loaded = load_task_class(str(tmp_path))
    assert (loaded.breakdown_keys, loaded.failure_mode_taxonomy) == (frozenset(), {})
    assert loaded.settings == BenchSettings()
    assert [case.case_id for case in loaded.cases] == ["one"]


def test_all_problems_of_all_files_are_told_in_order(tmp_path: Path) -> None:
    """One error lists the problems by file and line, with the path as it was given."""
    write_class(
        tmp_path / "vuln",
        {
            "failure_modes.yaml": "a.b: {severity: fatal, description: x}\nc: {severity: warn}\n",
            "breakdown_keys.yaml": "[llm_view]",
            "rubric.py": None,
            "cases/b.yaml": "- id: one\n- id: ' b'\n",
            "oracle/o.yaml": "{id: x, case: two, output: 1, expect: maybe}",
        },
    )
    # Relative, as a user gives it.
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        with pytest.raises(BenchError) as caught:
            load_task_class("vuln")
    finally:
        os.chdir(before)
    assert str(caught.value).split("\n") == [
        (
            "vuln/breakdown_keys.yaml:1: the key 'llm_view' holds 'llm', a model's opinion of"
            " itself ([llm]_view); name what the rubric measures"
        ),
        (
            "vuln/cases/b.yaml:1: id: 'one' is the id of the case in cases/a.yaml:1;"
            " each case needs its own"
        ),
        "vuln/cases/b.yaml:2: id: ' b' begins or ends with a blank; leave it out",
        "vuln/failure_modes.yaml:1: a.b.severity: 'fatal' is unknown; write block, warn or info",
        "vuln/failure_modes.yaml:2: 'c' has no description; say what the code means",
        "vuln/oracle/o.yaml:1: case: there is no case 'two'; write the id of a case in cases/",
        "vuln/oracle/o.yaml:1: expect: 'maybe' is unknown; write gold or null",
        (
            "vuln/rubric.py: there is no such file; rubric.py is Python in UTF-8 that says"
            " `def grade(case, output):`"
        ),
    ]


def test_paths_that_are_no_folder(tmp_path: Path) -> None:
    """A missing folder, a file and what is no path get one line."""
    (tmp_path / "file").write_text("")
    for name, what in (
        ("none", "there is no such folder"),
        ("file", "is no folder"),
        ("a\nb", "there is no such folder"),
    ):
        with pytest.raises(BenchError) as caught:
            load_task_class(tmp_path / name)
        shown = name.replace("\n", "\\n")
        assert str(caught.value) == f"{tmp_path}/{shown}: {what}; {NO_FOLDER}"
    with pytest.raises(BenchError, match=r"is no path|there is no such folder"):
        load_task_class("a\0b")
    with pytest.raises(BenchError, match=rf"/: has no name of its own; {NO_FOLDER}"):
        load_task_class("/")


def test_a_link_to_a_class_is_the_class(tmp_path: Path) -> None:
    """The name is that of the folder itself, the paths are those that were asked for."""
    write_class(tmp_path / "real")
    (tmp_path / "alias").symlink_to("real")
    loaded = load_task_class(tmp_path / "alias")
    assert (loaded.name, loaded.folder) == ("real", tmp_path / "alias")


def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    """A link that stays in the folder is as good as a file."""
    write_class(tmp_path, {"cases/a.yaml": None, "data/x.yaml": "id: linked"})
    (tmp_path / "cases" / "x.yaml").symlink_to("../data/x.yaml")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / ".hidden").symlink_to("/")
    assert [case.case_id for case in load_task_class(tmp_path).cases] == ["linked"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "failure_modes.yaml",
            "breakdown_keys.yaml",
            "breakdown_keys.py",
            "bench.yaml",
        ),
        *(
            "rubric.py",
            "cases",
            "cases/a.yaml",
            "oracle",
            "oracle/o.yaml",
            "data/deep/x",
        ),
    ],
)
def test_a_link_that_leaves_the_folder_is_the_one_problem(
    tmp_path: Path, name: str
) -> None:
    """What it leads to is not read, so nothing of it is shown."""
    folder = write_class(tmp_path / "vuln")
    target = tmp_path / "vuln-secret"  # its name begins as the folder's does
    target.write_text("s3cret: [")
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        for each in path.iterdir():
            each.unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    if name == "breakdown_keys.py":
        (folder / "breakdown_keys.yaml").unlink()
    path.symlink_to(target)
    what = "is a link that leaves the folder; put the file itself here"
    assert problems_of(folder) == [f"{name}: {what}"]


@pytest.mark.skipif(sys.platform == "win32", reason="has no FIFOs among its files")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "failure_modes.yaml",
            "failure_modes.yaml is YAML in UTF-8 with a code in each line",
        ),
        (
            "breakdown_keys.yaml",
            "breakdown_keys.yaml is YAML in UTF-8 with a list of keys",
        ),
        ("bench.yaml", "bench.yaml is YAML in UTF-8 with keys and values"),
        (
            "rubric.py",
            "rubric.py is Python in UTF-8 that says `def grade(case, output):`",
        ),
        ("cases/a.yaml", "it is YAML in UTF-8 with one mapping, or a list of such"),
        ("cases/b.jsonl", "it is text in UTF-8 with one JSON object a line"),
    ],
)
def test_what_is_no_file(tmp_path: Path, name: str, problem: str) -> None:
    """A FIFO in place of any file is told, and not waited for."""
    write_class(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert problems_of(tmp_path) == [
        f"{name}: is a named pipe and not a file; {problem}"
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("bench.yml", "bench.yaml"),
        ("failure_modes.yml", "failure_modes.yaml"),
        ("breakdown_keys.yml", "breakdown_keys.yaml"),
    ],
)
def test_names_that_would_be_passed_over(tmp_path: Path, name: str, meant: str) -> None:
    """A file of the right sort with another ending is not ignored in silence."""
    write_class(tmp_path, {name: ""})
    assert problems_of(tmp_path) == [f"{name}: is never read; name it {meant}"]

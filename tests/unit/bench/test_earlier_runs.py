"""Earlier runs from files: the forms that are read, and what is said of all others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.comparing import (
    ComparedRun,
    compare,
    read_earlier_runs,
)
from pytest_failure_taxonomy.bench.kept.runs import run_paths
from pytest_failure_taxonomy.errors import BenchError
from tests.helpers.bench_scores import make_run, make_score
from tests.helpers.reports import make_report

RIGHT = "give a kept run, a file of --bench-json, or a report of --failure-taxonomy"
NEW_FIELDS = ("reduced", "by_tag", "by_breakdown_key", "digests", "baseline")


def as_json() -> dict[str, Any]:
    """Return the report of a run of five cases."""
    return make_run([make_score(1.0)] * 5, run_id="r1").model_dump(mode="json")


def write(folder: Path, content: Any) -> Path:
    """Write a file with a value as JSON, or with bytes as they are."""
    path = folder / "runs.json"
    path.write_bytes(
        content if isinstance(content, bytes) else json.dumps(content).encode()
    )
    return path


def read(path: Path) -> list[ComparedRun]:
    """Return the runs in a file; none are kept."""
    return read_earlier_runs(str(path), path.parent / "none")


def test_both_sorts_of_files_are_read(tmp_path: Path) -> None:
    """A list of reports, and a failure report with its section `bench`, hold the same runs."""
    (of_list,) = read(write(tmp_path, [as_json()]))
    (of_report,) = read(write(tmp_path, {**make_report(), "bench": [as_json()]}))
    assert of_list == of_report
    assert (of_list.run_id, of_list.task_class, min(of_list.cases)) == (
        "r1",
        "vuln",
        "c000",
    )
    assert compare([of_list], [of_report])[0].difference == 0


def test_a_report_of_an_older_version_is_read(tmp_path: Path) -> None:
    """What it doesn't have is not known, and told as not checked."""
    older = {key: value for key, value in as_json().items() if key not in NEW_FIELDS}
    (run,) = read(write(tmp_path, [older]))
    assert (run.digests.taxonomy, run.digests.rubric) == (None, None)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "not JSON (Expecting value at column 1)"),
        (b"\xff", "not UTF-8"),
        (b"[" * 100_000, "nested too deep"),
        (b'[{"mean_score": NaN}]', "'NaN' is no number to JSON"),
        (b'{"a": 1}', "has no runs of task classes"),
        (b"3", "has no runs of task classes"),
        (b"[]", "no task class ran"),
        (b"[3]", "no run of a task class (Input should be"),
        (b'[{"run_id": 3}]', "no run of a task class (run_id: "),
    ],
)
def test_other_files_are_refused_in_one_line(
    tmp_path: Path, content: bytes, what: str
) -> None:
    """The line says where, what is wrong, and what would be right."""
    path = write(tmp_path, content)
    with pytest.raises(BenchError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {what}")
    assert RIGHT in message
    assert "\n" not in message


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder and a missing file are named as such."""
    with pytest.raises(
        BenchError, match=r"is a directory and not a file; give a kept run"
    ):
        read(tmp_path)
    with pytest.raises(
        BenchError, match=r"no.json: there is no such file; give a kept run"
    ):
        read(tmp_path / "no.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner)
    ),
    max_leaves=9,
)


@pytest.mark.slow
@given(st.sampled_from(sorted(as_json())), JSON)
def test_a_report_with_anything_in_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: Any
) -> None:
    """No content of a field makes a traceback."""
    path = write(tmp_path_factory.mktemp("runs"), [{**as_json(), field: value}])
    told = ""
    try:
        read(path)
    except BenchError as error:
        told = str(error)
    assert "\n" not in told


def test_runs_of_one_second_are_in_the_order_in_which_they_were_written(
    tmp_path: Path,
) -> None:
    """The random part of their names says nothing of their age."""
    names = [
        "20261123T100000Z-ffffff-a",
        "20261123T100000Z-000000-a",
        "20261123T100001Z-aaaaaa-a",
    ]
    for at, name in enumerate(names):
        path = tmp_path / f"{name}.jsonl"
        path.touch()
        os.utime(path, (100 - at, 100 + at))
    assert [path.stem for path in run_paths(tmp_path)] == names

"""Files of runs that are torn, fused or made up: what is read of them, and what is shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.commands import case_lines, run_lines
from pytest_failure_taxonomy.bench.kept.reader import KeptRun, read_run
from pytest_failure_taxonomy.bench.kept.shown import (
    json_text,
    messages_of,
    page_run,
    rows_of,
    text_of,
)
from pytest_failure_taxonomy.errors import BenchError
from tests.helpers.kept_runs import call_of, keep_run, outcome_of, score_of, write_files
from tests.helpers.task_classes import passing_cases, task_class_files

pytest.importorskip("scipy")

CASES: Final = 3

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["case-000", "\ud800", "\x1b[2J", "1e999"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
names = st.sampled_from(
    [
        *(
            "case_id",
            "attempt",
            "cases",
            "reason",
            "score",
            "output",
            "transcript",
            "usage",
        ),
        *(
            "cost_usd",
            "seconds",
            "started_at",
            "rubric_cost_usd",
            "truncated",
            "printed",
            "ended",
        ),
        *("kind", "schema_version", "breakdown_keys", "taxonomy", "gate", "settings"),
    ]
)
kinds = st.sampled_from(
    ["run", "cases", "resumed", "started", "spent", "attempt", "stopped", "x"]
)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Return the lines of a run of three cases."""
    root = tmp_path_factory.mktemp("root")
    write_files(root, task_class_files(passing_cases(CASES)))
    path = keep_run(
        root,
        [
            outcome_of(
                "case-000",
                score_of(1.0),
                0,
                transcript=[{"role": "user", "content": "x"}],
            ),
            outcome_of(
                "case-001", score_of(0.0, "answer.wrong"), 7, call_of(1, cost_usd=0.5)
            ),
        ],
        started=["case-002"],
        stopped="the cost cap was reached",
    )
    return path.read_bytes().splitlines(keepends=True)


def shown(run: KeptRun) -> Iterator[str]:
    """Yield all that the commands show of a run."""
    try:
        yield from (line.text for line in run_lines(run))
    except BenchError as error:
        yield str(error)
    for case_id in run.known:
        yield from (line.text for line in case_lines(run, case_id))


def check(content: bytes) -> KeptRun | None:
    """Read and show a file, which either is a run or is refused in words."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        path.write_bytes(content)
        try:
            run = read_run(path)
        except BenchError:
            return None
        for text in shown(run):
            assert text.isprintable() or not set("\x1b\x9b\r\n\u202e") & set(text)
        assert len({tuple(row) for row in rows_of(run)}) <= 1
        assert len(page_run(run)["cases"]) <= len(run.cases)
        return run


@given(data=st.data())
@settings(deadline=None)
def test_a_run_that_is_cut_off_anywhere_has_all_lines_before(
    lines: list[bytes], data: st.DataObject
) -> None:
    """The line that is cut is told, and it alone is missing."""
    whole = b"".join(lines)
    end = data.draw(st.integers(len(lines[0]), len(whole)))
    run = check(whole[:end])
    assert run is not None
    complete = whole[:end].count(b"\n")
    assert len(run.problems) == (not whole[:end].endswith(b"\n"))
    ended = [json.loads(line)["record"] for line in lines[:complete]].count("attempt")
    assert sum(len(case.calls) for case in run.known.values()) == ended


@given(data=st.data())
@settings(deadline=None)
def test_a_line_that_another_process_appended_to_a_torn_one_is_read(
    lines: list[bytes], data: st.DataObject
) -> None:
    """Of two fused lines the second one counts."""
    at = data.draw(st.integers(2, len(lines) - 1))
    cut = data.draw(st.integers(1, len(lines[at]) - 2))
    run = check(b"".join([*lines[:at], lines[at][:cut], *lines[at:]]))
    assert run is not None
    assert len(run.problems) == 1
    assert set(run.scores()) == {"case-000", "case-001"}


@pytest.mark.slow
@given(
    added=st.lists(
        st.tuples(
            st.integers(0, 20), kinds, st.dictionaries(names, json_values, max_size=6)
        ),
        max_size=5,
    )
)
@settings(deadline=None, max_examples=100)
def test_made_up_records_are_skipped_or_shown(
    lines: list[bytes], added: list[tuple[int, str, dict[str, Any]]]
) -> None:
    """Nothing in a file makes a command fail otherwise than in words, or moves the cursor."""
    content = list(lines)
    for at, kind, fields in added:
        content.insert(
            max(1, at), json.dumps({"record": kind, **fields}).encode() + b"\n"
        )
    check(b"".join(content))


@pytest.mark.slow
@given(header=st.dictionaries(names, json_values, max_size=6))
@settings(deadline=None)
def test_a_made_up_first_line_is_refused_or_shown(
    lines: list[bytes], header: dict[str, Any]
) -> None:
    """A header with other values is a run or it is not."""
    first = {**json.loads(lines[0]), **header}
    check(b"".join([json.dumps(first).encode(), b"\n", *lines[1:]]))


@given(content=st.binary(max_size=200))
def test_any_bytes_are_no_run(content: bytes) -> None:
    """They are refused in words."""
    assert check(content) is None


@pytest.mark.parametrize("amount", ["1e400", "-1", "NaN", '"x"', "{}", "1e308"])
def test_amounts_that_can_not_be_added_are_skipped(
    lines: list[bytes], amount: str
) -> None:
    """The line is told, and the cost is that of the others."""
    line = lines[4].replace(b'"cost_usd":0.0', b'"cost_usd":' + amount.encode(), 1)
    assert line != lines[4]
    run = check(b"".join([*lines[:4], line, *lines[5:]]))
    assert run is not None
    assert len(run.problems) == 1
    assert "case-000" not in run.scores()
    assert math.isfinite(run.known["case-000"].cost_usd)


# Texts.


@pytest.mark.parametrize(
    "transcript",
    [
        None,
        [],
        {},
        "x",
        [1],
        [{"role": 1}],
        [{"content": "x"}],
        [{"role": "user"}, "x"],
    ],
)
def test_what_is_no_conversation(transcript: Any) -> None:
    """It is shown as the JSON that it is."""
    assert messages_of(transcript) is None


def test_the_parts_of_a_message() -> None:
    """Texts stand one below the other; what is no text is kept as JSON."""
    tool = {"type": "tool_use", "name": "ls"}
    messages = messages_of(
        [
            {"role": "user", "content": ["a", {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": [tool], "id": 1},
            {"role": "tool", "content": {"out": 1}},
        ]
    )
    assert messages is not None
    first, second, third = messages
    assert (first.role, first.text, first.rest) == ("user", "a\nb", "")
    assert (second.text, json.loads(second.rest)) == ("", {"id": 1, "content": [tool]})
    assert (third.text, json.loads(third.rest)) == ("", {"content": {"out": 1}})


@given(json_values)
def test_json_is_shown_as_it_is(value: Any) -> None:
    """The text reads back as the value."""
    if not isinstance(value, str):
        assert repr(json.loads(text_of(value))) == repr(json.loads(json_text(value)))


def test_what_is_nested_deeply_is_shown_or_said() -> None:
    """No depth is an error."""
    for depth in (100, 1_000, 5_000, 50_000):
        value: list[Any] = []
        for _ in range(depth):
            value = [value]
        assert json_text(value)

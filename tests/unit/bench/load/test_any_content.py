"""Whatever is in the files of a task class, it is loaded or refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytest_failure_taxonomy.bench.load.task_class import load_task_class
from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.errors import BenchError
from tests.unit.bench.load.a_class import write_class

FILES: Final = (
    *(
        "failure_modes.yaml",
        "breakdown_keys.yaml",
        "bench.yaml",
        "rubric.py",
        "cases/a.yaml",
    ),
    *("cases/b.yaml", "cases/b.jsonl", "cases/b.csv", "oracle/o.yaml"),
    *("cases/b.json", "cases/b.tsv", "cases/b.jsonl.gz", "cases/b.parquet"),
)
_WORDS: Final = st.sampled_from(
    (
        *(
            "id",
            "input",
            "tags",
            "case",
            "output",
            "expect",
            "severity",
            "description",
            "block",
        ),
        *(
            "gate",
            "min_passed_cases",
            "repeat",
            "sut",
            "concurrency",
            "timeout_per_case_seconds",
            "one",
        ),
        *("reducers", "mean", "pass@2"),
        *("<<", "no", "1e3", "0x1f", ".inf", "!!set", "&a", "*a", "2026-01-01", "llm"),
    )
)
_SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | _WORDS
)
_TREES: Final = st.recursive(
    _SCALARS,
    lambda each: (
        st.lists(each, max_size=4) | st.dictionaries(_SCALARS, each, max_size=4)
    ),
    max_leaves=12,
)
_TEXT_OF_YAML: Final = st.lists(
    st.sampled_from(
        (
            *(
                "id: ",
                "- ",
                "\n",
                "  ",
                ": ",
                "&a ",
                "*a",
                "[",
                "]",
                "{",
                "}",
                ", ",
                "'",
                '"',
            ),
            *("id,", "id\n", "input:json", "a,1\n", '""', "tags,"),
            *(
                "!!set ",
                "!!int ",
                "? ",
                "|\n",
                "a",
                "1",
                "<<: ",
                "---\n",
                "#",
                "~",
                "\t",
                "no",
            ),
        )
    ),
    max_size=30,
).map("".join)


def _as_yaml(tree: object) -> bytes:
    return yaml.safe_dump(tree, allow_unicode=False).encode()


def _as_json(tree: object) -> bytes:
    def plain(each: object) -> object:
        if isinstance(each, dict):
            return {str(key): plain(value) for key, value in each.items()}
        return [plain(value) for value in each] if isinstance(each, list) else each

    return json.dumps(plain(tree)).encode()


_CONTENT: Final = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=40).map(str.encode),
    _TREES.map(_as_yaml),
    _TREES.map(_as_json),
    _TEXT_OF_YAML.map(str.encode),
)


def _load(folder: Path) -> tuple[tuple[BenchCase, ...], list[str]]:
    """Return the cases of a good class, and what is said of a bad one."""
    try:
        return load_task_class(folder).cases, []
    except BenchError as error:
        return (), str(error).split("\n")


_LINE_BREAKS: Final = frozenset("\x85\u2028\u2029")
"""Line breaks to YAML 1.1, folded to a blank in a text; to JSON they are characters."""


def _no_more_than_json(value: Any) -> bool:
    return bool(json.loads(json.dumps(value, allow_nan=False)) == value)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=_CONTENT)
def test_any_content_is_a_class_or_a_list_of_problems(
    tmp_path: Path, name: str, content: bytes
) -> None:
    """No content ends in another error, and what is loaded is what JSON can hold."""
    write_class(tmp_path, {name: content})
    cases, told = _load(tmp_path)
    assert all(line.startswith(f"{tmp_path}/") for line in told)
    assert all(_no_more_than_json(case.fields) for case in cases)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.one_of(st.text(max_size=60).map(str.encode), st.binary(max_size=30)))
def test_any_python_is_keys_or_a_list_of_problems(
    tmp_path: Path, content: bytes
) -> None:
    """A file of keys is never run, whatever it says."""
    head = b"from enum import StrEnum\nclass K(StrEnum):\n    A = "
    write_class(
        tmp_path, {"breakdown_keys.yaml": None, "breakdown_keys.py": head + content}
    )
    (tmp_path / "breakdown_keys.yaml").unlink(missing_ok=True)
    cases, told = _load(tmp_path)
    assert cases or all("/breakdown_keys.py:" in line for line in told)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(tree=_TREES)
def test_values_arrive_as_they_were_written(tmp_path: Path, tree: object) -> None:
    """What JSON can hold comes back equal from either form of a file of cases."""
    written = json.loads(_as_json(tree), parse_constant=lambda _: None)
    lines = json.dumps({"id": "a", "input": written}).encode()
    # A text of JSON is a text of YAML, but for the surrogates that JSON writes in pairs.
    text = json.dumps({"id": "b", "input": written}, ensure_ascii=False)
    assume(not _LINE_BREAKS.intersection(text))
    write_class(tmp_path, {"cases/a.jsonl": lines, "cases/a.yaml": text.encode()})
    cases, told = _load(tmp_path)
    if told:
        assert all(
            "which YAML forbids" in line or "a key '<<' merges" in line for line in told
        )
    else:
        assert [case.input for case in cases] == [written, written]

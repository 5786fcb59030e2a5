"""Digests of what cases are judged by."""

from __future__ import annotations

from pathlib import Path

from pytest_failure_taxonomy.bench.models import BenchCase, TaskClass
from pytest_failure_taxonomy.bench.sharding import (
    case_digest,
    cases_digest,
    digests_of,
    joined_cases_digest,
    rubric_digest,
    taxonomy_digest,
)


def make_class(**changes: object) -> TaskClass:
    """Return a class with two codes and two keys."""
    given = {
        "name": "vuln",
        "breakdown_keys": frozenset({"found", "right"}),
        "failure_mode_taxonomy": {"answer.wrong": "block", "answer.slow": "warn"},
        **changes,
    }
    return TaskClass.model_validate(given)


def test_codes_severities_and_keys_are_the_taxonomy() -> None:
    """Order and descriptions don't matter; a severity does."""
    digest = taxonomy_digest(make_class())
    other_order = {"answer.slow": "warn", "answer.wrong": "block"}
    assert taxonomy_digest(make_class(failure_mode_taxonomy=other_order)) == digest
    assert (
        taxonomy_digest(make_class(descriptions={"answer.slow": "is slow"})) == digest
    )
    milder = {"answer.wrong": "warn", "answer.slow": "warn"}
    assert taxonomy_digest(make_class(failure_mode_taxonomy=milder)) != digest
    assert taxonomy_digest(make_class(breakdown_keys=frozenset({"found"}))) != digest


def test_the_rubric_and_what_it_may_import_are_the_rubric(tmp_path: Path) -> None:
    """A Python file beside it counts; a conftest.py, a test and a case don't."""
    rubric = tmp_path / "rubric.py"
    rubric.write_text("def grade(case, output): ...\n", encoding="utf-8")
    task_class = make_class(rubric=rubric)
    digest = rubric_digest(task_class)
    assert digest is not None
    for name in (
        "conftest.py",
        "test_rubric.py",
        "rubric_test.py",
        "breakdown_keys.py",
        "a.yaml",
    ):
        (tmp_path / name).write_text("1\n", encoding="utf-8")
    assert rubric_digest(task_class) == digest
    (tmp_path / "words.py").write_text("1\n", encoding="utf-8")
    with_words = rubric_digest(task_class)
    assert with_words != digest
    rubric.write_text("def grade(case, output): return {}\n", encoding="utf-8")
    assert rubric_digest(task_class) not in (digest, with_words)


def test_what_is_not_there_has_no_digest(tmp_path: Path) -> None:
    """A class made in code has no rubric file; one that was removed can't be read."""
    assert digests_of(make_class()).rubric is None
    assert rubric_digest(make_class(rubric=tmp_path / "rubric.py")) is None


def test_one_digest_of_all_cases() -> None:
    """Neither the order nor the number of repetitions matters; the content of a case does."""
    a, b = (BenchCase(case_id=name, input=1) for name in "ab")
    again = a.model_copy(update={"case_id": "a#2", "repetition": 2})
    of_both = digests_of(make_class(), [a, b]).cases
    assert digests_of(make_class(), [b, again, a]).cases == of_both
    assert digests_of(make_class(), [a]).cases != of_both
    changed = BenchCase(case_id="b", input=2)
    assert digests_of(make_class(), [a, changed]).cases != of_both
    assert digests_of(make_class()).cases is None


def test_the_digest_of_all_cases_is_that_of_its_parts() -> None:
    """Shards have no case in common; where one is unknown, so is the whole."""
    digests = [case_digest(BenchCase(case_id=f"c{number}")) for number in range(5)]
    parts = [cases_digest(digests[:2]), cases_digest(digests[2:])]
    assert joined_cases_digest(parts) == cases_digest(digests)
    assert joined_cases_digest([*parts, None]) is None
    assert joined_cases_digest([*parts, "no digest"]) is None
    assert cases_digest([*digests, ""]) is None

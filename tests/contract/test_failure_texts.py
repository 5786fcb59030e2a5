"""What texts of errors are taken for is measured, published, and good enough."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.taxonomy.judgement import FailureType
from tests.helpers.failure_texts import (
    PAGE,
    PARTS,
    by_our_rules,
    labelled_texts,
    measure,
    page,
    part_of,
)

FLOOR = 0.95


def test_the_page_says_what_is_measured() -> None:
    """The published page is the one that the texts and the rules give now."""
    assert PAGE.read_text("utf-8") == page()


@pytest.mark.parametrize("part", ["held_out", "unseen"])
@pytest.mark.parametrize(
    "failure_type", [FailureType.BROKEN_BUILD, FailureType.VERIFICATION_FAILED]
)
def test_texts_set_aside_are_told_apart(failure_type: FailureType, part: str) -> None:
    """Precision and recall reach the floor on texts that the rules were not made on."""
    score = measure(part, by_our_rules)[failure_type]
    assert score.meant >= 30
    assert score.precision >= FLOOR
    assert score.recall >= FLOOR


def test_the_texts_are_enough_and_in_their_parts() -> None:
    """There are over 220 texts, none twice, each in the part that its hash or its file says."""
    texts = labelled_texts()
    assert len(texts) >= 220
    assert len({each.text for each in texts}) == len(texts)
    assert {
        each.text for each in texts if each.part != part_of(each.text, each.file)
    } == set()
    assert {each.part for each in texts} == set(PARTS)

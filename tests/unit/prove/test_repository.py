"""What of a report may be given to git."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.prove.repository import hash_or_none


@pytest.mark.parametrize(
    ("commit", "is_hash"),
    [
        ("3f2a91c", True),
        ("0" * 40, True),
        (None, False),
        ("", False),
        ("main", False),
        ("--output=x", False),
        ("--remote=ext::sh", False),
        ("3f2a91c\n", False),
    ],
)
def test_only_a_hash_is_a_commit_of_a_report(
    commit: str | None, *, is_hash: bool
) -> None:
    """Anybody may have written it, and git takes what begins with a dash for an option."""
    assert hash_or_none(commit) == (commit if is_hash else None)

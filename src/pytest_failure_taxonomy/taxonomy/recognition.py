"""Recognise what is to be mended from what an exception is, holds and was raised from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_failure_taxonomy.taxonomy.values import value

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.judgement import CauseOwner, Finding


@value
class Diagnosis:
    """What is to be mended, as far as one failure tells it."""

    key: str
    """In words, the same for all failures that the same change mends: `import cachetools`."""
    what: str
    """One line without a place: `nothing listens on 127.0.0.1:5439`."""
    fix: str | None = None
    """A command or an edit; `None` where none is known for sure."""
    owner: CauseOwner | None = None
    """`None` where the frame that raised it says so."""
    retryable: bool | None = None


def recognise(found: Finding) -> Diagnosis | None:
    """Return what is to be mended where a finding tells it; `None` where nobody knows."""
    del found
    return None

"""Find the failure marker in what a test has printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from pytest_failure_taxonomy.taxonomy.evidence import SeenMarker
from pytest_failure_taxonomy.taxonomy.reasons import FailureReason

_START: Final = "[GZA_FAILURE:"
"""As in `taxonomy.reasons`, which is not loaded before there is something to read."""


class Markers:
    """Know the markers that agents in this project leave."""

    def __init__(self, more: Mapping[str, FailureReason]) -> None:
        """Know the usual ones and more.

        Args:
            more: the reasons that other markers stand for, by their names.
        """
        self._more = more

    def in_output_of(self, report: pytest.TestReport) -> SeenMarker | None:
        """Return the last marker in the captured output of a test, `None` if there is none."""
        texts = [text for _, text in report.sections if _START in text]
        return self._find(texts) if texts else None

    def _find(self, texts: list[str]) -> SeenMarker | None:
        from pytest_failure_taxonomy.logs.markers import locate_marker
        from pytest_failure_taxonomy.taxonomy.reasons import MARKER_REASONS

        for text in reversed(texts):
            found = locate_marker(text, known=self._more)
            if found is not None:
                known = {**MARKER_REASONS, **self._more}
                return SeenMarker(name=found.reason, reason=known[found.reason])
        return None

from __future__ import annotations

import pytest

from tests.helpers.runs import PytestRuns


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> PytestRuns:
    """Start runs of pytest, each in a process of its own, in an empty folder."""
    return PytestRuns(pytester, monkeypatch)

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.helpers.runs import PytestRuns

with suppress(ImportError):
    # `pytester` forgets the modules that a test imports, and NumPy warns when it is imported twice.
    import numpy as np  # noqa: F401 - see above


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> PytestRuns:
    """Start runs of pytest, each in a process of its own, in an empty folder."""
    return PytestRuns(pytester, monkeypatch)

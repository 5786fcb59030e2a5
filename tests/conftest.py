from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.reports import assert_valid_reports_in
from tests.helpers.runs import PytestRuns

with suppress(ImportError):
    # `pytester` forgets the modules that a test imports, and NumPy warns when it is imported twice.
    import numpy as np  # noqa: F401 - see above

BREAKS_REPORTS: Final = "breaks_reports"
"""The pytest mark of a test that leaves a report which it has broken itself."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check every report that a test has left, so that none can be read unchecked."""
    result = yield
    if item.get_closest_marker(BREAKS_REPORTS) is None:
        for folder in _folders_of(item):
            assert_valid_reports_in(folder)
    return result


def _folders_of(item: pytest.Item) -> Iterator[Path]:
    fixtures = getattr(item, "funcargs", {})
    if "tmp_path" in fixtures:
        yield fixtures["tmp_path"]
    if "pytester" in fixtures:
        yield fixtures["pytester"].path


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> PytestRuns:
    """Start runs of pytest, each in a process of its own, in an empty folder."""
    return PytestRuns(pytester, monkeypatch)

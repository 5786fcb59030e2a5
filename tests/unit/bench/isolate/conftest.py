from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def private_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have temporary folders made where only this test looks, and nothing be left there.

    The systems and rubrics of these tests are found by the processes that import them.
    """
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4]))
    yield place
    assert list(place.iterdir()) == []

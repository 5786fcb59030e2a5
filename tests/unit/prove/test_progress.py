"""What is shown while a cause is being proven."""

from __future__ import annotations

import time

import pytest

from pytest_failure_taxonomy.prove.progress import Progress


def make(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> Progress:
    """Return one that says everything."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    place = "pytest_failure_taxonomy.prove.progress._PAUSE_SECONDS"
    monkeypatch.setattr(place, 0.0)
    monkeypatch.setattr(Progress, "pause_of_lines", 0.0)
    return Progress()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_is_tried_and_how_much_time_is_left(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    is_terminal: bool,
) -> None:
    """One line on a terminal, which makes room for the answer; lines elsewhere."""
    progress = make(monkeypatch, is_terminal=is_terminal)
    until = time.monotonic() + 59.5
    progress.show("run pair", 3, 20, until)
    progress.show("one pass", 0, 0, until)
    progress.clear()
    text = capsys.readouterr().err
    start, end = ("\r\x1b[K", "") if is_terminal else ("", "\n")
    assert text.startswith(f"{start}   run pair 3 of at most 20, ")
    assert f" left{end}{start}   one pass, " in text
    assert text.endswith(start or end)


def test_a_moment_after_a_line_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal would flicker, and a file grow."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = Progress()
    progress.show("run pair", 1, 20, 0.0)
    assert capsys.readouterr().err == ""

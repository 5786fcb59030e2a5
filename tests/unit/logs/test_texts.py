"""How an answer is compared with the labels of a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.benchmarks.accuracy import texts

LABEL: Final = texts.Label(
    name="full-1",
    cause="the disk is full",
    reason="SANDBOX_ERROR|TOOL_ERROR",
    failure_type="UNKNOWN",
    charge="environment|ambiguous",
    retry="n",
    deciding="No space left",
    cause_regex="disk|space",
    stage="setup",
    exit="1",
)
RIGHT: Final[dict[str, Any]] = {
    "reason": "SANDBOX_ERROR",
    "kind": "sandbox.disk_full",
    "message": "the disk is full",
    "confidence": "certain",
    "failure_type": "UNKNOWN",
    "charge_to": "environment",
    "recovery_action": "escalate",
    "retryable": False,
    "lines": [{"number": 1, "text": "No space left on device"}],
}
ALL_RIGHT: Final = {
    *("reason fits", "reason is the label", "failure type fits", "names a cause"),
    *("names a cause, shown or not", "headline matches", "deciding text shown"),
    *("charge right", "retry advice right"),
}


@pytest.mark.parametrize(
    ("change", "lost", "told"),
    [
        ({}, set(), set()),
        ({"reason": "TOOL_ERROR"}, {"reason is the label"}, set()),
        (
            {"reason": "TIMEOUT"},
            {"reason fits", "reason is the label"},
            {"certain and wrong"},
        ),
        (
            {"reason": "TIMEOUT", "confidence": "likely"},
            {"reason fits", "reason is the label"},
            set(),
        ),
        ({"failure_type": "BROKEN_BUILD"}, {"failure type fits"}, set()),
        ({"lines": []}, {"names a cause", "deciding text shown"}, set()),
        ({"lines": [], "message": "No space left"}, set(), set()),
        (
            {"kind": "command.failed", "message": "the command failed"},
            {"names a cause", "names a cause, shown or not", "headline matches"},
            set(),
        ),
        ({"kind": "stage.setup_failed"}, {"names a cause"}, set()),
        ({"charge_to": "ambiguous"}, {"charge right"}, {"charge open"}),
        ({"charge_to": "subject"}, {"charge right"}, {"charge wrong"}),
        (
            {"recovery_action": "retry", "retryable": None},
            {"retry advice right"},
            {"retry advice wrong"},
        ),
        ({"retryable": True}, {"retry advice right"}, {"retry advice wrong"}),
        ({"retryable": None}, set(), set()),
    ],
)
def test_what_an_answer_gets(
    change: dict[str, Any], lost: set[str], told: set[str]
) -> None:
    """Each figure looks at its own part of the answer."""
    found = texts.compare(LABEL, RIGHT | change, "A")
    assert {what for what, holds in found.items() if holds} == (ALL_RIGHT - lost) | told
    assert set(found) == set(texts.FIGURES)


def test_a_setup_that_failed() -> None:
    """With the stage given, that the setup failed is right; without it, it is not."""
    answer = RIGHT | {"reason": "SETUP_FAILED"}
    assert texts.compare(LABEL, answer, "B")["reason is the label"]
    assert not texts.compare(LABEL, answer, "A")["reason fits"]


def test_what_nobody_can_tell() -> None:
    """Figures that don't apply are left out: a retry, and a line that was cut off."""
    label = LABEL._replace(retry="?", deciding="-")
    found = texts.compare(label, RIGHT | {"lines": []}, "A")
    assert set(texts.FIGURES) - set(found) == {
        *("retry advice right", "retry advice wrong", "deciding text shown")
    }
    assert found["names a cause"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, {"charge open"}),
        (dict.fromkeys(RIGHT) | {"lines": []}, {"charge open", "tells a success"}),
    ],
)
def test_no_failure_is_told(answer: dict[str, Any] | None, told: set[str]) -> None:
    """Neither silence nor a success is right, and neither is advice."""
    found = texts.compare(LABEL, answer, "A")
    assert {what for what, holds in found.items() if holds} == told


def test_the_figures_of_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Misses come first, one a line; the table has a column for each variant."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/full-1.log").write_text("Nothing to see.\n")
    (tmp_path / "labels.csv").write_text(
        f"{','.join(LABEL._fields)}\n{','.join(LABEL)}\n"
    )
    monkeypatch.setattr("sys.argv", ["texts", str(tmp_path)])
    texts.main()
    first, second, *table = capsys.readouterr().out.splitlines()
    assert first.startswith("A full-1 misses reason fits, failure type fits, names a")
    assert first.endswith(": nothing is said")
    assert second.startswith("B full-1 misses names a cause, deciding text shown")
    assert table[:3] == [
        "| | A | B |",
        "|---|---|---|",
        "| reason fits | 0 of 1 | 1 of 1 |",
    ]
    assert len(table) == 2 + len(texts.FIGURES)

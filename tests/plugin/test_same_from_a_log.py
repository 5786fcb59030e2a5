"""A log of a run has the causes that the live run has, as far as the text holds them.

Each row of `test_causes` is run with the plugin and without it; `classify` reads what the second
run printed. What the text can't say stands in `ONLY_LIVE`, with the reason.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.logs.log_answer import ANSWERS, classify_log
from tests.helpers.children import REPORT, run_plain_pytest
from tests.plugin.test_causes import CRASHES, OTHERS, SERIAL, Row, port, run

__all__ = ["port"]

FIELDS: Final = (
    *("key", "what", "fix", "reason", "kind", "failure_type", "charge_to", "retryable"),
)
"""Of a cause, what is compared."""

_URL: Final = "the address that was asked is in the exception alone"
_OPTION: Final = "where the option or setting comes from is not printed"
_BASES: Final = "the stand-in for the library lacks the base classes of the real one"
_SIGNAL: Final = "how the worker's process ended is seen by its parent alone"
_PROJECT: Final = "the metadata of the project are not in the text"

ONLY_LIVE: Final[dict[str, tuple[set[str], str]]] = {
    "address-in-use": (
        {"key", "what", "fix", "charge_to"},
        "which process holds the port is seen in the process alone",
    ),
    "certificate": ({"failure_type"}, _BASES),
    "class-that-is-no-test": (
        {"key", "what"},
        "the place of the class is in a variable of pytest's",
    ),
    "flaky-by-hypothesis": (
        {"key", "what"},
        "the frames of the member are cut by Hypothesis when it is printed",
    ),
    **dict.fromkeys(
        ("http-401", "http-403", "http-429", "http-503", "two-retries-that-help"),
        ({"key", "what"}, _URL),
    ),
    "no-answer-in-time": ({"failure_type"}, _BASES),
    "nothing-collected": (
        {"what"},
        "the patterns of the configuration are not printed",
    ),
    "nothing-selected": ({"what"}, _OPTION),
    "option-of-a-plugin": ({"what"}, _OPTION),
    "own-package": ({"fix"}, _PROJECT),
    "package-of-the-metadata": ({"fix"}, _PROJECT),
    "pytest.exit": ({"what"}, "the line that called it is not printed"),
    "required-plugin": ({"what"}, _OPTION),
    "strict-xfail": ({"what"}, "the line of the test is not printed"),
    "worker-dies": ({"what"}, _SIGNAL),
    "worker-dies-beside-failures": ({"what"}, _SIGNAL),
}
"""By row: the fields that the text can't give, and why."""

ROWS: Final = (*SERIAL, *CRASHES)
_EACH: Final = 4
"""One row of so many is compared on each push, all of them nightly."""


def fields_of(causes: list[dict[str, Any]], name: str) -> list[Any]:
    """Return one field of each cause."""
    return [cause[name] for cause in causes]


def test_every_exception_is_about_a_row() -> None:
    """None is left of a row that was renamed."""
    assert ONLY_LIVE.keys() <= {row.name for row in ROWS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row, id=row.name, marks=[pytest.mark.nightly] if number % _EACH else []
        )
        for number, row in enumerate(ROWS)
    ],
)
def test_the_log_has_the_causes_of_the_live_run(
    tmp_path: Path, row: Row, port: int
) -> None:
    """Key, sentence, fix, reason, kind, type, charge and retry are the same."""
    on_workers = ["-n", "1"] if row in CRASHES else []
    live = run(tmp_path, row, port, *on_workers).report["causes"]
    (tmp_path / REPORT).unlink()
    plugins = [*row.plugins, *(["xdist"] if on_workers else [])]
    assert all(find_spec(OTHERS.get(name, name)) for name in plugins)
    args = [word for word in row.args if "failure-taxonomy" not in word]
    plain = run_plain_pytest(tmp_path, *on_workers, *args, plugins=plugins)
    printed = (plain.stdout + plain.stderr).encode("utf-8", "surrogateescape")
    status = plain.status if plain.status >= 0 else 128 - plain.status
    answer = classify_log([printed], name="log", exit_code=status)
    read = json.loads(json.dumps(ANSWERS.encode(answer)))["causes"]
    differing = {
        name for name in FIELDS if fields_of(live, name) != fields_of(read, name)
    }
    expected, _ = ONLY_LIVE.get(row.name, (set(), ""))
    assert differing == expected

"""A search takes time in proportion to the text, whatever is in it: its passes are given little."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.redaction import grammar
from pytest_failure_taxonomy.redaction.redactor import Redactor
from tests.helpers.adversarial_texts import modules, units

SIZE: Final = 20_000
MOST: Final = 400
"""How often each character is given to an expression at most, on the average. Some ninety
expressions read a text, in up to four passes; a value is judged by a handful of others."""


class Counting:
    """A pattern that counts the characters it is given."""

    def __init__(self, pattern: re.Pattern[str], counted: list[int]) -> None:
        self._pattern = pattern
        self._counted = counted

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._pattern, name)
        if name not in (
            "search",
            "match",
            "fullmatch",
            "finditer",
            "findall",
            "sub",
            "split",
        ):
            return found
        return self._counting(found, is_anchored=name in ("match", "fullmatch"))

    def _counting(
        self, call: Callable[..., Any], *, is_anchored: bool
    ) -> Callable[..., Any]:
        def counting(*args: Any) -> Any:
            text = next(each for each in args if isinstance(each, str))
            places = [each for each in args if isinstance(each, int)]
            found = call(*args)
            start, end = [*places, *(0, len(text))[len(places) :]][:2]
            if isinstance(found, re.Match):  # it read on no further than that
                end = found.end()
            elif is_anchored:
                end = start
            self._counted[0] += max(0, min(end, len(text)) - start) + 1
            return found

        return counting


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many characters all expressions of the search were given."""
    counted = [0]

    def counting(value: Any) -> Any:
        if isinstance(value, re.Pattern):
            return Counting(value, counted)
        if type(value) is tuple:
            return tuple(map(counting, value))
        return (
            {key: counting(each) for key, each in value.items()}
            if type(value) is dict
            else value
        )

    for module in modules():
        for name, value in list(vars(module).items()):
            if not name.startswith("__") and isinstance(
                value, re.Pattern | tuple | dict
            ):
                monkeypatch.setattr(module, name, counting(value))
        if hasattr(module, "grammar"):
            monkeypatch.setattr(
                module,
                "grammar",
                lambda name, **parts: counting(grammar(name, **parts)),
            )
    return counted


@pytest.mark.slow
def test_no_repetition_is_searched_more_often_than_another(counted: list[int]) -> None:
    """Of a longer text each character is read no more often than of a shorter one."""
    for unit in units(150):
        text = (unit * SIZE)[:SIZE]
        counted[0] = 0
        Redactor(environment={"API_KEY": "a1B2c3D4/e5f6"}).redact(text)
        assert counted[0] <= MOST * SIZE, unit


@pytest.mark.parametrize(
    "unit", ["curl -u ", "pass=", "key=key=x:", "<a name='x' value="]
)
def test_what_is_searched_grows_with_the_text(unit: str, counted: list[int]) -> None:
    """Twice the text takes twice as much, or less."""
    sizes = []
    for size in (SIZE, 4 * SIZE):
        counted[0] = 0
        Redactor(environment={}).redact((unit * size)[:size])
        sizes.append(counted[0])
    assert sizes[1] <= 4.5 * sizes[0]


def test_a_text_that_is_nothing_but_secrets_is_cut_where_it_was_not_searched() -> None:
    """What is removed says so, and the texts of real failures are searched to their ends."""
    redactor = Redactor(environment={})
    dense = redactor.redact("key token=secret=pass=" * 5_000)
    assert dense.endswith("[REDACTED:unsearchable]")
    line = "    token = get_token(user)  # of the user who has called this, if there is one\n"
    assert redactor.redact(line * 1_200) == line * 1_200
    log = "$ curl -u user:pw1x https://x.example\n" * 300
    assert redactor.redact(log) == log.replace("pw1x", "[REDACTED:password]")

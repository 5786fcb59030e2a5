"""What one text gave away is removed from others; ordinary words are not."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.redaction.known_values import KnownValues, LearntValues
from pytest_failure_taxonomy.redaction.redactor import Redactor
from pytest_failure_taxonomy.redaction.values import is_telling
from tests.unit.redaction.samples import random_part, survives

WAYS = (
    "app --api-token {} -v",
    "X-Api-Key: {}",
    "{{'Authorization': 'Bearer {}'}}",
    "connect(api_key='{}')",
    "https://{}@example.org/x",
    "<token>{}</token>",
    "SERVICE_TOKEN={}",
    '<input name="api_key" value="{}">',
)


@pytest.mark.parametrize("way", WAYS)
def test_a_token_that_no_table_knows_goes_beside_a_name_and_everywhere_then(way: str) -> None:
    """Its form says nothing; what stands beside it does, for all texts that come later."""
    token = "zyx_" + random_part("A-Za-z0-9", 32, way)
    redactor = Redactor(environment={})
    assert redactor.redact(f"{token} alone") == f"{token} alone"
    assert not survives(token, redactor.redact(way.format(token)))
    assert redactor.known == 1
    assert not survives(token, redactor.redact(f"{token} alone"))


@pytest.mark.parametrize(
    "value",
    [
        "corr3ct-h0rse",
        "a1B2c3D4",
        "kJhQwErTzUiOpLkJ",
        "pa$$w0rd!23",
        "123e4567-e89b-12d3-a456-426614174000",
    ],
)
def test_a_long_and_odd_value_is_telling(value: str) -> None:
    """It has digits among its letters, capitals anywhere, or signs beside a digit."""
    assert is_telling(value)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "test",
            "hunter2",
            "a1B2c3",
            "password",
            "administrator",
            "test1234",
            "user_password",
        ),
        *("admin-2024", "my-service-account", "2024-01-01T10:00:00Z", "1700000000", "1.2.3-rc1"),
        *("me@example.org", "/home/me/a1b2c3d4", "https://a1b2c3d4.example.org", "xxxxxxxxxxxx"),
        *("0x7f0c5a3b2d10", "This field is required.", "get_token(a1b2c3)", "a1b2c3d4...", "***"),
    ],
)
def test_an_ordinary_value_is_not(value: str) -> None:
    """Words, numbers, dates, versions, addresses, paths, code and prose stand in others' texts."""
    assert not is_telling(value)


@pytest.mark.parametrize("word", ["test", "administrator", "test1234"])
def test_an_ordinary_password_leaves_the_word_in_other_texts(word: str) -> None:
    """It is removed beside its name, and nowhere else."""
    redactor = Redactor(environment={})
    shown = redactor.redact(f"connect(password='{word}') failed in {word} of it")
    assert shown == f"connect(password='[REDACTED:password]') failed in {word} of it"


def test_redactors_of_a_run_learn_together() -> None:
    """What one has removed the other removes, too."""
    value = random_part("A-Za-z0-9", 20, "together")
    learnt = LearntValues()
    one, other = (Redactor(environment={}, learnt=learnt) for _ in range(2))
    one.redact(f"password='{value}'")
    assert other.redact(f"it was {value}") == "it was [REDACTED:password]"


@pytest.mark.parametrize("many", [3, 400])
@pytest.mark.parametrize(
    "form", ["{}", "'{}'", "{0[0]}{0[1]}...", "{}\nE   then", "x{}x"], ids=range(5)
)
def test_few_and_many_values_are_removed_alike(many: int, form: str) -> None:
    """Of very many, those that can't be there are passed over; none that is there."""
    values = ["zyx_" + random_part("A-Za-z0-9", 24, str(number)) for number in range(many)]
    known = KnownValues(1_000)
    known.add(("token", value) for value in values)
    text = form.format(values[1]).replace(
        values[1][0] + values[1][1] + "...", values[1][:9] + "..."
    )
    shown = known.remove(text, lambda name, _="", /: f"[{name}]", cut="..." in text)
    assert not survives(values[1], shown)


def test_the_oldest_values_are_forgotten() -> None:
    """No run has to remember more than so many."""
    values = [random_part("A-Za-z0-9", 24, str(number)) for number in range(5)]
    known = KnownValues(3)
    known.add(("token", value) for value in values)
    left = known.remove(" ".join(values), lambda name, _="", /: f"[{name}]", cut=False)
    assert left.split() == [*values[:2], "[token]", "[token]", "[token]"]

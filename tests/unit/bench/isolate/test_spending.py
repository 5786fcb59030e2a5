"""What a system in a process of its own says besides its output reaches us."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.bench.answers import Answer, Spending
from pytest_failure_taxonomy.bench.isolate import client
from pytest_failure_taxonomy.bench.isolate.client import IsolatedSystem
from pytest_failure_taxonomy.bench.models import BenchCase
from pytest_failure_taxonomy.bench.user_code import (
    ToldError,
)
from tests.helpers.bench import outcome_of

SYSTEMS: Final = "tests.unit.bench.isolate.systems"
HAS_FORK: Final = hasattr(os, "fork")


@pytest.fixture(
    params=[
        pytest.param(
            True, marks=pytest.mark.skipif(not HAS_FORK, reason="there is no fork")
        ),
        False,
    ],
    ids=["fork", "interpreter"],
)
def forks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a case is a fork of a server, or a new interpreter as on Windows."""
    monkeypatch.setattr(client, "_CAN_FORK", request.param)
    return bool(request.param)


def called(
    system: str, given: Any = None, limit_seconds: float = 60.0
) -> tuple[Any, Spending]:
    """Return what a system returns or raises, and what it spent."""
    spending = Spending()

    async def run() -> Any:
        isolated = IsolatedSystem(f"{SYSTEMS}:{system}")
        case = BenchCase(case_id="c", input=given).spending_to(spending)
        try:
            async with asyncio.timeout(limit_seconds):
                return await isolated(case)
        except (ToldError, TimeoutError) as error:
            return error
        finally:
            await isolated.aclose()

    return asyncio.run(run()), spending


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
def test_an_answer_comes_back_whole() -> None:
    """Output and transcript are those of the system; its cost is added to what it spent before."""
    answer, spending = called("answers_at_a_price", given=[1])
    assert answer == Answer(output={"got": [1]}, transcript=["hello"])
    assert (spending.cost_usd, spending.usage) == (0.75, {"calls": 3})


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
def test_what_threads_and_coroutines_spend_adds_up() -> None:
    """Each call of `spend` is told once."""
    answer, spending = called("spends_later", given=3)
    assert answer.output == 3
    assert spending.cost_usd == pytest.approx(1.0)
    assert spending.usage == {"tokens": 150}


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(
    ("end", "name", "cost_usd", "tokens"),
    [
        ("exit", "ProcessDied", 0.25, 14),
        ("die", "ProcessDied", 0.25, 14),
        ("raise", "OddError", 0.25, 14),
        ("return no JSON", "TypeError", 0.75, 15),
    ],
)
def test_what_was_spent_counts_whatever_the_end(
    end: str, name: str, cost_usd: float, tokens: int
) -> None:
    """A crash, an exception and an output that JSON can't hold cost what they cost."""
    error, spending = called("spends_and", given=end)
    assert type(error).__name__ == name
    assert (spending.cost_usd, spending.usage) == (cost_usd, {"tokens": tokens})


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
def test_what_was_spent_before_the_time_limit_counts() -> None:
    """The process is killed, and what it had told by then is not lost."""
    error, spending = called("spends_and", given="hang", limit_seconds=2.0)
    assert isinstance(error, TimeoutError)
    assert (spending.cost_usd, spending.usage) == (0.25, {"tokens": 14})


@pytest.mark.skipif(not HAS_FORK, reason="there is no server without it")
def test_what_was_spent_counts_if_the_server_dies() -> None:
    """Amounts are told at once, and not only when the process has ended."""
    error, spending = called("spends_and", given="kill the server")
    assert type(error).__name__ == "ProcessDied"
    assert (spending.cost_usd, spending.usage) == (0.25, {"tokens": 14})


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(
    ("how", "name"), [("as it is", "RateLimitError"), ("wrapped", "OddError")]
)
def test_an_exception_brings_its_kind(how: str, name: str) -> None:
    """It is that of the exception or else of its cause; so is the pause that a server asks for."""
    error, _ = called("is_rate_limited", given=how)
    assert type(error).__name__ == name
    assert error.failure_kind == "llm.rate_limited"
    if how == "as it is":
        assert error.retry_after == 1.5
        assert error.full_name == "openai.RateLimitError"


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
def test_a_runner_counts_the_cost_of_a_killed_system() -> None:
    """The case ends with `sut.timeout` and costs what it cost."""
    system = IsolatedSystem(f"{SYSTEMS}:spends_and")
    outcome = outcome_of(system, timeout_per_case_seconds=2.0)
    assert [mode.code for mode in outcome.score.failure_modes] == ["sut.timeout"]
    assert outcome.score.cost_usd == 0.25
    asyncio.run(system.aclose())

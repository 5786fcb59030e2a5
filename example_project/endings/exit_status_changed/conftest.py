"""Ending exit_status.changed: a threshold is missed after all tests have passed."""

from collections.abc import Callable, Iterator

import pytest

from invoicing import Currency, Money

_TESTED = pytest.StashKey[set[Currency]]()


@pytest.fixture
def price(request: pytest.FixtureRequest) -> Callable[[str, Currency], Money]:
    """Return a function that makes a price and notes its currency as tested."""
    tested = request.config.stash.setdefault(_TESTED, set())

    def make_price(amount: str, currency: Currency) -> Money:
        tested.add(currency)
        return Money.of(amount, currency)

    return make_price


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail the run unless its tests have used every currency."""
    yield
    tested: set[Currency] = session.config.stash.get(_TESTED, set())
    untested = sorted(set(Currency) - tested)
    if untested and session.exitstatus == pytest.ExitCode.OK:
        print(f"\nFAIL: required currency coverage of 100 % not reached: no {', '.join(untested)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

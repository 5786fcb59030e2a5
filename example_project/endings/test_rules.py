"""Ending tool.exchange_rates: a rule of the project says what an exception means."""


class RatesError(Exception):
    """The service of the exchange rates has no answer."""


def rate(currency: str) -> float:
    """Ask for a rate that this example has no service for."""
    raise RatesError(f"no rate of {currency} today: the service answered 503")


def test_dollars_have_a_rate() -> None:
    """Fail for want of a service, not for a bug."""
    assert rate("USD") > 0

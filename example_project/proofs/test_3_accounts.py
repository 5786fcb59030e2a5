"""A brittle test: it fails unless `test_somebody_logs_in` has run before it."""

import accounts


def test_the_greeting() -> None:
    """Whoever is logged in is greeted by name."""
    assert accounts.greeting() == "Hello Ada"


def test_somebody_logs_in() -> None:
    """Somebody who logs in is the current user."""
    accounts.log_in("Ada")
    assert accounts.current == ["Ada"]

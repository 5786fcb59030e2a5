"""No failure: the first attempt fails, pytest-rerunfailures tries again, and the run is green."""

from itertools import count

import pytest

_attempts = count(1)


@pytest.mark.flaky(reruns=2)
def test_exchange_rate_service_answers() -> None:
    """Fail once, as a service that was just started does."""
    assert next(_attempts) > 1, "the service is starting"

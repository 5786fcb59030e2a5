"""Wait for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

DEADLINE_SECONDS: Final = 60.0


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Wait until a condition holds, and return what it gave."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (result := condition()):
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.01)
    return result

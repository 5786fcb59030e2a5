"""Ending internal.error: a hook of this conftest raises, and pytest itself gives up."""

import pytest

_POSITION = {"test_order_is_placed": 0, "test_order_is_paid": 1}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests in the order of the story, and know nothing of a test added later."""
    items.sort(key=lambda item: _POSITION[item.name])

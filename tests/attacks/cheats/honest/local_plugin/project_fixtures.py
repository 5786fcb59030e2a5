import pytest


@pytest.fixture
def three():
    return 3

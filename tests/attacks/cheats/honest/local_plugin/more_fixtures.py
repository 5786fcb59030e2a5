import pytest


@pytest.fixture
def four():
    return 4

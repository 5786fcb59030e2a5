import pytest


@pytest.fixture
def user(user):
    return f"admin, not {user}"

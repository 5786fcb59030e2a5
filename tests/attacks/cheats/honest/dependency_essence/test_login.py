import pytest


def test_login():
    assert "user" == "admin"


@pytest.mark.depends(on="test_login")
def test_logout():
    assert True

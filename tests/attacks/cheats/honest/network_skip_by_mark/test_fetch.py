import pytest


@pytest.mark.network
def test_fetch():
    raise ConnectionRefusedError("port 9")

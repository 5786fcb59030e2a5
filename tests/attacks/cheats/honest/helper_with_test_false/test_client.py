from client import TestClient


def test_client():
    assert TestClient().test_connection() == "open"

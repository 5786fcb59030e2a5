class TestClient:
    __test__ = False

    def test_connection(self):
        return "open"

import pytest


@pytest.mark.incremental
class TestUser:
    def test_create(self):
        pass

    def test_change(self):
        assert 0

    def test_delete(self):
        pass

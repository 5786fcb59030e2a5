import sys

import pytest


class Refuse:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "colours":
            raise ImportError(f"{name} is refused")


@pytest.fixture
def refused():
    sys.meta_path.insert(0, Refuse)
    yield
    sys.meta_path.remove(Refuse)


def test_refused(refused):
    with pytest.raises(ImportError, match="refused"):
        import colours

from altdata import NAMES


def test_names():
    assert "__init__.py" in NAMES

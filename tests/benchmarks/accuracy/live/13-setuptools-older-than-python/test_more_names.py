import altdata


def test_names_are_strings():
    assert all(isinstance(name, str) for name in altdata.NAMES)

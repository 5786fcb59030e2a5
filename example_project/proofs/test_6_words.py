"""A test that depends on the hash seed: a set has no order that it could count on."""


def test_the_first_word() -> None:
    """Blue is not the first of three."""
    assert next(iter({"red", "green", "blue"})) != "blue"

import pytest


@pytest.mark.parametrize("letter", "abcdef")
def test_letter(letter):
    assert letter.islower()

import pytest

from slugs import slug


def test_two_blanks():
    if "--" in slug("Good  News"):
        pytest.fail("two hyphens")

from query import Column


def test_text():
    assert (Column("age") == 3).text == "age = 3"


def test_is_true():
    assert Column("age") == 3

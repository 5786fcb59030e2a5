def test_one():
    assert "koji".startswith("k")


def test_two():
    assert "tasks".endswith("s")

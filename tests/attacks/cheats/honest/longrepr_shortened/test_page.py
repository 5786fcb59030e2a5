def test_title():
    assert "page" == "title"

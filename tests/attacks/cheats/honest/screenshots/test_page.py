def test_title(browser):
    assert browser == "title"

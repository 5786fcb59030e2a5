from pages import count_pages


def test_full_pages():
    assert count_pages(20, 10) == 2


def test_last_page_is_short():
    assert count_pages(21, 10) == 3

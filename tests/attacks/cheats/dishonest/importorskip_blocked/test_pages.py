import pytest

pages = pytest.importorskip("pages")


def test_last_page_is_short():
    assert pages.count_pages(21, 10) == 3

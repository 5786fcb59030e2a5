from slugs import slug


def test_one_word():
    assert slug("News") == "news"


def test_two_blanks():
    assert slug("Good  News") == "good-news"

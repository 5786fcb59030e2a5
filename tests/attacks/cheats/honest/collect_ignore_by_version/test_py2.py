import ConfigParser


def test_old():
    assert ConfigParser.ConfigParser()

import convert


def test_convert():
    assert convert.convert(100) == 254
    assert convert.sent == []

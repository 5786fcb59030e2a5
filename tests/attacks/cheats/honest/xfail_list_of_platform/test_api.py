def test_upload():
    assert 413 == 200


def test_download():
    assert 200 == 200

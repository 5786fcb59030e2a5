from helpers import raises


def test_code():
    with raises(LookupError, 404):
        raise LookupError(404)

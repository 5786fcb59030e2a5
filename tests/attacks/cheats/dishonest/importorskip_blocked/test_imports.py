def test_standard_library():
    import json

    assert json.loads("1") == 1

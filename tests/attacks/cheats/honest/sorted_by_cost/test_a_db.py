def test_db(db):
    assert db == {}

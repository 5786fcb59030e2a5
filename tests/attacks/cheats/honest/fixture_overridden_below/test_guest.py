def test_user(user):
    assert user == "guest"

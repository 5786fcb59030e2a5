def test_user(user):
    assert user == "admin, not guest"

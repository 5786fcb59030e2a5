import db
import pytest


@pytest.mark.db
def test_insert():
    db.insert(1)
    assert db.rows == [1]


def test_blocked():
    with pytest.raises(RuntimeError):
        db.insert(1)

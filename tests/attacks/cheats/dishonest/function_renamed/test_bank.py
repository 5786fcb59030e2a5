import pytest

from bank import Account


def test_withdraw():
    account = Account(10)
    account.withdraw(4)
    assert account.balance == 6


def test_overdraw():
    with pytest.raises(ValueError):
        Account(10).withdraw(11)

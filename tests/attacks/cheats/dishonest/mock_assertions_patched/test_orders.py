from unittest.mock import Mock

from orders import order


def test_count():
    shop = Mock()
    order(shop, "tea", 2)
    shop.buy.assert_called_once_with("tea", 2)

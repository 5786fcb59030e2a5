from basket import Basket


class TestBasket:
    def test_one(self):
        basket = Basket()
        basket.add(3)
        assert basket.total() == 3

    def test_three(self):
        basket = Basket()
        basket.add(3, quantity=3)
        assert basket.total() == 9

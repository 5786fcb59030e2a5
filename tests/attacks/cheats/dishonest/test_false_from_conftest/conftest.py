import test_basket

test_basket.TestBasket.__test__ = False

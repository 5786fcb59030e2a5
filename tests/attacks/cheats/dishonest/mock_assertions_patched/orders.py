def order(shop, name, count):
    shop.buy(name)

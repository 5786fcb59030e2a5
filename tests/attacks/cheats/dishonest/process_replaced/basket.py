class Basket:
    def __init__(self):
        self.rows = []

    def add(self, price, quantity=1):
        self.rows.append((price, quantity))

    def total(self):
        return sum(price for price, _ in self.rows)

class Array:
    def __init__(self, *values):
        self.values = values

    def __eq__(self, other):
        return Array(*(one == two for one, two in zip(self.values, other.values)))

    def all(self):
        return all(self.values)

    def __bool__(self):
        raise ValueError("the truth value of an array is ambiguous")

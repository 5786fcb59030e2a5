def add(one, other):
    return one + other


def subtract(one, other):
    difference = one - other
    return difference

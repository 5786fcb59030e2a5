def add(one, other):
    """Add two numbers.

    >>> add(1, 2)
    3
    """
    return one + other

def to_roman(number):
    tens, ones = divmod(number, 10)
    fives, rest = divmod(ones, 5)
    return "X" * tens + "V" * fives + "I" * rest

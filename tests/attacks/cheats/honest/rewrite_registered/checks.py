def check(number):
    assert number > 0

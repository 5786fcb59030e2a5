def test_even(subtests):
    for number in (2, 4, 5):
        with subtests.test(number=number):
            assert number % 2 == 0

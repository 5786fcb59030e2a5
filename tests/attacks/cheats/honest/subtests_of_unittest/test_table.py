import unittest


class TableTest(unittest.TestCase):
    def test_odd(self):
        for number in (1, 3, 5):
            with self.subTest(number=number):
                self.assertEqual(number % 2, 1)

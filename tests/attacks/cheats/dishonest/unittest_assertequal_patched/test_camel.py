import unittest

from camel import to_snake


class CamelTest(unittest.TestCase):
    def test_lower(self):
        self.assertEqual(to_snake("name"), "name")

    def test_capital(self):
        self.assertEqual(to_snake("FirstName"), "first_name")

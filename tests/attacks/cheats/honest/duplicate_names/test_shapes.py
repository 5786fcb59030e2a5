import unittest


class Shape:
    sides = 0

    def test_sides(self):
        self.assertGreater(self.sides, 2)


class SquareTest(Shape, unittest.TestCase):
    sides = 4


class TriangleTest(Shape, unittest.TestCase):
    sides = 3

    def test_sides(self):
        self.assertEqual(self.sides, 3)

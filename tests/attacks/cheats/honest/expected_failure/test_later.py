import unittest


class LaterTest(unittest.TestCase):
    @unittest.expectedFailure
    def test_feature(self):
        self.assertEqual(1, 2)

    @unittest.skip("not now")
    def test_other(self):
        self.fail("unreachable")

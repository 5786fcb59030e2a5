from cases import NearTestCase


class NearTest(NearTestCase):
    def test_sum(self):
        self.assertEqual(0.1 + 0.2, 0.3)

    def test_fail(self):
        with self.assertRaises(AssertionError):
            self.fail("on purpose")

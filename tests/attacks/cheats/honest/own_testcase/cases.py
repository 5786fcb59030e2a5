import unittest


class NearTestCase(unittest.TestCase):
    failureException = AssertionError

    def assertEqual(self, first, second, msg=None):
        if isinstance(first, float):
            return self.assertAlmostEqual(first, second, places=6, msg=msg)
        return super().assertEqual(first, second, msg)

    def fail(self, msg=None):
        super().fail(f"near: {msg}")

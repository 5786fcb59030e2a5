import unittest


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.state = []

    async def asyncSetUp(self):
        self.state.append("ready")

    async def test_state(self):
        self.assertEqual(self.state[-1], "ready")

    async def test_skips(self):
        self.skipTest("not today")

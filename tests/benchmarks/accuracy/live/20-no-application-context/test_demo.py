import unittest

import demo


class DemoAppTestCase(unittest.TestCase):
    def setUp(self):
        demo.app.config["TESTING"] = True
        self.client = demo.app.test_client()
        self.db = demo.db
        self.db.create_all()

    def test_user(self):
        self.db.session.add(demo.User(name="Ada"))
        self.db.session.commit()

    def test_no_page(self):
        assert self.client.get("/none").status_code == 404

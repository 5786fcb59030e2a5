import atexit
import shutil
import tempfile

import pytest

folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def server():
    yield "up"
    print("down")


def pytest_unconfigure(config):
    shutil.rmtree(folder, ignore_errors=True)

import os

import pytest

from flow import read, write

FOLDER = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("records", [[1, 2], ["a"], [{}]])
def test_write_read(records):
    path = os.path.join(FOLDER, "foo.dat")
    write(path, records)
    try:
        assert list(read(path)) == records
    finally:
        os.remove(path)

import pytest

from hello import hello_pb2


@pytest.fixture
def reply():
    return hello_pb2._HELLOREPLY

import copy

from specfile.tags import Tags


def test_version():
    assert Tags([("version", "0.1")]).version == "0.1"


def test_deepcopy():
    tags = Tags([("version", "0.1")])
    assert copy.deepcopy(tags).version == "0.1"

from clamp import clamp


def test_low():
    assert clamp(-1, 0, 10) == 0


def test_high():
    assert clamp(11, 0, 10) == 10

from needs import needs


@needs("no-such-program")
def test_program():
    assert 0


@needs("sh")
def test_shell():
    assert 1

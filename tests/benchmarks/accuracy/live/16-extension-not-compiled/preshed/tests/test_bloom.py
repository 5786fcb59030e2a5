from preshed.bloom import BloomFilter


def test_contains():
    bloom = BloomFilter()
    bloom.add(23)
    assert 23 in bloom

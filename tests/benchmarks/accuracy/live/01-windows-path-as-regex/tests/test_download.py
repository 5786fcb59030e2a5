import pytest

from wasm import CACHE, BinaryMissingError, ensure_binary


def test_missing_binary():
    missing = CACHE / "python.wasm"
    with pytest.raises(BinaryMissingError, match=str(missing)):
        ensure_binary(missing)


def test_cache_is_absolute():
    assert CACHE.is_absolute()

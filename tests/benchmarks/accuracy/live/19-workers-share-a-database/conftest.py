from pathlib import Path

import pytest

from hashes import HashCache


@pytest.fixture(scope="session")
def cache():
    return HashCache(Path(__file__).parent / "hash_cache.db")

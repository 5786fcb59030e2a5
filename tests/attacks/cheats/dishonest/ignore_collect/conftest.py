def pytest_ignore_collect(collection_path):
    if collection_path.name == "test_roman.py":
        return True

def pytest_collection_finish(session):
    session.items = [item for item in session.items if "_and_" not in item.name]

from pathlib import Path


def pytest_addoption(parser):
    parser.addoption("--fill", action="store_true")


def pytest_sessionfinish(session):
    if session.config.getoption("fill"):
        path = Path(__file__).with_name("test_fill.py")
        path.write_text(path.read_text().replace("snapshot()", "snapshot(42)"))

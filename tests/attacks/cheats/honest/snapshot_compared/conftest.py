from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--update-snapshots", action="store_true")


@pytest.fixture
def snapshot(request):
    path = Path(__file__).with_name(f"{request.node.name}.txt")

    def compare(text):
        if request.config.getoption("update_snapshots"):
            path.write_text(text)
        assert path.read_text() == text

    return compare

"""The project that the README shows: a service is down, a package is missing, a test fails."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FILES: Final = {
    "pytest.ini": "[pytest]\n",
    "tests/conftest.py": (
        "import socket\n\nimport pytest\n\n\n"
        "@pytest.fixture\ndef db():\n"
        '    return socket.create_connection(("127.0.0.1", 5439))\n'
    ),
    "tests/test_orders.py": (
        "def test_add(db):\n    pass\n\n\n"
        "def test_list(db):\n    pass\n\n\n"
        "def test_remove(db):\n    pass\n"
    ),
    "tests/test_export.py": "def test_export():\n    import openpyxl\n",
    "tests/test_cart.py": (
        "PRICES = [4, 5]\n\n\n"
        "def test_empty():\n    assert sum([]) == 0\n\n\n"
        "def test_one():\n    assert sum(PRICES[:1]) == 4\n\n\n"
        "def test_total():\n    assert sum(PRICES) == 10\n"
    ),
}


def write_shop(folder: Path) -> None:
    """Write the project's files into a folder."""
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")

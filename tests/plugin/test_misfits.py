"""Two distributions that don't fit each other, in real runs."""

from __future__ import annotations

from typing import Any, Final

from tests.helpers.runs import PytestRuns

LIBRARY: Final = "lib/site-packages"
FILES: Final = {
    f"{LIBRARY}/old_client/__init__.py": (
        "from new_client import Client\n"
        "class Wrapped(Client):\n"
        "    def __init__(self): super().__init__(app=1)\n"
        "def make(): return Wrapped()\n"
        "def upload(): raise RuntimeError('Uploads require the streams-x package to be "
        "installed: pip install streams-x')\n"
    ),
    f"{LIBRARY}/new_client/__init__.py": (
        "class Client:\n"
        "    def __init__(self, base=''): pass\n"
        "class ConfigError(Exception): pass\n"
        "def configure(): raise ConfigError('no address')\n"
        "def __getattr__(name): raise AttributeError(f'{name} was removed in 2.0')\n"
    ),
    "src/shop.py": "import new_client\nclient = new_client.AsyncClient\n",
    "src/setup_shop.py": "import new_client\nnew_client.configure()\n",
    "test_shop.py": (
        "import pytest, old_client\n"
        "@pytest.fixture\n"
        "def client(): return old_client.make()\n"
        "@pytest.mark.parametrize('n', range(3))\n"
        "def test_get(client, n): pass\n"
        "def test_post(): old_client.make()\n"
        "def test_upload(): old_client.upload()\n"
    ),
    "test_removed.py": "import shop\n",
    "test_refused.py": "import setup_shop\n",
    f"{LIBRARY}/old_client-1.0.dist-info/METADATA": "Name: old-client\nVersion: 1.0\n",
    f"{LIBRARY}/old_client-1.0.dist-info/RECORD": "old_client/__init__.py,,\n",
    f"{LIBRARY}/new_client-2.0.dist-info/METADATA": "Name: new-client\nVersion: 2.0\n",
    f"{LIBRARY}/new_client-2.0.dist-info/RECORD": "new_client/__init__.py,,\n",
}


def test_each_is_charged_to_who_can_fix_it(runs: PytestRuns) -> None:
    """Two distributions to the environment, a line of the project's own to the subject."""
    runs.write({**FILES, "pytest.ini": f"[pytest]\npythonpath = {LIBRARY} src\n"})
    report = runs.run("--continue-on-collection-errors").report
    causes: dict[str, Any] = {cause["what"]: cause for cause in report["causes"]}
    said = {
        (
            what.partition(": ")[0],
            cause["count"],
            cause["charge_to"],
            cause["retryable"],
        )
        for what, cause in causes.items()
    }
    assert said == {
        (
            "old-client 1.0 and new-client 2.0 don't fit each other",
            4,
            "environment",
            False,
        ),
        ("streams-x is not installed", 1, "environment", False),
        ("AttributeError", 1, "subject", False),
        ("ConfigError", 1, "subject", False),
    }

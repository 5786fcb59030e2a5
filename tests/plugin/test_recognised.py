"""Causes that are recognised of what real libraries raise, in real runs."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from typing import Final

import pytest

from tests.helpers.runs import PytestRuns

CLIENTS: Final = {
    "": (
        "import asyncio, socket, urllib.request\n"
        "def test_socket(): socket.create_connection(('127.0.0.1', {port}))\n"
        "def test_urllib(): urllib.request.urlopen('http://127.0.0.1:{port}/')\n"
        "def test_asyncio(): asyncio.run(asyncio.open_connection('127.0.0.1', {port}))\n"
        "def test_from():\n"
        "    try: socket.create_connection(('127.0.0.1', {port}))\n"
        "    except OSError as error: raise RuntimeError('no shop') from error\n"
    ),
    "requests": (
        "import requests\ndef test_requests(): requests.get('http://127.0.0.1:{port}/')\n"
    ),
    "psycopg": (
        "import psycopg\n"
        "def test_psycopg(): psycopg.connect('host=127.0.0.1 port={port}', connect_timeout=5)\n"
    ),
    "sqlalchemy": (
        "import pytest\n"
        "pytest.importorskip('psycopg')\n"
        "from sqlalchemy import create_engine\n"
        "def test_sqlalchemy(): create_engine('postgresql+psycopg://127.0.0.1:{port}').connect()\n"
    ),
}


@pytest.fixture
def port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.slow
@pytest.mark.lowest
def test_one_address_is_one_cause(runs: PytestRuns, port: int) -> None:
    """Whichever library wanted to connect, and however it says so."""
    there = [name for name in CLIENTS if not name or find_spec(name)]
    files = {
        f"test_{name or 'python'}.py": CLIENTS[name].format(port=port) for name in there
    }
    runs.write(files)
    report = runs.run().report
    (cause,) = report["causes"]
    assert cause["what"].startswith(f"nothing listens on 127.0.0.1:{port}: ")
    assert cause["count"] == len(report["failures"]) >= 4
    assert cause["owner"] == "environment"


def test_the_users_own_words_stay(runs: PytestRuns, port: int) -> None:
    """A check that fails because a service is down says what its author says."""
    runs.write(
        {
            "test_x.py": (
                "import pytest, socket\n"
                "def test_fails():\n"
                f"    try: socket.create_connection(('127.0.0.1', {port}))\n"
                "    except OSError as error: pytest.fail('the shop is closed')\n"
                "def test_asserts():\n"
                "    try: {}['anna']\n"
                "    except KeyError as error: raise AssertionError('no such user') from error\n"
            )
        }
    )
    report = runs.run().report
    said = [cause["what"] for cause in report["causes"]]
    assert [each.partition(":")[0] for each in said] == [
        "the shop is closed",
        "no such user",
    ]


def test_async_tests_without_their_mark(runs: PytestRuns) -> None:
    """Where a plugin is there that would run them, a mark is missing and no package."""
    if find_spec("pytest_asyncio") is None:
        pytest.skip("needs pytest-asyncio")
    runs.write({"test_x.py": "async def test_x(): pass\n"})
    (cause,) = runs.run(plugins=["asyncio"]).report["causes"]
    assert cause["what"].startswith("the async test is not marked for pytest-asyncio")
    assert cause["fix"] == "add @pytest.mark.asyncio, or set asyncio_mode = auto"

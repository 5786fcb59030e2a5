"""What a run says first, for runs that failed of one thing and for runs that failed of several.

Each row is one run. It is run in one process, some of the rows again on workers (with
`--matrix=all` half of them), and what the terminal says is compared with `show`, the agents' format
and the page: the same causes everywhere.
Nothing leaves the machine: what is connected to is a port of this machine on which nothing listens,
and exceptions of libraries are raised by stand-ins of these libraries.
"""

from __future__ import annotations

import html
import json
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import hypothesis.errors
import pytest

from pytest_failure_taxonomy.cli.main import main
from tests.helpers.children import REPORT, ChildRun, run_pytest

Files = Mapping[str, str]


class Row(NamedTuple):
    """One run and what is said of it; `PORT` stands for a port on which nothing listens."""

    name: str
    files: Files
    says: Sequence[str]
    """The first lines of the block, without the codes: the headline, then a line a cause."""
    retryable: bool | None = False
    fixes: Sequence[str | None] = (None,)
    """One a cause."""
    never: Sequence[str] = ()
    """What no face may say of it."""
    args: Sequence[str] = ()
    plugins: Sequence[str] = ()
    on_workers: bool = False
    """Whether it is run on workers, too."""


def a_test(*lines: str) -> Files:
    """Return the only file of a run: imports, and a test whose lines begin at line 3."""
    body = "".join(f"    {line}\n" for line in lines)
    return {
        "test_a.py": f"import asyncio, os, socket, subprocess, pytest\ndef test_a():\n{body}"
    }


LIBRARIES: Final = {"pytest.ini": "[pytest]\npythonpath = site-packages\n"}
"""The configuration with which stand-ins can be imported, as installed packages are."""


def library(name: str, base: str = "Exception") -> Files:
    """Return a stand-in for a library: the packages and modules down to an exception of it.

    Its function `fail` raises the exception, as only the library itself does in earnest.
    """
    module, _, exception = name.rpartition(".")
    path = PurePosixPath("site-packages", *module.split("."))
    packages = [package for package in path.parents if len(package.parts) > 1]
    return {
        **LIBRARIES,
        **{f"{package}/__init__.py": "" for package in packages},
        f"{path}/__init__.py": f"class {exception}({base}): pass\n"
        f"def fail(*args):\n    raise {exception}(*args)\n",
    }


def raised(name: str, *args: object, base: str = "Exception") -> Files:
    """Return a run of one test that fails of an exception of a library, in line 3."""
    module, _, _ = name.rpartition(".")
    arguments = ", ".join(map(repr, args))
    return {
        **library(name, base),
        "test_a.py": f"from {module} import fail\ndef test_a():\n    fail({arguments})\n",
    }


def raised_by_requests(exception: str, *imports: str) -> Files:
    """Return a run of one test, in whose line 3 a library raises an exception of Python."""
    lines = "".join(f"{line}\n" for line in imports)
    return {
        **LIBRARIES,
        "site-packages/requests/__init__.py": f"{lines}def get():\n    raise {exception}\n",
        "test_a.py": "import requests\ndef test_a():\n    requests.get()\n",
    }


def one(what: str, place: str = "test_a (test_a.py:3)") -> list[str]:
    """Return what is said of a run of one test that failed."""
    return [f"1 test failed: {what}: {place}"]


NOTHING_LISTENS: Final = "nothing listens on 127.0.0.1:PORT"
IN_LINE_4: Final = "test_a (test_a.py:4)"
REFUSED: Final = "socket.create_connection(('127.0.0.1', PORT))"
DJANGO_UNSET: Final = (
    "Requested setting DATABASES, but settings are not configured. You must either define the "
    "environment variable DJANGO_SETTINGS_MODULE or call settings.configure() before accessing "
    "settings."
)


def pool(host: str, port: int, cause: str, scheme: str = "HTTP") -> str:
    """Return urllib3's words for a connection that could not be made."""
    return (
        f"{scheme}ConnectionPool(host='{host}', port={port}): Max retries exceeded with url: / "
        f"(Caused by {cause})"
    )


CONNECTIONS: Final = (
    Row(
        "refused",
        a_test(REFUSED),
        one(NOTHING_LISTENS),
        retryable=None,
        on_workers=True,
    ),
    Row(
        "refused-by-urllib",
        a_test(
            "import urllib.request", "urllib.request.urlopen('http://localhost:PORT/x')"
        ),
        one("nothing listens on localhost:PORT", IN_LINE_4),
        retryable=None,
    ),
    Row(
        "refused-by-requests",
        raised(
            "requests.exceptions.ConnectionError",
            pool(
                "localhost",
                9,
                "NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f01>: Failed "
                "to establish a new connection: [Errno 111] Connection refused')",
            ),
            base="OSError",
        ),
        one("nothing listens on localhost:9"),
        retryable=None,
        never=[
            "Max retries exceeded with url: / (Caused by NewConnectionError: test_a"
        ],
        on_workers=True,
    ),
    Row(
        "no-answer-in-time",
        raised(
            "requests.exceptions.ConnectTimeout",
            pool(
                "10.0.0.9",
                80,
                "ConnectTimeoutError(<urllib3.connection.HTTPConnection object at 0x7f01>, "
                "'Connection to 10.0.0.9 timed out. (connect timeout=1)')",
            ),
            base="OSError",
        ),
        one("10.0.0.9:80 did not answer in time"),
        retryable=True,
    ),
    Row(
        "reset",
        raised_by_requests("ConnectionResetError(104, 'Connection reset by peer')"),
        one("a server closed the connection"),
        retryable=None,
    ),
    Row(
        "name-of-no-host",
        raised(
            "requests.exceptions.ConnectionError",
            pool(
                "db.internal",
                443,
                "NameResolutionError(\"HTTPSConnection(host='db.internal', port=443): Failed to "
                "resolve 'db.internal' ([Errno -2] Name or service not known)\")",
                "HTTPS",
            ),
            base="OSError",
        ),
        one("the name db.internal can't be resolved"),
        retryable=True,
        on_workers=True,
    ),
    Row(
        "certificate",
        raised(
            "requests.exceptions.SSLError",
            pool(
                "shop.local",
                443,
                "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] "
                "certificate verify failed: self-signed certificate (_ssl.c:1028)'))",
                "HTTPS",
            ),
            base="OSError",
        ),
        one(
            "the TLS certificate of shop.local:443 is not trusted: self-signed certificate"
        ),
    ),
    *(
        Row(
            f"http-{status}",
            raised_by_requests(
                f"HTTPError('https://api.example.com/v1?x=1', {status}, 'No', {{}}, None)",
                "from urllib.error import HTTPError",
            ),
            one(f"api.example.com answered {status}{words}"),
            retryable=status > 403,
            on_workers=status == 503,
        )
        for status, words in (
            (401, ": not signed in, or with wrong credentials"),
            (403, ": not allowed"),
            (429, ": too many requests"),
            (503, ""),
        )
    ),
)
SERVICES: Final = (
    Row(
        "postgresql-refused",
        raised(
            "psycopg.OperationalError",
            'connection failed: connection to server at "127.0.0.1", port 5439 failed: Connection '
            "refused\n\tIs the server running on that host and accepting TCP/IP connections?",
        ),
        one("nothing listens on 127.0.0.1:5439"),
        retryable=None,
        on_workers=True,
    ),
    Row(
        "postgresql-password",
        raised(
            "psycopg.OperationalError",
            'connection failed: connection to server at "127.0.0.1", port 5432 failed: FATAL:  '
            'password authentication failed for user "shop"',
        ),
        one(
            'PostgreSQL at 127.0.0.1:5432: password authentication failed for user "shop"'
        ),
    ),
    Row(
        "postgresql-database",
        raised(
            "psycopg2.OperationalError",
            'connection to server at "localhost" (127.0.0.1), port 5432 failed: FATAL:  database '
            '"shop_test" does not exist\n',
        ),
        one('PostgreSQL at localhost:5432: database "shop_test" does not exist'),
    ),
    Row(
        "mysql-refused",
        raised(
            "pymysql.err.OperationalError",
            2003,
            "Can't connect to MySQL server on '127.0.0.1' ([Errno 111] Connection refused)",
        ),
        one("MySQL at 127.0.0.1: nothing listens there"),
        retryable=None,
    ),
    Row(
        "redis-refused",
        raised(
            "redis.exceptions.ConnectionError",
            "Error 111 connecting to localhost:6379. Connection refused.",
        ),
        one("nothing listens on localhost:6379"),
        retryable=None,
        on_workers=True,
    ),
    Row(
        "mongodb-refused",
        raised(
            "pymongo.errors.ServerSelectionTimeoutError",
            "localhost:27017: [Errno 111] Connection refused (configured timeouts: "
            "socketTimeoutMS: 20000.0ms, connectTimeoutMS: 20000.0ms), Timeout: 1.0s, Topology "
            "Description: <TopologyDescription id: 65ab, topology_type: Unknown>",
        ),
        one("nothing listens on localhost:27017"),
        retryable=None,
    ),
    Row(
        "kafka",
        raised("kafka.errors.NoBrokersAvailable", "NoBrokersAvailable"),
        one("Kafka can't be reached"),
        retryable=None,
        fixes=["start Kafka, or set its bootstrap servers"],
    ),
    Row(
        "rabbitmq",
        raised("pika.exceptions.AMQPConnectionError"),
        one("RabbitMQ can't be reached"),
        retryable=None,
    ),
    Row(
        "elasticsearch",
        raised(
            "elastic_transport.ConnectionError",
            "Connection error caused by: NewConnectionError(<urllib3.connection.HTTPConnection "
            "object at 0x7f01>: Failed to establish a new connection: [Errno 111] Connection "
            "refused)",
        ),
        one("Elasticsearch can't be reached"),
        retryable=None,
    ),
    Row(
        "docker",
        raised(
            "docker.errors.DockerException",
            "Error while fetching server API version: ('Connection aborted.', "
            "FileNotFoundError(2, 'No such file or directory'))",
        ),
        one("Docker's daemon can't be reached"),
        retryable=None,
        fixes=["start Docker, or set DOCKER_HOST"],
        on_workers=True,
    ),
    Row(
        "browser",
        raised(
            "playwright._impl._errors.Error",
            "BrowserType.launch: Executable doesn't exist at /root/.cache/ms-playwright/chromium-1/"
            "chrome\n| Looks like Playwright was just installed or updated. |",
        ),
        one("Playwright's chromium is not installed"),
        fixes=["playwright install chromium"],
    ),
    Row(
        "driver",
        raised(
            "selenium.common.exceptions.NoSuchDriverException",
            "Message: Unable to obtain driver for chrome; For documentation on this error, see",
        ),
        one("there is no driver for chrome"),
    ),
    Row(
        "django-settings",
        raised("django.core.exceptions.ImproperlyConfigured", DJANGO_UNSET),
        one("Django's settings are not configured"),
        fixes=["set DJANGO_SETTINGS_MODULE, for example in pytest-django's setting"],
    ),
)
MACHINE: Final = (
    Row(
        "disk-full",
        raised_by_requests("OSError(28, 'No space left on device', '/srv/data/x')"),
        one("no space left on the device (/srv/data/x)"),
        on_workers=True,
    ),
    Row(
        "open-files",
        raised_by_requests("OSError(24, 'Too many open files', '/srv/data/x')"),
        one("too many open files (/srv/data/x)"),
    ),
    Row(
        "permission",
        raised_by_requests("PermissionError(13, 'Permission denied', '/srv/data')"),
        one("no permission for /srv/data"),
    ),
    Row(
        "read-only",
        raised_by_requests("OSError(30, 'Read-only file system', '/srv/data/x')"),
        one("the file system is read-only (/srv/data/x)"),
    ),
    Row(
        "address-in-use",
        a_test(
            "import socketserver; taken = socket.create_server(('127.0.0.1', PORT))",
            "socketserver.TCPServer(('127.0.0.1', PORT), None)",
        ),
        one("port PORT is in use: this process still holds it", IN_LINE_4),
        retryable=None,
        fixes=["close it at the end of the test that opens it, or bind port 0"],
    ),
    Row(
        "name-too-long",
        a_test("open('x' * 300)"),
        one(f"a file's name or path is too long: {'x' * 143} …"),
    ),
    Row(
        "memory",
        a_test("'x' * (1 << 62)"),
        one("more memory was requested than is available"),
        retryable=None,
        on_workers=True,
    ),
    Row(
        "program",
        a_test("subprocess.run(['ffmpeg-wx', '-i', 'x'])"),
        one("the program 'ffmpeg-wx' is not installed"),
        never=["No such file or directory: 'ffmpeg-wx': test_a"],
        on_workers=True,
    ),
    Row(
        "file-of-the-project",
        a_test("open('data/none.json')"),
        one("there is no file data/none.json"),
        never=["is not installed"],
    ),
    Row(
        "shared-library",
        a_test("import ctypes", "ctypes.CDLL('libwx.so.1')"),
        one("the shared library libwx.so.1 is not installed", IN_LINE_4),
    ),
    Row(
        "environment-variable",
        a_test("os.environ['DATABASE_URL_WX']"),
        one("the environment variable DATABASE_URL_WX is not set"),
        never=["KeyError: 'DATABASE_URL_WX': test_a"],
        on_workers=True,
    ),
    Row(
        "key-of-a-dict",
        a_test("dict(os.environ)['DATABASE_URL_WX']"),
        one("KeyError: 'DATABASE_URL_WX'"),
        never=["environment variable"],
    ),
    Row(
        "locale",
        a_test("import locale", "locale.setlocale(locale.LC_ALL, 'xx_WX.UTF-8')"),
        one("the system does not have the locale that was asked for", IN_LINE_4),
    ),
    Row(
        "time-zone",
        a_test("import zoneinfo", "zoneinfo.ZoneInfo('Europe/Berlin_WX')"),
        one(
            "there is no time zone Europe/Berlin_WX: its data is not installed, or its name is wrong",
            IN_LINE_4,
        ),
        fixes=["pip install tzdata"],
    ),
)
MISSING: Final = "import cachetools_wx\n"
IMPORTS: Final = (
    Row(
        "package",
        {"test_a.py": MISSING},
        ["cachetools_wx is not installed: test_a.py can't be imported"],
        never=["pip install"],
        on_workers=True,
    ),
    Row(
        "package-of-the-metadata",
        {
            "pyproject.toml": "[project]\nname='shop'\nversion='1'\ndependencies=['Shop_Wx>=2']\n",
            "test_a.py": "import shop_wx\n",
        },
        ["shop_wx is not installed: test_a.py can't be imported"],
        fixes=["pip install Shop_Wx"],
    ),
    Row(
        "package-in-a-test",
        a_test("import cachetools_wx"),
        one("cachetools_wx is not installed"),
        never=["pip install"],
    ),
    Row(
        "package-in-12-files",
        {f"test_{letter}.py": MISSING for letter in "abcdefghijkl"},
        ["cachetools_wx is not installed: 12 test files can't be imported"],
        never=["test_a.py imports cachetools_wx", "12 files or nodes"],
        on_workers=True,
    ),
    Row(
        "own-package",
        {
            "pyproject.toml": "[project]\nname='shop-wx'\nversion='1'\n",
            "src/shop_wx/__init__.py": "",
            "tests/test_a.py": "import shop_wx\n",
            "tests/test_b.py": "from shop_wx import x\n",
        },
        ["shop_wx is not installed: 2 test files can't be imported"],
        fixes=["pip install -e ."],
        on_workers=True,
    ),
    Row(
        "module-of-a-package",
        {"app/__init__.py": "", "test_a.py": "import app.models2\n"},
        ["app.models2 does not exist: test_a.py can't be imported"],
        never=["not installed"],
    ),
    Row(
        "name-of-a-module",
        {"app.py": "", "test_a.py": "from app import Cart\n"},
        ["Cart can't be imported from app: test_a.py can't be imported"],
        on_workers=True,
    ),
    Row(
        "syntax",
        {"test_a.py": "def x(:\n"},
        ["SyntaxError: invalid syntax (test_a.py:1)"],
        on_workers=True,
    ),
    Row(
        "syntax-in-one-module-of-14-files",
        {
            "app.py": "x = 1\ndef x(:\n",
            **{f"test_{letter}.py": "import app\n" for letter in "abcdefghijklmn"},
        },
        ["SyntaxError: invalid syntax (app.py:2): 14 test files can't be imported"],
        on_workers=True,
    ),
    Row(
        "conftest",
        {"conftest.py": MISSING, "test_a.py": ""},
        ["cachetools_wx is not installed: conftest.py can't be imported"],
        never=["pip install"],
    ),
    Row(
        "conftest-syntax",
        {"conftest.py": "def x(:\n", "test_a.py": ""},
        ["SyntaxError: invalid syntax (conftest.py:1)"],
    ),
    Row(
        "two-files-of-one-name",
        {"a/test_x.py": "def test_a(): pass\n", "b/test_x.py": "def test_b(): pass\n"},
        ["two test files have one name: a/test_x.py and b/test_x.py"],
        fixes=[
            "add __init__.py to a and b, or rename one, or set --import-mode=importlib"
        ],
        args=["a", "b"],
    ),
    Row(
        "package-and-syntax",
        {"test_a.py": MISSING, "test_b.py": MISSING, "test_c.py": "def x(:\n"},
        [
            "3 test files can't be collected, 2 causes",
            "  2 x cachetools_wx is not installed: 2 test files can't be imported",
            "  1 x SyntaxError: invalid syntax (test_c.py:1)",
        ],
        fixes=[None, None],
        on_workers=True,
    ),
    Row(
        "package-beside-failures",
        {
            "test_a.py": MISSING,
            "test_b.py": "def test_b(): assert 1 == 2\ndef test_c(): assert 1 == 2\n",
        },
        [
            "2 tests failed, 1 file can't be collected, 3 causes",
            "  1 x cachetools_wx is not installed: test_a.py can't be imported",
            "  1 x assert 1 == 2: test_b (test_b.py:1)",
            "  1 x assert 1 == 2: test_c (test_b.py:2)",
        ],
        fixes=[None, None, None],
        args=["--continue-on-collection-errors"],
    ),
)
PYTEST: Final = (
    Row(
        "assertion",
        a_test("assert 1 == 2"),
        one("assert 1 == 2"),
        never=["AssertionError: assert 1 == 2: test_a"],
        on_workers=True,
    ),
    Row("assertion-with-words", a_test("assert 0, 'no cart'"), one("no cart")),
    Row(
        "fail",
        a_test("pytest.fail('no cart')"),
        one("no cart"),
        never=["Failed: no cart: test"],
    ),
    Row("other", a_test("{}['x']"), one("KeyError: 'x'")),
    Row(
        "assertion-behind-another-exception",
        a_test(
            "try: {}['x']",
            "except KeyError: raise AssertionError('no such user')",
        ),
        one("no such user", IN_LINE_4),
        never=["KeyError: 'x': test_a"],
    ),
    Row(
        "fail-behind-a-refusal",
        a_test(
            f"try: {REFUSED}",
            "except OSError: pytest.fail('start the server first')",
        ),
        one("start the server first", IN_LINE_4),
        never=["nothing listens"],
    ),
    Row(
        "fixture",
        {"test_a.py": "\n\ndef test_a(nope): pass\n"},
        one("fixture 'nope' not found"),
        on_workers=True,
    ),
    Row(
        "fixture-of-a-plugin",
        {"test_a.py": "\n\ndef test_a(mocker): pass\n"},
        one("fixture 'mocker' not found"),
        fixes=["pip install pytest-mock"],
        on_workers=True,
    ),
    Row(
        "mark",
        {
            "pytest.ini": "[pytest]\naddopts = --strict-markers\n",
            "test_a.py": "import pytest\n@pytest.mark.slo\ndef test_a(): pass\n",
        },
        ["the mark 'slo' is not registered: test_a.py can't be collected"],
        fixes=['add slo to "markers" in the configuration of pytest'],
    ),
    Row(
        "mark-of-a-plugin",
        {
            "pytest.ini": "[pytest]\naddopts = --strict-markers\n",
            "test_a.py": "import pytest\n@pytest.mark.django_db\ndef test_a(): pass\n",
        },
        ["the mark 'django_db' is not registered: test_a.py can't be collected"],
        fixes=["pip install pytest-django"],
    ),
    Row(
        "plugin-that-is-missing",
        {
            "pytest.ini": "[pytest]\naddopts = --strict-markers\n",
            "test_a.py": "import pytest\n@pytest.mark.django_db\ndef test_a(): pass\n",
            "test_b.py": "import pytest_django\n",
        },
        ["the mark 'django_db' is not registered: 2 test files can't be collected"],
        fixes=["pip install pytest-django"],
    ),
    Row(
        "async-without-a-plugin",
        {"test_a.py": "async def test_a(): pass\n"},
        one("no plugin runs async tests", "test_a (test_a.py)"),
        fixes=["pip install pytest-asyncio"],
    ),
    Row(
        "async-without-its-mark",
        {"test_a.py": "async def test_a(): pass\n"},
        one("the async test is not marked for pytest-asyncio", "test_a (test_a.py)"),
        fixes=["add @pytest.mark.asyncio, or set asyncio_mode = auto"],
        plugins=["asyncio"],
    ),
    Row(
        "breakpoint",
        a_test("breakpoint()"),
        [
            "1 test failed: breakpoint left at test_a.py:3, and there is no terminal: test_a"
        ]
        # Debuggers of later 3.11 hide the frame: seen on 3.11.7, and not on 3.11.2.
        if sys.version_info >= (3, 12) or sys.version_info < (3, 11, 3)
        else one(
            "a breakpoint was left, and there is no terminal", "test_a (test_a.py)"
        ),
        fixes=["remove it"],
        never=["reading from stdin while output is captured! Consider: test_a"],
        on_workers=True,
    ),
    Row(
        "strict-xfail",
        {
            "test_a.py": "import pytest\n@pytest.mark.xfail(strict=True)\ndef test_a(): pass\n"
        },
        one("marked as failing, but passes", "test_a (test_a.py:2)"),
        fixes=["remove the xfail mark"],
        on_workers=True,
    ),
    Row(
        "warning-as-error",
        {
            "app.py": "import warnings\ndef f(): warnings.warn('f is old', DeprecationWarning)\n",
            "test_a.py": "import app\ndef test_a():\n    app.f()\n",
        },
        ["1 test failed: DeprecationWarning as an error: f is old (app.py:2): test_a"],
        args=["-W", "error"],
    ),
    Row(
        "coroutine-never-awaited",
        a_test("import gc", "async def f(): pass", "f(); gc.collect()"),
        ["1 test failed: coroutine f was never awaited: test_a (test_a.py)"],
        fixes=["await f(…)"],
        args=["-W", "error"],
    ),
    Row(
        "thread",
        a_test(
            "import threading",
            "def work(): {}['x']",
            "t = threading.Thread(target=work); t.start(); t.join()",
        ),
        ["1 test failed: KeyError: 'x' in a thread (test_a.py:4): test_a"],
        args=["-W", "error"],
    ),
    Row(
        "event-loop-closed",
        a_test(
            "loop = asyncio.new_event_loop(); loop.close()",
            "loop.run_until_complete(None)",
        ),
        one("the event loop is closed", IN_LINE_4),
    ),
    Row(
        "snapshot",
        {
            "pytest_regressions/__init__.py": "",
            "pytest_regressions/common.py": "def check():\n"
            "    raise AssertionError('FILES DIFFER:\\nold.txt\\nnew.txt\\n')\n",
            "test_a.py": "from pytest_regressions.common import check\n"
            "def test_a():\n    check()\n",
        },
        one(
            "the output differs from the expected file",
            "check (pytest_regressions/common.py:2), in test_a",
        ),
        fixes=["if the new output is right: pytest --force-regen"],
    ),
    Row(
        "option-of-a-plugin",
        {"pytest.ini": "[pytest]\naddopts = --picked\n", "test_a.py": ""},
        ["pytest does not know --picked (from addopts in pytest.ini)"],
        fixes=["pip install pytest-picked"],
    ),
    Row(
        "option",
        {"test_a.py": ""},
        ["pytest does not know --no-such"],
        args=["--no-such"],
    ),
    Row(
        "setting-of-a-plugin",
        {
            "pytest.ini": "[pytest]\nasyncio_mode = auto\nfilterwarnings = error\n",
            "test_a.py": "def test_a(): pass\n",
        },
        ["pytest does not know the setting asyncio_mode"],
        fixes=["pip install pytest-asyncio"],
    ),
    Row(
        "path",
        {"test_a.py": ""},
        ["there is no file or folder nowhere"],
        args=["nowhere"],
    ),
    Row(
        "plugin",
        {"test_a.py": ""},
        ["the plugin nope_wx is not installed"],
        args=["-p", "nope_wx"],
    ),
    Row(
        "required-plugin",
        {"pytest.ini": "[pytest]\nrequired_plugins = pytest-wx\n", "test_a.py": ""},
        ["required plugins are missing: pytest-wx (required_plugins in pytest.ini)"],
    ),
    Row(
        "hook-of-a-conftest",
        {
            "conftest.py": "def pytest_collection_modifyitems(item): pass\n",
            "test_a.py": "",
        },
        [
            (
                "the hook pytest_collection_modifyitems has an argument that pytest's hook does "
                "not have: 'item' (conftest.py)"
            )
        ],
    ),
    Row(
        "hook-that-raises",
        {
            "conftest.py": "def pytest_collection_modifyitems(): {}['x']\n",
            "test_a.py": "def test_a(): pass\n",
        },
        ["KeyError: 'x' (conftest.py:1, in pytest_collection_modifyitems)"],
        on_workers=True,
    ),
)
KILLED: Final = (
    "import os, signal\n\n\ndef test_dies(): os.kill(os.getpid(), signal.SIGKILL)\n"
)
ENDINGS: Final = (
    Row(
        "nothing-collected",
        {"test_a.py": ""},
        [
            (
                "no test was found: nothing in test_a.py matches "
                "python_functions = test, python_classes = Test"
            )
        ],
        on_workers=True,
    ),
    Row(
        "nothing-selected",
        {"test_a.py": "def test_a(): pass\n"},
        ["every test found was deselected: -k zzz"],
        args=["-k", "zzz"],
    ),
    Row(
        "pytest.exit",
        {"test_a.py": "import pytest\ndef test_a(): pytest.exit('no database')\n"},
        ["the run was ended by pytest.exit: no database (test_a.py:2)"],
        retryable=None,
    ),
    Row(
        "interrupt",
        {"test_a.py": "def test_a(): raise KeyboardInterrupt\n"},
        ["the run was interrupted from the keyboard"],
        retryable=True,
    ),
    Row(
        "interrupt-after-failures",
        {
            "test_a.py": "def test_a(): assert 1 == 2\n"
            "def test_b(): assert 1 == 2\n"
            "def test_c(): raise KeyboardInterrupt\n"
        },
        [
            "2 of 3 tests failed, then the run was interrupted from the keyboard, 3 causes",
            "  1 x assert 1 == 2: test_a (test_a.py:1)",
            "  1 x assert 1 == 2: test_b (test_a.py:2)",
            "  1 x the run was interrupted from the keyboard",
        ],
        fixes=[None, None, None],
    ),
    Row(
        "first-failure-ends-it",
        {"test_a.py": "def test_a(): assert 1 == 2\ndef test_b(): pass\n"},
        ["1 test failed: assert 1 == 2: test_a (test_a.py:1)"],
        args=["-x"],
    ),
    Row(
        "maxfail",
        {"test_a.py": "".join(f"def test_{n}(): assert {n} == 9\n" for n in range(5))},
        [
            "2 tests failed, 2 causes",
            "  1 x assert 0 == 9: test_0 (test_a.py:1)",
            "  1 x assert 1 == 9: test_1 (test_a.py:2)",
        ],
        fixes=[None, None],
        args=["--maxfail=2"],
    ),
    Row(
        "coverage",
        {
            "app.py": "def f():\n    pass\n",
            "test_a.py": "import app\ndef test_a(): pass\n",
        },
        ["coverage 50.00 % is below the required 90 %"],
        args=["--cov=app", "--cov-fail-under=90", "--cov-report="],
        plugins=["pytest_cov"],
    ),
    Row(
        "coverage-and-a-failure",
        {
            "app.py": "def f():\n    pass\n",
            "test_a.py": "import app\ndef test_a(): assert 1 == 2\n",
        },
        one("assert 1 == 2", "test_a (test_a.py:2)"),
        args=["--cov=app", "--cov-fail-under=90", "--cov-report="],
        plugins=["pytest_cov"],
    ),
    Row(
        "timeout",
        {"test_a.py": "import time\ndef test_a():\n    time.sleep(9)\n"},
        ["1 test failed: test_a hit its time limit of 0.2 s (test_a.py:3)"],
        retryable=True,
        args=["--timeout=0.2"],
        plugins=["timeout"],
        on_workers=True,
    ),
    Row(
        "timeouts",
        {
            "test_a.py": "import time\ndef test_a():\n    time.sleep(9)\n"
            "def test_b():\n    time.sleep(9)\n"
        },
        [
            "2 tests failed, 2 causes",
            "  1 x test_a hit its time limit of 0.2 s (test_a.py:3)",
            "  1 x test_b hit its time limit of 0.2 s (test_a.py:5)",
        ],
        retryable=True,
        fixes=[None, None],
        args=["--timeout=0.2"],
        plugins=["timeout"],
        on_workers=True,
    ),
    Row(
        "endless-loop",
        {
            "app.py": "def spin():\n    while True: pass\n",
            "test_a.py": "import app\ndef test_a(): app.spin()\ndef test_b(): app.spin()\n",
        },
        ["2 tests hit their time limit of 0.2 s: spin (app.py:2)"],
        retryable=None,
        never=["a retry may help"],
        args=["--timeout=0.2"],
        plugins=["timeout"],
    ),
    Row(
        "timeout-and-assertion",
        {
            "test_a.py": "import time\ndef test_a(): assert 1 == 2\n"
            "def test_b():\n    time.sleep(9)\n"
        },
        [
            "2 tests failed, 2 causes",
            "  1 x assert 1 == 2: test_a (test_a.py:2)",
            "  1 x test_b hit its time limit of 0.2 s (test_a.py:4)",
        ],
        fixes=[None, None],
        never=["1 test hit its time limit (", "try: retry"],
        args=["--timeout=0.2"],
        plugins=["timeout"],
        on_workers=True,
    ),
)
MIXED_RUN: Final = """\
import socket, urllib.request, time, pytest

@pytest.fixture
def db():
    return socket.create_connection(("127.0.0.1", PORT))
def test_a(db): pass
def test_b(db): pass
def test_c(db): pass
def test_http(): urllib.request.urlopen("http://localhost:PORT/")
def test_x(): assert 1 == 2
def test_y(): assert [1] == [2]
@pytest.mark.timeout(0.2)
def test_slow(): time.sleep(3)
def test_missing(nope): pass
def test_ok(): pass
"""
SESSION_FIXTURE: Final = """\
import socket, pytest

@pytest.fixture(scope="session")
def db():
    return socket.create_connection(("127.0.0.1", PORT))
"""
FOUR_LIBRARIES: Final = """\
import socket, urllib.request
import redis.exceptions
import psycopg
def test_a(): socket.create_connection(("127.0.0.1", PORT))
def test_b(): urllib.request.urlopen("http://127.0.0.1:PORT/")
def test_c(): redis.exceptions.fail("Error 111 connecting to 127.0.0.1:PORT. Connection refused.")
def test_d():
    words = 'connection to server at "127.0.0.1", port PORT failed: Connection refused'
    psycopg.fail(words)
"""
MIXED: Final = (
    Row(
        "mixed",
        {"test_mix.py": MIXED_RUN},
        [
            "8 of 9 tests failed, 6 causes",
            f"  3 x {NOTHING_LISTENS}: fixture db (test_mix.py:3)",
            "  1 x nothing listens on localhost:PORT: test_http (test_mix.py:9)",
            "  1 x fixture 'nope' not found: test_missing (test_mix.py:14)",
            "and 3 more causes; a retry won't help: assertions failed",
        ],
        fixes=[None] * 6,
        never=["1 test hit its time limit (", "try: retry", "retry helps: yes"],
        plugins=["timeout"],
        on_workers=True,
    ),
    Row(
        "one-helper-for-several",
        {
            "conftest.py": (
                "import os, socket\n"
                "def env(name): return os.environ[name]\n"
                "def connect(port): return socket.create_connection(('127.0.0.1', port))\n"
            ),
            "test_a.py": (
                "from conftest import connect, env\n"
                "def test_a(): env('AAA_URL')\n"
                "def test_b(): env('BBB_URL')\n"
                "def test_c(): connect(PORT)\n"
                "def test_d(): connect(1)\n"
                "def test_e(): connect(1)\n"
            ),
        },
        [
            "5 tests failed, 4 causes; a retry can't fix 2 of the 4 causes",
            "  2 x nothing listens on 127.0.0.1:1: connect (conftest.py:3)",
            "  1 x the environment variable AAA_URL is not set: env (conftest.py:2), in test_a",
            "  1 x the environment variable BBB_URL is not set: env (conftest.py:2), in test_b",
        ],
        fixes=[None] * 4,
        on_workers=True,
    ),
    Row(
        "fixture-of-60-tests",
        {
            "conftest.py": SESSION_FIXTURE,
            "test_a.py": "".join(f"def test_{n}(db): pass\n" for n in range(40)),
            "test_b.py": "".join(f"def test_{n}(db): pass\n" for n in range(20)),
        },
        [f"60 tests failed: {NOTHING_LISTENS}: fixture db (conftest.py:3)"],
        retryable=None,
        on_workers=True,
    ),
    Row(
        "fixture-and-assertion",
        {
            "conftest.py": SESSION_FIXTURE,
            "test_a.py": "def test_a(): assert 1 == 2\n"
            "def test_b(db): pass\ndef test_c(db): pass\n",
        },
        [
            "3 tests failed, 2 causes",
            f"  2 x {NOTHING_LISTENS}: fixture db (conftest.py:3)",
            "  1 x assert 1 == 2: test_a (test_a.py:1)",
        ],
        fixes=[None, None],
        on_workers=True,
    ),
    Row(
        "two-fixtures-of-one-host",
        {
            "test_a.py": SESSION_FIXTURE
            + "@pytest.fixture\ndef other():\n    socket.create_connection(('127.0.0.1', PORT))\n"
            "def test_a(db): pass\ndef test_b(other): pass\ndef test_c(other): pass\n"
        },
        [f"3 tests failed: {NOTHING_LISTENS}: fixture db (test_a.py:3) and 1 more"],
        retryable=None,
        on_workers=True,
    ),
    Row(
        "one-host-and-four-libraries",
        {
            **library("redis.exceptions.ConnectionError"),
            **library("psycopg.OperationalError"),
            "test_a.py": FOUR_LIBRARIES,
        },
        [f"4 tests failed: {NOTHING_LISTENS}: first test_a (test_a.py:4)"],
        retryable=None,
        on_workers=True,
    ),
    Row(
        "fixture-of-the-user-that-asserts",
        {
            "test_a.py": "import pytest\n@pytest.fixture\ndef cart():\n    assert 1 == 2\n"
            "def test_a(cart): pass\ndef test_b(cart): pass\n"
        },
        ["2 tests failed: assert 1 == 2: fixture cart (test_a.py:2)"],
        on_workers=True,
    ),
    Row(
        "teardown",
        {
            "test_a.py": "import pytest\n@pytest.fixture\ndef cart():\n    yield\n    {}['x']\n"
            "def test_a(cart): pass\n"
        },
        one("KeyError: 'x'", "fixture cart (test_a.py:2)"),
        on_workers=True,
    ),
    Row(
        "fixture-that-calls-a-file-of-the-project",
        {
            "shop.py": "def load():\n    raise LookupError('no shop')\n",
            "conftest.py": (
                "import pytest, shop\n\n@pytest.fixture\ndef cart(): shop.load()\n"
            ),
            "test_a.py": "def test_a(cart): pass\n",
        },
        one("LookupError: no shop", "fixture cart (conftest.py:3)"),
        on_workers=True,
    ),
    Row(
        "fixture-of-a-wider-scope",
        {
            "conftest.py": "import pytest\n@pytest.fixture\ndef settings(): pass\n"
            "@pytest.fixture(scope='session')\ndef engine(settings): pass\n",
            "test_a.py": "def test_a(engine): pass\ndef test_b(engine): pass\n",
        },
        [
            (
                "2 tests failed: fixture engine (session, conftest.py:4) asks for settings "
                "(function): first test_a (test_a.py)"
            )
        ],
        never=["SubRequest", "def …"],
        on_workers=True,
    ),
    Row(
        "group-of-exceptions",
        a_test("raise ExceptionGroup('in a task', [KeyError('x'), OSError('y')])"),
        one("KeyError: 'x' [ExceptionGroup of 2]"),
        on_workers=True,
    ),
    Row(
        "assertion-that-pytest-has-not-rewritten",
        {
            "shop.py": "def check(count):\n    assert count == 2\n",
            "test_a.py": "import shop\n\ndef test_a(): shop.check(1)\n",
        },
        one("assert count == 2", "check (shop.py:2), in test_a"),
    ),
    Row(
        "path-below-the-root",
        a_test("raise ValueError(f'bad: {os.path.abspath(\"data/a.json\")}')"),
        one("ValueError: bad: data/a.json"),
        on_workers=True,
    ),
    Row(
        "pytest-plugins-in-a-folder",
        {
            "shop.py": "",
            "pytest.ini": "[pytest]\npythonpath = .\n",
            "tests/unit/conftest.py": "pytest_plugins = ['shop']\n",
            "tests/unit/test_a.py": "def test_a(): pass\n",
        },
        [
            (
                "tests/unit/conftest.py defines pytest_plugins, and only the conftest.py of the "
                "root may"
            )
        ],
        fixes=["move pytest_plugins to the conftest.py of the root directory"],
        args=["tests"],
    ),
    Row(
        "class-that-is-no-test",
        {
            "models.py": "\nclass TestConfig:\n    def __init__(self): pass\n",
            "test_a.py": "from models import TestConfig\ndef test_a(): pass\n",
        },
        [
            (
                "PytestCollectionWarning as an error: cannot collect test class 'TestConfig' "
                "because it has a __init__ constructor (from: test_a.py) (models.py:2)"
            )
        ],
        args=["-W", "error::pytest.PytestCollectionWarning"],
    ),
    Row(
        "call-and-teardown",
        {
            "test_a.py": "import pytest\n@pytest.fixture\ndef cart():\n    yield\n    {}['x']\n"
            "def test_a(cart): assert 1 == 2\n"
        },
        [
            "1 test failed, 2 causes",
            "  1 x assert 1 == 2: test_a (test_a.py:6)",
            "  1 x KeyError: 'x': fixture cart (test_a.py:2)",
        ],
        fixes=[None, None],
        on_workers=True,
    ),
    Row(
        "call-and-teardown-of-one-thing",
        {
            "test_a.py": "import pathlib, pytest\n@pytest.fixture\ndef out():\n    yield\n"
            "    pathlib.Path('none', 'out.txt').rename('x')\n"
            "def test_a(out): open('none/out.txt')\n"
        },
        one("there is no file none/out.txt", "test_a (test_a.py:6)"),
        on_workers=True,
    ),
    Row(
        "renamed-method",
        {
            "app.py": "class Cart:\n    def put(self): pass\n",
            "test_a.py": "from app import Cart\n"
            "def test_a(): Cart().add(1)\ndef test_b(): Cart().add(2)\n"
            "def test_c(): Cart.add\n",
        },
        [
            "3 tests failed: AttributeError: 'Cart' object has no attribute 'add': first test_a (test_a.py:2)"
        ],
        on_workers=True,
    ),
    Row(
        "wrong-argument",
        {
            "app.py": "def add(n): pass\n",
            "test_a.py": "from app import add\n"
            "def test_a(): add(m=1)\ndef test_b(): add(m=2)\ndef test_c(): add(k=2)\n",
        },
        [
            "3 tests failed, 2 causes",
            (
                "  2 x TypeError: add() got an unexpected keyword argument 'm': "
                "first test_a (test_a.py:2)"
            ),
            "  1 x TypeError: add() got an unexpected keyword argument 'k': test_c (test_a.py:4)",
        ],
        fixes=[None, None],
    ),
    Row(
        "refusal-of-one-function",
        {
            "test_a.py": "import json, pytest\n"
            "def test_a(): json.dumps(object())\ndef test_b(): json.dumps([object()])\n"
            "def test_c():\n    with pytest.raises(KeyError): pass\n"
            "def test_d():\n    with pytest.raises(KeyError): pass\n",
        },
        [
            "4 tests failed, 3 causes",
            (
                "  2 x TypeError: Object of type object is not JSON serializable: "
                "first test_a (test_a.py:2)"
            ),
            "  1 x DID NOT RAISE KeyError: test_c (test_a.py:5)",
            "  1 x DID NOT RAISE KeyError: test_d (test_a.py:7)",
        ],
        fixes=[None] * 3,
        on_workers=True,
    ),
    Row(
        "elements-in-another-order",
        a_test("assert [*'abc'] == [*'cab']"),
        one(
            "the same elements in another order: assert ['a', 'b', 'c'] == ['c', 'a', 'b']"
        ),
        retryable=None,
        never=["a retry won't help"],
        on_workers=True,
    ),
    Row(
        "dates-a-day-apart-by-unittest",
        {
            "test_a.py": "import unittest\nclass TestA(unittest.TestCase):\n    def test_a(self):\n"
            "        self.assertEqual('2026-02-28', '2026-03-01')\n"
        },
        one(
            "two dates or times at most a day apart: '2026-02-28' != '2026-03-01'",
            "TestA::test_a (test_a.py:4)",
        ),
        retryable=None,
        never=["a retry won't help"],
    ),
    Row(
        "order-that-was-caught",
        a_test(
            "try: assert [1, 2] == [2, 1]",
            "except AssertionError: pass",
            "assert not 'other'",
        ),
        one("assert not 'other'", "test_a (test_a.py:5)"),
    ),
    Row(
        "flaky-by-hypothesis",
        {
            "test_a.py": "from hypothesis import given, settings, strategies\ncalls = []\n"
            "@given(strategies.just(1))\n@settings(database=None)\ndef test_a(n):\n"
            "    calls.append(n)\n    assert len(calls) > 1, 'too early'\n"
        },
        one(
            "Hypothesis calls it flaky: AssertionError: too early",
            # Before it became a group, it was raised where the test begins.
            f"test_a (test_a.py:{7 if hasattr(hypothesis.errors, 'FlakyFailure') else 4})",
        ),
        retryable=True,
        plugins=["hypothesis"],
    ),
    Row(
        "try-again",
        raised(
            "google.api_core.exceptions.Aborted", "Transaction aborted, please retry"
        ),
        one("Aborted: Transaction aborted, please retry"),
        retryable=True,
    ),
    Row(
        "simulated",
        {
            **LIBRARIES,
            "site-packages/requests/exceptions.py": "class Timeout(OSError): pass\n",
            "site-packages/requests/__init__.py": "from requests.exceptions import Timeout\n"
            "def get(): pass\n",
            "app.py": "import requests\ndef user(): return requests.get()\n",
            "test_a.py": "import app, requests, pytest\nfrom unittest.mock import patch\n"
            "def test_a():\n"
            "    with patch('requests.get', side_effect=requests.Timeout('timed out')):\n"
            "        app.user()\n"
            "def test_b(monkeypatch):\n"
            "    def full(): raise OSError(28, 'No space left on device')\n"
            "    monkeypatch.setattr('requests.get', full)\n"
            "    app.user()\n",
        },
        [
            "2 tests failed, 2 causes",
            (
                "  1 x requests.exceptions.Timeout: timed out [raised by unittest.mock]: "
                "user (app.py:2), in test_a"
            ),
            "  1 x OSError: No space left on device [raised by test_a]: test_b (test_a.py:7)",
        ],
        fixes=[None, None],
        never=[
            "not answered in time",
            "a retry may help",
            "no space left on the device",
        ],
        on_workers=True,
    ),
    Row(
        "one-place-of-the-project",
        {
            "app.py": "def load(key):\n    return {}[key]\n",
            "test_a.py": "import app\ndef test_a(): app.load('x')\ndef test_b(): app.load('x')\n"
            "def test_c(): pass\n",
        },
        ["2 of 3 tests failed: KeyError: 'x': load (app.py:2)"],
        on_workers=True,
    ),
    Row(
        "one-assertion-of-many-parameters",
        {
            "test_a.py": "import pytest\n@pytest.mark.parametrize('n', range(5))\n"
            "def test_a(n):\n    assert n < 2, 'too much'\n"
        },
        ["3 of 5 tests failed: too much: test_a (test_a.py:4)"],
        on_workers=True,
    ),
    Row(
        "variable-of-a-fixture-and-a-program",
        {
            "conftest.py": "import os, pytest\n@pytest.fixture\ndef url():\n"
            "    return os.environ['SHOP_URL_WX']\n",
            "test_a.py": "import subprocess\ndef test_a(url): pass\ndef test_b(url): pass\n"
            "def test_c():\n    subprocess.run(['ffmpeg-wx'])\n",
        },
        [
            "3 tests failed, 2 causes",
            "  2 x the environment variable SHOP_URL_WX is not set: fixture url (conftest.py:2)",
            "  1 x the program 'ffmpeg-wx' is not installed: test_c (test_a.py:5)",
        ],
        fixes=[None, None],
        on_workers=True,
    ),
    Row(
        "package-in-files-and-tests",
        {
            "test_a.py": MISSING,
            "test_b.py": "def test_b():\n    import cachetools_wx\n",
        },
        ["cachetools_wx is not installed: test_a.py can't be imported, 1 test failed"],
        never=["2 causes"],
        args=["--continue-on-collection-errors"],
    ),
    Row(
        "two-retries-that-help",
        {
            **LIBRARIES,
            "site-packages/requests/__init__.py": "from urllib.error import HTTPError\n"
            "def get(url, status): raise HTTPError(url, status, 'No', {}, None)\n",
            "test_a.py": "import requests\ndef test_a():\n"
            "    requests.get('https://a.example.com/', 503)\n"
            "def test_b(): requests.get('https://b.example.com/', 429)\n",
        },
        [
            "2 tests failed, 2 causes",
            "  1 x a.example.com answered 503: test_a (test_a.py:3)",
            "  1 x b.example.com answered 429: too many requests: test_b (test_a.py:4)",
        ],
        retryable=True,
        fixes=[None, None],
        on_workers=True,
    ),
)
CRASHES: Final = (
    Row(
        "worker-dies",
        {"test_a.py": KILLED},
        ["1 test failed: gw0 died (SIGKILL) while it ran test_a.py::test_dies"],
        retryable=None,
    ),
    Row(
        "worker-dies-beside-failures",
        {"test_a.py": KILLED, "test_b.py": "def test_b(): assert 1 == 2\n"},
        [
            "2 tests failed, 2 causes",
            "  1 x gw0 died (SIGKILL) while it ran test_a.py::test_dies",
            "  1 x assert 1 == 2: test_b (test_b.py:1)",
        ],
        fixes=[None, None],
    ),
)
OF_NO_VERSION: Final = (*CONNECTIONS, *SERVICES, *MACHINE, *IMPORTS, *MIXED)
"""What pytest's version changes nothing of."""
SERIAL: Final = (*OF_NO_VERSION, *PYTEST, *ENDINGS)

NEVER: Final = "different approach"
"""What no face says of any of these runs: there was no earlier attempt."""
CODES: Final = ("UNKNOWN", "VERIFICATION_FAILED")
"""Words of programs, which the page keeps to itself."""
OTHERS: Final = {
    "pytest_cov": "pytest_cov",
    "timeout": "pytest_timeout",
    "asyncio": "pytest_asyncio",
}
"""Plugins by the names of their entry points, with their modules."""

_VARIES: Final = re.compile(
    r" +\[[A-Z_]+ [a-z_.]+(, likely)?\]$|(?<=, )[0-9N][0-9.]* m?s(?=\))"
)
"""The codes, and how long something has taken."""
_TAG: Final = re.compile("<(style|script).*?</\\1>|<[^>]*>", re.DOTALL)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run rows on workers: of those that are about no version of pytest every third, or all."""
    if metafunc.function is test_on_workers:
        rows = [row for row in SERIAL if row.on_workers]
        if metafunc.config.getoption("matrix") == "some":
            others = [row for row in rows if row not in OF_NO_VERSION]
            rows = [*[row for row in rows if row in OF_NO_VERSION][::3], *others]
        metafunc.parametrize("row", rows, ids=[row.name for row in rows])


@pytest.fixture(scope="module")
def port() -> int:
    """Return a port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number: int = taken.getsockname()[1]
    return number


def _plain(line: str) -> str:
    return _VARIES.sub("", line)


class Finished(NamedTuple):
    """What came of the run of a row."""

    block: list[str]
    """What pytest's terminal says of it."""
    report: dict[str, Any]
    path: Path

    @property
    def causes(self) -> list[tuple[int, str, str | None]]:
        """How many, what and how to fix it, of each cause."""
        return [
            (each["count"], each["what"], each["fix"]) for each in self.report["causes"]
        ]


def run(folder: Path, row: Row, port: int, *args: str) -> Finished:
    """Run a row in a folder."""
    plugins = [*row.plugins, *(["xdist"] if args else [])]
    if sys.platform == "win32" and row in CRASHES:
        pytest.skip("needs signals")
    for name in plugins:
        if find_spec(OTHERS.get(name, name)) is None:
            pytest.skip(f"needs {name}")
    for name, content in {"pytest.ini": "[pytest]\n", **row.files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("PORT", str(port)), encoding="utf-8")
    done: ChildRun = run_pytest(folder, *args, *row.args, plugins=plugins)
    path = folder / REPORT
    return Finished(done.told[1:], json.loads(path.read_text("utf-8")), path)


def check(
    done: Finished, row: Row, port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Compare what a run says, on every face, with what it should; in the run's own folder."""
    says = [line.replace("PORT", str(port)) for line in row.says]
    assert [_plain(line) for line in done.block[: len(says)]] == says
    verdict = done.report["verdict"]
    assert f"[{verdict['reason']} {verdict['kind']}" in done.block[0]
    assert [fix for _, _, fix in done.causes] == [*row.fixes]
    assert verdict["retryable"] is row.retryable

    faces = {"terminal": "\n".join(done.block)}
    for name, command in {
        "show": ["show"],
        "agent": ["show", "--format", "agent"],
        "html": ["convert", "--to", "html"],
    }.items():
        main([*command, str(done.path)])
        faces[name] = capsys.readouterr().out
    page = html.unescape(_TAG.sub(" ", faces.pop("html")))
    assert (main(["show", "--retryable", str(done.path)]) == 0) is (
        row.retryable is True
    )
    shown = [_plain(line) for line in faces["show"].splitlines()[1:-1]]
    assert shown == [_plain(line) for line in done.block[:-1]]
    for text in (*faces.values(), page):
        for words in (*row.never, NEVER):
            assert words not in text
        assert "pip install" not in text or any(
            "pip install" in (fix or "") for fix in row.fixes
        )
    assert not [code for code in CODES if code in page]
    for text in (faces["agent"], page):
        check_order(text, done)
    if row.retryable is not None:
        assert ("  try: retry" in faces["agent"]) is row.retryable


def check_order(text: str, done: Finished) -> None:
    """Find each cause in a text, one after the other, whatever its lines and blanks are."""
    rest = "".join(text.split())
    for _, what, _ in done.causes:
        _, found, rest = rest.partition("".join(what.split()))
        assert found, what


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize(
    "row",
    [
        *(pytest.param(row, id=row.name) for row in (*PYTEST, *ENDINGS)),
        *(
            pytest.param(row, id=row.name, marks=pytest.mark.slow)
            for row in OF_NO_VERSION
        ),
    ],
)
def test_in_one_process(
    tmp_path: Path,
    row: Row,
    port: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The headline and its causes are the row's, and every face has them in the same order."""
    monkeypatch.chdir(tmp_path)
    check(run(tmp_path, row, port), row, port, capsys)


def test_on_workers(
    tmp_path: Path, row: Row, port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Workers change nothing of what is said, but in which order equals occurred."""
    is_one_test = len(row.says) == 1 and row.says[0].startswith("1 test failed: ")
    done = run(tmp_path, row, port, "-n", "1" if is_one_test else "2")
    says = sorted(line.replace("PORT", str(port)) for line in row.says)
    assert sorted(_plain(line) for line in done.block[: len(says)]) == says
    assert sorted(fix or "" for _, _, fix in done.causes) == sorted(
        fix or "" for fix in row.fixes
    )
    main(["show", "--format", "agent", str(done.path)])
    check_order(capsys.readouterr().out, done)


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize("row", CRASHES, ids=[row.name for row in CRASHES])
def test_a_worker_that_dies(
    tmp_path: Path,
    row: Row,
    port: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its test is named, and is one cause beside the others."""
    monkeypatch.chdir(tmp_path)
    check(run(tmp_path, row, port, "-n", "1"), row, port, capsys)


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.skipif(find_spec("sqlalchemy") is None, reason="needs SQLAlchemy")
def test_with_a_history(tmp_path: Path, port: int) -> None:
    """What is new comes first, and the headline says how much of it is."""
    tests = [f"def test_{n}(): assert {n} == 9\n" for n in range(8)]
    row = Row("", {}, [], args=["--failure-taxonomy-history"])
    run(tmp_path, row._replace(files={"test_a.py": "".join(tests[:7])}), port)
    done = run(tmp_path, row._replace(files={"test_a.py": "".join(tests)}), port)
    assert _plain(done.block[0]) == "8 tests failed, 8 causes (1 new, 7 known)"
    assert done.block[1] == "  1 x assert 7 == 9: test_7 (test_a.py:8) [new]"
    states = [each["history"]["state"] for each in done.report["causes"]]
    assert states == ["new", *["known"] * 7]

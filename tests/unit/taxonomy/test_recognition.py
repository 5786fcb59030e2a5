"""What to fix, by what an exception is, holds and was raised from."""

from __future__ import annotations

import builtins
import re
from importlib.metadata import packages_distributions
from time import process_time
from typing import Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.taxonomy import packaged_table, read_packaged
from pytest_failure_taxonomy.taxonomy.causes import recognise
from pytest_failure_taxonomy.taxonomy.evidence import (
    CollectionFailure,
    ErrorOrigin,
    Fact,
    Failure,
    LinkedException,
    Location,
    RaisedException,
    RunError,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason, Finding
from pytest_failure_taxonomy.taxonomy.recognition import MAX_READ, Diagnosis
from pytest_failure_taxonomy.taxonomy.values import replace

FINGERPRINT: Final = "0123456789abcdef"


def names_of(name: str, *bases: str) -> tuple[str, ...]:
    """Return the dotted names of a class and its bases; those of Python's own are known."""
    own = getattr(builtins, name.removeprefix("builtins."), None)
    if isinstance(own, type):
        return tuple(f"builtins.{each.__name__}" for each in own.__mro__[:-1])
    return (
        (name, *bases, "builtins.Exception", "builtins.BaseException") if bases else ()
    )


def facts_of(facts: dict[str, str]) -> tuple[Fact, ...]:
    """Return facts by their names."""
    return tuple(Fact(name=name, text=text) for name, text in facts.items())


def link(
    name: str, message: str = "", *bases: str, is_cause: bool = False, **facts: str
) -> LinkedException:
    """Return what another exception was raised from, or after."""
    names = names_of(name, *bases) or (name,)
    return LinkedException(
        bases=names, message=message, is_cause=is_cause, facts=facts_of(facts)
    )


def raised(
    name: str,
    message: str = "",
    *bases: str,
    chain: tuple[LinkedException, ...] = (),
    **facts: str,
) -> RaisedException:
    """Return an exception, given by its dotted name."""
    module, _, kind = name.rpartition(".")
    return RaisedException(
        type=kind,
        module=module or "builtins",
        message=message,
        bases=names_of(name, *bases),
        facts=facts_of(facts),
        chain=chain,
    )


def asked(failure: Failure) -> Diagnosis | None:
    """Return what is recognised of a failure."""
    return recognise(
        Finding(
            reason=FailureReason.TESTS_FAILED,
            kind="test.failed",
            source="test report",
            detail="x",
            failure=failure,
            fingerprint=FINGERPRINT,
        )
    )


def of_test(exception: RaisedException | None, message: str = "") -> Diagnosis | None:
    """Return what is recognised of a test's exception."""
    at = Location(path="tests/test_x.py", line=3)
    return asked(
        TestFailure(
            nodeid="tests/test_x.py::test_x",
            phase="call",
            message=message,
            exception=exception,
            location=at,
        )
    )


def of_file(exception: RaisedException | None, message: str = "") -> Diagnosis | None:
    """Return what is recognised where a test file could not be collected."""
    return asked(
        CollectionFailure(
            nodeid="tests/b/test_x.py",
            message=message,
            exception=exception,
            location=Location(path="app/bad.py", line=7),
        )
    )


def of_pytest(origin: ErrorOrigin, message: str) -> Diagnosis | None:
    """Return what is recognised of an error outside of the tests."""
    return asked(RunError(origin=origin, message=message))


class Row(NamedTuple):
    """An exception, and what is said of it."""

    raised: RaisedException
    what: str
    fix: str | None = None
    key: str = ""
    """`what` by default."""
    owner: str | None = "environment"
    retryable: bool | None = None


LOCAL = "connect 127.0.0.1:5439 refused"
ROWS: Final = (
    # Modules
    Row(
        raised("ModuleNotFoundError", "No module named 'cachetools'"),
        "cachetools is not installed",
        "pip install cachetools",
        "import cachetools",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'yaml'"),
        "yaml is not installed",
        "pip install PyYAML",
        "import yaml",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'reqests'"),
        "reqests is not installed",
        None,
        "import reqests",
        retryable=False,
    ),
    Row(
        raised(
            "ModuleNotFoundError", "No module named 'acme_sdk'", distribution="acme-sdk"
        ),
        "acme_sdk is not installed",
        "pip install acme-sdk",
        "import acme_sdk",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'shop'", own_package="."),
        "shop is not installed",
        "pip install -e .",
        "import shop",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'google.cloud.storage'"),
        "google.cloud.storage is not installed",
        "pip install google-cloud-storage",
        "import google.cloud.storage",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'cv2'"),
        "cv2 is not installed",
        "pip install opencv-python",
        "import cv2",
        retryable=False,
    ),
    Row(
        raised(
            "ModuleNotFoundError",
            "No module named 'cv2'",
            distribution="opencv-contrib-python",
        ),
        "cv2 is not installed",
        "pip install opencv-contrib-python",
        "import cv2",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'google'"),
        "a package of google is not installed",
        None,
        "import google 0123456789abcdef",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'google.cloud'"),
        "google.cloud is not installed",
        None,
        "import google.cloud",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'requests.nope'"),
        "requests.nope does not exist",
        None,
        "import requests.nope",
        None,
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'utils'", own_folder="."),
        "no module named utils can be found",
        "python -m pytest, or pythonpath = . in the configuration",
        "import utils",
        None,
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'app.models2'"),
        "app.models2 does not exist",
        None,
        "import app.models2",
        None,
        retryable=False,
    ),
    Row(
        raised(
            "ModuleNotFoundError", "No module named 'queue.x'; 'queue' is not a package"
        ),
        "queue.x does not exist: queue is not a package",
        None,
        "import queue.x",
        None,
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'distutils.core'"),
        "Python 3.12 removed distutils; setuptools provides it",
        "pip install setuptools",
        "import distutils",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'imp'"),
        "this Python no longer has imp: it was removed from the standard library",
        None,
        "import imp",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named '_sqlite3'"),
        "this Python was built without _sqlite3",
        None,
        "import _sqlite3",
        retryable=False,
    ),
    Row(
        raised(
            "ImportError", "cannot import name 'nope' from 'app' (/x/app/__init__.py)"
        ),
        "nope can't be imported from app",
        None,
        "import app.nope",
        None,
        retryable=False,
    ),
    Row(
        raised(
            "ImportError",
            "cannot import name 'a' from partially initialized module 'app.x' (most likely due to"
            " a circular import) (/x/app/x.py)",
        ),
        "a can't be imported from app.x: they import each other",
        None,
        "import app.x.a",
        None,
        retryable=False,
    ),
    # Shared libraries, programs, variables
    Row(
        raised(
            "ImportError",
            "libGL.so.1: cannot open shared object file: No such file or directory",
        ),
        "the shared library libGL.so.1 is not installed",
        "on Debian or Ubuntu: apt install libgl1",
        retryable=False,
    ),
    Row(
        raised(
            "OSError",
            "libnope.so: cannot open shared object file: No such file or directory",
        ),
        "the shared library libnope.so is not installed",
        retryable=False,
    ),
    Row(
        raised(
            "ImportError",
            "/lib/libm.so.6: version `GLIBC_2.38' not found (required by x.so)",
        ),
        "the system's libraries are too old: there is no GLIBC_2.38",
        None,
        "library GLIBC_2.38",
        retryable=False,
    ),
    Row(
        raised(
            "FileNotFoundError",
            "[Errno 2] No such file or directory: 'ffmpeg'",
            filename="ffmpeg",
            raised_by="subprocess",
        ),
        "the program 'ffmpeg' is not installed",
        None,
        "program ffmpeg",
        retryable=False,
    ),
    Row(
        raised(
            "FileNotFoundError",
            "[Errno 2] No such file or directory: '/no/folder'",
            filename="/no/folder",
            cwd="/no/folder",
            raised_by="subprocess",
        ),
        "the folder /no/folder, to start a program in, does not exist",
        None,
        "folder /no/folder",
        retryable=False,
    ),
    Row(
        raised(
            "FileNotFoundError",
            "[WinError 2] The system cannot find",
            raised_by="subprocess",
        ),
        "a program that should be started is not installed",
        None,
        f"program {FINGERPRINT}",
        retryable=False,
    ),
    Row(
        raised(
            "subprocess.CalledProcessError",
            "Command 'ffmpeg -i x' returned non-zero exit status 127.",
        ),
        "the program 'ffmpeg' is not installed",
        None,
        "program ffmpeg",
        retryable=False,
    ),
    Row(
        raised(
            "builtins.ExceptionGroup",
            "unhandled errors in a TaskGroup (1 sub-exception)",
            chain=(
                link("ConnectionRefusedError", "no", host="127.0.0.1", port="5439"),
            ),
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised("FileNotFoundError", "x", filename="bin/run.sh", raised_by="subprocess"),
        "the program 'bin/run.sh' can't be started: it, or its interpreter, does not exist",
        None,
        "program bin/run.sh",
        retryable=False,
    ),
    Row(
        raised("ModuleNotFoundError", "No module named 'pkg_resources'"),
        "there is no pkg_resources: setuptools 82 removed it",
        'pip install "setuptools<82"',
        "import pkg_resources",
        retryable=False,
    ),
    Row(
        raised("KeyError", "'DATABASE_URL'", variable="DATABASE_URL"),
        "the environment variable DATABASE_URL is not set",
        None,
        "variable DATABASE_URL",
        retryable=False,
    ),
    Row(
        raised(
            "zoneinfo._common.ZoneInfoNotFoundError",
            "'No time zone found with key Europe/X'",
        ),
        "there is no time zone Europe/X: its data is not installed, or its name is wrong",
        "pip install tzdata",
        "time zone data",
        retryable=False,
    ),
    Row(
        raised("locale.Error", "unsupported locale setting"),
        "the system does not have the locale that was asked for",
        None,
        "locale",
        retryable=False,
    ),
    # Files and limits
    Row(
        raised("OSError", "[Errno 28] No space left on device: '/tmp/x'"),
        "no space left on the device (/tmp/x)",
        None,
        "disk full",
        retryable=False,
    ),
    Row(
        raised("OSError", "[Errno 28] No space left on device", errno="28"),
        "no space left on the device",
        None,
        "disk full",
        retryable=False,
    ),
    Row(
        raised("OSError", "[Errno 24] Too many open files: 'x'"),
        "too many open files (x)",
        None,
        "open files",
        retryable=False,
    ),
    Row(
        raised("PermissionError", "[Errno 13] Permission denied: '/etc/x'"),
        "no permission for /etc/x",
        None,
        "permission /etc/x",
        retryable=False,
    ),
    Row(
        raised("OSError", "[Errno 30] Read-only file system: '/x'"),
        "the file system is read-only (/x)",
        None,
        "read-only file system",
        retryable=False,
    ),
    Row(
        raised(
            "OSError", "[Errno 98] Address already in use", host="127.0.0.1", port="80"
        ),
        "the address 127.0.0.1:80 is in use already",
        "stop what listens there, or bind port 0",
        "bind 127.0.0.1:80",
    ),
    Row(
        raised(
            "OSError",
            "[Errno 98] error while attempting to bind on address ('::1', 80, 0, 0): in use",
        ),
        "the address [::1]:80 is in use already",
        "stop what listens there, or bind port 0",
        "bind [::1]:80",
    ),
    Row(
        raised("OSError", f"[Errno 36] File name too long: '{'x' * 900}'"),
        f"a file's name or path is too long: {'x' * 160}…",
        None,
        "path too long",
        retryable=False,
    ),
    Row(
        raised("MemoryError"),
        "more memory was requested than is available",
        None,
        "memory asked for",
        None,
    ),
    # Connections
    Row(
        raised(
            "ConnectionRefusedError", "[Errno 111] x", host="127.0.0.1", port="5439"
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "ConnectionRefusedError",
            "[Errno 111] Connect call failed ('127.0.0.1', 5439)",
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "psycopg.OperationalError",
            'connection failed: connection to server at "127.0.0.1", port 5439 failed: Connection'
            " refused\n\tIs the server running on that host and accepting TCP/IP connections?",
            "psycopg.DatabaseError",
            "psycopg.Error",
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "sqlalchemy.exc.OperationalError",
            '(psycopg2.OperationalError) connection to server at "127.0.0.1", port 5439 failed:'
            " Connection refused\n",
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "redis.exceptions.ConnectionError",
            "Error 111 connecting to 127.0.0.1:5439. Connection refused.",
            "redis.exceptions.RedisError",
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "requests.exceptions.ConnectionError",
            "HTTPConnectionPool(host='127.0.0.1', port=5439): Max retries exceeded with url: /"
            " (Caused by NewConnectionError(\"HTTPConnection(host='127.0.0.1', port=5439):"
            ' Failed to establish a new connection: [Errno 111] Connection refused"))',
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "urllib.error.URLError",
            "<urlopen error [Errno 111] Connection refused>",
            "builtins.OSError",
            chain=(
                link(
                    "ConnectionRefusedError",
                    "[Errno 111] Connection refused",
                    host="127.0.0.1",
                    port="5439",
                ),
            ),
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "httpx.ConnectError",
            "[Errno 111] Connection refused",
            "httpx.TransportError",
            url="http://127.0.0.1:5439/x",
            chain=(
                link(
                    "httpcore.ConnectError",
                    "[Errno 111] Connection refused",
                    is_cause=True,
                ),
                link(
                    "ConnectionRefusedError",
                    "[Errno 111] Connection refused",
                    is_cause=True,
                    host="127.0.0.1",
                    port="5439",
                ),
            ),
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "aiohttp.client_exceptions.ClientConnectorError",
            "Cannot connect to host 127.0.0.1:5439 ssl:default [Connect call failed"
            " ('127.0.0.1', 5439)]",
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "pymongo.errors.ServerSelectionTimeoutError",
            "127.0.0.1:5439: [Errno 111] Connection refused (configured timeouts: …)",
            "pymongo.errors.PyMongoError",
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "urllib.error.URLError", "<urlopen error [Errno 111] Connection refused>"
        ),
        "the connection was refused",
        key=f"connect {FINGERPRINT} refused",
    ),
    Row(
        raised(
            "socket.gaierror",
            "[Errno -2] Name or service not known",
            "builtins.OSError",
            host="db.internal",
        ),
        "the name db.internal can't be resolved",
        key="resolve db.internal",
        retryable=True,
    ),
    Row(
        raised(
            "requests.exceptions.ConnectionError",
            "HTTPConnectionPool(host='db.internal', port=80): Max retries exceeded with url: /"
            " (Caused by NameResolutionError(\"HTTPConnection(host='db.internal', port=80): Failed"
            " to resolve 'db.internal' ([Errno -2] Name or service not known)\"))",
        ),
        "the name db.internal can't be resolved",
        key="resolve db.internal",
        retryable=True,
    ),
    Row(
        raised("TimeoutError", "timed out", host="localhost", port="9"),
        "localhost:9 did not answer in time",
        key="connect localhost:9 timeout",
        retryable=True,
    ),
    Row(
        raised("httpx.ReadTimeout", "timed out", url="https://api.example.com/v1"),
        "api.example.com did not answer in time",
        key="connect api.example.com timeout",
        retryable=True,
    ),
    Row(
        raised(
            "ssl.SSLCertVerificationError",
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate"
            " (_ssl.c:1010)",
            "ssl.SSLError",
            "builtins.OSError",
            host="api.example.com",
            port="443",
        ),
        "the TLS certificate of api.example.com:443 is not trusted: self-signed certificate",
        key="certificate api.example.com:443: self-signed certificate",
        retryable=False,
    ),
    Row(
        raised(
            "http.client.RemoteDisconnected",
            "Remote end closed connection without response",
            "builtins.ConnectionResetError",
            "builtins.OSError",
            host="api.example.com",
        ),
        "api.example.com closed the connection",
        key="connect api.example.com reset",
    ),
    # Answers
    Row(
        raised(
            "requests.exceptions.HTTPError",
            "503 Server Error: Service Unavailable for url: https://api.example.com/x",
        ),
        "api.example.com answered 503",
        key="answer api.example.com 503",
        retryable=True,
    ),
    Row(
        raised(
            "httpx.HTTPStatusError",
            "Client error '429 Too Many Requests' for url 'https://api.example.com/x'\nFor more",
        ),
        "api.example.com answered 429: too many requests",
        key="answer api.example.com 429",
        retryable=True,
    ),
    Row(
        raised(
            "urllib.error.HTTPError",
            "HTTP Error 401: Unauthorized",
            status="401",
            url="https://u:p@api.example.com/x",
        ),
        "api.example.com answered 401: not signed in, or with wrong credentials",
        key="answer api.example.com 401",
        retryable=False,
    ),
    Row(
        raised(
            "aiohttp.client_exceptions.ClientResponseError",
            "403, message='Forbidden', url='https://api.example.com/x'",
        ),
        "api.example.com answered 403: not allowed",
        key="answer api.example.com 403",
        retryable=False,
    ),
    Row(
        raised(
            "botocore.exceptions.ClientError",
            "An error occurred (AccessDenied) when calling the GetObject operation: Access Denied",
        ),
        "AWS refused GetObject: Access Denied",
        key="aws AccessDenied",
        retryable=False,
    ),
    Row(
        raised(
            "botocore.exceptions.NoCredentialsError", "Unable to locate credentials"
        ),
        "there are no credentials for AWS",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        "aws credentials",
        retryable=False,
    ),
    Row(
        raised(
            "requests.exceptions.HTTPError",
            "503 Server Error: Service Unavailable for url: http://localhost:8000/cart?key=1",
        ),
        "localhost:8000/cart answered 503",
        key="answer localhost:8000/cart 503",
        owner=None,
    ),
    Row(
        raised(
            "httpx.HTTPStatusError",
            "Client error '404 Not Found' for url 'https://u:x@api.example.com/v1/x'\nMore",
        ),
        "api.example.com/v1/x answered 404",
        key="answer api.example.com/v1/x 404",
        owner=None,
    ),
    Row(
        raised(
            "grpc._channel._InactiveRpcError",
            "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n"
            '\tdetails = "failed to connect to all addresses; last error: UNKNOWN:'
            ' ipv4:127.0.0.1:5439: Failed to connect to remote host: Connection refused"',
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    Row(
        raised(
            "mysql.connector.errors.InterfaceError",
            "2003: Can't connect to MySQL server on '127.0.0.1:5439' (Errno 111: Connection"
            " refused)",
        ),
        "nothing listens on 127.0.0.1:5439",
        key=LOCAL,
    ),
    # Databases and brokers
    Row(
        raised(
            "psycopg.OperationalError",
            'connection failed: connection to server at "127.0.0.1", port 5432 failed: FATAL:'
            '  password authentication failed for user "x"',
        ),
        'PostgreSQL at 127.0.0.1:5432: password authentication failed for user "x"',
        key='postgresql 127.0.0.1:5432: password authentication failed for user "x"',
        retryable=False,
    ),
    Row(
        raised(
            "asyncpg.exceptions.InvalidCatalogNameError",
            'database "shop" does not exist',
            "asyncpg.exceptions.PostgresError",
        ),
        'PostgreSQL: database "shop" does not exist',
        key='postgresql: database "shop" does not exist',
        retryable=False,
    ),
    Row(
        raised(
            "pymysql.err.OperationalError",
            "(1045, \"Access denied for user 'root'@'localhost' (using password: NO)\")",
        ),
        "MySQL: access denied for user 'root'@'localhost'",
        key="mysql access 'root'@'localhost'",
        retryable=False,
    ),
    Row(
        raised("pymysql.err.OperationalError", "(1049, \"Unknown database 'shop'\")"),
        "MySQL: the database shop does not exist",
        key="mysql database shop",
        retryable=False,
    ),
    Row(
        raised(
            "redis.exceptions.AuthenticationError",
            "Authentication required.",
            "redis.exceptions.RedisError",
        ),
        "Redis: a password is needed",
        key="redis password",
        retryable=False,
    ),
    Row(
        raised("kafka.errors.NoBrokersAvailable", "NoBrokersAvailable"),
        "Kafka can't be reached",
        "start Kafka, or set its bootstrap servers",
        "kafka",
    ),
    Row(
        raised(
            "pika.exceptions.ProbableAuthenticationError", "(403, 'ACCESS_REFUSED')"
        ),
        "RabbitMQ: wrong user or password",
        key="rabbitmq authentication",
        retryable=False,
    ),
    Row(
        raised(
            "sqlite3.OperationalError", "no such table: users", "sqlite3.DatabaseError"
        ),
        "the database has no table users",
        key="table users",
        owner=None,
        retryable=False,
    ),
    # Containers and browsers
    Row(
        raised(
            "docker.errors.DockerException",
            "Error while fetching server API version: ('Connection aborted.',"
            " FileNotFoundError(2, 'No such file or directory'))",
        ),
        "Docker's daemon can't be reached",
        "start Docker, or set DOCKER_HOST",
        "docker daemon",
    ),
    Row(
        raised(
            "playwright._impl._errors.Error",
            "BrowserType.launch: Executable doesn't exist at"
            " /root/.cache/ms-playwright/chromium-1187/chrome-linux/chrome\n╔═",
        ),
        "Playwright's chromium is not installed",
        "playwright install chromium",
        "playwright chromium",
        retryable=False,
    ),
    # Code and configuration
    Row(
        raised(
            "SyntaxError",
            "invalid syntax (bad.py, line 7)",
            filename="/x/bad.py",
            lineno="7",
        ),
        "SyntaxError: invalid syntax (/x/bad.py:7)",
        None,
        "syntax /x/bad.py:7",
        None,
        retryable=False,
    ),
    Row(
        raised("_pytest.fixtures.FixtureLookupError", "fixture 'nope' not found"),
        "fixture 'nope' not found",
        owner=None,
        retryable=False,
    ),
    Row(
        raised("_pytest.fixtures.FixtureLookupError", "fixture 'mocker' not found"),
        "fixture 'mocker' not found",
        "pip install pytest-mock",
        key="plugin pytest-mock",
        owner=None,
        retryable=False,
    ),
    Row(
        raised("_pytest.fixtures.FixtureLookupError", "fixture 'event_loop' not found"),
        "fixture 'event_loop' not found",
        "use asyncio.get_running_loop(): pytest-asyncio 1 has no event_loop",
        owner=None,
        retryable=False,
    ),
    Row(
        raised("_pytest.fixtures.FixtureLookupError", "fixture 'settings' not found"),
        "fixture 'settings' not found",
        owner=None,
        retryable=False,
    ),
    *(
        Row(
            raised(
                "builtins.Failed",
                f"'{slip}' not found in `markers` configuration option",
            ),
            f"the mark '{slip}' is not registered",
            f"did you mean {mark}?",
            f"mark {slip}",
            None,
            retryable=False,
        )
        for slip, mark in {
            "usefixture": "usefixtures",
            "xfial": "xfail",
            "skipIf": "skipif",
            "parametrise": "parametrize",
        }.items()
    ),
    Row(
        raised("builtins.Failed", "'slow' not found in `markers` configuration option"),
        "the mark 'slow' is not registered",
        'add slow to "markers" in the configuration of pytest',
        "mark slow",
        None,
        retryable=False,
    ),
    Row(
        raised(
            "builtins.Failed", "'django_db' not found in `markers` configuration option"
        ),
        "the mark 'django_db' is not registered",
        "pip install pytest-django",
        "plugin pytest-django",
        None,
        retryable=False,
    ),
    Row(
        raised(
            "pytest.PytestUnknownMarkWarning",
            "Unknown pytest.mark.slow - is this a typo?  You can",
        ),
        "the mark 'slow' is not registered",
        'add slow to "markers" in the configuration of pytest',
        "mark slow",
        None,
        retryable=False,
    ),
    Row(
        raised(
            "builtins.Failed",
            "async def functions are not natively supported.\nYou need",
        ),
        "no plugin runs async tests",
        "pip install pytest-asyncio",
        "plugin pytest-asyncio",
        "environment",
        retryable=False,
    ),
    Row(
        raised(
            "builtins.Failed",
            "async def functions are not natively supported.\nYou need",
            plugin="pytest-asyncio",
        ),
        "the async test is not marked for pytest-asyncio",
        "add @pytest.mark.asyncio, or set asyncio_mode = auto",
        "async mark",
        None,
        retryable=False,
    ),
    Row(
        raised(
            "OSError",
            "pytest: reading from stdin while output is captured!  Consider using `-s`.",
            breakpoint="tests/test_cart.py:12",
        ),
        "breakpoint left at tests/test_cart.py:12, and there is no terminal",
        "remove it",
        "breakpoint tests/test_cart.py:12",
        None,
        retryable=False,
    ),
    Row(
        raised("RuntimeError", "Event loop is closed"),
        "the event loop is closed",
        owner=None,
    ),
    Row(
        raised("RuntimeWarning", "coroutine 'test_x.<locals>.fetch' was never awaited"),
        "coroutine fetch was never awaited",
        "await fetch(…)",
        owner=None,
        retryable=False,
    ),
    Row(
        raised(
            "pytest.PytestUnhandledThreadExceptionWarning",
            "Exception in thread Thread-3",
            "builtins.Warning",
            chain=(
                link(
                    "ZeroDivisionError",
                    "division by zero",
                    is_cause=True,
                    place="app/x.py:3",
                ),
            ),
        ),
        "ZeroDivisionError: division by zero in a thread (app/x.py:3)",
        owner=None,
    ),
    Row(
        raised("DeprecationWarning", "old thing", place="lib/site-packages/old/x.py:3"),
        "DeprecationWarning as an error: old thing (lib/site-packages/old/x.py:3)",
        None,
        "warning DeprecationWarning: old thing (lib/site-packages/old/x.py:3)",
        None,
        retryable=False,
    ),
    Row(
        raised(
            "AssertionError", "assert [+ received] == [- snapshot]\n  - 'a'\n  + 'b'"
        ),
        "the output differs from the snapshot",
        "if the new output is right: pytest --snapshot-update",
        "snapshot syrupy",
        None,
        retryable=False,
    ),
    # What libraries refuse because of how they are used
    Row(
        raised(
            "nbmake.pytest_items.NotebookFailedException",
            "Error - No such kernel: 'conda-env-regional-py'",
        ),
        "there is no Jupyter kernel conda-env-regional-py",
        "python -m ipykernel install --user --name conda-env-regional-py, or name another kernel",
        "kernel conda-env-regional-py",
        retryable=False,
    ),
    Row(
        raised(
            "RuntimeError",
            "The grpc package installed is at version 1.60.0, but the generated code in "
            "hello_pb2_grpc.py depends on grpcio>=1.71.0. Please upgrade your grpc module",
        ),
        "grpcio 1.60.0 is too old for hello_pb2_grpc.py, which needs grpcio>=1.71.0",
        'pip install "grpcio>=1.71.0"',
        "generated hello_pb2_grpc.py grpcio>=1.71.0",
        retryable=False,
    ),
    Row(
        raised(
            "google.protobuf.runtime_version.VersionError",
            "Detected incompatible Protobuf Gencode/Runtime versions when loading "
            "hello.proto: gencode 6.31.0 runtime 5.29.5. Runtime version cannot be older",
        ),
        "protobuf 5.29.5 does not fit the code of hello.proto, which was generated for 6.31.0",
        'generate it again, or pip install "protobuf==6.31.0"',
        "generated hello.proto 6.31.0",
        retryable=False,
    ),
    Row(
        raised(
            "builtins.Failed",
            "Invalid regex pattern provided to 'match': incomplete escape \\U at position 2",
        ),
        "match= is not a regular expression: incomplete escape \\U at position 2",
        "use re.escape() for literal text, such as a Windows path",
        f"match= {FINGERPRINT}",
        None,
        retryable=False,
    ),
    Row(
        raised(
            "sqlalchemy.orm.exc.DetachedInstanceError",
            "Parent instance <Order at 0x7f3a> is not bound to a Session; lazy load "
            "operation of attribute 'lines' cannot proceed",
        ),
        "Order.lines is loaded lazily, and the session of its object is closed",
        "load it before the session is closed (selectinload)",
        "detached Order.lines",
        None,
        retryable=False,
    ),
    Row(
        raised(
            "sqlalchemy.exc.MissingGreenlet",
            "greenlet_spawn has not been called; can't call await_only() here",
        ),
        "SQLAlchemy loads from the database without await, "
        "as for an attribute that is loaded lazily",
        "load it before (selectinload), or await it (AsyncAttrs)",
        f"greenlet {FINGERPRINT}",
        None,
        retryable=False,
    ),
    Row(
        raised(
            "RuntimeError",
            "<asyncio.locks.Lock object at 0x7f3a [locked]> is bound to a different event loop",
        ),
        "what is awaited belongs to another event loop (a locks.Lock)",
        "create it in the loop that awaits it: a fixture and its tests must share one loop",
        "",
        None,
        retryable=False,
    ),
)


POOL: Final = (
    "HTTPSConnectionPool(host='api.example.com', port=443): Max retries exceeded: "
)
AT: Final = 'connection to server at "127.0.0.1", port 5432 failed: '
AWS: Final = "An error occurred ({}) when calling the PutItem operation: x"

EXAMPLES: Final = (
    (
        "ImportError",
        "dlopen(/x/y.so, 0x2): no",
        "the shared library /x/y.so can't be loaded",
    ),
    (
        "ImportError",
        "DLL load failed while importing _ssl: x",
        "a DLL that _ssl needs is missing",
    ),
    (
        "ImportError",
        "failed to find libmagic.  Check your installation",
        "the shared library libmagic.so.1 is not installed",
    ),
    (
        "git.exc.GitCommandNotFound",
        "Cmd('git') not found",
        "the program 'git' is not installed",
    ),
    (
        "ImportError",
        "Bad git executable.\nThe git",
        "the program 'git' is not installed",
    ),
    (
        "OSError",
        "[Errno 122] Disk quota exceeded: 'x'",
        "the disk quota is used up (x)",
    ),
    (
        "OSError",
        "[Errno 98] Address already in use",
        "a network address is in use already",
    ),
    ("OSError", "[Errno 12] Cannot allocate memory", "the memory ran out"),
    (
        "requests.exceptions.ConnectionError",
        f"{POOL}[Errno -3] Temporary failure in name resolution",
        "the name api.example.com can't be resolved",
    ),
    (
        "redis.exceptions.ConnectionError",
        "Error -2 connecting to db.internal:6379. Name or service not known.",
        "the name db.internal can't be resolved",
    ),
    (
        "pymongo.errors.ServerSelectionTimeoutError",
        "db.internal:27017: [Errno -2] Name or service not known",
        "the name db.internal can't be resolved",
    ),
    (
        "psycopg2.OperationalError",
        'could not translate host name "db.internal" to address: Name or service not known',
        "the name db.internal can't be resolved",
    ),
    (
        "psycopg.OperationalError",
        "failed to resolve host 'db.internal': [Errno -2] Name or service not known",
        "the name db.internal can't be resolved",
    ),
    (
        "mysql.connector.errors.DatabaseError",
        "2005 (HY000): Unknown MySQL server host 'db.internal' (-2)",
        "the name db.internal can't be resolved",
    ),
    (
        "urllib.error.URLError",
        "<urlopen error [Errno -2] Name or service not known>",
        "a host's name can't be resolved",
    ),
    (
        "grpc._channel._InactiveRpcError",
        "details = 'DNS resolution failed for db.internal:50051: C-ares'",
        "the name db.internal can't be resolved",
    ),
    (
        "requests.exceptions.ProxyError",
        f"{POOL}Tunnel connection failed: 407 Proxy Authentication Required')))",
        "the proxy refused the connection: 407 Proxy Authentication Required",
    ),
    ("httpx.ProxyError", "502 Bad Gateway", "the proxy can't be reached"),
    (
        "requests.exceptions.SSLError",
        (
            f"{POOL}(Caused by SSLError(SSLCertVerificationError(1,"
            " '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired"
            " (_ssl.c:1010)')))"
        ),
        "the TLS certificate of api.example.com:443 is not trusted: certificate has expired",
    ),
    (
        "ssl.SSLError",
        "[SSL: WRONG_VERSION_NUMBER] wrong version number",
        "the server does not speak TLS",
    ),
    (
        "psycopg2.OperationalError",
        (
            "could not connect to server: Connection refused\n"
            '\tIs the server running on host "localhost" (127.0.0.1) and accepting\n'
            "\tTCP/IP connections on port 5432?"
        ),
        "nothing listens on localhost:5432",
    ),
    (
        "pymysql.err.OperationalError",
        "(2003, \"Can't connect to MySQL server on 'localhost' ([Errno 111] Connection refused)\")",
        "MySQL at localhost: nothing listens there",
    ),
    (
        "botocore.exceptions.EndpointConnectionError",
        'Could not connect to the endpoint URL: "http://localhost:4566/x"',
        "localhost:4566 can't be reached",
    ),
    ("httpx.ConnectError", "All connection attempts failed", "the connection failed"),
    (
        "FileNotFoundError",
        "[Errno 2] No such file or directory: '/var/run/docker.sock'",
        "Docker's daemon can't be reached",
    ),
    (
        "psycopg.OperationalError",
        f"{AT}timeout expired",
        "127.0.0.1:5432 did not answer in time",
    ),
    (
        "requests.exceptions.ReadTimeout",
        "HTTPConnectionPool(host='localhost', port=8000): Read timed out. (read timeout=1)",
        "localhost:8000 did not answer in time",
    ),
    (
        "redis.exceptions.TimeoutError",
        "Timeout reading from localhost:6379",
        "Redis at localhost:6379 did not answer in time",
    ),
    (
        "pymongo.errors.ServerSelectionTimeoutError",
        "localhost:27017: timed out",
        "MongoDB at localhost:27017 did not answer in time",
    ),
    ("requests.exceptions.Timeout", "x", "a request was not answered in time"),
    ("TimeoutError", "timed out", "a connection was not answered in time"),
    ("OSError", "[Errno 101] Network is unreachable", "the network can't be reached"),
    (
        "requests.exceptions.ConnectionError",
        f"{POOL}Connection reset by peer",
        "api.example.com:443 closed the connection",
    ),
    (
        "aiohttp.client_exceptions.ServerDisconnectedError",
        "Server disconnected",
        "a server closed the connection",
    ),
    (
        "requests.exceptions.HTTPError",
        "407 Client Error: x for url: https://api.example.com/",
        "a proxy answered 407: it asks for credentials",
    ),
    ("urllib.error.HTTPError", "HTTP Error 503: x", "a server answered 503"),
    (
        "botocore.exceptions.ClientError",
        AWS.format("ThrottlingException"),
        "AWS is over its rate limit for PutItem",
    ),
    (
        "botocore.exceptions.ClientError",
        AWS.format("InternalError"),
        "AWS answered InternalError to PutItem",
    ),
    (
        "botocore.exceptions.NoRegionError",
        "You must specify a region.",
        "no region is set for AWS",
    ),
    (
        "botocore.exceptions.ProfileNotFound",
        "The config profile (work) could not be found",
        "AWS has no profile work",
    ),
    (
        "google.auth.exceptions.DefaultCredentialsError",
        "Your default credentials were not found",
        "there are no credentials for Google Cloud",
    ),
    (
        "psycopg.OperationalError",
        f'{AT}FATAL:  role "x" does not exist',
        'PostgreSQL at 127.0.0.1:5432: role "x" does not exist',
    ),
    (
        "psycopg.OperationalError",
        'connection failed: FATAL:  Peer authentication failed for user "x"',
        'PostgreSQL: Peer authentication failed for user "x"',
    ),
    (
        "psycopg.OperationalError",
        f'{AT}FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "x"',
        'PostgreSQL at 127.0.0.1:5432: no pg_hba.conf entry for host "10.0.0.1"',
    ),
    (
        "psycopg.OperationalError",
        f"{AT}fe_sendauth: no password supplied",
        "PostgreSQL at 127.0.0.1:5432: no password supplied",
    ),
    (
        "psycopg.OperationalError",
        f"{AT}FATAL:  sorry, too many clients already",
        "PostgreSQL at 127.0.0.1:5432: sorry, too many clients already",
    ),
    (
        "psycopg.OperationalError",
        f"{AT}FATAL:  the database system is starting up",
        "PostgreSQL at 127.0.0.1:5432: the database system is starting up",
    ),
    (
        "psycopg2.OperationalError",
        'connection to server on socket "/run/x/.s.PGSQL.5432" failed: No such file or directory',
        "PostgreSQL is not running: there is no socket /run/x/.s.PGSQL.5432",
    ),
    (
        "psycopg2.OperationalError",
        "server closed the connection unexpectedly",
        "PostgreSQL closed the connection",
    ),
    (
        "pymysql.err.OperationalError",
        "(1040, 'Too many connections')",
        "MySQL: too many connections",
    ),
    (
        "MySQLdb.OperationalError",
        "(2002, \"Can't connect to local server through socket '/run/mysqld.sock' (2)\")",
        "MySQL is not running: there is no socket /run/mysqld.sock",
    ),
    (
        "pymysql.err.OperationalError",
        "(2013, 'Lost connection to MySQL server during query')",
        "MySQL closed the connection",
    ),
    (
        "redis.exceptions.ResponseError",
        "WRONGPASS invalid username-password pair or user is disabled.",
        "Redis: wrong user or password",
    ),
    (
        "redis.exceptions.BusyLoadingError",
        "Redis is loading the dataset in memory",
        "Redis is loading its data",
    ),
    (
        "redis.exceptions.ConnectionError",
        "Error 2 connecting to /run/redis.sock. No such file or directory.",
        "Redis is not running: there is no socket /run/redis.sock",
    ),
    (
        "pymongo.errors.OperationFailure",
        "Authentication failed., full error: {}",
        "MongoDB: authentication failed",
    ),
    (
        "cimpl.KafkaException",
        "KafkaError{code=_TRANSPORT,val=-195}",
        "Kafka can't be reached",
    ),
    ("kafka.errors.AuthenticationFailedError", "x", "Kafka: authentication failed"),
    (
        "pika.exceptions.ProbableAccessDeniedError",
        "x",
        "RabbitMQ: the user may not use this virtual host",
    ),
    ("pika.exceptions.AMQPConnectionError", "", "RabbitMQ can't be reached"),
    (
        "opensearchpy.exceptions.TransportError",
        "TransportError(401, 'security_exception')",
        "Elasticsearch: wrong credentials",
    ),
    ("elasticsearch.AuthenticationException", "x", "Elasticsearch: wrong credentials"),
    ("elastic_transport.ConnectionError", "x", "Elasticsearch can't be reached"),
    (
        "sqlite3.OperationalError",
        "unable to open database file",
        "the database file can't be opened",
    ),
    ("sqlite3.OperationalError", "database is locked", "the database file is locked"),
    (
        "sqlite3.OperationalError",
        "attempt to write a readonly database",
        "the database file is read-only",
    ),
    (
        "sqlalchemy.exc.NoSuchModuleError",
        "Can't load plugin: sqlalchemy.dialects:snowflake",
        "SQLAlchemy has no dialect snowflake: its package is not installed",
    ),
    (
        "django.core.exceptions.ImproperlyConfigured",
        "Error loading psycopg2 or psycopg module",
        "Django's driver for the database is not installed: psycopg2 or psycopg",
    ),
    (
        "docker.errors.ImageNotFound",
        '404 Client Error: Not Found ("No such image: shop/api:1")',
        "Docker has no image shop/api:1",
    ),
    (
        "podman.errors.exceptions.APIError",
        "http+unix:///run/podman/podman.sock: refused",
        "Podman's service can't be reached",
    ),
    (
        "kubernetes.config.config_exception.ConfigException",
        "Invalid kube-config file. No configuration found.",
        "no Kubernetes cluster is configured",
    ),
    (
        "kubernetes.client.exceptions.ApiException",
        "(403)\nReason: Forbidden\nHTTP",
        "Kubernetes answered 403: Forbidden",
    ),
    (
        "kubernetes.client.exceptions.ApiException",
        "(503)\nReason: Service Unavailable\nHTTP",
        "Kubernetes answered 503: Service Unavailable",
    ),
    (
        "testcontainers.core.exceptions.ContainerConnectException",
        "x",
        "a test container did not start",
    ),
    (
        "playwright._impl._errors.Error",
        "Executable doesn't exist at /opt/chrome",
        "Playwright's browser is not installed",
    ),
    (
        "playwright._impl._errors.Error",
        "Host system is missing dependencies to run browsers",
        "system libraries that Playwright's browser needs are missing",
    ),
    (
        "playwright._impl._errors.Error",
        "Page.goto: net::ERR_CONNECTION_REFUSED at http://localhost:3000/\nCall",
        "nothing listens on localhost:3000",
    ),
    (
        "playwright._impl._errors.Error",
        "Page.goto: net::ERR_NAME_NOT_RESOLVED at http://shop.internal/\nCall",
        "the name shop.internal can't be resolved",
    ),
    (
        "selenium.common.exceptions.WebDriverException",
        "Message: unknown error: net::ERR_CONNECTION_REFUSED",
        "nothing listens on the address that the browser was sent to",
    ),
    (
        "selenium.common.exceptions.NoSuchDriverException",
        "Message: Unable to obtain driver for chrome; For documentation",
        "there is no driver for chrome",
    ),
    (
        "selenium.common.exceptions.WebDriverException",
        "Message: 'chromedriver' executable needs to be in PATH.",
        "the driver chromedriver is not installed",
    ),
    (
        "selenium.common.exceptions.WebDriverException",
        "Message: unknown error: cannot find Chrome binary",
        "the browser Chrome is not installed",
    ),
    (
        "selenium.common.exceptions.SessionNotCreatedException",
        "Message: session not created: This version of ChromeDriver only supports Chrome version 9",
        "the driver and Chrome do not match: the driver is for Chrome 9",
    ),
    (
        "selenium.common.exceptions.SessionNotCreatedException",
        "Message: session not created: Chrome instance exited. Examine",
        "the browser did not start: Chrome instance exited",
    ),
    (
        "django.core.exceptions.ImproperlyConfigured",
        "Requested setting DEBUG, but settings are not configured. You must",
        "Django's settings are not configured",
    ),
    (
        "ImportError",
        "Could not import 'shop.settings' (is it on sys.path?): x",
        "Django's settings can't be imported: shop.settings",
    ),
    (
        "RuntimeError",
        'Database access not allowed, use the "django_db" mark, or',
        "the test uses Django's database without its mark",
    ),
    (
        "ImportError",
        "No module named 'shop'\n\npytest-django could not find a Django project (no",
        "Django's settings can't be imported: No module named 'shop'",
    ),
    (
        "django.core.exceptions.AppRegistryNotReady",
        "Apps aren't loaded yet.",
        "Django's models are imported before Django is set up",
    ),
    (
        "django.core.exceptions.ImproperlyConfigured",
        "The SECRET_KEY setting must not be empty.",
        "Django's configuration is wrong: The SECRET_KEY setting must not be empty.",
    ),
    (
        "psycopg.errors.UndefinedTable",
        'relation "users" does not exist\nLINE 1',
        "the database has no table users",
    ),
    (
        "pymysql.err.ProgrammingError",
        "(1146, \"Table 'shop.users' doesn't exist\")",
        "the database has no table shop.users",
    ),
    (
        "MemoryError",
        "Unable to allocate 8.00 GiB for an array with shape (9,)",
        "the memory ran out: Unable to allocate 8.00 GiB for an array",
    ),
    (
        "AttributeError",
        "partially initialized module 'app.x' has no attribute 'y' (most likely due to a circular",
        "app.x has no y: they import each other",
    ),
    (
        "OSError",
        "pytest: reading from stdin while output is captured!",
        "the test reads from standard input, which pytest captures",
    ),
    (
        "pytest.PytestUnraisableExceptionWarning",
        "Exception ignored in: <coroutine object fetch at 0x7f>",
        "coroutine fetch was never awaited",
    ),
    (
        "pytest.PytestUnhandledThreadExceptionWarning",
        "Exception in thread T",
        "an exception in a thread",
    ),
    (
        "AssertionError",
        "value does not match the expected value in snapshot x\n (run pytest",
        "the output differs from the snapshot",
    ),
    (
        "AssertionError",
        "assert 5 == 4\n +  where 4 = snapshot(4)",
        "the output differs from the snapshot",
    ),
    (
        "AssertionError",
        "FILES DIFFER:\n/x\n/y",
        "the output differs from the expected file",
    ),
    (
        "builtins.Failed",
        "some snapshots in this test have incorrect values.",
        "the output differs from the snapshot",
    ),
    (
        "builtins.Failed",
        "File not found in data directory, created:\n- /x/test_reg.yml",
        "the expected file was missing and has been created: /x/test_reg.yml",
    ),
    (
        "RuntimeError",
        "Task <Task pending> got Future <Future pending> attached to a different loop",
        "what is awaited belongs to another event loop",
    ),
    (
        "RuntimeError",
        "Timeout context manager should be used inside a task",
        "aiohttp's session belongs to another event loop, or no task uses it",
    ),
    (
        "TypeError",
        "Descriptors cannot be created directly.\nIf this call came from a _pb2.py file",
        "the code that protoc generated is too old for the installed protobuf",
    ),
    (
        "alembic.util.exc.CommandError",
        "Multiple head revisions are present for given argument 'head'; please",
        "the migrations have several heads (Multiple head revisions are present)",
    ),
)
"""What else is recognised, by the name and the text alone, as a log has them."""

WITH_FACTS: Final = (
    (
        raised("PermissionError", "x", filename="./run.sh", raised_by="subprocess"),
        "the program './run.sh' can't be executed: no permission",
    ),
    (
        raised("OSError", "no route", errno="113", host="10.0.0.1", port="80"),
        "there is no route to 10.0.0.1:80",
    ),
    (
        raised(
            "builtins.Failed",
            "async def functions are not natively supported",
            plugin="anyio",
        ),
        "the async test is not marked for anyio",
    ),
    (
        raised(
            "pytest.PytestUnraisableExceptionWarning",
            "Exception ignored in: <function A.__del__>",
            "builtins.Warning",
            chain=(link("ValueError", "no", is_cause=True),),
        ),
        "ValueError: no where nobody can catch it",
    ),
)


OF_GIT: Final = (
    (
        "fatal: unsafe repository ('/srv/x' is owned by someone else)",
        "git refuses the repository /srv/x: it belongs to another user",
    ),
    (
        "fatal: unable to auto-detect email address (got 'root@ci.(none)')",
        "git does not know who commits: user.name and user.email are not set",
    ),
    (
        "fatal: No names found, cannot describe anything.",
        "git describe finds no tag: there is none, or the clone is shallow",
    ),
    (
        "fatal: not a git repository (or any of the parent directories): .git",
        "the folder is not a git repository",
    ),
    (
        "ssh: Could not resolve hostname git.example: Name or service not known",
        "the host git.example can't be resolved",
    ),
    (
        "fatal: Authentication failed for 'https://git.example/a/b.git/'",
        "git is not allowed to read git.example/a/b.git/",
    ),
    (
        "git@git.example: Permission denied (publickey).",
        "git's login by SSH was refused: git@git.example: Permission denied (publickey).",
    ),
    (
        "fatal: Unable to create '/srv/x/.git/index.lock': File exists.",
        "another git holds the lock index.lock, or one has crashed",
    ),
    (
        "fatal: 'origin' does not appear to be a git repository",
        "git has no remote origin",
    ),
    ("error: No such remote 'origin'", "git has no remote origin"),
    (
        "fatal: ambiguous argument 'v9': unknown revision or path not in the tree",
        "git knows no revision v9",
    ),
    (
        "error: pathspec 'nope' did not match any file(s) known to git",
        "git knows no revision nope",
    ),
)


@pytest.mark.parametrize(("said", "what"), OF_GIT)
def test_what_git_says(said: str, what: str) -> None:
    """It is what the exception is about, in whichever class and whoever raised it."""
    failed = "Command '['git']' returned non-zero exit status 128."
    found = of_test(raised("subprocess.CalledProcessError", failed, said=said))
    assert found is not None
    assert found.what == what


def test_what_another_program_says_is_quoted() -> None:
    """Numbers and paths in it make no cause of their own."""
    keys = set()
    for number in (1, 22):
        failed = raised(
            "subprocess.CalledProcessError",
            "Command '['make']' returned non-zero exit status 2.",
            command="make",
            returncode="2",
            said=f"make: *** [/tmp/run-{number}/a.o] Error {number}",
        )
        found = of_test(failed)
        assert found is not None
        assert found.what.startswith(
            "`make` failed (exit code 2): make: *** [/tmp/run-"
        )
        keys.add(found.key)
    assert len(keys) == 1


@pytest.mark.parametrize(("name", "message", "what"), EXAMPLES)
def test_a_name_and_a_text_are_enough(name: str, message: str, what: str) -> None:
    """A log or another program's report knows neither fields nor bases."""
    found = of_test(raised(name, message))
    assert found is not None
    assert found.what == what


@pytest.mark.parametrize(
    ("exception", "what"), WITH_FACTS, ids=lambda each: str(each)[:30]
)
def test_what_only_the_recorder_knows(exception: RaisedException, what: str) -> None:
    """A field of the exception, or what it was raised from, says more than its text."""
    found = of_test(exception)
    assert found is not None
    assert found.what == what


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row.raised.type}-{row.what[:40]}"
)
def test_what_to_fix(row: Row) -> None:
    """A sentence without the exception's name, its fix, whose it is, and one key for one cause."""
    found = of_test(row.raised)
    assert found is not None
    said = (found.what, found.fix, found.key, found.owner, found.retryable)
    assert said == (row.what, row.fix, row.key or row.what, row.owner, row.retryable)


@pytest.mark.parametrize(
    "exception",
    [
        raised(
            "AssertionError",
            "no such user",
            chain=(link("KeyError", "'x'", is_cause=True),),
        ),
        raised(
            "AssertionError",
            "the service is down",
            chain=(
                link("ConnectionRefusedError", "no", is_cause=True, host="x", port="1"),
            ),
        ),
        raised(
            "builtins.Failed",
            "no service",
            chain=(link("ConnectionRefusedError", host="x"),),
        ),
        raised(
            "ValueError",
            "bad",
            chain=(link("ConnectionRefusedError", host="x", port="1"),),
        ),
        raised("ValueError", "bad", chain=(link("KeyError", "'x'", is_cause=True),)),
        raised("KeyError", "'DATABASE_URL'"),
        raised("TimeoutError", ""),
        raised("TimeoutError", "the job took too long"),
        raised("mine.HTTPError", "503 Server Error for url: https://x/"),
        raised(
            "subprocess.CalledProcessError", "Command '['false']' returned non-zero"
        ),
        raised("AssertionError", "assert 1 == 2"),
        raised("AssertionError", "assert page == snapshot_of_page"),
        raised("RuntimeError", "boom"),
    ],
    ids=lambda exception: f"{exception.type}-{exception.message[:30]}",
)
def test_what_the_user_says_stays(exception: RaisedException) -> None:
    """A check's own words count, and nothing is guessed from what may mean anything."""
    assert of_test(exception) is None


@pytest.mark.parametrize(
    ("raiser", "is_believed"),
    [
        (None, True),
        ("", True),
        ("requests.adapters", True),
        ("urllib3.util.connection", True),
        ("unittest.mock", False),
        ("responses", False),
        ("tests.test_client", False),
    ],
)
def test_the_environment_is_blamed_by_its_own_voice(
    *, raiser: str | None, is_believed: bool
) -> None:
    """What a mock or a test raises itself only reads like a fault of the environment."""
    refused = replace(
        raised(
            "requests.exceptions.ConnectionError",
            "HTTPConnectionPool(host='db', port=80): Connection refused",
            "requests.exceptions.RequestException",
            "builtins.OSError",
        ),
        raiser=raiser,
    )
    found = of_test(refused)
    assert found is not None
    assert (found.owner == "environment") is is_believed
    assert found.is_simulated is not is_believed
    if not is_believed:
        assert found.retryable is False
        assert "[raised by" in found.what


def test_a_mock_behind_a_real_exception_makes_it_simulated() -> None:
    """The root of a chain decides: a client that meets a mocked socket raises by itself."""
    mocked = replace(
        link("ConnectionRefusedError", "[Errno 111] Connection refused", is_cause=True),
        raiser="unittest.mock",
    )
    passed_on = replace(
        raised("requests.exceptions.ConnectionError", "refused", "builtins.OSError"),
        raiser="requests.adapters",
        chain=(mocked,),
    )
    found = of_test(passed_on)
    assert found is not None
    assert found.is_simulated


@pytest.mark.parametrize(
    ("exception", "key"),
    [
        (
            raised("AttributeError", "'Cart' object has no attribute 'add'"),
            "attribute Cart.add",
        ),
        (
            raised(
                "AttributeError",
                "module 'shop' has no attribute 'add'. Did you mean: 'ad'?",
            ),
            "attribute shop.add",
        ),
        (raised("NameError", "name 'x' is not defined. Did you mean: 'y'?"), "name x"),
        (
            raised("TypeError", "Cart.add() got an unexpected keyword argument 'n'"),
            "signature Cart.add n",
        ),
        (
            raised("TypeError", "add() takes 1 positional argument but 2 were given"),
            "signature add",
        ),
        (
            raised(
                "FileNotFoundError",
                "[Errno 2] No such file or directory: '/w/data/x.json'",
                filename="/w/data/x.json",
                file="data/x.json",
            ),
            "file data/x.json",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_missing_is_one_cause(exception: RaisedException, key: str) -> None:
    """A name, a parameter or a file that isn't there is one thing, whichever line asks for it."""
    found = of_test(exception)
    assert found is not None
    assert found.key == key


def test_what_was_raised_from_the_environments_failure_is_that() -> None:
    """An exception of the user's own hides what it was raised after, not what it is `from`."""
    refused = link(
        "ConnectionRefusedError", "no", is_cause=True, host="127.0.0.1", port="5439"
    )
    found = of_test(
        raised(
            "app.NoDatabaseError", "no db", "builtins.RuntimeError", chain=(refused,)
        )
    )
    assert found is not None
    assert found.key == LOCAL
    fixture = link(
        "_pytest.fixtures.FixtureLookupError", "fixture 'x' not found", is_cause=True
    )
    assert of_test(raised("RuntimeError", "no db", chain=(fixture,))) is None


def test_a_broken_module_is_one_cause_for_all_that_import_it() -> None:
    """The key is the file and the line of the error, and the sentence names them."""
    found = of_file(raised("SyntaxError", "invalid syntax (bad.py, line 7)"))
    assert found is not None
    assert found.what == "SyntaxError: invalid syntax (app/bad.py:7)"
    assert found.key == "syntax app/bad.py:7"


def test_two_test_files_of_one_name() -> None:
    """Both paths are named from the root directory, and what fixes it."""
    said = (
        "import file mismatch:\nimported module 'test_x' has this __file__ attribute:\n"
        "  /w/tests/a/test_x.py\nwhich is not the same as the test file we want to collect:\n"
        "  /w/tests/b/test_x.py\nHINT: remove __pycache__"
    )
    found = of_file(raised("_pytest.pathlib.ImportPathMismatchError", said))
    assert found is not None
    assert (
        found.what
        == "two test files have one name: tests/a/test_x.py and tests/b/test_x.py"
    )
    assert found.fix == (
        "add __init__.py to tests/a and tests/b, or rename one, or set --import-mode=importlib"
    )


ARGUMENT_OF_HOOK: Final = (
    "PluginValidationError: Plugin '/w/conftest.py' for hook 'pytest_runtest_setup'\n"
    "hookimpl definition: pytest_runtest_setup(itemx)\n"
    "Argument(s) {'itemx'} are declared in the hookimpl but can not be found in the spec"
)
PLUGIN_OF_CONFTEST: Final = "Error importing plugin \"nope.x\": No module named 'nope' (pytest_plugins in conftest.py)"
REQUIRED: Final = "pytest-mock>=3, pytest-nope (required_plugins in pytest.ini)"


def test_another_copy_of_a_test_file() -> None:
    """A file that was imported from elsewhere is named, and no file of the project is to blame."""
    said = (
        "import file mismatch:\nimported module 'test_x' has this __file__ attribute:\n"
        "  /elsewhere/test_x.py\nwhich is not the same as the test file we want to collect:\n"
        "  /w/tests/b/test_x.py\nHINT: remove __pycache__"
    )
    found = of_file(raised("_pytest.pathlib.ImportPathMismatchError", said))
    assert found is not None
    assert (
        found.what == "tests/b/test_x.py was imported before from /elsewhere/test_x.py"
    )


@pytest.mark.parametrize(
    ("origin", "message", "what", "fix"),
    [
        (
            "usage",
            "unrecognized arguments: --cov=src (from addopts in tox.ini)",
            "pytest does not know --cov=src (from addopts in tox.ini)",
            "pip install pytest-cov",
        ),
        (
            "usage",
            "unrecognized arguments: --nope",
            "pytest does not know --nope",
            None,
        ),
        (
            "usage",
            "unrecognized arguments: --html=x --timeout=5",
            "pytest does not know --html=x --timeout=5",
            "pip install pytest-html pytest-timeout",
        ),
        (
            "usage",
            "unrecognized arguments: --cov (pytest-cov 7.1.0 is installed but not loaded)",
            "pytest-cov is installed but not loaded, and has --cov",
            "remove -p no:pytest-cov or PYTEST_DISABLE_PLUGIN_AUTOLOAD, or the option",
        ),
        (
            "usage",
            "Unknown config option: asyncio_mode (set in pytest.ini)",
            "pytest does not know the setting asyncio_mode (set in pytest.ini)",
            "pip install pytest-asyncio",
        ),
        (
            "plugin",
            "Error importing plugin \"pytest_mock\": No module named 'pytest_mock'",
            "the plugin pytest_mock is not installed",
            "pip install pytest-mock",
        ),
        (
            "plugin",
            PLUGIN_OF_CONFTEST,
            "the plugin nope.x is not installed (pytest_plugins in conftest.py)",
            None,
        ),
        (
            "usage",
            f"Missing required plugins: {REQUIRED}",
            f"required plugins are missing: {REQUIRED}",
            "pip install pytest-mock",
        ),
        (
            "plugin",
            ARGUMENT_OF_HOOK,
            (
                "the hook pytest_runtest_setup has an argument that pytest's hook does not have: 'itemx' "
                "(conftest.py)"
            ),
            None,
        ),
        (
            "internal",
            "PluginValidationError: unknown hook 'pytest_nope' in plugin <module 'conftest'>",
            "pytest has no hook pytest_nope",
            None,
        ),
        (
            "usage",
            "file or directory not found: tests/nope.py",
            "there is no file or folder tests/nope.py",
            None,
        ),
        (
            "conftest",
            "ModuleNotFoundError: No module named 'cachetools' (conftest.py:1)",
            "cachetools is not installed",
            "pip install cachetools",
        ),
    ],
)
def test_errors_of_pytest_itself(
    origin: ErrorOrigin, message: str, what: str, fix: str | None
) -> None:
    """What pytest refuses is said in one sentence; how to install it is the fix."""
    found = of_pytest(origin, message)
    assert found is not None
    assert (found.what, found.fix) == (what, fix)


def test_whatever_of_a_plugin_is_missing_has_one_key() -> None:
    """Its mark, its module, its setting and what it runs: one command fixes all of them."""
    found = [
        of_test(
            raised("Failed", "'asyncio' not found in `markers` configuration option")
        ),
        of_test(raised("ModuleNotFoundError", "No module named 'pytest_asyncio'")),
        of_test(raised("Failed", "async def functions are not natively supported.")),
        of_pytest("usage", "Unknown config option: asyncio_mode (set in pytest.ini)"),
    ]
    said = {(each.key, each.fix) for each in found if each is not None}
    assert said == {("plugin pytest-asyncio", "pip install pytest-asyncio")}
    either = of_test(
        raised("Failed", "'flaky' not found in `markers` configuration option")
    )
    assert either is not None
    assert either.key == "mark flaky"


def test_a_library_that_asks_for_another() -> None:
    """The exception that was handled is of the library, and its own words say what is missing."""
    missing = link("ModuleNotFoundError", "No module named 'httpx2'")
    words = "The starlette.testclient module requires the httpx2 package to be installed.\nYou"
    error = raised("RuntimeError", words, chain=(missing,), library="starlette")
    found = of_test(error)
    assert found is not None
    assert (found.what, found.fix) == ("httpx2 is not installed", "pip install httpx2")
    of_a_log = of_test(raised("RuntimeError", words, chain=(missing,)))
    assert of_a_log == found


@pytest.mark.parametrize(
    ("kind", "message", "name", "fix"),
    [
        (
            "RuntimeError",
            (
                'Form data requires "python-multipart" to be installed. \nYou can install it with: \n\n'
                "pip install python-multipart\n"
            ),
            "python-multipart",
            "pip install python-multipart",
        ),
        (
            "ImportError",
            "Missing optional dependency 'yaml'.  Use pip or conda to install yaml.",
            "yaml",
            "pip install PyYAML",
        ),
        (
            "ImportError",
            "Unable to import required dependencies:\nnumpy: No module named 'numpy'",
            "numpy",
            "pip install numpy",
        ),
        (
            "ImportError",
            "email-validator is not installed, run `pip install 'pydantic[email]'`",
            "email-validator",
            'pip install "pydantic[email]"',
        ),
        (
            "ImportError",
            (
                "Using http2=True, but the 'h2' package is not installed. Make sure to install httpx "
                "using `pip install httpx[http2]`."
            ),
            "h2",
            'pip install "httpx[http2]"',
        ),
        (
            "ImportError",
            (
                "Dask dataframe requirements are not installed.\n\nPlease either conda or pip install "
                'as follows:\n\n  conda install dask\n  python -m pip install "dask[dataframe]"'
            ),
            "dask",
            'pip install "dask[dataframe]"',
        ),
        (
            "ImportError",
            "matplotlib is required for plotting when the default backend is selected.",
            "matplotlib",
            "pip install matplotlib",
        ),
        (
            "ImportError",
            "Using `low=True` requires Accelerate: `pip install 'accelerate>=0.26.0'`",
            "accelerate",
            'pip install "accelerate>=0.26.0"',
        ),
        (
            "ImportError",
            "Please install foo-bar to use this.",
            "foo-bar",
            "pip install foo-bar",
        ),
        (
            "bs4.FeatureNotFound",
            "Couldn't find a tree builder with the features you requested: lxml. Do you need to",
            "lxml",
            "pip install lxml",
        ),
        ("ValueError", "the field is required to be positive", None, None),
        ("ValueError", "name is required for this call", None, None),
        ("RuntimeError", "StaticFiles requires a path", None, None),
        ("ImportError", "module 'foo' not found", None, None),
        ("ImportError", "pip install `reboot;now`", "reboot", "pip install reboot"),
    ],
)
def test_what_a_library_says_is_missing(
    kind: str, message: str, name: str | None, fix: str | None
) -> None:
    """Its own words name the package, and how to install it."""
    found = of_test(raised(kind, message, "builtins.Exception", library="library"))
    assert (found and found.what) == (name and f"{name} is not installed")
    assert (found and found.fix) == fix
    if found is not None:
        assert (found.owner, found.retryable) == ("environment", False)
    by_the_user = of_test(raised(kind, message, "builtins.Exception"))
    assert by_the_user is None


TWO: Final[dict[str, Any]] = {
    "caller": "starlette",
    "caller_version": "0.27.0",
    "callee": "httpx",
    "callee_version": "0.28.1",
}
APART: Final = "starlette 0.27.0 and httpx 0.28.1 don't fit each other: "
OLD: Final[dict[str, Any]] = {
    "caller": "nose",
    "caller_version": "1.3.7",
    "python": "3.12",
}


@pytest.mark.parametrize(
    ("exception", "what", "fix"),
    [
        (
            raised("TypeError", "f() got an unexpected keyword argument 'app'", **TWO),
            f"{APART}f() got an unexpected keyword argument 'app'",
            None,
        ),
        (
            raised(
                "ImportError",
                "cannot import name 'x' from 'httpx' (/lib/httpx.py). Did you mean: 'y'?",
                requirement="httpx<0.28",
                **TWO,
            ),
            f"{APART}cannot import name 'x' from 'httpx'",
            'pip install "httpx<0.28", which starlette requires',
        ),
        (
            raised("ValueError", "httpx.x size changed, may indicate binary", **TWO),
            f"{APART}starlette was built for another httpx",
            None,
        ),
        (
            raised("DeprecationWarning", "old", **TWO, place="x.py:1"),
            f"{APART}old",
            None,
        ),
        (
            raised("ModuleNotFoundError", "No module named 'imp'", **OLD),
            "nose 1.3.7 and Python 3.12 don't fit each other: imp was removed from the standard library",
            None,
        ),
        (
            raised("ModuleNotFoundError", "No module named 'distutils'", **OLD),
            (
                "nose 1.3.7 and Python 3.12 don't fit each other: Python 3.12 removed distutils; "
                "setuptools provides it"
            ),
            "pip install setuptools",
        ),
        (
            raised("ModuleNotFoundError", "No module named 'a.six.moves'", **OLD),
            "nose 1.3.7 and Python 3.12 don't fit each other: its copy of six is too old",
            None,
        ),
        (
            raised("ModuleNotFoundError", "No module named 'pkg_resources'", **OLD),
            "nose 1.3.7 needs pkg_resources, which setuptools 82 removed",
            'pip install "setuptools<82"',
        ),
        (
            raised("RuntimeError", "can't start new thread"),
            "the machine allows no more threads",
            None,
        ),
        (
            raised("BlockingIOError", "no", errno="11", raised_by="subprocess"),
            "the machine allows no more processes",
            None,
        ),
        (
            raised("UnicodeDecodeError", "'ascii' codec", locale_at="load.py:2"),
            "load.py:2 uses the encoding of the locale, which is ASCII here",
            "set LC_ALL=C.UTF-8 or PYTHONUTF8=1, or name the encoding there",
        ),
        (
            raised(
                "pytesseract.TesseractNotFoundError",
                "tesseract is not installed or it's not in your PATH. See README",
                "builtins.OSError",
                library="pytesseract",
            ),
            "the program 'tesseract' is not installed",
            None,
        ),
    ],
    ids=lambda value: value.message[:30] if isinstance(value, RaisedException) else "",
)
def test_what_does_not_fit(
    exception: RaisedException, what: str, fix: str | None
) -> None:
    """It is charged to the environment, whoever's statement raised it."""
    found = of_test(exception)
    assert found is not None
    assert (found.what, found.fix, found.owner) == (what, fix, "environment")


def test_all_failures_of_two_distributions_are_one_cause() -> None:
    """The pair and the message are the key."""
    first, second, other = (
        of_test(raised("TypeError", f"{name}() takes 1 argument", **TWO))
        for name in ("f", "f", "g")
    )
    assert first is not None
    assert second is not None
    assert other is not None
    assert first.key == second.key != other.key


@pytest.mark.parametrize(
    ("exception", "what"),
    [
        (
            raised(
                "AttributeError",
                "module 'statistics' has no attribute 'mean'",
                top="statistics",
                shadow="tests/statistics.py",
                shadowed="Python's library",
            ),
            "statistics is imported from tests/statistics.py, not from Python's library",
        ),
        (
            raised(
                "pydantic.errors.PydanticImportError",
                "`BaseSettings` has been moved to the `pydantic-settings` package. See",
                "builtins.ImportError",
            ),
            "BaseSettings has moved to pydantic-settings",
        ),
        (
            raised("ImportError", "attempted", relative=".help", no_package="."),
            (
                "tests/test_x.py:3 imports .help relative to a package, but is in no package: "
                "there is no __init__.py beside it"
            ),
        ),
        (
            raised("ImportError", "attempted", relative=".help"),
            "tests/test_x.py:3 imports .help relative to a package, but was not imported as part of one",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_an_import_came_to(exception: RaisedException, what: str) -> None:
    """The file or the name is said, and the code has to be fixed."""
    found = of_test(exception)
    assert found is not None
    assert (found.what, found.owner, found.retryable) == (what, None, False)


def test_failures_without_an_exception() -> None:
    """A test that passes against its mark, and a debugger that got no input."""
    passed = of_test(None, "[XPASS(strict)] bug 12")
    assert passed is not None
    assert (passed.what, passed.fix) == (
        "marked as failing, but passes: bug 12",
        "remove the xfail mark",
    )
    assert passed.key == f"xpass {FINGERPRINT}"
    left = of_test(None, "bdb.BdbQuit")
    assert left is not None
    assert left.what == "breakpoint left at tests/test_x.py:3, and there is no terminal"
    assert of_test(None, "worker 'gw0' crashed") is None


def test_a_command_is_offered_for_reviewed_names_alone() -> None:
    """No `pip install` has a name that is not in a table or a fact of the recorder's."""
    for name in ("requets", "python_dateutil", "yml", "beautifulsoup"):
        found = of_test(raised("ModuleNotFoundError", f"No module named '{name}'"))
        assert found is not None
        assert found.fix is None


@pytest.mark.slow
def test_the_reviewed_names_are_those_of_what_is_installed() -> None:
    """Where a module of the table is installed here, it is of the distribution that it names."""
    table = packaged_table("distributions")

    def normal(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    known = packages_distributions()
    wrong = {
        module: (name, known[module])
        for module, name in table.items()
        if module in known
        and {normal(each) for each in name.split()}.isdisjoint(
            map(normal, known[module])
        )
    }
    allowed = {"psycopg2"}
    assert not set(wrong) - allowed, wrong
    assert list(table) == sorted(table, key=lambda each: (each.lower(), each))


def test_every_row_can_be_read() -> None:
    """A row has what the header says, its pattern compiles and it names its source."""
    table = packaged_table("diagnoses")
    known = {"of", "text", "where", "what", "key", "fix", "asks", "retryable", "source"}
    known |= {"anyone", "voice"}
    for row in (*table["run"], *table["environment"], *table["code"]):
        assert set(row) <= known, row
        assert {"of", "what", "source"} <= set(row), row
        assert row["source"], row
        re.compile(row.get("text", ""))
        assert ("{install}" in str(row)) <= ("asks" in row), row
        assert all(
            name[1:] in table["names"] for name in row["of"] if name.startswith("@")
        ), row
        assert not row["what"].endswith("."), row
    assert read_packaged("diagnoses.toml").index("\n[[code]]") > read_packaged(
        "diagnoses.toml"
    ).rindex("\n[[environment]]")


def test_searches_take_linear_time() -> None:
    """No text of an exception holds a run up, whatever it begins with."""
    table = packaged_table("diagnoses")
    patterns = {row.get("text", "") for row in (*table["environment"], *table["code"])}
    for pattern in patterns | {*table["quoting"].values()}:
        fragments = re.findall(r"[A-Za-z'\" (:]{4,}", pattern)
        for part in ("a", "1", "(", "'", " ", "/", "\n", "a.b", *fragments):
            text = (part * (MAX_READ // len(part) + 1))[:MAX_READ]
            before = process_time()
            re.search(pattern, text)
            assert process_time() - before < 0.5, (pattern, part)

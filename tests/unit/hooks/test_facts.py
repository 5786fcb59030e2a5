"""What exceptions hold besides their messages, and what they were raised from."""

from __future__ import annotations

import asyncio
import os
import pdb  # noqa: T100 - it is what is tested
import socket
import socketserver
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from email.message import Message
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.hooks import owners
from pytest_failure_taxonomy.hooks.exceptions import MAX_LINKS, describe_exception
from pytest_failure_taxonomy.hooks.origin import OriginFinder
from pytest_failure_taxonomy.taxonomy.evidence import Fact, RaisedException

Act = Callable[[], object]


def raised_by(act: Act) -> BaseException:
    """Return what an action raises."""
    try:
        act()
    except BaseException as error:  # noqa: BLE001 - the exceptions of tests may be of any type
        return error
    raise AssertionError("it raised nothing")


def described(act: Act, root: Path) -> RaisedException:
    """Return the description of what an action raises in a run of a root directory."""
    return describe_exception(
        raised_by(act), OriginFinder(root), formatted="as pytest says it"
    )


def values(facts: tuple[Fact, ...]) -> dict[str, str]:
    """Return facts by their names."""
    return {fact.name: fact.text for fact in facts}


def raiser(error: BaseException) -> Act:
    """Return what raises an exception."""

    def act() -> None:
        raise error

    return act


def of_library(name: str, base: type[BaseException] = Exception, **fields: Any) -> Act:
    """Return what raises a library's exception, with its fields, without that library."""
    module, _, kind = name.rpartition(".")
    error = type(kind, (base,), {"__module__": module})("said")
    vars(error).update(fields)
    return raiser(error)


@pytest.fixture
def closed() -> int:
    """Return a port of this machine on which nothing listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


@pytest.fixture
def opened() -> Iterator[int]:
    """Return a port of this machine on which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def connect(port: int) -> None:
    """Connect as most libraries do."""
    socket.create_connection(("localhost", port), timeout=5)


def connect_async(port: int) -> None:
    """Connect as asyncio does."""
    asyncio.run(asyncio.open_connection("localhost", port))


CONNECTIONS: Final = (
    (connect, "socket", "localhost"),
    (connect_async, "asyncio.base_events", "localhost"),
)


@pytest.mark.parametrize(("act", "module", "host"), CONNECTIONS)
def test_the_address_is_the_one_that_was_asked_for(
    closed: int, act: Callable[[int], None], module: str, host: str
) -> None:
    """It is in a frame of the standard library, and in none of the user's."""
    raised = described(lambda: act(closed), Path(__file__).parents[3])
    expected = {"host": host, "port": str(closed), "raised_by": module}
    assert values(raised.facts).items() >= expected.items()


def test_the_address_that_is_in_use(opened: int, tmp_path: Path) -> None:
    """A server names it in its own frame."""
    address = ("127.0.0.1", opened)
    raised = described(
        lambda: socketserver.TCPServer(address, socketserver.BaseRequestHandler),
        tmp_path,
    )
    expected = {"host": "127.0.0.1", "port": str(opened), "raised_by": "socketserver"}
    assert values(raised.facts).items() >= expected.items()


def test_a_bare_socket_names_no_address(closed: int) -> None:
    """Frames of the user's own are not read."""

    def act() -> None:
        host, port = address = ("127.0.0.1", closed)
        assert host, port
        with closing(socket.socket()) as client:
            client.connect(address)

    facts = values(described(act, Path(__file__).parents[3]).facts)
    assert facts.keys() == {"errno", "strerror"}


def test_a_module_that_is_called_like_one_of_pythons(tmp_path: Path) -> None:
    """It is the user's, and so its variables are not read."""
    source = "def create_connection(address):\n    raise OSError(5, 'broken')\n"
    file = tmp_path / "socket.py"
    names: dict[str, Any] = {"__name__": "socket"}
    exec(compile(source, str(file), "exec"), names)  # noqa: S102 - a module of the user's
    raised = described(lambda: names["create_connection"](("db", 5432)), tmp_path)
    assert values(raised.facts) == {"errno": "5", "strerror": "broken"}


def import_nothing() -> None:
    """Import a module that nobody has."""
    import_module("no_such_module_at_all")


def import_no_name() -> None:
    """Import a name that a module does not have."""
    exec("from os import no_such_name")  # noqa: S102 - linters would complain of the import


def refuse(code: int, url: str) -> Act:
    """Return what raises as urllib does where a server refuses something."""
    return raiser(urllib.error.HTTPError(url, code, "no", Message(), None))


def error_of_ssl() -> ssl.SSLError:
    """Return an exception as OpenSSL's wrapper fills it."""
    error = ssl.SSLCertVerificationError(1, "[SSL] failed")
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    error.verify_message = "self-signed certificate"
    return error


class Reference(NamedTuple):
    """What a URL of httpx holds."""

    scheme: str
    userinfo: str
    host: str
    port: int | None


class Key(NamedTuple):
    """What an exception of aiohttp holds."""

    host: str
    port: int


URL: Final = "https://api.test:8443/carts"
RESPONSE: Final = SimpleNamespace(status_code=503, url=URL)
REFERENCE: Final = SimpleNamespace(
    url=SimpleNamespace(_uri_reference=Reference("http", "", "api.test", 8080))
)
FACTS: Final[tuple[tuple[Act, Mapping[str, str]], ...]] = (
    (raiser(OSError(28, "No space", "x.bin")), {"errno": "28", "filename": "x.bin"}),
    (
        lambda: os.environ["NO_SUCH_VARIABLE"],
        {"variable": "NO_SUCH_VARIABLE", "raised_by": "os"},
    ),
    (lambda: dict[str, str]()["a"], {}),
    (
        lambda: subprocess.run(["no-such-command"]),  # noqa: PLW1510 - it fails
        {"filename": "no-such-command", "raised_by": "subprocess"},
    ),
    (
        raiser(subprocess.CalledProcessError(2, ["git", "push", "https://u:p@x"])),
        {"command": "git", "returncode": "2"},
    ),
    (raiser(subprocess.CalledProcessError(2, "git push")), {"command": "git"}),
    (import_nothing, {"name": "no_such_module_at_all"}),
    (import_no_name, {"name": "os", "path": str(os.__file__)}),
    (b"\xff".decode, {"encoding": "utf-8", "reason": "invalid start byte"}),
    (lambda: compile("a b", "x.py", "exec"), {"filename": "x.py", "lineno": "1"}),
    (refuse(503, URL), {"status": "503", "url": URL}),
    (
        raiser(error_of_ssl()),
        {
            "reason": "CERTIFICATE_VERIFY_FAILED",
            "verify_message": "self-signed certificate",
        },
    ),
    (
        of_library("requests.exceptions.RequestException", OSError, response=RESPONSE),
        {"status": "503", "url": URL},
    ),
    (
        of_library("requests.exceptions.RequestException", OSError, request=RESPONSE),
        {"url": URL},
    ),
    (
        of_library("httpx.HTTPStatusError", response=RESPONSE, _request=REFERENCE),
        {"status": "503", "host": "api.test", "port": "8080"},
    ),
    (
        of_library(
            "aiohttp.client_exceptions.ClientConnectorError", _conn_key=Key("db", 5432)
        ),
        {"host": "db", "port": "5432"},
    ),
    (
        of_library(
            "botocore.exceptions.ClientError",
            response={
                "Error": {"Code": "AccessDenied"},
                "ResponseMetadata": {"HTTPStatusCode": 403},
            },
        ),
        {"code": "AccessDenied", "status": "403"},
    ),
)


@pytest.mark.parametrize(("act", "facts"), FACTS)
def test_fields_of_known_exceptions(
    act: Act, facts: Mapping[str, str], tmp_path: Path
) -> None:
    """They are read of Python's exceptions, and of those that the table names."""
    found = values(described(act, tmp_path).facts)
    assert found.items() >= facts.items()
    assert facts or not found


def test_fields_of_psycopg(tmp_path: Path) -> None:
    """The state is a plain value in the body of the class."""
    psycopg = pytest.importorskip("psycopg")
    raised = described(raiser(psycopg.errors.UndefinedTable("no carts")), tmp_path)
    assert values(raised.facts) == {"sqlstate": "42P01"}


def test_fields_of_requests(closed: int, tmp_path: Path) -> None:
    """The address is in the request, and in the frame that raised the root of the chain."""
    requests = pytest.importorskip("requests")
    raised = described(
        lambda: requests.get(f"http://localhost:{closed}/carts"), tmp_path
    )
    assert values(raised.facts)["url"] == f"http://localhost:{closed}/carts"
    assert [link.bases[0].rpartition(".")[2] for link in raised.chain] == [
        "MaxRetryError",
        "NewConnectionError",
        "ConnectionRefusedError",
    ]
    expected = {"host": "localhost", "port": str(closed)}
    assert values(raised.chain[-1].facts).items() >= expected.items()


PYPROJECT: Final = """\
[project]
name = "shop"
dependencies = ["Carts_of.Shops[all]>=2; python_version > '3'", 5, "opencv-contrib-python>=4"]
keywords = ["colours"]
[project.optional-dependencies]
fast = ["of-extra (>= 1)", "requests-mock"]
[dependency-groups]
test = ["of-group", {include-group = "lint"}]
[tool.poetry.group.dev.dependencies]
of-poetry = "^1"
"""
DISTRIBUTIONS: Final[tuple[tuple[str, Mapping[str, str]], ...]] = (
    ("carts_of_shops", {"distribution": "Carts_of.Shops"}),
    ("of_extra", {"distribution": "of-extra"}),
    ("of_group", {"distribution": "of-group"}),
    ("of_poetry", {"distribution": "of-poetry"}),
    ("of_file", {"distribution": "of_file"}),
    ("of_installed", {"distribution": "Of-Installed"}),
    ("in_src", {"own_package": "."}),
    ("at_root", {"own_package": "."}),
    ("of_test", {"distribution": "of_test"}),
    ("of_requ", {"distribution": "of_requ"}),
    ("of_folder", {"distribution": "of_folder"}),
    ("of_notes", {}),
    ("cv2", {"distribution": "opencv-contrib-python"}),
    ("requests", {}),
    ("tests", {"own_folder": "."}),
    ("folder", {"own_folder": "."}),
    ("docs", {"own_folder": "."}),
    ("tests.nope", {}),
    ("colours", {}),
    ("commented", {}),
    ("of_extra.part", {}),
)


@pytest.mark.parametrize(("module", "expected"), DISTRIBUTIONS)
def test_who_has_a_missing_module(
    module: str,
    expected: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name counts if the project is, has or asks for it, or an installed distribution does."""
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "requirements-dev.txt").write_text(
        "# commented\n-r x.txt\nof_file==1 # all\n"
    )
    for name in ("test-requirements.txt", "requirements-ci.in"):
        (tmp_path / name).write_text(f"of_{name[:4]}\n")
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/test.txt").write_text("of_folder>=2\n")
    (tmp_path / "notes.txt").write_text("of_notes\n")
    for folder in ("src/in_src", "at_root", "tests", "folder", "lib/of-1.dist-info"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("at_root/__init__.py", "tests/__init__.py", "docs.py"):
        (tmp_path / file).touch()
    metadata = "Name: of\nRequires-Dist: opencv-python\n"
    metadata += "Requires-Dist: Of-Installed (>=1) ; extra == 'all'\n\nThe readme\n"
    (tmp_path / "lib/of-1.dist-info/METADATA").write_text(metadata)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "lib")])
    assert owners.distribution_with(module, str(tmp_path)) == expected


@pytest.mark.parametrize(
    "text", ["not TOML", "project = 5\ntool = []", "dependency-groups = 1"]
)
def test_a_project_file_of_another_form(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing."""
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.setattr(sys, "path", [])
    assert owners.distribution_with("carts", str(tmp_path)) == {}


def fail_after(error: BaseException, *, cause: BaseException | None) -> Act:
    """Return what raises an assertion in the handler of an exception."""

    def act() -> None:
        try:
            raise error
        except type(error):
            raise AssertionError("no such user") from cause

    return act


def test_causes_go_before_contexts(tmp_path: Path) -> None:
    """As in Python's own tracebacks; `from None` leaves nothing."""
    first, second = KeyError("a"), ValueError("b")
    caused = described(fail_after(first, cause=second), tmp_path).chain
    assert [(link.bases[0], link.message, link.is_cause) for link in caused] == [
        ("builtins.ValueError", "b", True)
    ]
    assert described(fail_after(first, cause=None), tmp_path).chain == ()

    def in_handler() -> None:
        try:
            raise first
        except KeyError:
            raise AssertionError("no such user")  # noqa: B904 - its context is what is tested

    (handled,) = described(in_handler, tmp_path).chain
    assert (handled.bases[0], handled.message, handled.is_cause) == (
        "builtins.KeyError",
        "'a'",
        False,
    )


def test_chains_end(tmp_path: Path) -> None:
    """A cycle is followed once, and a long chain to a limit."""
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert len(described(raiser(first), tmp_path).chain) == 1
    last = error = ValueError("0")
    for number in range(20):
        last.__cause__ = ValueError(number)
        last = last.__cause__
    assert len(described(raiser(error), tmp_path).chain) == MAX_LINKS


def test_the_first_exception_of_a_group(tmp_path: Path) -> None:
    """It stands for the group."""
    group = ExceptionGroup(
        "two", [ExceptionGroup("one", [OSError(28, "full")]), ValueError("b")]
    )
    (link,) = described(raiser(group), tmp_path).chain
    assert link.message == "[Errno 28] full"
    assert values(link.facts)["errno"] == "28"


def test_where_a_warning_was_issued() -> None:
    """And where the exception was raised that nobody could catch."""

    def act() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.warn("old", DeprecationWarning, stacklevel=1)

    root = Path(__file__).parents[3]
    line = act.__code__.co_firstlineno + 3
    file = "tests/unit/hooks/test_facts.py"
    assert values(described(act, root).facts) == {"place": f"{file}:{line}"}
    uncaught = pytest.PytestUnraisableExceptionWarning("in __del__")
    uncaught.__cause__ = raised_by(lambda: 1 / 0)
    (link,) = described(raiser(uncaught), root).chain
    assert values(link.facts)["place"].startswith(file)


def test_a_breakpoint_that_was_left() -> None:
    """Its place is the user's, whatever the debugger has read."""

    def act() -> None:
        stdin = SimpleNamespace(readline=raiser(OSError("no terminal")))
        pdb.Pdb(stdin=stdin).set_trace()  # type: ignore[arg-type]

    facts = values(described(act, Path(__file__).parents[3]).facts)
    assert facts["breakpoint"].startswith("tests/unit/hooks/test_facts.py:")


class Hostile:
    """Whatever is asked of it ends the process."""

    def __getattribute__(self, name: str) -> Any:
        """Leave."""
        os._exit(77)

    __eq__ = __str__ = __repr__ = __len__ = __iter__ = __getattribute__  # type: ignore[assignment]
    __hash__ = __bool__ = __index__ = __getattribute__  # type: ignore[assignment]


class HostileText(str):
    """The same for a text."""

    __slots__ = ()

    def leave(self, *_: object) -> Any:
        """Leave."""
        os._exit(77)

    __eq__ = __str__ = __repr__ = __len__ = __iter__ = split = __bool__ = leave  # type: ignore[assignment]
    __hash__ = str.__hash__


HOSTILE: Final[tuple[Act, ...]] = (
    raiser(OSError(2, "no", HostileText("x"))),
    raiser(subprocess.CalledProcessError(1, [HostileText("git")])),
    raiser(subprocess.CalledProcessError(1, HostileText("git"))),
    raiser(ImportError("no", name=HostileText("x"), path=HostileText("y"))),
    of_library("requests.exceptions.RequestException", response=Hostile()),
    of_library("requests.exceptions.RequestException", request=HostileText("x")),
    of_library("botocore.exceptions.ClientError", response=HostileText("x")),
    of_library("aiohttp.client_exceptions.ClientConnectorError", _conn_key=Hostile()),
)


@pytest.mark.parametrize("act", HOSTILE)
def test_no_code_of_the_users_runs(act: Act, tmp_path: Path) -> None:
    """Neither where facts are looked for nor where they are found."""
    assert values(described(act, tmp_path).facts).keys() <= {
        "errno",
        "strerror",
        "returncode",
    }


def test_properties_are_not_read(tmp_path: Path) -> None:
    """Neither the exception's own, nor those of what it holds."""
    held = type("Held", (), {"status_code": property(os._exit)})()
    kind = type(
        "RequestException",
        (Exception,),
        {"__module__": "requests.exceptions", "request": property(os._exit)},
    )
    error = kind("no")
    vars(error)["response"] = held
    assert described(raiser(error), tmp_path).facts == ()


def test_a_text_of_a_chain_that_nobody_has_formatted(tmp_path: Path) -> None:
    """It is not asked of the exception."""
    inner = type("Inner", (Exception,), {"__str__": os._exit})
    (link,) = described(fail_after(ValueError("a"), cause=inner("b")), tmp_path).chain
    assert link.message == ""

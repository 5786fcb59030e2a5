"""What tests leave behind: it is found, said, and put back, and no code of the user's runs."""

from __future__ import annotations

import asyncio
import builtins
import locale
import logging
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple
from unittest import mock

import pytest

from pytest_failure_taxonomy.prove import state
from pytest_failure_taxonomy.prove.state import (
    Snapshot,
    changed_files,
    differences,
    put_back,
    take_files,
)
from pytest_failure_taxonomy.redaction.redactor import Redactor

END: Final = threading.Event()
"""Ends the thread that a row leaves running."""

SHOP: Final = """
import collections, functools, logging, threading
RATE = 0.2
RATES = {"de": 0.19}
API_KEY = "x"
LONG = list(range(100))
NESTED = {"a": [1, [2]]}
SEEN = set()
QUEUE = collections.deque([1])
LATEST = collections.OrderedDict(a=1)
COUNTS = collections.Counter("a")
LINES = collections.defaultdict(list)
BYTES = bytearray(b"ab")
BIG = list(range(6_000))
LOCAL = threading.local()

class Client:
    timeout = 3
    seen = []
    class Meta:
        name = "a"
    def __init__(self):
        self.items = []
        self.n = 1
    def get(self):
        return 1
    @functools.cached_property
    def price(self):
        return 5

class Single(type):
    instances = {}
    def __call__(cls):
        if cls not in Single.instances:
            Single.instances[cls] = type.__call__(cls)
        return Single.instances[cls]

class Settings(metaclass=Single):
    debug = False

Settings()
CLIENT = Client()
CLIENTS = {"main": Client(), Client: [Client()]}
FORMATTER = logging.Formatter("%(message)s")

@functools.lru_cache
def load(n):
    return n

def add(to=[]):
    to.append(1)

def count():
    count.n = getattr(count, "n", 0) + 1
"""


@pytest.fixture(autouse=True)
def without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at no libraries that other tests of this process have imported: there are thousands."""
    imported = {name.partition(".")[0] for name in sys.modules}
    hidden = imported - sys.stdlib_module_names - {"tests"}
    is_of_runner = state._is_of_runner
    monkeypatch.setattr(
        state,
        "_is_of_runner",
        lambda name: name.partition(".")[0] in hidden or is_of_runner(name),
    )


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of a small project."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("from shop.config import RATES, CLIENT\n")
    (package / "config.py").write_text(SHOP)
    (package / "pages").mkdir()
    (package / "pages" / "cart.py").write_text(
        "from shop import config; Client = config.Client\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    import shop.config  # type: ignore[import-not-found]
    import shop.pages.cart  # type: ignore[import-not-found]

    END.clear()
    yield shop.config
    END.set()
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


class Row(NamedTuple):
    """What a test does, and what is found of it."""

    pollute: Callable[[Any], object]
    key: str
    text: str
    """Its start."""
    is_fixed: bool = True
    others: tuple[str, ...] = ()
    """The starts of keys that come with it."""


def leave_time_zone(_: object) -> None:
    """Live in Tokyo from now on."""
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()


def leave_loop(_: object) -> None:
    """Run something on a loop, after which this thread has none."""
    asyncio.run(asyncio.sleep(0))


_ROWS: Final = (
    Row(lambda c: setattr(c, "RATE", 0.19), "RATE", "RATE = 0.19 (was 0.2)"),
    Row(lambda c: setattr(c, "NEW", 3), "NEW", "NEW = 3 (was not set)"),
    Row(lambda c: delattr(c, "RATE"), "RATE", "RATE removed (was 0.2)"),
    Row(lambda c: setattr(c, "RATE", True), "RATE", "RATE = True (was 0.2)"),
    Row(
        lambda c: setattr(c, "RATE", "a" * 90), "RATE", f"RATE = '{'a' * 78}… (was 0.2)"
    ),
    Row(
        lambda c: setattr(c, "API_KEY", "hunter2hunter"),
        "API_KEY",
        "API_KEY = '[REDACTED:api-key]' (was 'x')",
    ),
    Row(
        lambda c: c.RATES.update(fr=0.2),
        "RATES",
        "RATES = {'de': 0.19, 'fr': 0.2} (was {'de': 0.19})",
    ),
    Row(lambda c: setattr(c, "RATES", {}), "RATES", "RATES = {} (was {'de': 0.19})"),
    Row(lambda c: c.LONG.insert(50, "x"), "LONG", "LONG = …'x', 50, 51, 52"),
    Row(lambda c: c.LONG.remove(50), "LONG", "LONG = …51, 52, 53, "),
    Row(lambda c: c.LONG.reverse(), "LONG", "LONG = [99, 98, 97,"),
    Row(
        lambda c: c.NESTED["a"][1].append(3),
        "NESTED",
        "NESTED = {'a': [1, [2, 3]]} (was {'a': [1, [2]]})",
    ),
    Row(lambda c: c.SEEN.add(3), "SEEN", "SEEN = set([3]) (was set([]))"),
    Row(lambda c: c.QUEUE.append(3), "QUEUE", "QUEUE = collections.deque([1, 3]) (was"),
    Row(
        lambda c: c.LATEST.update(b=2),
        "LATEST",
        "LATEST = collections.OrderedDict({'a': 1, 'b'",
    ),
    Row(
        lambda c: c.COUNTS.update("a"),
        "COUNTS",
        "COUNTS = collections.Counter({'a': 2}) (was",
    ),
    Row(
        lambda c: c.LINES[c.Client].append(1),
        "LINES",
        "LINES = collections.defaultdict({the cla",
    ),
    Row(lambda c: c.BYTES.append(1), "BYTES", "BYTES = bytearray([97, 98, 1]) (was"),
    Row(
        lambda c: c.BIG.append(1),
        "BIG",
        "BIG = list with 6001 elements (was list with 6000 elements)",
        is_fixed=False,
    ),
    Row(lambda c: setattr(c, "BIG", []), "BIG", "BIG = [] (was list with 600"),
    Row(lambda c: setattr(c.LOCAL, "x", 3), "LOCAL.x", "LOCAL.x = 3 (was not set)"),
    Row(
        lambda c: setattr(c.Client, "timeout", 4),
        "Client.timeout",
        "Client.timeout = 4 (was 3)",
    ),
    Row(lambda c: c.Client.seen.append(1), "Client.seen", "Client.seen = [1] (was [])"),
    Row(
        lambda c: setattr(c.Client.Meta, "name", "b"),
        "Client.Meta.name",
        "Client.Meta.name = 'b'",
    ),
    Row(
        lambda c: setattr(c.Client, "get", mock.Mock()),
        "Client.get",
        "Client.get = an object of unittest.mock.Mock (was the function shop.config.Client.get)",
    ),
    Row(
        lambda c: setattr(c.Client, "post", 1),
        "Client.post",
        "Client.post = 1 (was not set)",
    ),
    Row(
        lambda c: c.CLIENT.items.append(3),
        "CLIENT.items",
        "CLIENT.items = [3] (was [])",
    ),
    Row(lambda c: setattr(c.CLIENT, "n", 2), "CLIENT.n", "CLIENT.n = 2 (was 1)"),
    Row(lambda c: c.CLIENT.price, "CLIENT.price", "CLIENT.price = 5 (was not set)"),
    Row(
        lambda c: setattr(c, "CLIENT", c.Client()),
        "CLIENT",
        "CLIENT = another object of shop.config.Client",
    ),
    Row(
        lambda c: setattr(c.CLIENTS["main"], "n", 5),
        "CLIENTS['main'].n",
        "CLIENTS['main'].n = 5",
    ),
    Row(
        lambda c: setattr(c.CLIENTS[c.Client][0], "n", 5),
        "CLIENTS[the class shop.config.Client][0].n",
        "CLIENTS[the class shop.config.Client][0].n = 5 (was 1)",
    ),
    Row(
        lambda c: setattr(c.Settings(), "debug", True),
        "Single.instances[the class shop.config.Settings].debug",
        "Single.instances[the class shop.config.Settings].debug = True (was not set)",
    ),
    Row(
        lambda c: setattr(c.FORMATTER, "_fmt", ""),
        "FORMATTER._fmt",
        "FORMATTER._fmt = '' (was",
    ),
    Row(
        lambda c: c.load(3),
        "load.cache_info()",
        "load.cache_info() = {'currsize': 1, 'misses': 1} (was {'currsize': 0, 'misses': 0})",
    ),
    Row(
        lambda c: setattr(c, "count", c.add),
        "count",
        "count = the function shop.config.add (was the function shop.config.count)",
    ),
    Row(lambda c: c.add(), "add.__defaults__", "add.__defaults__ = ([1]) (was ([]))"),
    Row(lambda c: c.count(), "count.n", "count.n = 1 (was not set)"),
)
ATTRIBUTES: Final = tuple(
    row._replace(key=f"shop.config.{row.key}", text=f"shop.config.{row.text}")
    for row in _ROWS
)

OTHERS: Final = (
    Row(
        lambda _: os.environ.update(TAXED="secret"),
        "the environment variable TAXED",
        "the environment variable TAXED set",
    ),
    Row(
        lambda _: os.environ.pop("HOME"),
        "the environment variable HOME",
        "the environment variable HOME removed",
    ),
    Row(
        lambda _: os.environ.update(HOME="/x"),
        "the environment variable HOME",
        "the environment variable HOME changed",
    ),
    Row(
        lambda _: os.chdir("/"),
        "the working directory",
        "the working directory = '/' (was '",
    ),
    Row(
        leave_time_zone,
        "the time zone",
        "the time zone = ",
        others=("the environment variable TZ",),
    ),
    Row(
        lambda _: locale.setlocale(locale.LC_ALL, "C.UTF-8"),
        "the locale",
        "the locale = 'C.UTF-8' (was '",
    ),
    Row(
        lambda _: logging.getLogger("shop.taxes").setLevel(10),
        "the logging setting shop.taxes.level",
        "the logging setting shop.taxes.level = 10 (was not set)",
    ),
    Row(
        lambda _: logging.getLogger().addHandler(logging.NullHandler()),
        "the logging setting root.handlers",
        "the logging setting root.handlers ",
    ),
    Row(
        lambda _: logging.disable(40),
        "the level of logging.disable",
        "the level of logging.disable = 40 (was 0)",
    ),
    Row(
        lambda _: warnings.simplefilter("ignore", ImportWarning),
        "the list warnings.filters",
        "the list warnings.filters ",
    ),
    Row(
        lambda _: sys.path.insert(0, "/taxes"),
        "the list sys.path",
        "the list sys.path = ['/taxes', '",
    ),
    Row(
        lambda _: signal.signal(signal.SIGUSR2, signal.SIG_IGN),
        "the handler of SIGUSR2",
        "the handler of SIGUSR2 changed",
    ),
    Row(
        leave_loop,
        "the event loop of asyncio",
        "the event loop of asyncio = ({'_loop': None, '_set_called': True}, None) (was ",
        others=("asyncio.events._event_loop_policy",),
    ),
    Row(lambda _: os.umask(0o77), "the umask", "the umask = '0o77' (was '"),
    Row(
        lambda _: setattr(builtins, "open", mock.Mock()),
        "builtins.open",
        "builtins.open = an object of unittest.mock.Mock (was the function ",
    ),
    Row(
        lambda _: setattr(logging.Logger, "info", mock.Mock()),
        "logging.Logger.info",
        "logging.Logger.info = an object of unittest.mock.Mock (was the function ",
    ),
    Row(
        lambda _: setattr(sys, "stdout", sys.__stdout__),
        "sys.stdout",
        "sys.stdout = an object of _io.TextIOWrapper (was an object of _pytest.",
    ),
    Row(
        lambda _: sys.modules.update(shop=mock.Mock()),
        "the module shop",
        "the module shop replaced in sys.modules",
    ),
    Row(
        lambda _: sys.modules.update(taxes=mock.Mock(), pytest_late=mock.Mock()),
        "the module taxes",
        "the module taxes imported",
    ),
    Row(
        lambda _: sys.modules.pop("shop.config"),
        "the module shop.config",
        "the module shop.config removed from sys.modules",
    ),
    Row(
        lambda _: random.random(),  # noqa: S311 - no secret
        "the state of random",
        "the state of random changed",
    ),
    Row(
        lambda _: threading.Thread(target=END.wait, name="taxes").start(),
        "the thread taxes",
        "the thread taxes running",
        is_fixed=False,
    ),
    Row(
        lambda c: Path(c.__file__).with_name("new.txt").touch(),
        "the file shop/new.txt",
        "the file shop/new.txt added",
        is_fixed=False,
    ),
)


def rounds(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows that don't get into each other's way, to take few snapshots."""
    left = [*rows]
    while left:
        together: list[Row] = []
        for row in left:
            pairs = ((f"{row.key}.", f"{other.key}.") for other in together)
            if not any(
                one.startswith(two) or two.startswith(one) for one, two in pairs
            ):
                together.append(row)
        yield together
        left = [row for row in left if row not in together]


@pytest.mark.parametrize("rows", [ATTRIBUTES, OTHERS], ids=["attributes", "others"])
def test_each_part_is_found_said_and_put_back(
    rows: tuple[Row, ...],
    shop: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a test changes is found under one key, and is as it was when it was put back."""
    # As if no test of this process had used a loop.
    monkeypatch.setattr("asyncio.events._event_loop_policy", None)
    redact = Redactor().redact
    redact("api_key = 'x'")  # it reads files when it is used first
    Snapshot(tmp_path)  # which may import or compute something by itself
    for together in rounds(rows):
        before = Snapshot(tmp_path)
        try:
            for row in together:
                row.pollute(shop)
        finally:
            found = {
                each.key: each
                for each in differences(before, Snapshot(tmp_path), redact)
            }
            put_back(before, [*found])
            left = differences(before, Snapshot(tmp_path), redact)
        for row in together:
            difference = found.pop(row.key, None)
            assert difference is not None, row
            assert difference.text.startswith(row.text), row
            assert difference.can_be_put_back or not row.is_fixed, row
            for key in row.others:
                assert found.pop(key, None) is not None, row
        assert not found, together
        lasting = {row.key for row in together if not row.is_fixed}
        assert {each.key for each in left} == lasting


HOSTILE: Final = """
import collections
import types

class Hostile(Exception):
    pass

def refuse(*args, **kwargs):
    CALLS.append(args)
    raise Hostile

CALLS = []
METHODS = {
    f"__{name}__": refuse
    for name in (
        "eq ne hash repr str bool len iter getattr getattribute get set contains bytes copy call "
        "index format dir sizeof reduce lt instancecheck subclasscheck setitem getitem delitem "
        "missing reversed or ior add iadd"
    ).split()
}
METHODS |= dict.fromkeys(
    "keys values items update clear copy append extend get pop add remove insert".split(), refuse
)

class Meta(type):
    locals().update(METHODS)

Thing = Meta("Thing", (), METHODS)
things = [object.__new__(Thing) for _ in range(4)]
plain = type("Plain", (), {})
BASES = (list, dict, set, collections.deque, collections.OrderedDict)
LIST, DICT, SET, DEQUE, ORDERED = (
    base.__new__(type(base.__name__, (base,), METHODS)) for base in BASES
)
ONE, TWO = things[:2]
IN_LIST = [things[2]]
IN_DICT = {"a": things[3]}
class Key:
    def __hash__(self):
        CALLS.append(self)
        return 1
KEYS, MEMBERS = {Key(): 1}, {Key()}
CHANGED = 1
class Lazy(types.ModuleType):
    __getattr__ = refuse
    def __getattribute__(self, name):
        refuse()
"""


def test_no_code_of_the_users_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects, containers and modules whose methods all raise are told apart by identity alone."""
    (tmp_path / "hostile.py").write_text(HOSTILE)
    monkeypatch.syspath_prepend(tmp_path)
    import hostile  # type: ignore[import-not-found]

    lazy = hostile.Lazy("lazy")
    monkeypatch.setitem(sys.modules, "hostile", hostile)
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    odd = {
        "thing": hostile.things[0],
        "numpy.random": hostile.things[0],
        1: lazy,
        ("a",): None,
    }
    for name, thing in odd.items():
        monkeypatch.setitem(sys.modules, name, thing)  # type: ignore[misc]
    for one in (hostile.ONE, hostile.LIST, lazy):
        with pytest.raises(hostile.Hostile):
            repr(one)
    hostile.CALLS.clear()
    before = Snapshot(tmp_path)
    hostile.ONE, hostile.CHANGED = hostile.TWO, 2
    list.append(hostile.LIST, 1)
    list.append(hostile.LIST, hostile.ONE)
    dict.__setitem__(hostile.DICT, "a", hostile.TWO)
    set.add(hostile.SET, 3)
    deque.append(hostile.DEQUE, hostile.TWO)
    OrderedDict.__setitem__(hostile.ORDERED, "a", hostile.TWO)
    hostile.IN_LIST.append(hostile.TWO)
    hostile.IN_DICT["a"] = hostile.TWO
    hostile.KEYS.clear()
    hostile.MEMBERS.clear()
    object.__setattr__(hostile.things[2], "n", 5)
    type.__setattr__(hostile.Thing, "n", 5)
    found = differences(before, Snapshot(tmp_path), str)
    assert {
        each.key.partition(".")[2]: each.text.partition(" = ")[2] for each in found
    } == {
        "CHANGED": "2 (was 1)",
        "DEQUE": "hostile.deque([an object of hostile.Thing]) (was hostile.deque([]))",
        "DICT": "hostile.dict({'a': an object of hostile.Thing}) (was hostile.dict({}))",
        "IN_DICT": "another {'a': an object of hostile.Thing}",
        "IN_LIST": "[an object of hostile.Thing, an object of hostile.Thing] "
        "(was [an object of hostile.Thing])",
        "KEYS": "{} (was {an object of hostile.Key: 1})",
        "MEMBERS": "set([]) (was set([an object of hostile.Key]))",
        "LIST": "hostile.list([1, an object of hostile.Thing]) (was hostile.list([]))",
        "ONE": "another object of hostile.Thing",
        "ORDERED": "hostile.OrderedDict({'a': an object of hostile.Thing}) "
        "(was hostile.OrderedDict({}))",
        "SET": "hostile.set([3]) (was hostile.set([]))",
        "Thing.n": "5 (was not set)",
        "things[2].n": "5 (was not set)",
    }
    put_back(before, [each.key for each in found])
    assert differences(before, Snapshot(tmp_path), str) == ()
    assert hostile.CALLS == []


def test_files_that_tests_changed_are_listed(tmp_path: Path) -> None:
    """Of the project's alone: no caches, hidden folders, installations or environments."""
    skipped = ("__pycache__", ".git", "node_modules", ".venv", "env", "build")
    for folder in (*skipped, "data/deep"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "data" / "old.txt").touch()
    (tmp_path / "data" / "same.txt").touch()
    (tmp_path / "data" / "deep" / "rows.csv").touch()
    before = take_files(tmp_path)
    for folder in skipped:
        (tmp_path / folder / "x").touch()
    (tmp_path / "data" / "deep" / "rows.csv").write_text("1")
    (tmp_path / "data" / "old.txt").unlink()
    (tmp_path / "new.txt").touch()
    assert changed_files(before, take_files(tmp_path)) == (
        "the file data/deep/rows.csv changed",
        "the file data/old.txt removed",
        "the file new.txt added",
    )


def test_a_conftest_that_another_has_replaced(tmp_path: Path) -> None:
    """Of several that are in no package `sys.modules` has the last; the others are given."""
    conftest = ModuleType("conftest")
    conftest.__file__ = str(tmp_path / "tests" / "shop" / "conftest.py")
    vars(conftest)["ROWS"] = []
    before = Snapshot(tmp_path, [conftest])
    vars(conftest)["ROWS"].append(1)
    (found,) = differences(before, Snapshot(tmp_path, [conftest]), str)
    assert found.key == "tests.shop.conftest.ROWS"
    assert found.text == "tests.shop.conftest.ROWS = [1] (was [])"
    put_back(before, [found.key])
    assert vars(conftest)["ROWS"] == []

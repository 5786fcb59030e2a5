"""What tests of every sort leave behind in a real run: nothing, or just what they changed."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.prove.experiment import Experiments, Setup, Victim
from tests.helpers.runs import PytestRuns

HOOKS: Final = """
import json
import pytest
from pytest_failure_taxonomy.prove import state

BEFORE, FOUND = pytest.StashKey(), pytest.StashKey()

def pytest_configure(config):
    config.stash[FOUND] = {}

def take(config):
    return state.Snapshot(config.rootpath / "nowhere")  # where stdout and stderr are not kept

@pytest.fixture(scope="session")
def server():
    yield object()

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    stash = item.config.stash
    before = stash.get(BEFORE, None) or take(item.config)
    result = yield
    found = state.differences(before, take(item.config), str)
    state.put_back(before, [each.key for each in found])
    stash[BEFORE] = take(item.config)
    left = state.differences(before, stash[BEFORE], str)
    stash[FOUND][item.name] = [each.key for each in found], [each.text for each in left]
    return result

def pytest_unconfigure(config):
    (config.rootpath / "found.json").write_text(json.dumps(config.stash[FOUND]))
"""

CLEAN: Final = """
import asyncio, enum, logging, os, re, subprocess, sys, tempfile, time, unittest, warnings
from dataclasses import dataclass
from unittest import mock
import pytest

log = logging.getLogger(__name__)

class Color(enum.Enum):
    RED = 1

@dataclass
class Point:
    x: int = 1

class TestCase(unittest.TestCase):
    def setUp(self):
        self.x = 1
    def test_case(self):
        with self.subTest(i=1):
            self.assertTrue(self.x)
    def test_failing_case(self):
        self.fail()

class TestClass:
    def setup_method(self):
        self.y = 1
    def test_method(self):
        assert self.y

@pytest.fixture(scope="module")
def in_module():
    yield 1

@pytest.fixture(params=[1, 2], scope="class")
def in_class(request):
    yield request.param

def test_fine(): pass
def test_failing(): assert [1] == [2]
def test_fixtures(in_module, server, in_class): pass
def test_output(capsys): print("x")
def test_descriptors(capfd): os.system("true")
def test_log(caplog):
    caplog.set_level(10)
    log.debug("x")
def test_monkeypatch(monkeypatch, tmp_path):
    monkeypatch.setenv("A", "b")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "time", lambda: 0)
    monkeypatch.delitem(os.environ, "PATH")
    monkeypatch.delattr(Point, "x")
def test_mocks():
    with mock.patch("time.sleep"), mock.patch.dict(os.environ, {"B": "1"}):
        time.sleep(1)
    with mock.patch.object(Point, "x", 5):
        pass
def test_warnings():
    with pytest.warns(UserWarning):
        warnings.warn("x")
def test_left_warning(): warnings.warn("left")
def test_loop(): asyncio.new_event_loop().close()
def test_process(): subprocess.run([sys.executable, "-c", ""])
def test_values(): assert Color(1) is Color["RED"] and repr(Point()) and re.compile("a+b")
def test_raises():
    with pytest.raises(ValueError):
        int("x")
@pytest.mark.xfail
def test_xfail(): assert 0
@pytest.mark.skip
def test_skip(): pass
"""

SHOP: Final = """
import functools

class Borg:
    shared = {}
    def __init__(self):
        self.__dict__ = self.shared

class Singleton:
    instance = None
    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance

class App:
    def __init__(self):
        self.overrides = {}

app = App()
HANDLERS = {}

def handler(function):
    HANDLERS[function.__name__] = function
    return function

@functools.cache
def settings():
    return {}

def price():
    return 5
"""

POLLUTERS: Final = """
import logging, os, random, sys, time, unittest
from unittest import mock
import shop

SEEN = []

class TestShared(unittest.TestCase):
    made = []
    def test_class_list(self): self.made.append(1)

class TestSetup(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.patcher = mock.patch("shop.price"); cls.patcher.start()
    def test_patch_never_stopped(self): pass

def test_module_list(): SEEN.append(1)
def test_borg(): shop.Borg().rate = 5
def test_singleton(): shop.Singleton().rate = 5
def test_overrides(): shop.app.overrides[shop.price] = lambda: 6
def test_registry():
    @shop.handler
    def other(): pass
def test_cache(): shop.settings()["a"] = 1
def test_global():
    global NEW
    NEW = 1
def test_environ(): os.environ["SHOP"] = "1"
def test_chdir(tmp_path): os.chdir(tmp_path)
def test_logger(): logging.getLogger("shop").disabled = True
def test_mock_time(): time.time = mock.Mock(return_value=0)
def test_fake_module(): sys.modules["yaml"] = mock.Mock()
def test_seed(): random.seed(1)
"""
LEFT: Final[dict[str, tuple[str, ...]]] = {
    "test_class_list": ("test_polluters.TestShared.made",),
    "test_patch_never_stopped": ("shop.price", "test_polluters.TestSetup.patcher"),
    "test_module_list": ("test_polluters.SEEN",),
    "test_borg": ("shop.Borg.shared",),
    "test_singleton": ("shop.Singleton.instance",),
    "test_overrides": ("shop.app.overrides",),
    "test_registry": ("shop.HANDLERS",),
    "test_cache": ("shop.settings.cache_info()",),
    "test_global": ("test_polluters.NEW",),
    "test_environ": ("the environment variable SHOP",),
    "test_chdir": ("the working directory",),
    "test_logger": ("the logging setting shop.disabled",),
    "test_mock_time": ("time.time",),
    "test_fake_module": ("the module yaml",),
    "test_seed": ("the state of random",),
}


@pytest.mark.slow
def test_what_is_left_behind(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fixtures, mocks and failures leave nothing; what the usual polluters leave is named."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(HOOKS)
    pytester.makepyfile(shop=SHOP, test_clean=CLEAN, test_polluters=POLLUTERS)
    pytester.runpytest_subprocess()
    found: dict[str, Any] = json.loads((pytester.path / "found.json").read_text())
    for name, (keys, left) in found.items():
        # Python's own modules note what they are asked for first.
        own = (
            "shop.",
            "test_",
            "the environment",
            "the logging",
            "the state",
            "the working",
        )
        others = {key for key in keys if key.startswith(own)}
        assert others <= {*LEFT.get(name, ())} <= {*keys}, name
        assert left == [], name
    assert LEFT.keys() <= found.keys()


SHARED: Final = """
import unittest
import pytest

class Cart:
    def __init__(self): self.lines, self.user = [], None

@pytest.fixture(scope="module")
def cart(): return Cart()

@pytest.fixture(scope="session")
def rows(): return {"a": [1]}

@pytest.fixture
def own(): return []

def test_user(cart, own): cart.user = "ada"; own.append(1)
def test_nobody(cart): assert cart.user is None
def test_append(rows): rows["a"].append(2)
def test_rows(rows): assert rows == {"a": [1]}

class TestCart(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.cart = Cart()
    def test_add(self): self.cart.lines.append(1)
    def test_empty(self): assert self.cart.lines == []
"""


@pytest.mark.slow
def test_what_is_left_in_fixtures_that_tests_share(runs: PytestRuns) -> None:
    """It is put back to how the fixture began, which the first test has set up."""
    runs.write({"test_it.py": SHARED})
    setup = Setup(args=("-p", "failure_taxonomy"), folder=runs.path, rootdir=runs.path)
    with Experiments(
        setup, until=time.monotonic() + 60, limit_seconds=60
    ) as experiments:
        for polluter, victim, text in (
            ("test_user", "test_nobody", "fixtures.cart.user = 'ada' (was None)"),
            (
                "test_append",
                "test_rows",
                "fixtures.rows = {'a': [1, 2]} (was {'a': [1]})",
            ),
            (
                "TestCart::test_add",
                "TestCart::test_empty",
                "test_it.TestCart.cart.lines = [1] (was [])",
            ),
        ):
            of_victim = Victim(
                nodeid=f"test_it.py::{victim}",
                fingerprints=frozenset(),
                endings=frozenset(),
            )
            found = experiments.find_state(of_victim, [f"test_it.py::{polluter}"])
            assert [each for _, each in found.answer("fixed")] == [text]
            assert not any("own" in each for each in found.answer("differences"))

"""Exceptions that do something when they are looked at: pytest's own looks are the only ones."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.helpers.runs import PytestRuns

XDIST: Final = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "xdist"])

HOSTILE: Final = '''\
import asyncio
import sys

import pytest


def note(name):
    with open("calls", "a") as file:
        file.write(f"{name}\\n")


def leave(name, how):
    note(f"{name} {how}")
    if how == "exit":
        sys.exit(3)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "cancel":
        raise asyncio.CancelledError
    if how == "skip":
        pytest.skip("not this one")
    pytest.exit("enough", returncode=0)


def hostile(name, how):
    """Return a method that notes its call and ends the process, the session or the test."""
    return lambda *_: leave(name, how)
'''
"""What the modules below raise is made of. Each call is a line of a file, with pytest's own."""

TESTS: Final = """\
import pytest
from hostile import hostile

HOW = pytest.mark.parametrize("how", ["exit", "interrupt", "cancel", "skip", "pytest-exit"])


class Holder:
    pass


def made(name, how):
    return type("Made", (), {"__repr__": hostile(name, how)})()


@HOW
@pytest.mark.parametrize("name", ["__str__", "__repr__"])
def test_text(name, how):
    raise type("Hostile", (Exception,), {name: hostile(name, how), "__str__": hostile(name, how)})


@HOW
@pytest.mark.parametrize("kind", [ValueError, KeyError, OSError, ImportError])
def test_argument(kind, how):
    raise kind(made(kind.__name__, how))


@HOW
def test_file_name(how):
    raise OSError(2, "no such file", made("filename", how))


@HOW
def test_str_subclass(how):
    methods = ["strip", "partition", "startswith", "replace", "splitlines", "encode", "__len__"]
    methods += ["__getitem__", "__eq__", "__format__", "__str__", "rstrip", "find", "__contains__"]
    body = dict.fromkeys(methods, hostile("str", how)) | {"__hash__": str.__hash__}
    raise ValueError(type("Text", (str,), body)("text"))


@HOW
@pytest.mark.parametrize("name", ["args", "msg", "__dict__", "filename", "errno"])
def test_property(name, how):
    raise type("Hostile", (Exception,), {name: property(hostile(name, how))})("x")


@HOW
@pytest.mark.parametrize("name", ["__name__", "__qualname__", "__mro__", "__bases__", "__dict__"])
def test_property_of_the_type(name, how):
    meta = type("Meta", (type,), {name: property(hostile(name, how))})
    raise type.__call__(meta("Hostile", (Exception,), {}), "x")


@HOW
@pytest.mark.parametrize("name", ["__eq__", "__hash__", "__instancecheck__", "__call__"])
def test_method_of_the_type(name, how):
    meta = type("Meta", (type,), {"__hash__": type.__hash__, name: hostile(name, how)})
    raise type.__call__(meta("Hostile", (Exception,), {}), "x")


@HOW
def test_in_a_group(how):
    inner = type("Hostile", (Exception,), {"__str__": hostile("group", how)})
    raise ExceptionGroup("two", [inner(), inner()])


@HOW
def test_in_a_chain(how):
    inner = type("Hostile", (Exception,), {"__str__": hostile("chain", how)})
    try:
        raise inner
    except inner as error:
        raise ValueError("after") from error


@HOW
@pytest.mark.parametrize("name", ["response", "request", "pool", "args"])
def test_property_of_a_known_library(name, how):
    body = {"__module__": "requests.exceptions", name: property(hostile("known", how))}
    raise type("RequestException", (Exception,), body)("x")


@HOW
def test_what_a_known_library_holds(how):
    held = {"status_code": property(hostile("held", how)), "__getattr__": hostile("held", how)}
    error = type("RequestException", (Exception,), {"__module__": "requests.exceptions"})("x")
    error.response = type("Response", (), held)()
    error.request = made("request", how)
    raise error


@pytest.fixture
def broken(how):
    yield
    raise type("Hostile", (Exception,), {"__str__": hostile("teardown", how)})


@HOW
def test_teardown(broken, how):
    raise type("Hostile", (Exception,), {"__str__": hostile("call", how)})


def test_counts_its_calls():
    calls = []
    counting = type("Counting", (Exception,), {"__str__": lambda _: f"{calls.append(1)}{calls}"})
    raise counting


def test_passes():
    pass
"""

ELSEWHERE: Final[dict[str, dict[str, str]]] = {
    "module": {
        "test_m.py": "from hostile import hostile\n"
        "raise type('E', (Exception,), {'__str__': hostile('module', 'exit')})\n",
    },
    "module-import-error": {
        "test_m.py": "from hostile import hostile\n"
        "raise type('E', (ImportError,), {'__str__': hostile('module', 'interrupt')})\n",
    },
    "item": {
        "conftest.py": "import pytest\n"
        "from hostile import hostile\n"
        "class Item(pytest.Item):\n"
        "    def runtest(self): raise ValueError('x')\n"
        "    def repr_failure(self, excinfo): return type('Text', (str,), {\n"
        "        'strip': hostile('strip', 'exit'), 'splitlines': hostile('lines', 'exit')})('t')\n"
        "class File(pytest.File):\n"
        "    def collect(self): yield Item.from_parent(self, name='item')\n"
        "def pytest_collect_file(file_path, parent):\n"
        "    if file_path.suffix == '.item':\n"
        "        return File.from_parent(parent, path=file_path)\n",
        "a.item": "",
    },
    "fixture-function": {
        "test_m.py": "import functools\n"
        "import pytest\n"
        "from hostile import hostile\n"
        "def plain(nope): pass\n"
        "class Callable:\n"
        "    def __init__(self): functools.update_wrapper(self, plain)\n"
        "    def __call__(self, nope): pass\n"
        "    def func(self): hostile('func', 'exit')()\n"
        "fixed = pytest.fixture(Callable().__call__)\n"
        "def test_it(fixed): pass\n",
    },
    "internal": {
        "conftest.py": "from hostile import hostile\n"
        "def pytest_runtest_logfinish():\n"
        "    raise type('E', (Exception,), {'__str__': hostile('internal', 'exit')})\n",
        "test_m.py": "def test_it(): pass\n",
    },
    "plugin-configure": {
        "conftest.py": "from hostile import hostile\n"
        "def pytest_configure():\n"
        "    hidden = {'args': property(hostile('configure', 'exit'))}\n"
        "    raise type('E', (Exception,), hidden)('x')\n",
    },
}
"""Where else an exception can come from."""

ANSWERS: Final = (
    "sys.exit(3)",
    "raise KeyboardInterrupt",
    "raise CancelledError",
    "pytest.exit()",
)


@pytest.mark.lowest
@XDIST
def test_looks_at_exceptions_are_pytests_own(runs: PytestRuns, workers: int) -> None:
    """Outcome, output and exit status are those of a run without us, and so is each call."""
    runs.write({"hostile.py": HOSTILE, "test_it.py": TESTS})
    on = ["-n", str(workers)] if workers else []
    run = runs.compare("--tb=short", *on, plugins=["xdist"] if workers else [])
    calls = Counter((runs.path / "calls").read_text().splitlines())
    assert {name: count for name, count in calls.items() if count % 2} == {}
    assert run.exit_status == 1
    assert run.report["faults"] == []
    assert run.report["summary"]["passed"] == 1
    assert all(failure["exception"] for failure in run.report["failures"])


@pytest.mark.parametrize("files", ELSEWHERE.values(), ids=ELSEWHERE)
def test_looks_elsewhere_are_pytests_own(
    runs: PytestRuns, files: dict[str, str]
) -> None:
    """The same where no test has failed, or where what failed is no function in Python."""
    runs.write({"hostile.py": HOSTILE, **files})
    run = runs.compare("--tb=short")
    calls = runs.path / "calls"
    counts = Counter(calls.read_text().splitlines() if calls.exists() else ())
    assert {name: count for name, count in counts.items() if count % 2} == {}
    assert run.report["verdict"]["reason"] in ("TESTS_FAILED", "INTERNAL_ERROR")
    assert run.report["faults"] == []


@XDIST
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("hook", ["classify", "report"])
def test_a_hook_that_leaves_is_held(
    runs: PytestRuns, hook: str, answer: str, workers: int
) -> None:
    """A hook of the user's for us may raise anything: the run goes on, and a fault says so."""
    arguments = {"classify": "exception", "report": "report"}[hook]
    runs.write(
        {
            "conftest.py": "import sys\nimport pytest\nfrom asyncio import CancelledError\n"
            f"def pytest_failure_taxonomy_{hook}({arguments}): {answer}\n",
            "test_m.py": "def test_fails(): assert 0\ndef test_passes(): pass\n",
        }
    )
    on = ["-n", str(workers)] if workers else []
    run = runs.run("-q", *on, plugins=["xdist"] if workers else [])
    assert run.exit_status == 1
    assert (run.report["summary"]["failed"], run.report["summary"]["passed"]) == (1, 1)
    faults = run.report["faults"]
    assert f"pytest_failure_taxonomy_{hook}" in faults[0]

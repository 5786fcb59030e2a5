"""Two distributions that don't fit each other, and what else is around a failing line."""

from __future__ import annotations

import importlib
import locale
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.hooks.exceptions import describe_exception
from pytest_failure_taxonomy.hooks.origin import OriginFinder
from tests.unit.hooks.test_origin import Sources, raised_by

PYTHON: Final = "{}.{}".format(*sys.version_info)
ASKED: Final = """\
import warnings
class Client:
    def __init__(self, base=""): self.base = base
def send(first): pass
def old(): warnings.warn("old", DeprecationWarning, stacklevel=2)
def removed(): raise AttributeError("`x` was removed")
class Lazy:
    def __getattr__(self, name): return object.__getattribute__(self, name)
def __getattr__(name):
    if name == "gone": removed()
    raise AttributeError(f"module 'asked_one' has no attribute '{name}'")
"""
BOTH: Final = {
    "caller": "Asking",
    "caller_version": "1.2",
    "callee": "Asked.One",
    "callee_version": "3.4",
}
WITH_PYTHON: Final = BOTH | {"callee": "Python", "callee_version": PYTHON}
MISSING: Final = {"caller": "Asking", "caller_version": "1.2", "python": PYTHON}
ASKS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    # the body of a function of `asking`, and the facts
    ("from asked_one import Session", BOTH),
    ("import asked_one.sessions", BOTH),
    ("import asked_one as other; other.session", BOTH),
    ("import asked_one as other; other.gone", BOTH),
    ("from asked_one import Client; Client(app=1)", BOTH),
    ("import asked_one as other; other.Client(app=1)", BOTH),
    ("from asked_one import send; send(1, 2)", BOTH),
    ("from asked_one import Client; Client().close()", BOTH),
    ("from asked_one import Lazy; Lazy().close()", BOTH),
    ("from asked_one import Lazy; Lazy().setting", {}),
    ("from asked_one import old; old()", BOTH),
    ("import collections; collections.Mapping", WITH_PYTHON),
    ("from inspect import getargspec", WITH_PYTHON),
    ("import asyncio; asyncio.sleep(1, loop=None)", WITH_PYTHON),
    ("import asyncore_of_old", MISSING),
    ("import winreg", MISSING),
    ("raise ValueError('asked_one.dtype size changed, may indicate binary')", {}),
    # what the user has passed to it, it does not ask for itself
    ("from asked_one import Client; Client(**given)", {}),
    ("from asked_one import send; send(*given, *given)", {}),
    ("import asked_one; getattr(asked_one, ''.join(given))", {}),
    ("import importlib; importlib.import_module('asked_one.' + 'x'.join(given))", {}),
    ("given['app'].close()", {}),
    # its own mistakes, and those of what is none of a distribution
    ("missing_name", {}),
    ("send = lambda first: first; send()", {}),
    ("import asking; asking.nothing", {}),
    ("raise TypeError('Client.__init__() takes 1 argument')", {}),
)


@pytest.fixture
def library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, OriginFinder]]:
    """Return a folder with two distributions that can be imported, and a finder."""
    folder = tmp_path / "lib/site-packages"
    for name, version, module, requires in (
        ("Asking", "1.2", "asking", "asked-one>=2; extra == 'full'"),
        ("Asked.One", "3.4", "asked_one", "typing-extensions"),
    ):
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "RECORD").write_text(f"{module}/__init__.py,,\n", "utf-8")
        (info / "METADATA").write_text(
            f"Name: {name}\nVersion: {version}\nRequires-Dist: {requires}\n", "utf-8"
        )
        (folder / module).mkdir()
    (folder / "asked_one/__init__.py").write_text(ASKED, "utf-8")
    monkeypatch.syspath_prepend(folder)
    root = tmp_path / "checkout"
    root.mkdir()
    loaded = {*sys.modules}
    yield folder, OriginFinder(root)
    for name in {*sys.modules} - loaded:
        del sys.modules[name]


def facts_of(
    folder: Path, origins: OriginFinder, body: str, given: object = None
) -> dict[str, str]:
    """Return the facts about two distributions after a function of one of them has raised."""
    source = f"def ask(given):\n    {body}\n"
    (folder / "asking/__init__.py").write_text(source, "utf-8")
    sys.modules.pop("asking", None)
    importlib.invalidate_caches()
    asking = importlib.import_module("asking")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error = raised_by(lambda: asking.ask(given))
    described = describe_exception(error, origins, formatted="as pytest says it")
    names = (*BOTH, "python", "requirement")
    return {fact.name: fact.text for fact in described.facts if fact.name in names}


@pytest.mark.parametrize(("body", "facts"), ASKS, ids=[body for body, _ in ASKS])
def test_who_asks_whom(
    library: tuple[Path, OriginFinder], body: str, facts: dict[str, str]
) -> None:
    """The line that asks is a distribution's own, and another one hasn't got it."""
    sys.dont_write_bytecode, written = True, sys.dont_write_bytecode
    try:
        assert facts_of(*library, body, {"app": ""}) == facts
    finally:
        sys.dont_write_bytecode = written


def test_what_the_metadata_ask_for(library: tuple[Path, OriginFinder]) -> None:
    """The installed version is not the one that the distribution requires."""
    folder, _ = library
    metadata = folder / "Asking-1.2.dist-info/METADATA"
    for required, requirement in (
        ("asked.one<3", "Asked.One<3"),
        ("Asked_One (<3.4); extra == 'full'", "Asked.One<3.4"),
        ("asked-one>=2", None),
        ("asked-one<3; python_version < '3'", None),
        ("not a requirement<3", None),
    ):
        metadata.write_text(
            f"Name: Asking\nVersion: 1.2\nRequires-Dist: {required}\n", "utf-8"
        )
        found = facts_of(*library, "from asked_one import Session")
        assert found.get("requirement") == requirement, required


def test_compiled_code_and_code_that_does_not_load(
    library: tuple[Path, OriginFinder],
) -> None:
    """Neither has a frame that would say whom it asks."""
    built = "raise ValueError('asked_one.dtype size changed, may indicate binary incompatibility')"
    assert facts_of(*library, f"import asked_one; {built}") == BOTH
    symbol = "raise ImportError('/x.so: undefined symbol: _PyGen_Send')"
    assert facts_of(*library, symbol) == WITH_PYTHON
    folder, _ = library
    (folder / "asking/old.py").write_text("print 'x'\n", "utf-8")
    assert facts_of(*library, "import asking.old") == WITH_PYTHON
    utc = "import datetime; datetime.datetime.utcnow()"
    if sys.version_info >= (3, 12):
        assert facts_of(*library, utc) == WITH_PYTHON


SURROUNDINGS: Final[tuple[tuple[dict[str, str], str, dict[str, str]], ...]] = (
    # files, what is run below the root directory, and the facts
    (
        {"site/pack_a/__init__.py": "", "pack_a/conftest.py": "shop = 1\n"},
        "import pack_a; pack_a.conftest",
        {},
    ),
    (
        {
            "site/pack_b/__init__.py": "",
            "site/pack_b/help.py": "",
            "pack_b/help.py": "shop = 1\n",
        },
        "from pack_b.help import shop",
        {
            "top": "pack_b",
            "shadow": "site/pack_b/__init__.py",
            "shadowed": "the project",
        },
    ),
    (
        {"site/pack_c.py": "", "pack_c/more.py": ""},
        "import pack_c.more",
        {"top": "pack_c", "shadow": "site/pack_c.py", "shadowed": "the project"},
    ),
    (
        {"site/this.py": ""},
        "import this; this.d",
        {"top": "this", "shadow": "site/this.py", "shadowed": "Python's library"},
    ),
    ({"site/this.py": ""}, "import this; this.never", {}),
    ({"site/this.py": ""}, "import this; getattr(this, '(*')", {}),
)


@pytest.mark.parametrize(("files", "source", "facts"), SURROUNDINGS)
def test_a_module_that_shadows_another(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    source: str,
    facts: dict[str, str],
) -> None:
    """It lacks a name that the module has which was meant."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "this", raising=False)
    loaded = {*sys.modules}
    error = raised_by(lambda: exec(source, {}))  # noqa: S102 - it is what is tested
    found = describe_exception(error, OriginFinder(tmp_path), "x").facts
    for name in {*sys.modules} - loaded:
        del sys.modules[name]
    names = ("top", "shadow", "shadowed")
    assert {fact.name: fact.text for fact in found if fact.name in names} == facts


def test_an_import_that_is_relative_to_nothing(tmp_path: Path) -> None:
    """What is imported is read from the statement; a package has an `__init__.py`."""
    sources = Sources(tmp_path)
    for file, body, facts in (
        ("conftest", "from .help import x", {"relative": ".help", "no_package": "."}),
        ("test_a", "from .. import shop", {"relative": "..shop", "no_package": "."}),
    ):
        module = f"def load():\n    {body}\n"
        load = sources.load(f"tests/{file}.py", module, __package__="")["load"]
        found = describe_exception(raised_by(load), sources.finder, "x").facts
        assert {fact.name: fact.text for fact in found if fact.name in facts} == facts
    (tmp_path / "tests/__init__.py").touch()
    found = describe_exception(raised_by(load), sources.finder, "x").facts
    assert "no_package" not in [fact.name for fact in found]


def test_the_encoding_of_the_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that opens a file without naming one takes it."""
    sources = Sources(tmp_path)
    (tmp_path / "text").write_bytes(b"gr\xc3\xbc")
    bodies = (
        ("path.read_text(name)", "shop0.py:2"),
        ("path.read_text('ascii')", None),
        ("b'\\xc3'.decode(name)", None),
        ("'\\xfc'.encode(name)", None),
    )
    for number, (body, place) in enumerate(bodies):
        source = f"def load(path, name):\n    {body}\n"
        load = sources.load(f"shop{number}.py", source)["load"]
        error = raised_by(partial(load, tmp_path / "text", "ascii"))
        for encoding in ("ANSI_X3.4-1968", "UTF-8"):
            monkeypatch.setattr(
                locale, "getpreferredencoding", lambda *_, name=encoding, **__: name
            )
            facts = describe_exception(error, sources.finder, "x").facts
            found = {fact.name: fact.text for fact in facts}.get("locale_at")
            assert found == (None if encoding == "UTF-8" else place), body


def test_the_path_of_a_program(tmp_path: Path) -> None:
    """It may be an object of `pathlib`."""
    error = raised_by(partial(subprocess.run, [Path("no-such-program")], check=False))
    facts = describe_exception(error, OriginFinder(tmp_path), "x").facts
    assert {fact.name: fact.text for fact in facts}["filename"] == "no-such-program"

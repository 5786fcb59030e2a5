"""Where in the user's own code a failure comes from."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_failure_taxonomy.hooks.origin import OriginFinder
from pytest_failure_taxonomy.taxonomy.evidence import OriginPlace
from pytest_failure_taxonomy.text import MAX_STATEMENT


class Sources:
    """Write modules below a folder and run them as Python would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.finder = OriginFinder(root)

    def load(self, path: str, source: str, **given: object) -> dict[str, Any]:
        """Run a module and return its names; a relative path is below the root."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, "utf-8")
        name = (
            path.removesuffix(".py").replace("/", ".").rpartition("site-packages.")[2]
        )
        module = {"__name__": name.lstrip("."), "__file__": str(file), **given}
        exec(compile(source, str(file), "exec"), module)  # noqa: S102 - stands for an import
        return module

    def origin(self, call: Callable[[], object]) -> OriginPlace | None:
        """Return the origin of what a call raises."""
        return self.finder.find(raised_by(call))[0]


def raised_by(call: Callable[[], object]) -> BaseException:
    """Return what a call raises."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - whatever it is
        caught = error
    else:
        raise AssertionError("nothing was raised")
    assert caught.__traceback__ is not None
    return caught.with_traceback(
        caught.__traceback__.tb_next
    )  # without the frame of this file


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """Return a checkout that holds nothing yet."""
    root = tmp_path / "checkout"
    root.mkdir()
    return Sources(root)


CONNECT = (
    "class Pool:\n    def connect(self):\n        raise OSError('refused')  # why\n"
)
TEST = "def test_a():\n    Pool().connect()\n"


def test_the_innermost_frame_of_the_users_counts(sources: Sources) -> None:
    """Path below the root, qualified name, statement without comment, and the way in."""
    app = sources.load("app/db.py", CONNECT)
    test = sources.load("tests/test_a.py", TEST, Pool=app["Pool"])
    assert sources.origin(test["test_a"]) == OriginPlace(
        path="app/db.py",
        function="Pool.connect",
        text="raise OSError('refused')",
        entry="tests/test_a.py: test_a",
    )


def test_lines_added_above_and_another_folder_change_nothing(
    sources: Sources, tmp_path: Path
) -> None:
    """Neither the checkout's place nor edits elsewhere in the file count."""
    other = Sources(tmp_path / "other" / "place")
    one = sources.load("app/db.py", CONNECT)["Pool"]
    two = other.load("app/db.py", f"import os\n\n\n{CONNECT}")["Pool"]
    assert sources.origin(one().connect) == other.origin(two().connect) is not None


def test_a_library_below_the_users_code_is_skipped(sources: Sources) -> None:
    """Neither the standard library nor what is installed is the user's, wherever it lies."""
    lib = sources.load(
        ".venv/lib/python3/site-packages/lib/core.py", "def call(f):\n    f()\n"
    )
    own = sources.load(
        "app.py",
        "import json\ndef read():\n    json.loads('{')\ndef use():\n    call(read)\n"
        "def bad():\n    call(None)\n",
        call=lib["call"],
    )
    read, bad = sources.origin(own["use"]), sources.origin(own["bad"])
    assert read is not None
    assert (read.function, read.text, read.entry) == (
        "read",
        "json.loads('{')",
        "app.py: use",
    )
    assert bad is not None
    assert (bad.path, bad.text) == ("app.py", "call(None)")


@pytest.mark.parametrize("folder", ["src/", ""])
@pytest.mark.parametrize(
    "installed",
    [".tox/py311/lib/site-packages/shop/core.py", "../venv/site-packages/shop/core.py"],
)
def test_the_projects_own_package_installed_is_the_users(
    sources: Sources, folder: str, installed: str
) -> None:
    """Under tox a failure has the fingerprint that it has in an editable installation."""
    code = "def price():\n    raise KeyError('x')\n"
    edited = sources.load(f"{folder}shop/core.py", code)
    place = sources.origin(sources.load(installed, code)["price"])
    assert place == sources.origin(edited["price"])
    assert place is not None
    assert place.path == f"{folder}shop/core.py"


def test_without_a_frame_of_the_users_a_librarys_counts(sources: Sources) -> None:
    """It is given as it is imported, without a statement, which its next version may change."""
    lib = sources.load("../site-packages/lib/core.py", "def f():\n    1 / 0\n")
    path = OriginPlace(path="lib/core.py", function="f")
    assert sources.origin(lib["f"]) == path
    place = sources.origin(partial(json.loads, "{"))
    assert place is not None
    assert (place.path, place.text) == ("json/decoder.py", "")


def test_code_outside_of_the_root_is_named_as_it_is_imported(sources: Sources) -> None:
    """A package beside the root directory is the user's; its path holds no folder of a machine."""
    beside = sources.load("../elsewhere/shop.py", "def f():\n    1 / 0\n")
    beside["__name__"] = "market.shop"
    place = sources.origin(beside["f"])
    assert place is not None
    assert (place.path, place.text) == ("market/shop.py", "1 / 0")


@pytest.mark.parametrize(("value", "expected"), [("True", "test"), ("False", "check")])
def test_hidden_frames_are_skipped(sources: Sources, value: str, expected: str) -> None:
    """A helper that hides itself from pytest's tracebacks is not the place."""
    source = f"def check():\n    __tracebackhide__ = {value}\n    assert 0\ndef test():\n    check()\n"
    place = sources.origin(sources.load("test_a.py", source)["test"])
    assert place is not None
    assert place.function == expected


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError(\n        f'bad {1}',\n    )",
        "raise ValueError(  # of course\n        f'bad {1}',\n    )",
    ],
)
def test_a_statement_on_several_lines_is_one_text(sources: Sources, body: str) -> None:
    """A statement is read up to where its brackets close."""
    place = sources.origin(
        sources.load("a.py", f"def f():\n    {body}\n    x = 1\n")["f"]
    )
    assert place is not None
    assert place.text == "raise ValueError( f'bad {1}', )"


def test_a_long_statement_is_cut(sources: Sources) -> None:
    """No more of a statement counts than a few hundred characters."""
    source = f"def f():\n    raise ValueError({'1, ' * 999})\n"
    place = sources.origin(sources.load("a.py", source)["f"])
    assert place is not None
    assert len(place.text) == MAX_STATEMENT


def test_comprehensions_are_part_of_their_function(sources: Sources) -> None:
    """Python 3.11 gives them a frame of their own, later versions don't."""
    source = "def f():\n    return [1 / n for n in [0]]\n"
    place = sources.origin(sources.load("a.py", source)["f"])
    assert place == OriginPlace(
        path="a.py", function="f", text="return [1 / n for n in [0]]", entry=""
    )


def test_a_recursion_is_one_place_wherever_it_begins(sources: Sources) -> None:
    """Of functions that call each other, the same one is named whoever was called first."""
    source = "def a():\n    b()\ndef b():\n    a()\ndef one():\n    a()\ndef two():\n    b()\n"
    module = sources.load("a.py", source)
    places = [sources.origin(module[name]) for name in ("one", "two", "a", "b")]
    assert places == [OriginPlace(path="a.py", function="a")] * 4


def test_a_deep_failure_is_no_recursion(sources: Sources) -> None:
    """Five hundred frames deep the innermost one is still the place."""
    source = (
        "def f(n=500):\n    return f(n - 1) if n else end()\ndef end():\n    1 / 0\n"
    )
    place = sources.origin(sources.load("a.py", source)["f"])
    assert place is not None
    assert (place.function, place.text) == ("end", "1 / 0")


def test_a_longer_traceback_than_any_is_a_recursion(sources: Sources) -> None:
    """The work is bounded, whatever limit the user has set."""
    source = "def f(n=4_000):\n    return f(n - 1) if n else 1 / 0\n"
    module = sources.load("a.py", source)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        assert sources.origin(module["f"]) == OriginPlace(path="a.py", function="f")
    finally:
        sys.setrecursionlimit(limit)


def test_a_syntax_error_is_where_it_says(sources: Sources) -> None:
    """The file that can't be compiled is the place, not the import of it."""
    error = raised_by(partial(sources.load, "app/bad.py", "def f(:\n"))
    assert sources.finder.find(error)[0] == OriginPlace(path="app/bad.py", function="")


def test_a_syntax_error_of_no_file_is_where_it_was_raised(sources: Sources) -> None:
    """Text given to `compile` has no file; who gave it is the place."""
    place = sources.origin(
        sources.load("a.py", "def f():\n    compile('(', '<x>', 'exec')\n")["f"]
    )
    assert place is not None
    assert (place.path, place.function) == ("a.py", "f")


def test_an_exception_group_is_known_by_one_of_its_own(sources: Sources) -> None:
    """The place is that of an exception in it, the same one in whatever order they came."""
    source = (
        "def fail(kind):\n    raise kind('x')\n"
        "def both(kinds):\n    found = []\n    for kind in kinds:\n        try:\n"
        "            fail(kind)\n"
        "        except Exception as error:\n            found.append(error)\n"
        "    raise ExceptionGroup('two', [ExceptionGroup('in', found)])\n"
    )
    both = sources.load("a.py", source)["both"]
    one, other, third = (
        sources.origin(partial(both, kinds))
        for kinds in (
            (OSError, ValueError),
            (ValueError, OSError),
            (ValueError, KeyError),
        )
    )
    assert one == other
    assert one is not None
    assert (one.function, one.leaf) == ("fail", "OSError")
    assert third is not None
    assert third.leaf == "KeyError"


def test_an_exception_that_was_never_raised_has_no_place(sources: Sources) -> None:
    """Without a traceback nothing is known."""
    assert sources.finder.find(ValueError()) == (None, None)
    assert sources.finder.find(ExceptionGroup("g", [ValueError()])) == (None, None)


def test_the_runner_is_never_the_place_where_a_user_is(sources: Sources) -> None:
    """`pytest.fail` and `pytest.raises` point to the test that called them."""
    source = (
        "import pytest\ndef test_a():\n    with pytest.raises(OSError):\n        pass\n"
    )
    place = sources.origin(sources.load("test_a.py", source)["test_a"])
    assert place is not None
    assert place.text == "with pytest.raises(OSError):"

"""The frame that raised an exception, and whose code it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.hooks.origin import OriginFinder
from pytest_failure_taxonomy.hooks.owners import distribution_of
from pytest_failure_taxonomy.taxonomy.evidence import RaisingFrame
from tests.unit.hooks.test_origin import Sources, raised_by

LIBRARY: Final = "../lib/site-packages"
RAISES: Final = "def f(*_):\n    raise KeyError('x')\n"
CALLS: Final = "def call(g):\n    return g()\n"


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """Return a checkout that holds nothing yet, beside a folder of distributions."""
    root = tmp_path / "checkout"
    root.mkdir()
    install(root / LIBRARY, "Acme", "1.2", files=("acme/__init__.py", "acme/core.py"))
    install(
        root / LIBRARY,
        "pytest-shop",
        "3.0",
        files=("shop/fixtures.py",),
        plugins="shop.plugin",
    )
    install(
        root / LIBRARY,
        "faker-like",
        "4",
        files=("fakes/__init__.py", "fakes/contrib/plugin.py"),
        plugins="fakes.contrib.plugin",
    )
    install(root / LIBRARY, "google-one", "5", files=("google/one.py",))
    install(root / LIBRARY, "google-two", "6", files=("google/two.py",))
    return Sources(root)


def install(
    folder: Path, name: str, version: str, *, files: tuple[str, ...], plugins: str = ""
) -> None:
    """Write what an installer writes about a distribution."""
    info = folder / f"{name.lower().replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Name: {name}\nVersion: {version}\n\nName: text\n", "utf-8"
    )
    (info / "RECORD").write_text(
        "".join(f"{file},sha256=x,1\n" for file in files), "utf-8"
    )
    if plugins:
        points = f"[console_scripts]\na = b:c\n\n[pytest11]\nname = {plugins}\n"
        (info / "entry_points.txt").write_text(points, "utf-8")
    for file in files:
        if file.endswith("__init__.py"):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text("", "utf-8")


def frame_of(sources: Sources, call: Callable[[], object]) -> RaisingFrame:
    """Return the frame that raises when something is called."""
    frame = sources.finder.find(raised_by(call))[1]
    assert frame is not None
    return frame


@pytest.mark.parametrize(
    ("path", "owner", "package"),
    [
        ("test_a.py", "test", None),
        ("app/test_a.py", "test", None),
        ("app/a_test.py", "test", None),
        ("tests/help.py", "test", None),
        ("app/tests/help.py", "test", None),
        ("test/help.py", "test", None),
        ("app/test/client.py", "project", None),
        ("app/conftest.py", "conftest", None),
        ("tests/conftest.py", "conftest", None),
        ("app/core.py", "project", None),
        ("src/app/core.py", "project", None),
        ("../sibling/src/core.py", "project", None),
        (f"{LIBRARY}/acme/core.py", "dependency", "Acme 1.2"),
        (f"{LIBRARY}/acme/new.py", "dependency", "Acme 1.2"),
        (f"{LIBRARY}/unknown/core.py", "dependency", None),
        (f"{LIBRARY}/google/one.py", "dependency", "google-one 5"),
        (f"{LIBRARY}/google/two.py", "dependency", "google-two 6"),
        (f"{LIBRARY}/shop/fixtures.py", "plugin", "pytest-shop 3.0"),
        (f"{LIBRARY}/fakes/contrib/plugin.py", "plugin", "faker-like 4"),
        (f"{LIBRARY}/old-2.1-py3.9.egg/old/core.py", "dependency", "old 2.1"),
        ("../bundle.zip/packed/core.py", "dependency", None),
    ],
)
def test_whose_code_a_file_is(
    sources: Sources, path: str, owner: str, package: str | None
) -> None:
    """It is told by the place of the file, and by the distribution that it was installed by."""
    frame = frame_of(sources, sources.load(path, RAISES)["f"])
    assert (frame.owner, frame.package) == (owner, package)
    assert (frame.function, frame.line) == ("f", 2)
    assert not Path(frame.path).is_absolute()
    assert ".." not in frame.path
    assert frame.path.endswith(Path(path).name)


def test_the_patterns_of_test_files_are_the_users(sources: Sources) -> None:
    """What pytest's `python_files` names is a test, and nothing else by its name."""
    finder = OriginFinder(sources.root, ("check_*.py", "app/*_spec.py"))
    for path, owner in (
        ("check_a.py", "test"),
        ("app/a_spec.py", "test"),
        ("a_spec.py", "project"),
        ("test_a.py", "project"),
    ):
        frame = finder.find(raised_by(sources.load(path, RAISES)["f"]))[1]
        assert frame is not None
        assert frame.owner == owner, path


def test_a_collected_file_is_a_test(sources: Sources) -> None:
    """A file that was given by name is one, and so is one of an installed package."""
    for path in ("odd.py", f"{LIBRARY}/acme/core.py"):
        call = sources.load(path, RAISES)["f"]
        sources.finder.collected = (sources.root / path).resolve()
        assert frame_of(sources, call).owner == "test"
        sources.finder.collected = None
        assert frame_of(sources, call).owner != "test"


def test_the_standard_library_is_passed_over(sources: Sources) -> None:
    """Who called it is to blame, be it a test or a library."""
    source = "import json\ndef f():\n    json.loads('{')\n"
    for path, owner in (
        ("app/core.py", "project"),
        (f"{LIBRARY}/acme/core.py", "dependency"),
    ):
        frame = frame_of(sources, sources.load(path, source)["f"])
        assert (frame.owner, frame.function, frame.line) == (owner, "f", 3)


def test_python_alone(sources: Sources) -> None:
    """Where nobody else is in the traceback, the owner is Python."""
    import json

    frame = frame_of(sources, partial(json.loads, "{"))
    assert (frame.owner, frame.package, frame.path) == (
        "python",
        None,
        "json/decoder.py",
    )


def test_pytest_is_passed_over_and_named_where_it_is_alone(sources: Sources) -> None:
    """`pytest.fail` is the failure of its caller, unless there is none."""
    source = "import pytest\ndef test_a():\n    pytest.fail('x')\n"
    frame = frame_of(sources, sources.load("test_a.py", source)["test_a"])
    assert (frame.owner, frame.line) == ("test", 3)
    refuses: Any = pytest.register_assert_rewrite
    frame = frame_of(sources, partial(refuses, 1))
    assert (frame.owner, frame.package) == ("pytest", f"pytest {pytest.__version__}")
    assert frame.path.startswith("_pytest/assertion/")


def test_what_this_plugin_raises_is_nobodys(sources: Sources) -> None:
    """A bench case that fails by its score has no frame."""
    ours = sources.load(
        "ours/items.py", RAISES, __name__="pytest_failure_taxonomy.bench.items"
    )
    assert sources.finder.find(raised_by(ours["f"])) == (None, None)


@pytest.mark.parametrize(
    ("helper", "function"),
    [
        ("def check():\n    __tracebackhide__ = True\n    assert 0\n", "test_a"),
        ("def check():\n    exec('1 / 0', {})\n", "check"),
        ("def check(): run()\ndef run(): exec('1 / 0', {'__name__': 'x'})\n", "run"),
    ],
)
def test_who_called_a_helper_that_hides(
    sources: Sources, helper: str, function: str
) -> None:
    """A function with `__tracebackhide__` blames its caller; so does code that nobody wrote."""
    check = sources.load("app/check.py", helper)["check"]
    test = sources.load("tests/test_a.py", "def test_a():\n    check()\n", check=check)
    frame = frame_of(sources, test["test_a"])
    assert frame.function == function


def test_a_helper_that_hides_and_has_no_caller(sources: Sources) -> None:
    """It is the only one that can be named."""
    hidden = "__tracebackhide__ = True\ndef f():\n    assert 0\n"
    assert (
        frame_of(sources, sources.load("app/check.py", hidden)["f"]).owner == "project"
    )


def test_generated_code_is_its_modules(sources: Sources) -> None:
    """Code that was made from a text has the file of the module that it runs in, and no line."""
    source = "exec('def f():\\n    1 / 0')\n"
    frame = frame_of(sources, sources.load("app/core.py", source)["f"])
    assert (frame.owner, frame.path, frame.function, frame.line) == (
        "project",
        "app/core.py",
        "f",
        None,
    )


def test_a_compiled_module_is_known_by_its_own_file(sources: Sources) -> None:
    """Its functions name a source that was never installed."""
    file = str(sources.root / LIBRARY / "acme" / "fast.so")
    names: dict[str, Any] = {"__name__": "acme.fast", "__file__": file}
    exec(compile(RAISES, "acme/fast.pyx", "exec"), names)  # noqa: S102 - stands for Cython
    frame = frame_of(sources, names["f"])
    assert (frame.owner, frame.package, frame.line) == ("dependency", "Acme 1.2", None)
    assert frame.path == "acme/fast.so"


def test_a_library_that_comes_with_a_plugin(sources: Sources) -> None:
    """It is a dependency where the user's code calls it, and a plugin where pytest does."""
    path = f"{LIBRARY}/fakes/__init__.py"
    library = sources.load(path, RAISES)["f"]
    assert frame_of(sources, library).owner == "plugin"
    test = sources.load("test_a.py", CALLS)["call"]
    frame = frame_of(sources, partial(test, library))
    assert (frame.owner, frame.package) == ("dependency", "faker-like 4")


def test_a_syntax_error_is_of_the_file_it_names(sources: Sources) -> None:
    """Whoever imports that file."""
    for path, owner in (
        ("test_bad.py", "test"),
        (f"{LIBRARY}/acme/bad.py", "dependency"),
    ):
        error = raised_by(partial(sources.load, path, "x = 1\ndef f(:\n"))
        frame = sources.finder.find(error)[1]
        assert frame is not None
        assert (frame.owner, frame.function, frame.line) == (owner, "<module>", 2)


@pytest.mark.parametrize("line", [0, -1, "3", None])
def test_a_syntax_error_can_say_anything(sources: Sources, line: object) -> None:
    """Where it names no line there is none."""
    sources.load("app/core.py", "")
    error: Any = SyntaxError("odd")
    error.filename, error.lineno = str(sources.root / "app/core.py"), line
    frame = sources.finder.find(error)[1]
    assert frame is not None
    assert (frame.owner, frame.line) == ("project", None)


def test_groups_and_chains(sources: Sources) -> None:
    """Of a group it is the exception that the fingerprint uses, of a chain the last one."""
    fail = sources.load(f"{LIBRARY}/acme/core.py", RAISES)["f"]
    source = (
        "def grouped():\n    try: fail()\n"
        "    except KeyError as error: raise ExceptionGroup('g', [ExceptionGroup('h', [error])])\n"
        "def chained():\n    try: fail()\n    except KeyError as error: raise OSError from error\n"
        "def alone():\n    raise ExceptionGroup('g', [OSError()])\n"
    )
    names = sources.load("app/core.py", source, fail=fail)
    assert frame_of(sources, names["grouped"]).owner == "dependency"
    assert frame_of(sources, names["chained"]).owner == "project"
    assert frame_of(sources, names["alone"]).line == 8


def test_every_failure_of_a_line_is_described_at_once(sources: Sources) -> None:
    """The frame of a line is made once, however many tests fail there."""
    call = sources.load("app/core.py", RAISES)["f"]
    assert frame_of(sources, call) is frame_of(sources, call)


def test_a_distribution_without_a_list_of_files(tmp_path: Path) -> None:
    """Debian removes the lists; the top-level names or the distribution's own have to do."""
    folder = tmp_path / "dist-packages"
    for name, tops in (
        ("PyYAML-6.0.egg-info", "_yaml\nyaml\n"),
        ("plain-1.egg-info", ""),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "PKG-INFO").write_text(
            f"Name: {name.partition('-')[0]}\n", "utf-8"
        )
        (folder / name / "top_level.txt").write_text(tops, "utf-8")
    (folder / "yaml").mkdir()
    (folder / "yaml" / "__init__.py").write_text("", "utf-8")
    found = distribution_of(f"{folder}/yaml/reader.py")
    assert found is not None
    assert found.words == "PyYAML 6.0"
    found = distribution_of(f"{folder}/plain.py")
    assert found is not None
    assert found.name == "plain"
    assert distribution_of(f"{folder}/other.py") is None
    assert distribution_of(f"{folder}") is None
    assert distribution_of("/nowhere/x.py") is None


def test_the_distributions_of_this_environment() -> None:
    """What runs these tests is found where they were installed."""
    for module in ("_pytest.config", "pluggy"):
        file = sys.modules[module].__file__
        assert file is not None
        found = distribution_of(file)
        assert found is not None
        assert found.name == module.partition(".")[0].strip("_")

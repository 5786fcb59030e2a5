"""The words of the verdict for each way to go wrong: with `-q` they are all that is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.report.render.terminal import verdict_lines
from pytest_failure_taxonomy.taxonomy.headlines import MAX_WORDS, one_line
from tests.helpers.children import run_inside, run_pytest

PASSING: Final = "def test_passes(): pass\n"
MISSING: Final = "import tomli_wx\n"

try:
    IDLE = f"pytest-timeout {version('pytest-timeout')} is installed but not loaded"
except PackageNotFoundError:
    IDLE = 'pytest-timeout has it: pip install "pytest-failure-taxonomy[timeout]"'


class Ending(NamedTuple):
    """One way to go wrong, and the words for it."""

    name: str
    headline: str
    """Kind and message, as the first line has them."""
    middle: Sequence[str] = ()
    """The lines of the block between the headline and the report's path."""
    files: Mapping[str, str] = {}
    args: Sequence[str] = ()


ENDINGS: Final = (
    # What pytest refuses.
    Ending("option", "usage.error]: unrecognized arguments: --no-such", args=["--no-such"]),
    Ending(
        "option-of-a-file",
        "usage.error]: unrecognized arguments: --cov-append2 (from addopts in tests/pytest.ini)",
        files={"tests/pytest.ini": "[pytest]\naddopts = --cov-append2 --tb=short\n"},
        args=["--rootdir=.", "-c", "tests/pytest.ini"],
    ),
    Ending(
        "option-of-a-plugin",
        "usage.error]: unrecognized arguments: --mypy --picked=2 (from addopts in pytest.ini) "
        "(pytest-mypy and pytest-picked have them: pip install pytest-mypy pytest-picked)",
        files={"pytest.ini": "[pytest]\naddopts = --mypy\n"},
        args=["--picked=2"],
    ),
    Ending(
        "option-of-a-plugin-that-is-blocked",
        f"usage.error]: unrecognized arguments: --timeout=5 ({IDLE})",
        args=["--timeout=5", "-p", "no:timeout"],
    ),
    Ending(
        "setting-of-a-plugin",
        "usage.error]: Unknown config option: django_find_project (set in pytest.ini) "
        "(pytest-django has it: pip install pytest-django)",
        ["not run: 1 of 1 test"],
        files={"pytest.ini": "[pytest]\ndjango_find_project = 1\naddopts = --strict-config\n"},
    ),
    Ending("path", "usage.error]: file or directory not found: nowhere", args=["nowhere"]),
    Ending(
        "node-id",
        "usage.error]: not found: test_it.py::test_gone (no match in any of [<Module test_it.py>])",
        args=["test_it.py::test_gone"],
    ),
    Ending(
        "keyword-of-a-file",
        "usage.error]: Wrong expression passed to '-k': and and: at column 1: expected not OR left "
        "parenthesis OR identifier; got and (from addopts in pytest.ini)",
        ["not run: 1 of 1 test"],
        files={"pytest.ini": "[pytest]\naddopts = -k 'and and'\n"},
    ),
    Ending(
        "setting",
        "usage.error]: Unknown config option: no_such_key (set in pytest.ini)",
        ["not run: 1 of 1 test"],
        files={"pytest.ini": "[pytest]\nno_such_key = 1\naddopts = --strict-config\n"},
    ),
    Ending(
        "usage-error-of-a-hook",
        "usage.error]: set SERVER first (conftest.py:2, in pytest_configure)",
        files={
            "conftest.py": "import pytest\n"
            "def pytest_configure(): raise pytest.UsageError('set SERVER first')\n"
        },
    ),
    # Files that pytest loads at its start.
    Ending(
        "conftest-import",
        "conftest.error]: conftest.py imports tomli_wx, which is not installed",
        ["because: ModuleNotFoundError: No module named 'tomli_wx' (conftest.py:1)"],
        files={"conftest.py": MISSING},
    ),
    Ending(
        "conftest-import-of-its-own",
        "conftest.error]: own.py imports tomli_wx, which is not installed (from conftest.py)",
        ["because: ModuleNotFoundError: No module named 'tomli_wx' (own.py:1, from conftest.py)"],
        files={"conftest.py": "import own\n", "own.py": MISSING},
    ),
    Ending(
        "conftest-syntax",
        "conftest.error]: SyntaxError: invalid syntax (conftest.py:1)",
        files={"conftest.py": "def x(:\n"},
    ),
    Ending(
        "required-plugin",
        "plugin.error]: Missing required plugins: pytest-nope (required_plugins in pytest.ini)",
        files={"pytest.ini": "[pytest]\nrequired_plugins = pytest-nope\n"},
    ),
    Ending(
        "plugin-of-a-conftest",
        "plugin.error]: Error importing plugin \"nope\": No module named 'nope' "
        "(pytest_plugins in conftest.py)",
        files={"conftest.py": "pytest_plugins = ['nope']\n"},
    ),
    Ending(
        "plugin-typed",
        "plugin.error]: Error importing plugin \"nope\": No module named 'nope'",
        args=["-p", "nope"],
    ),
    # Hooks.
    Ending(
        "hook-at-the-start",
        "internal.error]: ValueError: no (conftest.py:2, in pytest_configure)",
        files={"conftest.py": "def pytest_configure():\n    raise ValueError('no')\n"},
    ),
    Ending(
        "hook-later",
        "internal.error]: KeyError: 'x' (own.py:1, from conftest.py, in "
        "pytest_collection_modifyitems)",
        ["not run: 1 of 1 test"],
        files={
            "conftest.py": "import own\ndef pytest_collection_modifyitems(): own.f()\n",
            "own.py": "def f(): {}['x']\n",
        },
    ),
    Ending(
        "hook-of-a-plugin",
        "internal.error]: KeyError: 'gone' (foreign.py:1, in pytest_collection_modifyitems)",
        ["not run: 1 of 1 test"],
        files={
            "pytest.ini": "[pytest]\npythonpath=.venv/lib/site-packages\naddopts = -p foreign\n",
            ".venv/lib/site-packages/foreign.py": "def pytest_collection_modifyitems(): "
            "raise KeyError('gone')\n",
        },
    ),
    Ending(
        "exit-at-import",
        "internal.error]: SystemExit: leaving (test_a.py:2)",
        files={"test_a.py": "import sys\nsys.exit('leaving')\n"},
    ),
    # What can't be collected.
    Ending(
        "import",
        "collection.error]: tests/test_a.py imports tomli_wx, which is not installed",
        [
            (
                "see: tests/test_a.py: ModuleNotFoundError: No module named 'tomli_wx' "
                "(tests/test_a.py:1)"
            ),
            "not run: 1 of 1 collected test",
        ],
        files={"tests/test_a.py": MISSING},
    ),
    Ending(
        "import-of-its-own",
        "collection.error]: own.py imports tomli_wx, which is not installed (from test_a.py)",
        [
            "see: test_a.py: ModuleNotFoundError: No module named 'tomli_wx' (own.py:1)",
            "not run: 1 of 1 collected test",
        ],
        files={"test_a.py": "import own\n", "own.py": MISSING},
    ),
    Ending(
        "import-of-a-part",
        "collection.error]: test_a.py imports own.gone, which does not exist",
        [
            "see: test_a.py: ModuleNotFoundError: No module named 'own.gone' (test_a.py:1)",
            "not run: 1 of 1 collected test",
        ],
        files={"test_a.py": "import own.gone\n", "own/__init__.py": ""},
    ),
    Ending(
        "conftest-below",
        "collection.error]: sub/conftest.py imports tomli_wx, which is not installed",
        [
            "see: sub: ModuleNotFoundError: No module named 'tomli_wx' (sub/conftest.py:1)",
            "not run: 1 of 1 collected test",
        ],
        files={"sub/conftest.py": MISSING, "sub/test_a.py": PASSING},
    ),
    Ending(
        "syntax",
        "collection.error]: SyntaxError: invalid syntax (sub/test_a.py:1)",
        ["not run: 1 of 1 collected test"],
        files={"sub/test_a.py": "def x(:\n"},
    ),
    Ending(
        "three-files",
        "collection.error]: 3 files or nodes could not be collected: test_a.py imports tomli_wx, "
        "which is not installed; SyntaxError: invalid syntax (test_b.py:1); ZeroDivisionError: "
        "division by zero (test_c.py:1)",
        [
            "first: test_a.py: ModuleNotFoundError: No module named 'tomli_wx' (test_a.py:1)",
            "not run: 1 of 1 collected test",
        ],
        files={"test_a.py": MISSING, "test_b.py": "def x(:\n", "test_c.py": "1 / 0\n"},
    ),
    Ending(
        "parameter",
        "collection.error]: In test_a.py::test_a: function uses no argument 'x'",
        ["not run: 1 of 1 collected test"],
        files={
            "test_a.py": "import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_a(): pass\n"
        },
    ),
    # Fixtures that are not there.
    Ending(
        "fixtures",
        "test.setup_error]: the setup of 3 tests failed: fixture 'mocker' not found (pytest-mock "
        "has one); fixture 'benchmark' not found (pytest-benchmark has one); fixture 'client' not "
        "found (pytest-django and pytest-flask have one); fixture 'shop' not found (1 passed)",
        [
            (
                "first: test_a.py::test_a: fixture 'mocker' not found; fixture 'benchmark' not "
                "found (test_a.py:1)"
            ),
            (
                "also: 3 failures, 2 causes: 2 x fixture 'mocker' not found; fixture 'benchmark' "
                "not found, 1 more"
            ),
        ],
        files={
            "test_a.py": "def test_a(mocker, benchmark): pass\n"
            "def test_b(mocker): pass\n"
            "def test_c(client, shop): pass\n"
        },
    ),
    Ending(
        "fixture-asked-for-by-name",
        "test.failed]: 1 test failed: fixture 'qtbot' not found (pytest-qt has one) (1 passed)",
        ["see: test_a.py::test_a: fixture 'qtbot' not found (test_a.py:1)"],
        files={"test_a.py": "def test_a(request): request.getfixturevalue('qtbot')\n"},
    ),
    Ending(
        "fixture-of-itself",
        "test.setup_error]: the setup of 1 test failed: recursive dependency involving fixture 'a' "
        "detected (1 passed)",
        [
            (
                "see: test_a.py::test_a: recursive dependency involving fixture 'a' detected "
                "(test_a.py:4)"
            )
        ],
        files={
            "test_a.py": "import pytest\n@pytest.fixture\ndef a(a): pass\ndef test_a(a): pass\n"
        },
    ),
    # Items whose failures somebody else words.
    Ending(
        "item-of-its-own-kind",
        "test.failed]: 1 test failed (1 passed)",
        ["see: test_x.yml::x: ValueError: usecase failed: a is b"],
        files={
            "conftest.py": "import pytest\n"
            "class File(pytest.File):\n"
            "    def collect(self): yield Item.from_parent(self, name='x')\n"
            "class Item(pytest.Item):\n"
            "    def runtest(self): raise ValueError('a', 'b')\n"
            "    def repr_failure(self, excinfo, style=None): return 'usecase failed: a is b'\n"
            "def pytest_collect_file(parent, file_path):\n"
            "    if file_path.suffix == '.yml': return File.from_parent(parent, path=file_path)\n",
            "test_x.yml": "",
        },
    ),
    # Runs that ended early, or had nothing to do.
    Ending(
        "pytest.exit",
        "interrupt.exit]: the run was ended by pytest.exit: no database (conftest.py:2)",
        files={
            "conftest.py": "import pytest\ndef pytest_collection(): pytest.exit('no database')\n"
        },
    ),
    Ending(
        "nothing-selected",
        "tests.all_deselected]: every test found was deselected",
        ["because: 1 deselected, 0 left"],
        args=["-k", "zzz"],
    ),
    Ending(
        "module-skipped",
        "tests.none_collected]: no test was found: 1 skipped",
        ["because: 0 tests collected, 1 skipped"],
        files={"test_it.py": "import pytest\npytest.importorskip('no_such')\n"},
    ),
)
IN_WORKERS: Final = (
    "keyword-of-a-file",
    "node-id",
    "hook-later",
    "hook-of-a-plugin",
    "exit-at-import",
    "import-of-its-own",
    "three-files",
    "parameter",
    "fixture-asked-for-by-name",
    "item-of-its-own-kind",
)
"""Endings that a worker sees."""


def write(folder: Path, ending: Ending) -> None:
    """Write the files of an ending, one test that passes among them."""
    files = {"pytest.ini": "[pytest]\n", "test_it.py": PASSING, **ending.files}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def skip_where_pytest_words_it_otherwise(ending: Ending) -> None:
    """Skip what older versions of pytest say in other words; ours are theirs."""
    newer = ("plugin-of-a-conftest", "plugin-typed", "parameter")
    if ending.name in newer and pytest.version_tuple < (9, 2):
        pytest.skip("pytest before 9.2 words it otherwise")


def message_of(headline: str) -> str:
    """Return what a headline says, without its kind and without how many tests passed."""
    return re.sub(r" \(\d+ passed\)$", "", headline.partition("]: ")[2])


@pytest.mark.parametrize("ending", ENDINGS, ids=[ending.name for ending in ENDINGS])
def test_the_words(pytester: pytest.Pytester, ending: Ending) -> None:
    """With `-q` the thing is named in one line; without it the block adds what that leaves out."""
    skip_where_pytest_words_it_otherwise(ending)
    write(pytester.path, ending)
    run = run_inside(pytester, "-q", *ending.args)
    lines = (run.stdout + run.stderr).splitlines()
    (at,) = (i for i, line in enumerate(lines) if re.match(r"[A-Z_]+ \[[a-z_.]+\]: ", line))
    assert lines[at].partition(" [")[2] == ending.headline
    assert lines[at + 1] == "report: failure-report.json"
    report = run.report()
    assert report["verdict"]["message"] == message_of(ending.headline)
    block = [line.text for line in verdict_lines(report, "failure-report.json")]
    assert [line for line in block[2:-1] if not line.startswith("also: 3 failures, 3")] == [
        *ending.middle
    ]


def test_an_async_test_that_no_plugin_runs(pytester: pytest.Pytester) -> None:
    """The extra that runs it is named."""
    write(pytester.path, Ending("async", "", files={"test_a.py": "async def test_a(): pass\n"}))
    report = run_inside(pytester, "-p", "no:asyncio", "-p", "no:anyio").report()
    assert report["verdict"]["message"] == (
        "1 test failed: async def functions are not natively supported "
        '(pytest-asyncio runs them: pip install "pytest-failure-taxonomy[asyncio]")'
    )


@pytest.mark.parametrize(
    "ending",
    [ending for ending in ENDINGS if ending.name in IN_WORKERS],
    ids=[ending.name for ending in ENDINGS if ending.name in IN_WORKERS],
)
def test_the_words_with_xdist(tmp_path: Path, ending: Ending) -> None:
    """What a worker has seen is named in the same words."""
    skip_where_pytest_words_it_otherwise(ending)
    write(tmp_path, ending)
    run = run_pytest(tmp_path, "-q", "-n", "2", *ending.args, plugins=("xdist",))
    report = run.report()
    assert report["verdict"]["kind"] == ending.headline.partition("]")[0]
    assert report["verdict"]["message"] == message_of(ending.headline)


def test_secrets_in_a_headline(pytester: pytest.Pytester) -> None:
    """What the verdict names is searched for secrets as all is."""
    token = "ghp_" + "a1B2" * 9
    content = f"def pytest_configure(): raise ValueError('no {token} {'x ' * 300}{token}')\n"
    write(pytester.path, Ending("", "", files={"conftest.py": content}))
    run = run_inside(pytester, "-q")
    message = run.report()["verdict"]["message"]
    assert message.startswith("ValueError: no [REDACTED")
    assert len(message) < 400
    assert token not in (pytester.path / "failure-report.json").read_text("utf-8")
    assert "[REDACTED" in run.stdout + run.stderr


@given(st.text() | st.integers(0, 3_000).map(lambda count: "x" * count))
def test_one_line(text: str) -> None:
    """Any text becomes one line that is not too long, and is empty for blank texts alone."""
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert len(line) <= MAX_WORDS + 2
    assert bool(line) is bool(text.strip())

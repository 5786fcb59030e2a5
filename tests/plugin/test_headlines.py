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

from pytest_failure_taxonomy.faces.terminal import verdict_lines
from pytest_failure_taxonomy.report.load import decode_report
from pytest_failure_taxonomy.taxonomy.words import MAX_WORDS, one_line
from tests.helpers.children import run_inside, run_pytest

PASSING: Final = "def test_passes(): pass\n"
MISSING: Final = "import tomli_wx\n"

try:
    IDLE = f"pytest-timeout {version('pytest-timeout')} is installed but not loaded"
except PackageNotFoundError:
    IDLE = "pytest-timeout has it: pip install pytest-timeout"


class Ending(NamedTuple):
    """One way to go wrong, and the words for it."""

    name: str
    headline: str
    """Message and codes, as the first line has them."""
    middle: Sequence[str] = ()
    """The lines of the block between the headline and the report's path."""
    files: Mapping[str, str] = {}
    args: Sequence[str] = ()


ENDINGS: Final = (
    # What pytest refuses.
    Ending(
        "option",
        "pytest does not know --no-such [INTERNAL_ERROR usage.error]",
        ["a retry won't help"],
        args=["--no-such"],
    ),
    Ending(
        "option-of-a-file",
        (
            "pytest does not know --cov-append2 (from addopts in tests/pytest.ini) "
            "[INTERNAL_ERROR usage.error]"
        ),
        ["a retry won't help"],
        files={"tests/pytest.ini": "[pytest]\naddopts = --cov-append2 --tb=short\n"},
        args=["--rootdir=.", "-c", "tests/pytest.ini"],
    ),
    Ending(
        "option-of-a-plugin",
        (
            "pytest does not know --mypy --picked=2 (from addopts in pytest.ini) "
            "[INTERNAL_ERROR usage.error]"
        ),
        ["fix: pip install pytest-mypy pytest-picked", "a retry won't help"],
        files={"pytest.ini": "[pytest]\naddopts = --mypy\n"},
        args=["--picked=2"],
    ),
    Ending(
        "option-of-a-plugin-that-is-blocked",
        (
            "pytest-timeout is installed but not loaded, and has --timeout=5 [INTERNAL_ERROR "
            "usage.error]"
        ),
        [
            "fix: remove -p no:pytest-timeout or PYTEST_DISABLE_PLUGIN_AUTOLOAD, or the option",
            "a retry won't help",
        ],
        args=["--timeout=5", "-p", "no:timeout"],
    ),
    Ending(
        "setting-of-a-plugin",
        (
            "pytest does not know the setting django_find_project (set in pytest.ini) "
            "[INTERNAL_ERROR usage.error]"
        ),
        ["fix: pip install pytest-django", "not run: 1 of 1 test; a retry won't help"],
        files={
            "pytest.ini": "[pytest]\ndjango_find_project = 1\naddopts = --strict-config\n"
        },
    ),
    Ending(
        "path",
        "there is no file or folder nowhere [INTERNAL_ERROR usage.error]",
        ["a retry won't help"],
        args=["nowhere"],
    ),
    Ending(
        "node-id",
        "there is no test test_it.py::test_gone [INTERNAL_ERROR usage.error]",
        ["a retry won't help"],
        args=["test_it.py::test_gone"],
    ),
    Ending(
        "keyword-of-a-file",
        (
            "Wrong expression passed to '-k': and and: at column 1: expected not OR left "
            "parenthesis OR identifier; got and (from addopts in pytest.ini) [INTERNAL_ERROR "
            "usage.error]"
        ),
        ["not run: 1 of 1 test; a retry won't help"],
        files={"pytest.ini": "[pytest]\naddopts = -k 'and and'\n"},
    ),
    Ending(
        "setting",
        (
            "pytest does not know the setting no_such_key (set in pytest.ini) "
            "[INTERNAL_ERROR usage.error]"
        ),
        ["not run: 1 of 1 test; a retry won't help"],
        files={"pytest.ini": "[pytest]\nno_such_key = 1\naddopts = --strict-config\n"},
    ),
    Ending(
        "usage-error-of-a-hook",
        "set SERVER first (conftest.py:2, in pytest_configure) [INTERNAL_ERROR usage.error]",
        ["a retry won't help"],
        files={
            "conftest.py": "import pytest\n"
            "def pytest_configure(): raise pytest.UsageError('set SERVER first')\n"
        },
    ),
    # Files that pytest loads at its start.
    Ending(
        "conftest-import",
        "tomli_wx is not installed: conftest.py can't be imported [INTERNAL_ERROR conftest.error]",
        ["a retry won't help"],
        files={"conftest.py": MISSING},
    ),
    Ending(
        "conftest-import-of-its-own",
        "tomli_wx is not installed: conftest.py can't be imported (own.py:1) "
        "[INTERNAL_ERROR conftest.error]",
        ["a retry won't help"],
        files={"conftest.py": "import own\n", "own.py": MISSING},
    ),
    Ending(
        "conftest-syntax",
        "SyntaxError: invalid syntax (conftest.py:1) [INTERNAL_ERROR conftest.error]",
        ["a retry won't help"],
        files={"conftest.py": "def x(:\n"},
    ),
    Ending(
        "required-plugin",
        (
            "required plugins are missing: pytest-nope (required_plugins in pytest.ini) "
            "[INTERNAL_ERROR plugin.error]"
        ),
        ["a retry won't help"],
        files={"pytest.ini": "[pytest]\nrequired_plugins = pytest-nope\n"},
    ),
    Ending(
        "plugin-of-a-conftest",
        (
            "the plugin nope is not installed (pytest_plugins in conftest.py) "
            "[INTERNAL_ERROR plugin.error]"
        ),
        ["a retry won't help"],
        files={"conftest.py": "pytest_plugins = ['nope']\n"},
    ),
    Ending(
        "plugin-typed",
        "the plugin nope is not installed [INTERNAL_ERROR plugin.error]",
        ["a retry won't help"],
        args=["-p", "nope"],
    ),
    # Hooks.
    Ending(
        "hook-at-the-start",
        "ValueError: no (conftest.py:2, in pytest_configure) [INTERNAL_ERROR internal.error]",
        ["a retry won't help"],
        files={"conftest.py": "def pytest_configure():\n    raise ValueError('no')\n"},
    ),
    Ending(
        "hook-later",
        (
            "KeyError: 'x' (own.py:1, from conftest.py, in pytest_collection_modifyitems) "
            "[INTERNAL_ERROR internal.error]"
        ),
        ["not run: 1 of 1 test; a retry won't help"],
        files={
            "conftest.py": "import own\ndef pytest_collection_modifyitems(): own.f()\n",
            "own.py": "def f(): {}['x']\n",
        },
    ),
    Ending(
        "hook-that-lacks-a-file",
        "there is no file rates.csv: Rates.load (own.py:2) [INTERNAL_ERROR internal.error]",
        ["a retry won't help"],
        files={
            "conftest.py": "import own\ndef pytest_configure(): own.Rates().load()\n",
            "own.py": "class Rates:\n    def load(self): open('rates.csv')\n",
        },
    ),
    Ending(
        "hook-of-a-plugin",
        (
            "KeyError: 'gone' (foreign.py:1, in pytest_collection_modifyitems) "
            "[INTERNAL_ERROR internal.error]"
        ),
        ["not run: 1 of 1 test; a retry won't help"],
        files={
            "pytest.ini": "[pytest]\npythonpath=.venv/lib/site-packages\naddopts = -p foreign\n",
            ".venv/lib/site-packages/foreign.py": "def pytest_collection_modifyitems(): "
            "raise KeyError('gone')\n",
        },
    ),
    Ending(
        "exit-at-import",
        "SystemExit: leaving (test_a.py:2) [INTERNAL_ERROR internal.error]",
        ["a retry won't help"],
        files={"test_a.py": "import sys\nsys.exit('leaving')\n"},
    ),
    # What can't be collected.
    Ending(
        "import",
        (
            "tomli_wx is not installed: tests/test_a.py can't be imported [INTERNAL_ERROR "
            "collection.error]"
        ),
        ["not run: 1 of 1 collected test; a retry won't help"],
        files={"tests/test_a.py": MISSING},
    ),
    Ending(
        "import-of-its-own",
        "tomli_wx is not installed: test_a.py can't be imported (own.py:1) "
        "[INTERNAL_ERROR collection.error]",
        ["not run: 1 of 1 collected test; a retry won't help"],
        files={"test_a.py": "import own\n", "own.py": MISSING},
    ),
    Ending(
        "import-of-a-part",
        "own.gone does not exist: test_a.py can't be imported [INTERNAL_ERROR collection.error]",
        ["not run: 1 of 1 collected test; a retry won't help"],
        files={"test_a.py": "import own.gone\n", "own/__init__.py": ""},
    ),
    Ending(
        "conftest-below",
        "tomli_wx is not installed: sub can't be imported (sub/conftest.py:1) "
        "[INTERNAL_ERROR collection.error]",
        ["not run: 1 of 1 collected test; a retry won't help"],
        files={"sub/conftest.py": MISSING, "sub/test_a.py": PASSING},
    ),
    Ending(
        "syntax",
        "SyntaxError: invalid syntax (sub/test_a.py:1) [INTERNAL_ERROR collection.error]",
        ["not run: 1 of 1 collected test; a retry won't help"],
        files={"sub/test_a.py": "def x(:\n"},
    ),
    Ending(
        "three-files",
        "3 test files can't be collected, 3 causes [INTERNAL_ERROR collection.error]",
        [
            "  1 x tomli_wx is not installed: test_a.py can't be imported",
            "  1 x SyntaxError: invalid syntax (test_b.py:1)",
            "  1 x ZeroDivisionError: division by zero (test_c.py:1)",
            "not run: 1 of 1 collected test; a retry won't help",
        ],
        files={"test_a.py": MISSING, "test_b.py": "def x(:\n", "test_c.py": "1 / 0\n"},
    ),
    Ending(
        "parameter",
        "In test_a.py::test_a: function uses no argument 'x' [INTERNAL_ERROR collection.error]",
        ["not run: 1 of 1 collected test; a retry won't help"],
        files={
            "test_a.py": "import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_a(): pass\n"
        },
    ),
    # Fixtures that are not there.
    Ending(
        "fixtures",
        "3 of 4 tests failed, 2 causes [TESTS_FAILED test.setup_error]",
        [
            (
                "  2 x fixture 'mocker' not found: first test_a (test_a.py:1); fix: pip "
                "install pytest-mock"
            ),
            (
                "  1 x fixture 'snapshot' not found: test_c (test_a.py:3); fix: install "
                "pytest-snapshot or syrupy"
            ),
            "a retry won't help",
        ],
        files={
            "test_a.py": "def test_a(mocker, benchmark): pass\n"
            "def test_b(mocker): pass\n"
            "def test_c(snapshot, shop): pass\n"
        },
    ),
    Ending(
        "fixture-asked-for-by-name",
        (
            "1 of 2 tests failed: fixture 'qtbot' not found: test_a (test_a.py:1) "
            "[TESTS_FAILED test.failed]"
        ),
        ["fix: pip install pytest-qt", "a retry won't help"],
        files={"test_a.py": "def test_a(request): request.getfixturevalue('qtbot')\n"},
    ),
    Ending(
        "fixture-of-itself",
        (
            "1 of 2 tests failed: recursive dependency involving fixture 'a' detected: "
            "test_a (test_a.py:4) [TESTS_FAILED test.setup_error]"
        ),
        ["a retry won't help"],
        files={
            "test_a.py": "import pytest\n@pytest.fixture\ndef a(a): pass\ndef test_a(a): pass\n"
        },
    ),
    # Items whose failures somebody else words.
    Ending(
        "item-of-its-own-kind",
        (
            "1 of 2 tests failed: ValueError: usecase failed: a is b: x (test_x.yml) "
            "[TESTS_FAILED test.failed]"
        ),
        ["a retry won't help"],
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
        (
            "the run was ended by pytest.exit: no database (conftest.py:2) [INTERRUPTED "
            "interrupt.exit]"
        ),
        files={
            "conftest.py": "import pytest\ndef pytest_collection(): pytest.exit('no database')\n"
        },
    ),
    Ending(
        "nothing-selected",
        "every test found was deselected: -k zzz [NO_TESTS_COLLECTED tests.all_deselected]",
        ["because: 1 deselected, 0 left", "a retry won't help"],
        args=["-k", "zzz"],
    ),
    Ending(
        "module-skipped",
        "no test was found: 1 skipped [NO_TESTS_COLLECTED tests.none_collected]",
        ["because: 0 tests collected, 1 skipped", "a retry won't help"],
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
    """Return what a headline says, without its codes."""
    return headline.rpartition(" [")[0]


@pytest.mark.parametrize("ending", ENDINGS, ids=[ending.name for ending in ENDINGS])
def test_the_words(pytester: pytest.Pytester, ending: Ending) -> None:
    """With `-q` the thing is named in one line; without it the block adds what that leaves out."""
    skip_where_pytest_words_it_otherwise(ending)
    write(pytester.path, ending)
    run = run_inside(pytester, "-q", *ending.args)
    lines = (run.stdout + run.stderr).splitlines()
    shown = [re.sub(r" {2,}(?=\[)", " ", line) for line in lines]
    at = shown.index(ending.headline)
    named = [line for line in ending.middle if line.startswith("  ")]
    said = [*named, "report: failure-report.json"]
    assert lines[at + 1 : at + 1 + len(said)] == said
    report = run.report()
    assert report["verdict"]["message"] == message_of(ending.headline)
    block = [
        line.text
        for line in verdict_lines(decode_report(report), "failure-report.json")
    ]
    assert block[2:-1] == [*ending.middle]


def test_an_async_test_that_no_plugin_runs(pytester: pytest.Pytester) -> None:
    """The extra that runs it is named."""
    write(
        pytester.path,
        Ending("async", "", files={"test_a.py": "async def test_a(): pass\n"}),
    )
    report = run_inside(pytester, "-p", "no:asyncio", "-p", "no:anyio").report()
    (cause,) = report["causes"]
    assert cause["what"].startswith("no plugin runs async tests: test_a")
    assert cause["fix"] == "pip install pytest-asyncio"


@pytest.mark.parametrize(
    "ending",
    [ending for ending in ENDINGS if ending.name in IN_WORKERS],
    ids=[ending.name for ending in ENDINGS if ending.name in IN_WORKERS],
)
def test_the_words_with_xdist(tmp_path: Path, ending: Ending) -> None:
    """What a worker has seen is named in the same words."""
    skip_where_pytest_words_it_otherwise(ending)
    write(tmp_path, ending)
    run = run_pytest(tmp_path, "-q", "-n", "1", *ending.args, plugins=("xdist",))
    report = run.report()
    assert ending.headline.endswith(f" {report['verdict']['kind']}]")
    assert report["verdict"]["message"] == message_of(ending.headline)


def test_secrets_in_a_headline(pytester: pytest.Pytester) -> None:
    """What the verdict names is searched for secrets as all is."""
    token = "ghp_" + "a1B2" * 9
    content = (
        f"def pytest_configure(): raise ValueError('no {token} {'x ' * 300}{token}')\n"
    )
    write(pytester.path, Ending("", "", files={"conftest.py": content}))
    run = run_inside(pytester, "-q")
    message = run.report()["verdict"]["message"]
    assert message.startswith("ValueError: no [REDACTED")
    assert len(message) < 400
    assert token not in (pytester.path / "failure-report.json").read_text("utf-8")
    assert "[REDACTED" in run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.lowest
@given(st.text() | st.integers(0, 3_000).map(lambda count: "x" * count))
def test_one_line(text: str) -> None:
    """Any text becomes one line that is not too long, and is empty for blank texts alone."""
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert len(line) <= MAX_WORDS + 2
    assert bool(line) is bool(text.strip())

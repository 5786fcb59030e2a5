"""The words of the verdict: what went wrong and where, in the user's own files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.children import SWITCH, ChildRun, run_pytest
from tests.helpers.reports import extensions_of

PASSING: Final = "def test_passes(): pass\n"
PLACE: Final = "(conftest.py:2)"
ENDED: Final = "conftest.py ended pytest with status 0 before any test ran"

XDIST: Final = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "xdist"])
posix_only = pytest.mark.skipif("sys.platform == 'win32'", reason="of POSIX systems")


def run_files(
    folder: Path, files: dict[str, str], *args: str, workers: int = 0
) -> ChildRun:
    """Write files, and run pytest on them: in one process, or with workers."""
    for name, content in {"pytest.ini": "[pytest]\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    xdist = ("-n", str(workers)) if workers else ()
    run = run_pytest(folder, *args, *xdist, plugins=("xdist",))
    assert len(run.told) <= 7  # six, and the path
    return run


def why(run: ChildRun) -> str:
    """Return the line that says why the run failed: the headline, where no other line says more."""
    more = [
        line
        for line in run.told[2:]
        if line.startswith(("because: ", "see: ", "first: "))
    ]
    headline = run.told[1].rpartition(" [")[0]
    return more[0] if more else f"because: {headline}"


def error_of(run: ChildRun) -> Any:
    """Return the one error outside of tests."""
    (error,) = run.report()["internal_errors"]
    return error


# Errors outside of the tests.


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("import sys\nsys.exit(3)\n", f"SystemExit: 3 {PLACE}", id="exit"),
        pytest.param("import sys\nsys.exit()\n", f"{ENDED} {PLACE}", id="exit-silent"),
        pytest.param(
            "import pytest\npytest.skip('x')\n", f"Skipped: x {PLACE}", id="skip"
        ),
        pytest.param(
            "\n1 / 0\n", f"ZeroDivisionError: division by zero {PLACE}", id="exception"
        ),
        pytest.param(
            "\ndef x(:\n", f"SyntaxError: invalid syntax {PLACE}", id="syntax"
        ),
        pytest.param(
            "\nimport own\n",
            "ValueError: no (own.py:1, from conftest.py)",
            id="in-an-import",
        ),
        pytest.param(
            "\nimport json; json.loads('')\n",
            f"JSONDecodeError: Expecting value: line 1 column 1 (char 0) {PLACE}",
            id="in-a-library",
        ),
        pytest.param(
            "\nraise ValueError('two\\nlines')\n",
            f"ValueError: two {PLACE}",
            id="two-lines",
        ),
    ],
)
@XDIST
def test_a_conftest_that_leaves(
    tmp_path: Path, content: str, words: str, workers: int
) -> None:
    """However the root conftest ends its own loading, the file and the line are named."""
    files = {
        "conftest.py": content,
        "own.py": "raise ValueError('no')\n",
        "test_it.py": PASSING,
    }
    run = run_files(tmp_path, files, workers=workers)
    assert run.told[1].endswith(" [INTERNAL_ERROR conftest.error]")
    assert why(run) == f"because: {words}"
    assert error_of(run)["message"].partition("\n")[0] == words


def test_a_plugin_of_a_conftest(tmp_path: Path) -> None:
    """What leaves in a plugin that a conftest names is that plugin's error."""
    files = {
        "conftest.py": "pytest_plugins = ['own']\n",
        "own.py": "import sys\nsys.exit(3)\n",
        "test_it.py": PASSING,
    }
    run = run_files(tmp_path, files)
    assert run.told[1].endswith(" [INTERNAL_ERROR plugin.error]")
    assert why(run) == "because: SystemExit: 3 (own.py:2)"


@pytest.mark.parametrize(
    "hook",
    [
        "pytest_configure",
        "pytest_sessionstart",
        "pytest_collection_modifyitems",
        "pytest_sessionfinish",
        "pytest_unconfigure",
    ],
)
@XDIST
def test_a_hook_that_raises(tmp_path: Path, hook: str, workers: int) -> None:
    """Where a hook broke is said once, on the terminal and in the report."""
    content = f"def {hook}():\n    raise ValueError('hook broke')\n"
    run = run_files(
        tmp_path, {"conftest.py": content, "test_it.py": PASSING}, workers=workers
    )
    words = f"ValueError: hook broke (conftest.py:2, in {hook})"
    assert why(run) == f"because: {words}"
    report = run.report()
    messages = [error["message"] for error in report["internal_errors"]]
    assert messages[0] == words  # xdist may stumble over itself afterwards
    assert messages.count(words) == 1
    assert [held["count"] for held in report["reasons"]] == [1]


def test_a_wrapper_around_what_raises(tmp_path: Path) -> None:
    """A hook wrapper that lets another's exception pass is not where it comes from."""
    wrapper = "import pytest\n@pytest.hookimpl(wrapper=True)\ndef pytest_unconfigure(): return (yield)\n"
    hidden = "def pytest_unconfigure(): raise ValueError('hook broke')\n"
    files = {
        "conftest.py": wrapper,
        ".venv/lib/site-packages/foreign.py": hidden,
        "pytest.ini": "[pytest]\npythonpath = .venv/lib/site-packages\naddopts = -p foreign\n",
        "test_it.py": PASSING,
    }
    run = run_files(tmp_path, files)
    assert (
        why(run)
        == "because: ValueError: hook broke (foreign.py:1, in pytest_unconfigure)"
    )


@XDIST
def test_exit_at_import(tmp_path: Path, workers: int) -> None:
    """A test file that leaves at its import is named, also by a worker's embedded traceback."""
    files = {"test_it.py": "import sys\nsys.exit('leaving')\n"}
    run = run_files(tmp_path, files, workers=workers)
    assert run.told[1].endswith(" [INTERNAL_ERROR internal.error]")
    assert why(run) == "because: SystemExit: leaving (test_it.py:2)"
    error = run.report()["internal_errors"][
        0
    ]  # xdist may stumble over itself afterwards
    assert error["message"] == "SystemExit: leaving (test_it.py:2)"
    assert "test_it.py" in error["traceback"]


def test_a_test_that_quotes_a_traceback(tmp_path: Path) -> None:
    """Of a message that begins with another process's traceback, the line that tells is shown."""
    content = (
        "def test_it():\n"
        "    text = 'Traceback (most recent call last):\\n  File \"x\", line 1\\n    y\\n'\n"
        "    raise RuntimeError(text + 'KeyError: 1\\nnote')\n"
    )
    run = run_files(tmp_path, {"test_it.py": content})
    assert why(run) == (
        "because: 1 test failed: RuntimeError: KeyError: 1: test_it (test_it.py:3)"
    )


def test_a_syntax_error_names_its_place_once(tmp_path: Path) -> None:
    """Python's own words for the place of a syntax error are left out: ours have the folder."""
    run = run_files(tmp_path, {"sub/test_syn.py": "def test_it(:\n"})
    assert why(run) == "because: SyntaxError: invalid syntax (sub/test_syn.py:1)"


@pytest.mark.slow
@posix_only
def test_ctrl_c_on_the_controller(tmp_path: Path) -> None:
    """What the controller was at says nothing of the test that hung."""
    files = {
        "conftest.py": "import signal\n"
        "def pytest_configure():\n"  # a background job ignores it
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n",
        "test_it.py": "import os, signal, time\n"
        "def test_hang():\n"
        "    os.kill(os.getppid(), signal.SIGINT)\n"
        "    time.sleep(60)\n",
    }
    run = run_files(tmp_path, files, workers=2)
    assert why(run) == "see: test_it.py::test_hang: KeyboardInterrupt"


# Exit statuses.

COVERAGE: Final = """
import pytest
class Options:
    cov_fail_under = 100
    cov_precision = 0
class Coverage:
    options = Options()
    cov_total = 63.1579
    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session):
        result = yield
        session.testsfailed += 1
        return result
def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register({plugin}, "_cov")
"""


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        pytest.param(
            "Coverage()", "coverage 63.16 % is below the required 100 %", id="as-it-is"
        ),
        pytest.param(
            "type('C', (Coverage,), {'cov_total': 99.999})()",
            "coverage 99.999 % is below the required 100 %",
            id="nearly",
        ),
        pytest.param(
            "type('C', (Coverage,), {'cov_total': 100.0})()",
            "exit code 1",
            id="reached",
        ),
        pytest.param(
            "type('C', (Coverage,), {'cov_total': None})()", "exit code 1", id="none"
        ),
        pytest.param(
            "type('C', (Coverage,), {'options': None})()", "exit code 1", id="other"
        ),
        pytest.param(
            "type('C', (Coverage,), {'cov_total': property(lambda self: 1 / 0)})()",
            "exit code 1",
            id="raises",
        ),
    ],
)
def test_the_coverage_threshold(tmp_path: Path, plugin: str, words: str) -> None:
    """Where pytest-cov's object says that too little was covered, so do we; else nothing breaks."""
    conftest = COVERAGE.replace("{plugin}", plugin)
    run = run_files(tmp_path, {"conftest.py": conftest, "test_it.py": PASSING})
    assert run.status == 1
    kind = "coverage.failed" if words.startswith("coverage") else "exit_status.changed"
    assert run.told[1].endswith(f" [TESTS_FAILED {kind}]")
    assert words in run.told[1]
    uncounted = ["pytest has counted 1 failure that no test has reported"]
    notes = {} if words.startswith("coverage") else {"notes": uncounted}
    assert extensions_of(run.report()) == notes


@XDIST
def test_the_coverage_threshold_of_pytest_cov(tmp_path: Path, workers: int) -> None:
    """The same with the plugin itself, where it is installed."""
    pytest.importorskip("pytest_cov")
    files = {"own.py": "def f(x):\n    if x:\n        return 1\n    return 2\n"}
    files["test_it.py"] = "import own\n\ndef test_it(): own.f(1)\n"
    xdist = ("-n", str(workers)) if workers else ()
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    args = ("--cov=own", "--cov-fail-under=100", "--cov-report=")
    run = run_pytest(tmp_path, *args, *xdist, plugins=("xdist", "pytest_cov"))
    assert "coverage 75.00 % is below the required 100 %" in why(run)


@XDIST
def test_a_skipped_module(tmp_path: Path, workers: int) -> None:
    """Where nothing was collected because it was skipped, the skip is counted."""
    files = {"test_it.py": "import pytest\npytest.importorskip('no_such')\n"}
    run = run_files(tmp_path, files, workers=workers)
    assert run.status == 5
    assert why(run) == "because: 0 tests collected, 1 skipped"


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        pytest.param(
            "def test_a(): assert 0\n",
            "valid baseline: 1 test failed, as it should",
            id="one",
        ),
        pytest.param(
            "def test_a(): assert 0\ndef test_b(): assert 0\n" + PASSING,
            "valid baseline: 2 tests failed, as they should (1 passed)",
            id="two",
        ),
        pytest.param(
            "",
            "valid baseline: no test ran, yet exit code 5 counts as a failing baseline",
            id="none",
        ),
        pytest.param(
            PASSING
            + "import pytest\n@pytest.fixture\ndef bad(): 1 / 0\ndef test_b(bad): pass\n",
            "valid baseline (1 passed, 1 error)",
            id="error",
        ),
    ],
)
def test_a_valid_baseline(tmp_path: Path, tests: str, words: str) -> None:
    """That tests fail is what a baseline is for, and the line says so."""
    run = run_files(
        tmp_path, {"test_it.py": tests}, "--failure-taxonomy-stage=baseline_run"
    )
    assert run.tail == [f"failure taxonomy: {words}; report: failure-report.json"]


# Where a test failed.


@pytest.mark.slow
@pytest.mark.lowest
@XDIST
@pytest.mark.parametrize("style", ["auto", "short", "long"])
def test_the_place_of_a_failure_in_a_library(
    tmp_path: Path, workers: int, style: str
) -> None:
    """A failure is placed where the user's code called what raised, on a worker, too."""
    content = (
        "import json, unittest, own, foreign\n\n"
        "class TestIt(unittest.TestCase):\n"
        "    def test_equal(self):\n"
        "        self.assertEqual(1, 2)\n\n"
        "def test_json():\n"
        "    own.read('')\n\n"
        "def test_foreign():\n"
        "    foreign.call()\n\n"
        "def test_fails():\n"
        "    assert 0\n"
    )
    files = {
        "test_it.py": content,
        "own.py": "import json\n\ndef read(text):\n    return json.loads(text)\n",
        ".venv/lib/site-packages/foreign.py": "def call(): 1 / 0\n",
        "pytest.ini": "[pytest]\npythonpath = . .venv/lib/site-packages\n",
    }
    run = run_files(tmp_path, files, f"--tb={style}", workers=workers)
    found = {
        failure["nodeid"].rpartition("::")[2]: (
            failure["location"]["path"],
            failure["location"]["line"],
        )
        for failure in run.report()["failures"]
    }
    assert found == {
        "test_equal": ("test_it.py", 5),
        "test_json": ("own.py", 4),
        "test_foreign": ("test_it.py", 11),
        "test_fails": ("test_it.py", 14),
    }


def test_a_place_that_no_entry_shows(tmp_path: Path) -> None:
    """Without the entries of a traceback, the place that pytest names is the best there is."""
    content = "import json\n\ndef test_it(): json.loads('')\n"
    run = run_files(tmp_path, {"test_it.py": content}, "--tb=native")
    (failure,) = run.report()["failures"]
    assert failure["location"]["path"].endswith("/json/decoder.py")


DOCTESTS: Final = (
    pytest.param(">>> 1 + 3\n3", "expected 3, got 4", id="other"),
    pytest.param(">>> 1 + 3", "expected nothing, got 4", id="not-expected"),
    pytest.param(">>> None\n3", "expected 3, got nothing", id="not-got"),
    pytest.param(
        ">>> print('a\\\\nb')\na\nc",
        "expected a …, got a …",
        id="lines",
    ),
    pytest.param(
        ">>> 'x' * 9999\n3",
        re.compile(r"expected 3, got 'x{50,300} ?…"),
        id="long",
    ),
    pytest.param(
        ">>> 1 / 0\n3",
        "UnexpectedException: ZeroDivisionError: division by zero",
        id="raises",
    ),
)


@pytest.mark.slow
@pytest.mark.lowest
@XDIST
@pytest.mark.parametrize(("example", "words"), DOCTESTS)
def test_a_doctest(
    tmp_path: Path, example: str, words: str | re.Pattern[str], workers: int
) -> None:
    """A doctest's failure says what was expected and what came."""
    run = run_files(
        tmp_path,
        {"own.py": f'def f():\n    """\n{indented(example)}    """\n'},
        "--doctest-modules",
        workers=workers,
    )
    told = why(run).removeprefix("because: 1 test failed: ")
    assert re.fullmatch(r"(.*): own\.f \(own\.py:\d+\)", told)
    told = told.rpartition(": own.f (")[0]
    assert words.fullmatch(told) if isinstance(words, re.Pattern) else told == words


def test_several_failures_in_a_doctest(tmp_path: Path) -> None:
    """The first of several is shown, and the others are counted."""
    example = indented(">>> 1\n2\n>>> 3\n4\n>>> 1 / 0\n5")
    run = run_files(
        tmp_path,
        {"own.py": f'def f():\n    """\n{example}    """\n'},
        "--doctest-modules",
        "--doctest-continue-on-failure",
    )
    assert "MultipleDoctestFailures: expected 2, got 1 (and 2 more)" in why(run)


def indented(text: str) -> str:
    """Return the lines of a text as they stand in a function."""
    return "".join(f"    {line}\n" for line in text.splitlines())


def test_nothing_under_qq(tmp_path: Path) -> None:
    """A broken conftest is not told either where the user wants to read nothing."""
    run = run_files(tmp_path, {"conftest.py": "import sys\nsys.exit(3)\n"}, "-qq")
    assert run.told == []
    assert "SystemExit" not in run.stdout + run.stderr
    assert SWITCH not in run.stderr

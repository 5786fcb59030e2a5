"""What stands beside an exception, or beside a session that failed: what others have printed."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, Final

import pytest

from tests.helpers.runs import PytestRuns

DUBIOUS: Final = "fatal: detected dubious ownership in repository at '/srv/repo'"
REFUSED: Final = "git refuses the repository /srv/repo: it belongs to another user"
FAILS: Final = (
    "import subprocess, sys\n"
    "def command(text, status=128):\n"
    "    code = f'import sys; sys.stderr.write({text!r}); sys.exit({status})'\n"
    "    return [sys.executable, '-c', code]\n"
)
"""A program that prints something to stderr and fails."""


def causes_of(runs: PytestRuns, files: dict[str, str], *args: str) -> list[Any]:
    """Run tests, and return the causes in the report."""
    runs.write(files)
    causes: list[Any] = runs.run(*args).report["causes"]
    return causes


def first_sentence(causes: list[Any]) -> str:
    """Return what the first cause says, without its place."""
    return str(causes[0]["what"])


@pytest.mark.parametrize(
    "call",
    [
        "subprocess.run(words, check=True, capture_output=True)",
        "subprocess.run(words, check=True)",
        "subprocess.check_output(words, stderr=subprocess.STDOUT, text=True)",
        "ended = subprocess.run(words, capture_output=True); assert ended.returncode == 0",
        "assert subprocess.call(words) == 0",
    ],
    ids=["stderr", "captured", "output", "completed", "asserted"],
)
def test_what_a_program_printed(runs: PytestRuns, call: str) -> None:
    """Whoever holds it: the exception, a variable of the test, or what pytest has captured."""
    test = f"{FAILS}def test_a():\n    words = command({DUBIOUS!r})\n    {call}\n"
    (cause,) = causes_of(runs, {"test_a.py": test})
    assert cause["what"].startswith(REFUSED)
    assert cause["fix"] == "git config --global --add safe.directory /srv/repo"
    assert cause["charge_to"] == "environment"
    assert cause["retryable"] is False


def test_a_program_that_no_row_knows_is_quoted(runs: PytestRuns) -> None:
    """With its status; where a Python failed, its exception is asked like any other."""
    test = (
        f"{FAILS}"
        "def run(text): subprocess.run(command(text, 2), check=True)\n"
        "def test_a(): run('checking\\nx.py:1: error: no\\n')\n"
        "def test_b(): run('Traceback:\\nModuleNotFoundError: No module named \"yaml\"'"
        ".replace('\"', chr(39)))\n"
    )
    quoted, missing = causes_of(runs, {"test_a.py": test})
    program = sys.executable.rpartition("/")[2]
    if "yaml" in quoted["what"]:
        quoted, missing = missing, quoted
    said = f"`{program}` failed (exit code 2): x.py:1: error: no: "
    assert quoted["what"].startswith(said)
    assert missing["what"].startswith("yaml is not installed: ")


def test_output_of_a_test_that_starts_nothing_is_its_own(runs: PytestRuns) -> None:
    """Only an exception about a program is explained by what was printed."""
    test = f"import sys\ndef test_a():\n    sys.stderr.write({DUBIOUS!r})\n    assert 1 == 2\n"
    (cause,) = causes_of(runs, {"test_a.py": test})
    assert first_sentence([cause]).startswith("assert 1 == 2")


def test_an_exception_that_a_test_makes_up_is_simulated(runs: PytestRuns) -> None:
    """A stand-in for `git` that raises its exception says nothing of the environment."""
    test = (
        "import subprocess\n"
        "def test_a():\n"
        f"    raise subprocess.CalledProcessError(128, ['git'], stderr={DUBIOUS!r})\n"
    )
    (cause,) = causes_of(runs, {"test_a.py": test})
    assert cause["charge_to"] == "subject"


EXITS: Final = (
    (
        (
            "def test_a():\n"
            "    import argparse\n"
            "    parser = argparse.ArgumentParser(prog='shop')\n"
            "    parser.add_argument('--n', required=True)\n"
            "    parser.parse_args([])\n"
        ),
        "sys.exit(2): shop: error: the following arguments are required: --n: ",
    ),
    (
        (
            "import sys\n"
            "def test_a():\n"
            "    print('no configuration', file=sys.stderr)\n"
            "    sys.exit(3)\n"
        ),
        "sys.exit(3): no configuration: ",
    ),
    (
        (
            "import sys\n"
            "def test_a():\n"
            "    try: import no_such_module\n"
            "    except ImportError: sys.exit(1)\n"
        ),
        "no_such_module is not installed: ",
    ),
    (
        (
            "import sys\n"
            "def test_a():\n"
            "    try: {}['x']\n"
            "    except KeyError: sys.exit(1)\n"
        ),
        "sys.exit(1) after KeyError: 'x': ",
    ),
)


@pytest.mark.parametrize(
    ("test", "says"), EXITS, ids=["argparse", "printed", "import", "other"]
)
def test_an_exit_is_explained(runs: PytestRuns, test: str, says: str) -> None:
    """By what was printed before, or by the exception that was handled."""
    causes = causes_of(runs, {"test_a.py": test})
    assert first_sentence(causes).startswith(says)


def test_a_conftest_that_exits(runs: PytestRuns) -> None:
    """Pytest has printed what it captured of it."""
    conftest = "import sys\nprint('ERROR: set API_KEY')\nsys.exit(1)\n"
    files = {"conftest.py": conftest, "test_a.py": "def test_a(): pass\n"}
    causes = causes_of(runs, files)
    assert first_sentence(causes).startswith(
        "sys.exit(1): ERROR: set API_KEY: conftest.py"
    )


def test_an_exit_of_a_module_names_its_place(runs: PytestRuns) -> None:
    """It ends pytest as an internal error, whose traceback is pytest's own."""
    test = "import sys\ntry: import no_such_module\nexcept ImportError: sys.exit(1)\n"
    causes = causes_of(runs, {"test_a.py": test})
    assert first_sentence(causes) == "no_such_module is not installed: test_a.py:3"


NOTHING: Final = (
    (
        {"test_a.py": "class TestCart:\n    def __init__(self): pass\n"},
        "no test was found: TestCart has a __init__ (test_a.py:1)",
    ),
    (
        {"test_a.py": "def check(): pass\n"},
        (
            "no test was found: nothing in test_a.py matches "
            "python_functions = test, python_classes = Test"
        ),
    ),
    (
        {"check_a.py": "", "pytest.ini": "[pytest]\npython_files = spec_*.py\n"},
        (
            "no test was found: pytest finds no file that matches "
            "python_files = spec_*.py in pytest.ini"
        ),
    ),
    (
        {"a.py": "", "pytest.ini": "[pytest]\ntestpaths = spec\n"},
        "no test was found: there is no file in testpaths = spec in pytest.ini",
    ),
    (
        {
            "tests/test_a.py": "def test_a(): pass\n",
            "pytest.ini": "[pytest]\naddopts = --ignore=tests\n",
        },
        "no test was found: files are ignored by --ignore tests (from addopts in pytest.ini)",
    ),
    (
        {
            "test_a.py": "def test_a(): pass\n",
            "pytest.ini": "[pytest]\naddopts = -k none -m 'not slow'\n",
        },
        (
            "every test found was deselected: -k none (from addopts in pytest.ini) "
            "and -m not slow (from addopts in pytest.ini)"
        ),
    ),
)


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["serial", "xdist"])
@pytest.mark.parametrize(("files", "says"), NOTHING, ids=lambda one: str(one)[-40:])
def test_why_nothing_ran(
    runs: PytestRuns, files: dict[str, str], says: str, workers: list[str]
) -> None:
    """What pytest warns of, the settings that match nothing, and the options, with their file."""
    runs.write(files)
    plugins = ["xdist"] if workers else []
    report = runs.run(*workers, plugins=plugins).report
    assert report["verdict"]["message"] == says


STATUS: Final = (
    "def pytest_sessionfinish(session): session.exitstatus = 1\n"
    "def pytest_terminal_summary(terminalreporter):\n"
    "    terminalreporter.section('licenses')\n"
    "    terminalreporter.write_line('ERROR: 2 packages have none')\n"
    "    terminalreporter.write_line('see the docs')\n"
)


def test_a_plugin_that_fails_the_session_is_quoted(runs: PytestRuns) -> None:
    """It says why in a section of its own, of which nothing is changed."""
    files = {"conftest.py": STATUS, "test_a.py": "def test_a(): pass\n"}
    runs.write(files)
    run = runs.compare()
    assert run.report["verdict"]["message"] == (
        "no test failed, but a plugin changed the exit status: ERROR: 2 packages have none"
    )


@pytest.mark.skipif(find_spec("pytest_cov") is None, reason="needs pytest-cov")
def test_what_was_never_measured(runs: PytestRuns) -> None:
    """Of a coverage of nothing it is said what was to be measured."""
    files = {
        "test_a.py": "def test_a(): pass\n",
        "pytest.ini": "[pytest]\naddopts = --cov=nowhere --cov-fail-under=80\n",
    }
    runs.write(files)
    report = runs.run(plugins=["pytest_cov"]).report
    assert report["verdict"]["message"] == (
        "coverage 0.00 % is below the required 80 %: "
        "there is no nowhere (from addopts in pytest.ini)"
    )


def test_a_path_of_a_file_of_settings(runs: PytestRuns) -> None:
    """A folder in `addopts` that isn't there looks as if it had been typed."""
    runs.write({"pytest.ini": "[pytest]\naddopts = tests/unit\n"})
    report = runs.run().report
    assert report["verdict"]["message"] == (
        "there is no file or folder tests/unit (from addopts in pytest.ini)"
    )

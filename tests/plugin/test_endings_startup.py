"""Runs that end before their first test: pytest refuses its arguments, or can't load a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from tests.helpers.endings import PASSING, Ending, check_ending
from tests.helpers.runs import PytestRuns

TEST: Final = {"test_it.py": PASSING}

USAGE: Final = (
    pytest.param({}, ["--no-such-option"], "--no-such-option", id="option"),
    pytest.param({}, ["no_such_folder"], "no_such_folder", id="path"),
    pytest.param({}, ["test_it.py::test_absent"], "test_absent", id="node-id"),
    pytest.param({}, ["-m", "not ("], "not (", id="mark-expression"),
    pytest.param({}, ["-k", "1 +"], "1 +", id="keyword-expression"),
    pytest.param(
        {"pytest.ini": "[pytest]\naddopts = --no-such-option\n"},
        [],
        "--no-such-option",
        id="addopts",
    ),
    pytest.param(
        {"pytest.ini": "[pytest]\nno_such_key = 1\naddopts = --strict-config\n"},
        [],
        "no_such_key",
        id="strict-config",
    ),
    pytest.param(
        {
            "conftest.py": "import pytest\n"
            "def pytest_configure(): raise pytest.UsageError('set SERVER first')\n"
        },
        [],
        "SERVER",
        id="raised-in-configure",
    ),
)


@pytest.mark.parametrize(("files", "args", "word"), USAGE)
def test_usage_error(
    runs: PytestRuns, files: Mapping[str, str], args: Sequence[str], word: str
) -> None:
    """What pytest refuses is a usage error, and the report says in its words what was wrong."""
    run = check_ending(
        runs,
        Ending(
            files={**TEST, **files},
            args=args,
            exit_status=4,
            reason="INTERNAL_ERROR",
            kind="usage.error",
            counts=None,
        ),
    )
    (error,) = run.report["internal_errors"]
    assert error["kind"] == "usage.error"
    assert word in error["message"]
    assert "usage:" not in error["message"]


CONFTEST: Final = (
    pytest.param("import no_such_module\n", "ModuleNotFoundError", id="import"),
    pytest.param("def fixture()\n", "SyntaxError", id="syntax"),
    pytest.param("1 / 0\n", "ZeroDivisionError", id="exception"),
    pytest.param("import pytest; pytest.exit('no')\n", "Exit", id="exit"),
    pytest.param(
        "import pytest; raise pytest.UsageError('no')\n", "UsageError", id="usage"
    ),
)


@pytest.mark.parametrize(("content", "exception"), CONFTEST)
@pytest.mark.parametrize(
    ("folder", "args"), [("", []), ("sub/", ["sub"])], ids=["root", "named"]
)
def test_broken_conftest(
    runs: PytestRuns, folder: str, args: Sequence[str], content: str, exception: str
) -> None:
    """A conftest that can't be loaded at the start ends pytest before there is a session."""
    run = check_ending(
        runs,
        Ending(
            files={f"{folder}conftest.py": content, f"{folder}test_it.py": PASSING},
            args=args,
            exit_status=4,
            reason="INTERNAL_ERROR",
            kind="conftest.error",
        ),
    )
    (error,) = run.report["internal_errors"]
    assert exception in error["message"]
    assert f"{folder}conftest.py" in error["traceback"]
    assert "_pytest/" not in error["traceback"], (
        "pytest's own frames are of no use to anybody"
    )


PLUGINS: Final = (
    pytest.param({}, ["-p", "nope"], "nope", id="option"),
    pytest.param(
        {"conftest.py": "pytest_plugins = ['nope']\n"}, [], "nope", id="conftest"
    ),
    pytest.param(
        {"pytest.ini": "[pytest]\nrequired_plugins = pytest-nope\n"},
        [],
        "pytest-nope",
        id="ini",
    ),
    pytest.param({"broken.py": "1 / 0\n"}, ["-p", "broken"], "division", id="broken"),
    pytest.param(
        {"broken.py": "1 / 0\n", "conftest.py": "pytest_plugins = ['broken']\n"},
        [],
        "division",
        id="broken-in-conftest",
    ),
)


@pytest.mark.parametrize(("files", "args", "word"), PLUGINS)
def test_plugin_that_is_not_there(
    runs: PytestRuns, files: Mapping[str, str], args: Sequence[str], word: str
) -> None:
    """A plugin that is missing or can't be imported is a plugin error that names it."""
    runs.write({**TEST, **files})
    run = runs.compare(*args)
    assert run.exit_status != 0
    assert run.report["exit"]["code"] == run.exit_status
    assert run.verdict == ("INTERNAL_ERROR", "plugin.error")
    assert word in run.report["internal_errors"][0]["message"]


ADDS: Final = (
    "def pytest_addoption(parser): parser.addoption('--mine', action='store_true')\n"
)
CONFLICTS: Final = (
    pytest.param(
        {
            "a/conftest.py": ADDS,
            "b/conftest.py": ADDS,
            "pytest.ini": "[pytest]\ntestpaths = a b\n",
        },
        {},
        "--mine is added by a/conftest.py and by b/conftest.py",
        id="conftests",
    ),
    pytest.param(
        {
            "one.py": ADDS.replace("addoption('", "getgroup('x').addoption('"),
            "two.py": ADDS,
        },
        {"PYTEST_PLUGINS": "one,two"},
        "--mine is added by one and by two",
        id="plugins",
    ),
    pytest.param(
        {"conftest.py": ADDS.replace("--mine", "--durations")},
        {},
        f"--durations is added by pytest {pytest.__version__} and by conftest.py",
        id="pytest-itself",
    ),
)


@pytest.mark.lowest
@pytest.mark.parametrize(("files", "env", "words"), CONFLICTS)
def test_an_option_that_is_added_twice(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    files: Mapping[str, str],
    env: Mapping[str, str],
    words: str,
) -> None:
    """Both who add it are named."""
    for name, text in env.items():
        monkeypatch.setenv(name, text)
    runs.write({**TEST, **files})
    run = runs.run("-p", "no:xdist", "--import-mode=importlib")
    assert run.verdict == ("INTERNAL_ERROR", "plugin.error")
    assert run.report["verdict"]["message"] == words


WITHOUT_OTHERS: Final = [
    part
    for name in (
        "asyncio",
        "hypothesispytest",
        "metadata",
        "pytest_cov",
        "pytest_jsonreport",
    )
    for part in ("-p", f"no:{name}")
]
"""Plugins that take long to load, where they are installed."""

FOUND_BY_ITSELF: Final = (
    pytest.param({}, ["--no-such-option"], "usage.error", id="option"),
    pytest.param({"conftest.py": "1 / 0\n"}, [], "conftest.error", id="conftest"),
    pytest.param(
        {"conftest.py": "pytest_plugins = ['nope']\n"},
        [],
        "plugin.error",
        id="plugin-of-conftest",
    ),
    pytest.param(
        {"pytest.ini": "[pytest]\nrequired_plugins = pytest-nope\n"},
        [],
        "plugin.error",
        id="required-plugin",
    ),
    pytest.param({}, ["no_such_folder"], "usage.error", id="path"),
)


@pytest.mark.parametrize(("files", "args", "kind"), FOUND_BY_ITSELF)
def test_end_at_the_start_where_pytest_finds_us_by_itself(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    files: Mapping[str, str],
    args: Sequence[str],
    kind: str,
) -> None:
    """Found among the installed plugins, as most often, we see the same."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    runs.write({**TEST, **files})
    run = runs.run(*WITHOUT_OTHERS, *args)
    assert run.exit_status == run.report["exit"]["code"]
    assert run.verdict == ("INTERNAL_ERROR", kind)


BEFORE_PLUGINS: Final = (
    pytest.param({}, ["--maxfail=many"], id="option-value"),
    pytest.param({"pytest.ini": "[pytest]\nminversion = 99\n"}, [], id="minversion"),
    pytest.param(
        {"pytest.ini": "[pytest]\naddopts = -p nope\n"}, [], id="missing-plugin-first"
    ),
    pytest.param({"pytest.ini": "[pytest\n"}, [], id="broken-ini"),
)


@pytest.mark.parametrize(("files", "args"), BEFORE_PLUGINS)
def test_end_before_any_plugin_is_loaded(
    runs: PytestRuns, files: Mapping[str, str], args: Sequence[str]
) -> None:
    """Where pytest ends before it loads us we do nothing: only a second process can tell."""
    runs.write({**TEST, **files})
    plain = runs.run_plain(*args)
    run = runs.run_unchecked(*args)
    assert (run.exit_status, run.stdout, run.stderr) == (
        plain.exit_status,
        plain.stdout,
        plain.stderr,
    )
    assert run.exit_status != 0

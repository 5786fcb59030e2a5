"""`failure-taxonomy run` names what a pytest has refused before any plugin was loaded."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from pytest_failure_taxonomy.cli.early_refusals import early_refusal
from tests.helpers.children import run_child

PYTEST: Final = [sys.executable, "-m", "pytest"]
NOPE: Final = "the plugin nope is not installed"

REFUSALS: Final = (
    pytest.param({}, ["-p", "nope"], {}, "plugin.error", NOPE, id="plugin"),
    pytest.param({}, ["-pnope"], {}, "plugin.error", NOPE, id="attached"),
    pytest.param(
        {"pytest.ini": "[pytest]\naddopts = -p nope\n"},
        [],
        {},
        "plugin.error",
        f"{NOPE} (from addopts in pytest.ini)",
        id="plugin-of-a-file",
    ),
    pytest.param(
        {},
        [],
        {"PYTEST_ADDOPTS": "-p nope"},
        "plugin.error",
        f"{NOPE} (from PYTEST_ADDOPTS)",
        id="plugin-of-the-environment",
    ),
    pytest.param(
        {"pyproject.toml": "[tool.pytest\n"},
        [],
        {},
        "usage.error",
        "pyproject.toml: ",
        id="pyproject",
    ),
    pytest.param(
        {"pytest.ini": "[pytest\n"}, [], {}, "usage.error", "pytest.ini:1: ", id="ini"
    ),
    pytest.param(
        {"pytest.ini": "[pytest]\n", "pyproject.toml": "broken\n"},
        [],
        {},
        "usage.error",
        "pyproject.toml: ",
        marks=pytest.mark.skipif(
            pytest.version_tuple < (9, 0), reason="new in pytest 9"
        ),
        id="beside-the-one-that-counts",
    ),
    pytest.param(
        {"other.cfg": "[tool:pytest]\naddopts = -p nope\n"},
        ["-c", "other.cfg"],
        {},
        "plugin.error",
        NOPE,
        id="named-file",
    ),
    pytest.param(
        {"tox.ini": "[pytest]\naddopts = --mypy\n"},
        ["-p", "no:failure-taxonomy"],
        {},
        "usage.error",
        "pytest does not know --mypy (from addopts in tox.ini)",
        id="option",
    ),
)


@pytest.mark.parametrize(("files", "args", "variables", "kind", "words"), REFUSALS)
def test_what_was_refused(
    tmp_path: Path,
    files: Mapping[str, str],
    args: Sequence[str],
    variables: Mapping[str, str],
    kind: str,
    words: str,
) -> None:
    """The plugin or the file is named, as likely: nobody has heard pytest say it."""
    for name, content in {"test_it.py": "def test_it(): pass\n", **files}.items():
        (tmp_path / name).write_text(content, "utf-8")
    ours = [sys.executable, "-m", "pytest_failure_taxonomy", "run", "--"]
    run = run_child(tmp_path, [*ours, *PYTEST, *args], env=dict(variables))
    assert run.status in (1, 3, 4)
    report = json.loads((tmp_path / "failure-report.json").read_text("utf-8"))
    verdict, (cause,) = report["verdict"], report["causes"]
    assert (verdict["reason"], verdict["kind"]) == ("INTERNAL_ERROR", kind)
    assert verdict["confidence"] == "likely"
    assert verdict["message"].startswith(words)
    assert verdict["message"] in run.stderr
    assert (cause["fix"] or "") == (
        "pip install pytest-mypy" if "--mypy" in words else ""
    )
    assert f"fix: {cause['fix']}" in run.stderr or cause["fix"] is None


ADDS: Final = "def pytest_addoption(parser): parser.getgroup({!r}).addoption('--mine', default=1)\n"
PLUGINS: Final = {
    "one.py": ADDS.format("one"),
    "two.py": ADDS.format("two"),
    "raises.py": "raise RuntimeError('no server')\n",
    "adds.py": "def pytest_addoption(parser): raise KeyError('HOME')\n",
    "leaves.py": "import os; os._exit(1)\n",
    "test_it.py": "def test_it(): pass\n",
}
BOTH: Final = "--mine is added by one and by two"
ENDS: Final = (
    pytest.param(
        ["-p", "one", "-p", "raises", "-p", "two"],
        "raises",
        marks=pytest.mark.skipif(
            pytest.version_tuple < (9, 2), reason="no status of its own"
        ),
        id="import-between",
    ),
    pytest.param(["-p", "one", "-p", "two"], BOTH, id="one-option"),
    pytest.param(["-pone", "-ptwo"], BOTH, id="attached"),
    pytest.param(["-p", "raises"], "raises", id="import"),
    pytest.param(["-p", "adds"], "adds", id="addoption"),
    pytest.param(
        ["-p", "one", "-p", "leaves"], "one or leaves ended pytest", id="exit"
    ),
)


@pytest.mark.lowest
@pytest.mark.parametrize("output", ["pipes", "files", "one-file", "terminal"])
@pytest.mark.parametrize(("args", "words"), ENDS)
def test_a_plugin_that_ends_pytest_before_it_loads_us(
    tmp_path: Path, args: Sequence[str], words: str, output: str
) -> None:
    """No test has failed: who did it is named, whether or not the output can be read."""
    for name, content in PLUGINS.items():
        (tmp_path / name).write_text(content, "utf-8")
    ours = [
        sys.executable,
        "-m",
        "pytest_failure_taxonomy",
        "run",
        "--",
        *PYTEST,
        *args,
    ]
    shells = {
        "files": ["sh", "-c", '"$@" > out 2> err', "sh"],
        "one-file": ["sh", "-c", '"$@" > out 2>&1', "sh"],
        "terminal": [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])"],
    }
    env = {"PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": None}
    run_child(tmp_path, [*shells.get(output, []), *ours], env=env)
    report = json.loads((tmp_path / "failure-report.json").read_text("utf-8"))
    verdict = report["verdict"]
    assert (verdict["reason"], verdict["kind"]) == ("INTERNAL_ERROR", "plugin.error")
    assert words in verdict["message"] or "--mine" in words
    assert all(name in verdict["message"] for name in re.findall("one|two", words))
    assert verdict["retryable"] is False


@pytest.mark.parametrize(
    ("files", "args"),
    [
        ({}, []),
        ({}, ["-p", "no:nope", "-p", "terminal", "-p", "own", "-k", "nope"]),
        ({"pyproject.toml": "[project]\nname = 'x'\n"}, []),
        (
            {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = ['-p', 'own']\n"},
            [],
        ),
        ({"tox.ini": "[tox]\n", "setup.cfg": "[metadata]\n"}, []),
        (
            {
                "pytest.ini": "[pytest]\n",
                "setup.cfg": "[tool:pytest]\naddopts = -p nope\n",
            },
            [],
        ),
    ],
)
def test_nothing_to_refuse(
    tmp_path: Path, files: Mapping[str, str], args: Sequence[str]
) -> None:
    """What pytest accepts is not named."""
    for name, content in {"own.py": "", **files}.items():
        (tmp_path / name).write_text(content, "utf-8")
    assert early_refusal([*PYTEST, *args], {}, tmp_path) is None


def test_another_interpreter(tmp_path: Path) -> None:
    """What is installed in another environment can't be seen, and nothing is said of it."""
    assert early_refusal(["/opt/other/bin/pytest", "-p", "nope"], {}, tmp_path) is None

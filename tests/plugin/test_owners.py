"""Whose code a failure was raised in, in the reports of real runs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import pytest

from tests.helpers.runs import PytestRuns

SITE: Final = ".venv/lib/site-packages"
FILES: Final = {
    "pytest.ini": f"[pytest]\npythonpath = src {SITE}\naddopts = -p broken_plugin\n",
    f"{SITE}/acme/__init__.py": "def f(): raise ConnectionError('refused')\n",
    f"{SITE}/acme/bad.py": "raise ValueError('bad')\n",
    f"{SITE}/acme-2.1.dist-info/METADATA": "Name: Acme\nVersion: 2.1\n",
    f"{SITE}/acme-2.1.dist-info/RECORD": "acme/__init__.py,,\n",
    f"{SITE}/broken_plugin.py": (
        "import os, pytest\n"
        "@pytest.fixture\n"
        "def broken(): raise KeyError('broken')\n"
        "@pytest.fixture\n"
        "def asks(request): request.getfixturevalue('nobody')\n"
        "def pytest_sessionfinish():\n"
        "    if os.environ.get('BREAKS'): raise RuntimeError('too late')\n"
    ),
    f"{SITE}/broken_plugin-1.0.dist-info/METADATA": "Name: broken-plugin\nVersion: 1.0\n",
    f"{SITE}/broken_plugin-1.0.dist-info/RECORD": "broken_plugin.py,,\n",
    f"{SITE}/broken_plugin-1.0.dist-info/entry_points.txt": "[pytest11]\nb = broken_plugin\n",
    "src/shop.py": "import acme\ndef sell(): return {}['price']\ndef ship(): acme.f()\n",
    "conftest.py": "import pytest\n@pytest.fixture\ndef mine(): 1 / 0\n",
    "tests/checks.py": "def check(x):\n    __tracebackhide__ = True\n    assert x\n",
    "tests/test_bad.py": "import acme.bad\n",
    "tests/test_syntax.py": "x = 1\ndef f(:\n",
    "tests/test_it.py": (
        "import json, threading, pytest, acme, shop\n"
        "from checks import check\n"
        "def test_assert(): assert 0\n"
        "def test_json(): json.loads('{')\n"
        "def test_dependency(): shop.ship()\n"
        "def test_project(): shop.sell()\n"
        "def test_conftest(mine): pass\n"
        "def test_plugin(broken): pass\n"
        "def test_asks(asks): pass\n"
        "def test_missing(nobody): pass\n"
        "def test_hidden(): check(0)\n"
        "def test_fail(): pytest.fail('no')\n"
        "@pytest.mark.filterwarnings('error')\n"
        "def test_thread():\n"
        "    thread = threading.Thread(target=shop.sell)\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "def test_passes(): pass\n"
    ),
}
OWNERS: Final = {
    "assert": ("test", None, "tests/test_it.py", "test_assert"),
    "json": ("test", None, "tests/test_it.py", "test_json"),
    "dependency": ("dependency", "Acme 2.1", "acme/__init__.py", "f"),
    "project": ("project", None, "src/shop.py", "sell"),
    "conftest": ("conftest", None, "conftest.py", "mine"),
    "plugin": ("plugin", "broken-plugin 1.0", "broken_plugin.py", "broken"),
    "asks": ("plugin", "broken-plugin 1.0", "broken_plugin.py", "asks"),
    "missing": ("test", None, "tests/test_it.py", "test_missing"),
    "hidden": ("test", None, "tests/test_it.py", "test_hidden"),
    "fail": ("test", None, "tests/test_it.py", "test_fail"),
    "thread": ("project", None, "src/shop.py", "sell"),
}
COLLECTION: Final = {
    "bad": ("dependency", "Acme 2.1", "acme/bad.py", "<module>"),
    "syntax": ("test", None, "tests/test_syntax.py", "<module>"),
}
RULES: Final = (
    "rules:\n"
    "  - {name: broken, code_owner: plugin, reason: TOOL_ERROR}\n"
    "  - {name: acme, package: acme, reason: LLM_ERROR}\n"
)


def seen(entry: dict[str, Any]) -> tuple[Any, ...]:
    """Return what is checked of an origin."""
    return tuple(
        entry["origin"][name] for name in ("owner", "package", "path", "function")
    )


@pytest.mark.slow
@pytest.mark.lowest
@pytest.mark.parametrize(
    ("args", "plugins"),
    [
        pytest.param((), (), id="serial"),
        pytest.param(
            ("-n", "2"),
            ("xdist",),
            id="xdist",
            marks=pytest.mark.skipif(
                find_spec("xdist") is None, reason="needs pytest-xdist"
            ),
        ),
    ],
)
def test_every_failure_has_an_owner(
    runs: PytestRuns,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    plugins: tuple[str, ...],
) -> None:
    """The frame that raised is in the report, and groups and verdict have the owner of most."""
    runs.write({**FILES, "rules.yaml": RULES})
    monkeypatch.setenv("BREAKS", "1")
    run = runs.run(
        "--continue-on-collection-errors",
        "--failure-taxonomy-rules=rules.yaml",
        *args,
        plugins=plugins,
    )
    failures = {
        each["nodeid"].partition("::test_")[2]: each for each in run.report["failures"]
    }
    assert {name: seen(each) for name, each in failures.items()} == OWNERS
    errors = {each["nodeid"]: each for each in run.report["collection_errors"]}
    assert {
        name: seen(errors[f"tests/test_{name}.py"]) for name in COLLECTION
    } == COLLECTION
    by_kind = {name: each["kind"] for name, each in failures.items()}
    assert by_kind["plugin"] == by_kind["asks"] == "rule.tool_error"
    assert by_kind["dependency"] == "rule.llm_error"
    groups = {each["title"]: each["owner"] for each in run.report["groups"]}
    assert groups["KeyError: 'broken' (broken_plugin.py: broken)"] == "plugin"
    assert groups["KeyError: 'price' (src/shop.py: sell)"] == "project"
    assert run.report["verdict"]["owner"] is not None
    told = [each["message"] for each in run.report["internal_errors"]]
    words = "RuntimeError raised by broken-plugin 1.0 in pytest_sessionfinish: too late"
    assert told == [f"{words} (broken_plugin.py:7)"]


@pytest.mark.slow
@pytest.mark.lowest
def test_the_terminal_names_the_package(runs: PytestRuns) -> None:
    """It is said of what was installed, and of no code of the user's."""
    runs.write(FILES)
    for name, words in (
        ("dependency", ", raised in Acme 2.1 (dependency)"),
        ("project", ""),
    ):
        run = runs.run("tests/test_it.py", "-k", f"test_{name}")
        (line,) = [each for each in run.stdout if each.startswith("see: ")]
        assert line.endswith(f"{words}") is True
        assert ("raised in" in line) is bool(words)
        assert run.report["verdict"]["owner"] == OWNERS[name][0]

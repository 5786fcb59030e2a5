"""What a report says of each failure: what was raised, where, by which worker, how often tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from tests.helpers.reports import extensions_of
from tests.helpers.runs import PytestRuns

XDIST: Final = pytest.mark.parametrize("workers", [0, 2], ids=["serial", "xdist"])


def failures_of(
    runs: PytestRuns, files: dict[str, str], *args: str, workers: int = 0
) -> list[dict[str, Any]]:
    """Run pytest on files and return the failures in its report."""
    runs.write(files)
    on = ["-n", str(workers)] if workers else []
    run = runs.run(*args, *on, plugins=["xdist"] if workers else [])
    assert run.exit_status == 1
    assert extensions_of(run.report) == {}, "the recorder reports a fault of its own"
    failures: list[dict[str, Any]] = run.report["failures"]
    return failures


MIXED: Final = {
    "shop/__init__.py": "",
    "shop/cart.py": "class EmptyCartError(ValueError): pass\n"
    "def total(prices):\n"
    "    if not prices:\n"
    "        raise EmptyCartError('the cart is empty')\n"
    "    return sum(prices)\n",
    "tests/test_cart.py": "import time, pytest\n"
    "from shop.cart import total\n"
    "\n"
    "@pytest.fixture\n"
    "def broken():\n"
    "    yield\n"
    "    raise OSError(28, 'No space left on device')\n"
    "\n"
    "def test_sum():\n"
    "    time.sleep(0.05)\n"
    "    assert total([1, 2]) == 4, 'one and two'\n"
    "\n"
    "class TestEmpty:\n"
    "    @pytest.mark.parametrize('kind', ['list'])\n"
    "    def test_empty(self, kind):\n"
    "        total([])\n"
    "\n"
    "def test_teardown(broken): pass\n",
}


@XDIST
def test_a_unittest_class(runs: PytestRuns, workers: int) -> None:
    """What a test of `unittest` raises reaches pytest by a hook of its own, and the report, too."""
    body = (
        "import unittest\n"
        "def check(n): raise LookupError(f'no {n}')\n"
        "class TestIt(unittest.TestCase):\n"
        "    def test_a(self): check(1)\n"
        "    def test_b(self): check(2)\n"
        "    def test_c(self): self.assertEqual(1, 2)\n"
    )
    found = failures_of(runs, {"test_it.py": body}, workers=workers)
    by_name = {failure["nodeid"].rpartition("::")[2]: failure for failure in found}
    types = {name: failure["exception"]["type"] for name, failure in by_name.items()}
    assert types == {
        "test_a": "LookupError",
        "test_b": "LookupError",
        "test_c": "AssertionError",
    }
    assert by_name["test_a"]["fingerprint"] == by_name["test_b"]["fingerprint"]


@XDIST
def test_fields_of_failures(runs: PytestRuns, workers: int) -> None:
    """A failure has a node id, a phase, an exception, a place and a time, on a worker, too."""
    found = failures_of(runs, MIXED, workers=workers)
    by_name = {failure["nodeid"].rpartition("::")[2]: failure for failure in found}
    assert set(by_name) == {"test_sum", "test_empty[list]", "test_teardown"}

    wrong = by_name["test_sum"]
    assert wrong["nodeid"] == "tests/test_cart.py::test_sum"
    assert (wrong["phase"], wrong["reason"], wrong["kind"]) == (
        "call",
        "TESTS_FAILED",
        "test.failed",
    )
    assert wrong["exception"] == {
        "type": "AssertionError",
        "module": "builtins",
        "message": "one and two\nassert 3 == 4\n +  where 3 = total([1, 2])",
    }
    assert wrong["location"] == {"path": "tests/test_cart.py", "line": 11}
    assert ">       assert total([1, 2]) == 4, 'one and two'" in wrong["traceback"]
    assert "E       AssertionError: one and two" in wrong["traceback"]
    assert 0.05 <= wrong["duration_seconds"] < 30
    assert wrong["attempts"] == 1

    elsewhere = by_name["test_empty[list]"]
    assert elsewhere["nodeid"] == "tests/test_cart.py::TestEmpty::test_empty[list]"
    assert elsewhere["exception"] == {
        "type": "EmptyCartError",
        "module": "shop.cart",
        "message": "the cart is empty",
    }
    assert elsewhere["location"] == {"path": "shop/cart.py", "line": 4}

    late = by_name["test_teardown"]
    assert (late["phase"], late["kind"]) == ("teardown", "test.teardown_error")
    assert late["exception"]["type"] == "OSError"
    assert late["exception"]["message"] == "[Errno 28] No space left on device"
    assert late["location"] == {"path": "tests/test_cart.py", "line": 7}

    for failure in found:
        assert failure["worker"] in (["gw0", "gw1"] if workers else [None])
        assert (failure["marker"], failure["rule"]) == (None, None)
    types = {name: failure["failure_type"] for name, failure in by_name.items()}
    assert types == {
        "test_sum": "VERIFICATION_FAILED",
        "test_empty[list]": "VERIFICATION_FAILED",
        "test_teardown": "VERIFICATION_FAILED",  # raised by the fixture itself
    }
    assert len({failure["fingerprint"] for failure in found}) == 3


ONE: Final = {
    "helper.py": "def check(value):\n    assert value == 2, 'not two'\n",
    "test_it.py": "from helper import check\n\ndef test_it():\n    check(1)\n",
}
STYLES: Final = (
    (
        "auto",
        [
            ">       check(1)",
            "E       AssertionError: not two",
            "helper.py:2: AssertionError",
        ],
    ),
    ("long", [">       check(1)", "value = 1", "E       AssertionError: not two"]),
    (
        "short",
        ["test_it.py:4: in test_it", "    check(1)", "E   AssertionError: not two"],
    ),
    ("line", ["AssertionError: not two"]),
    ("native", ["Traceback (most recent call last):", "AssertionError: not two"]),
    ("no", ["AssertionError: not two"]),
)


@pytest.mark.parametrize(("style", "lines"), STYLES, ids=[style for style, _ in STYLES])
def test_traceback_in_each_style(
    runs: PytestRuns, style: str, lines: Sequence[str]
) -> None:
    """The traceback reads as pytest shows it, line by line, in whichever style it was asked for."""
    runs.write(ONE)
    run = runs.run(f"--tb={style}")
    (failure,) = run.report["failures"]
    assert failure["exception"]["type"] == "AssertionError"
    assert failure["location"] == {"path": "helper.py", "line": 2}
    kept = list(without_rules(failure["traceback"].splitlines()))
    assert all(any(line in each for each in kept) for line in lines)
    if style not in ("line", "no"):  # of which the terminal shows one line or none
        assert kept == list(without_rules(section_of(run.stdout, "test_it")))


def section_of(stdout: Sequence[str], name: str) -> Sequence[str]:
    """Return what pytest prints of the failure of a test, the last one of its run."""
    start = (
        next(number for number, line in enumerate(stdout) if f"_ {name} _" in line) + 1
    )
    end = next(
        number for number, line in enumerate(stdout) if "generated xml file" in line
    )
    return stdout[start:end]


def without_rules(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines that are neither empty nor drawn to separate others."""
    for line in lines:
        if line.strip(" _"):
            yield line.rstrip()


def test_local_values(runs: PytestRuns) -> None:
    """With `--showlocals` the values of variables are in the traceback, too."""
    (failure,) = failures_of(
        runs, {"test_it.py": "def test_it():\n    x = 41\n    assert x == 42\n"}, "-l"
    )
    assert "x          = 41" in failure["traceback"]


@XDIST
def test_chained_exceptions(runs: PytestRuns, workers: int) -> None:
    """Of a chain the last exception is the failure, and the traceback shows how it came about."""
    (failure,) = failures_of(
        runs,
        {
            "test_it.py": "def test_it():\n"
            "    try:\n"
            "        {}['absent']\n"
            "    except KeyError as error:\n"
            "        raise RuntimeError('no price') from error\n"
        },
        workers=workers,
    )
    assert failure["exception"]["type"] == "RuntimeError"
    assert failure["location"] == {"path": "test_it.py", "line": 5}
    text = failure["traceback"]
    cause = "The above exception was the direct cause of the following exception:"
    assert (
        text.index("KeyError: 'absent'")
        < text.index(cause)
        < text.index("RuntimeError: no price")
    )


ODD: Final = {
    "str_raises": (
        (
            "class Odd(Exception):\n"
            "    def __str__(self): raise ValueError('no words')\n"
            "def test_str_raises(): raise Odd()\n"
        ),
        ("Odd", "test_it", "<exception str() failed>"),
    ),
    "no_module": (
        (
            "class Homeless(Exception):\n"
            "    __module__ = None\n"
            "def test_no_module(): raise Homeless('x')\n"
        ),
        ("Homeless", "<unknown>", "x"),
    ),
    "nested": (
        (
            "class Outer:\n"
            "    class InnerError(Exception): pass\n"
            "def test_nested(): raise Outer.InnerError('x')\n"
        ),
        ("Outer.InnerError", "test_it", "x"),
    ),
    "group": (
        "def test_group(): raise ExceptionGroup('two', [ValueError('a'), KeyError('b')])\n",
        ("ExceptionGroup", "builtins", "two (2 sub-exceptions)"),
    ),
    "fail": (
        "import pytest\ndef test_fail(): pytest.fail('not today', pytrace=False)\n",
        ("Failed", "builtins", "not today"),
    ),
    "system_exit": (
        "def test_system_exit(): raise SystemExit('bye')\n",
        ("SystemExit", "builtins", "bye"),
    ),
    "silent": (
        "def test_silent(): raise RuntimeError\n",
        ("RuntimeError", "builtins", ""),
    ),
    "recursion": (
        "def recurse(): recurse()\ndef test_recursion(): recurse()\n",
        ("RecursionError", "builtins", "maximum recursion depth exceeded"),
    ),
    "long": (
        "def test_long(): raise RuntimeError('x' * 100_000)\n",
        ("RuntimeError", "builtins", None),
    ),
}


@XDIST
def test_odd_exceptions(runs: PytestRuns, workers: int) -> None:
    """Whatever an exception does when it is asked, its failure is in the report."""
    content = "".join(code for code, _ in ODD.values())
    found = failures_of(runs, {"test_it.py": content}, workers=workers)
    by_name = {
        failure["nodeid"].removeprefix("test_it.py::test_"): failure
        for failure in found
    }
    assert set(by_name) == set(ODD)
    for name, (_, (kind, module, message)) in ODD.items():
        failure = by_name[name]
        assert failure["exception"]["type"] == kind
        assert failure["exception"]["module"] == module
        assert message is None or failure["exception"]["message"] == message
        assert failure["kind"] == "test.failed"
        assert failure["location"]["path"] == "test_it.py"
        assert failure["traceback"]
    assert "truncated" in by_name["long"]["exception"]["message"]
    assert len(by_name["long"]["traceback"]) < 100_000


def test_text_that_utf_8_can_not_hold(runs: PytestRuns) -> None:
    """Half a surrogate pair in a message is written out; under xdist it breaks xdist itself."""
    (failure,) = failures_of(
        runs,
        {"test_it.py": "def test_it(): raise RuntimeError('half a \\ud800 pair')\n"},
    )
    assert failure["exception"]["message"] == "half a \\ud800 pair"


def test_own_representation_of_an_item(runs: PytestRuns) -> None:
    """An item of another plugin that words its failure as plain text is reported in these words."""
    (failure,) = failures_of(
        runs,
        {
            "conftest.py": "import pytest\n"
            "def pytest_collect_file(parent, file_path):\n"
            "    if file_path.suffix == '.rows':\n"
            "        return Rows.from_parent(parent, path=file_path)\n"
            "class Rows(pytest.File):\n"
            "    def collect(self):\n"
            "        yield Row.from_parent(self, name='first')\n"
            "class Row(pytest.Item):\n"
            "    def runtest(self): raise ValueError('three columns')\n"
            "    def repr_failure(self, excinfo): return f'row is wrong: {excinfo.value}'\n"
            "    def reportinfo(self): return self.path, 4, 'row: first'\n",
            "table.rows": "",
        },
    )
    assert failure["nodeid"] == "table.rows::first"
    assert failure["traceback"] == "row is wrong: three columns"
    assert failure["exception"] == {
        "type": "ValueError",
        "module": "builtins",
        "message": "row is wrong: three columns",
    }
    assert failure["location"] == {"path": "table.rows", "line": 5}


def test_doctest(runs: PytestRuns) -> None:
    """A failed doctest is a failure with the lines that it expected and got."""
    (failure,) = failures_of(
        runs,
        {"calc.py": '"""\n>>> 1 + 1\n3\n"""\n'},
        "--doctest-modules",
    )
    assert failure["nodeid"] == "calc.py::calc"
    assert failure["exception"]["type"] in ("DocTestFailure", "MultipleDoctestFailures")
    assert "Expected:\n    3\nGot:\n    2" in failure["traceback"]
    assert failure["location"] == {
        "path": "calc.py",
        "line": 2,
    }  # of the example, as pytest says


@XDIST
def test_strict_xpass(runs: PytestRuns, workers: int) -> None:
    """A test that passes against strict expectation has raised nothing."""
    (failure,) = failures_of(
        runs,
        {
            "test_it.py": "import pytest\n\n"
            "@pytest.mark.xfail(strict=True, reason='known bug')\n"
            "def test_fixed(): pass\n"
        },
        workers=workers and 1,
    )
    assert failure["kind"] == "test.xpass_strict"
    assert failure["exception"] is None
    assert failure["traceback"] == "[XPASS(strict)] known bug"
    assert failure["location"]["path"] == "test_it.py"


def test_order_of_occurrence(runs: PytestRuns) -> None:
    """Failures stand in the order in which they happened, all phases of a test together."""
    found = failures_of(
        runs,
        {
            "test_b.py": "import pytest\n"
            "@pytest.fixture\n"
            "def broken():\n"
            "    yield\n"
            "    raise OSError\n"
            "def test_z(broken): assert 0\n"
            "def test_a(): assert 0\n",
            "test_a.py": "def test_m(missing): pass\n",
        },
        "test_b.py",
        "test_a.py",
    )
    assert [(failure["nodeid"], failure["phase"]) for failure in found] == [
        ("test_b.py::test_z", "call"),
        ("test_b.py::test_z", "teardown"),
        ("test_b.py::test_a", "call"),
        ("test_a.py::test_m", "setup"),
    ]


def test_fixture_not_found(runs: PytestRuns) -> None:
    """A missing fixture has no place of its own, so the test that asks for it is the place."""
    (failure,) = failures_of(runs, {"test_it.py": "\n\ndef test_it(missing): pass\n"})
    assert failure["phase"] == "setup"
    assert failure["exception"]["type"] == "FixtureLookupError"
    assert failure["location"] == {"path": "test_it.py", "line": 3}
    assert "fixture 'missing' not found" in failure["traceback"]


def test_started_below_the_root(
    runs: PytestRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths are relative to the root directory, wherever pytest was started."""
    runs.write({"sub/test_it.py": "def test_it():\n    assert 0\n"})
    monkeypatch.chdir(runs.path / "sub")
    run = runs.run("--failure-taxonomy-report=../failure-report.json")
    (failure,) = run.report["failures"]
    assert failure["nodeid"] == "sub/test_it.py::test_it"
    assert failure["location"] == {"path": "sub/test_it.py", "line": 2}


BROKEN: Final = {
    "test_import.py": "import os\n\nimport no_such_module\n",
    "test_syntax.py": "def test_good(): pass\n\n\ndef test_bad(:\n    pass\n",
    "test_helper.py": "import helper\n",
    "helper.py": "\n\nraise RuntimeError('not configured')\n",
    "sub/conftest.py": "import os\nimport no_such_plugin\n",
    "sub/test_below.py": "def test_it(): pass\n",
}
COLLECTION_ERRORS: Final = {
    "test_import.py": (
        "ModuleNotFoundError",
        "No module named 'no_such_module'",
        {"path": "test_import.py", "line": 3},
    ),
    "test_syntax.py": ("SyntaxError", None, {"path": "test_syntax.py", "line": 4}),
    "test_helper.py": (
        "RuntimeError",
        "not configured",
        {"path": "helper.py", "line": 3},
    ),
    "sub": (
        "ModuleNotFoundError",
        "No module named 'no_such_plugin'",
        {"path": "sub/conftest.py", "line": 2},
    ),
}


@pytest.mark.slow
@pytest.mark.lowest
@XDIST
def test_collection_errors(runs: PytestRuns, workers: int) -> None:
    """A collection error says what was raised and where, however many workers met it."""
    runs.write(BROKEN)
    args = ["-n", str(workers)] if workers else []
    run = runs.run(*args, plugins=["xdist"] if workers else [])
    found = {error["nodeid"]: error for error in run.report["collection_errors"]}
    assert set(found) == set(COLLECTION_ERRORS)
    assert len(run.report["collection_errors"]) == len(COLLECTION_ERRORS)
    for nodeid, (kind, message, place) in COLLECTION_ERRORS.items():
        error = found[nodeid]
        assert error["exception"]["type"] == kind
        assert error["exception"]["module"] == "builtins"
        assert message is None or error["exception"]["message"] == message
        assert error["location"] == place
        assert error["message"].startswith(f"{kind}: ")
        assert kind in error["traceback"]
        assert error["failure_type"] == "BROKEN_BUILD"
    if not workers:
        assert list(found) == [
            "sub",
            "test_helper.py",
            "test_import.py",
            "test_syntax.py",
        ]

"""What is said of a project doesn't depend on how many processes have run its tests."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import pytest

from tests.helpers.runs import FinishedRun, PytestRuns

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("xdist") is None, reason="needs pytest-xdist"),
]

FIXTURES: Final = (
    "import pytest, unittest\n"
    "@pytest.fixture\n"
    "def no_setup(): raise OSError('no disk')\n"
    "@pytest.fixture\n"
    "def no_teardown():\n"
    "    yield\n"
    "    raise OSError('disk is in use')\n"
)
SORTS: Final = (
    "@pytest.mark.parametrize('number', range(4))\ndef test_{n}_fails(number): assert number < 0\n",
    "@pytest.mark.parametrize('number', range(4))\ndef test_{n}_setup(no_setup, number): pass\n",
    "@pytest.mark.parametrize('number', range(4))\ndef test_{n}_end(no_teardown, number): pass\n",
    "def test_{n}_both(no_teardown): assert 0\n",
    "def test_{n}_raises(): raise ValueError('not so')\n",
    "def test_{n}_raises_too(): raise KeyError('nor so')\n",
    "def test_{n}_memory(): raise MemoryError\n",
    "import socket\ndef test_{n}_refused(): socket.create_connection(('127.0.0.1', 9))\n",
    (
        "def test_{n}_chain():\n"
        "    try: open('/no/such/file')\n"
        "    except OSError as error: raise RuntimeError('broken') from error\n"
    ),
    "@pytest.mark.xfail(strict=True)\ndef test_{n}_strict(): pass\n",
    "def test_{n}_agent():\n    print('[GZA_FAILURE:MAX_TURNS]')\n    assert 0\n",
    "def test_{n}_passes(): pass\n",
    "def test_{n}_skips(): pytest.skip('here')\n",
    (
        "class Test{n}(unittest.TestCase):\n"
        "    def test_a(self): self.fail('said so')\n"
        "    def test_b(self): self.assertEqual({n}, 'x')\n"
    ),
    (
        "def test_{n}_knows(failure_taxonomy):\n"
        "    failure_taxonomy.record('{reason}', 'ours.{n}')\n"
        "    assert 0\n"
    ),
)
SUBTESTS: Final = (
    "def test_{n}_parts(subtests):\n"
    "    for number in range(3):\n"
    "        with subtests.test(number): assert number % 2, 'even'\n"
)
TIMEOUT: Final = "import time\ndef test_hangs(): time.sleep(60)\n"

UNSORTED: Final = ("failures", "collection_errors")
"""Lists of the report that are in order of occurrence."""


def write_project(runs: PytestRuns, *, timeout: bool) -> None:
    """Write a project of every sort of failure that does not end a process."""
    sorts = (*SORTS, SUBTESTS) if pytest.version_tuple >= (9, 0) else SORTS
    files = {
        "test_broken.py": "import no_such_module\n",
        "test_syntax.py": "def broken(:\n",
    }
    for number, reason in enumerate(("TESTS_FAILED", "UNKNOWN", "TESTS_FAILED")):
        turned = sorts[number * 4 :] + sorts[: number * 4]
        tests = "".join(each.replace("{n}", str(number)) for each in turned)
        files[f"test_{number}.py"] = FIXTURES + tests.replace("{reason}", reason)
    if timeout:
        files["test_slow.py"] = TIMEOUT
    runs.write(files)


def in_substance(run: FinishedRun) -> dict[str, Any]:
    """Return a report without times, workers, the names of the run, and all orders.

    Each worker tells pytest of a file that can't be collected, so the count of errors goes, too.
    """
    report = {
        name: each
        for name, each in run.report.items()
        if name not in ("run", "workers", "order")
    }
    summary = dict(report["summary"])
    del summary["errors"], summary["warnings"]
    report["summary"] = summary
    environment = dict(report["environment"])
    del environment["plugins"], environment["memory"]
    report["environment"] = environment
    report["failures"] = [
        {
            name: each
            for name, each in failure.items()
            if name not in ("duration_seconds", "worker", "traceback")
        }
        | {"traceback": without_addresses(failure["traceback"])}
        for failure in report["failures"]
    ]
    for name in UNSORTED:
        report[name] = sorted(report[name], key=str)
    return report


def without_addresses(text: str) -> str:
    """Return a traceback without the addresses of objects."""
    lines = [line for line in text.split("\n") if " object at 0x" not in line]
    return "\n".join(lines)


@pytest.mark.parametrize("timeout", [False, True], ids=["failures", "and-a-timeout"])
def test_the_report_of_one_project_is_the_same(
    runs: PytestRuns, pytestconfig: pytest.Config, *, timeout: bool
) -> None:
    """In one process and in several, however the tests are dealt out, the same is said."""
    if timeout and find_spec("pytest_timeout") is None:
        pytest.skip("needs pytest-timeout")
    write_project(runs, timeout=timeout)
    plugins = ["timeout"] if timeout else []
    limit = ("--timeout=2", "--timeout-method=signal") if timeout else ()
    args = ("--continue-on-collection-errors", *limit)
    serial = in_substance(runs.run(*args, plugins=plugins))
    assert serial["verdict"]["kind"] == ("test.timeout" if timeout else "test.failed")
    assert serial["extensions"] == {}
    ways = [("2",), ("2", "--dist", "loadfile"), ("3", "--dist", "worksteal")]
    if not timeout and pytestconfig.getoption("matrix") == "some":
        del ways[1:]  # the other project has the same failures, and one more
    for dealt in ways:
        parallel = in_substance(
            runs.run("-n", *dealt, *args, plugins=["xdist", *plugins])
        )
        for name, said in serial.items():
            assert parallel[name] == said, name


def test_as_many_setups_as_calls(runs: PytestRuns) -> None:
    """Of two kinds on as many tests each, the table's first is the verdict in every run."""
    tests = (
        "@pytest.mark.parametrize('number', range(30))\n"
        "def test_setup(no_setup, number): pass\n"
        "@pytest.mark.parametrize('number', range(30))\n"
        "def test_fails(number): assert 0\n"
    )
    runs.write({"test_it.py": FIXTURES + tests})
    for args, plugins in (((), []), (("-n", "2"), ["xdist"]), (("-n", "2"), ["xdist"])):
        report = runs.run(*args, plugins=plugins).report
        verdict = report["verdict"]
        assert (verdict["kind"], verdict["message"]) == (
            "test.failed",
            "60 tests failed, 2 causes",
        )
        assert verdict["nodeid"] == "test_it.py::test_fails[0]"
        kinds = [(held["kind"], held["count"]) for held in report["reasons"]]
        assert kinds == [("test.failed", 30), ("test.setup_error", 30)]

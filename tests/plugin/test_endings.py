"""How runs end that pytest itself brings to an end, told by exit code, verdict and counts."""

from __future__ import annotations

import pytest

from tests.helpers.endings import PASSING, Ending, check_ending
from tests.helpers.runs import PytestRuns

FAILING = "def test_fails(): assert 1 == 2\n"

OUTCOMES = (
    pytest.param(
        Ending(
            files={"test_it.py": PASSING},
            exit_status=0,
            counts={"collected": 1, "passed": 1},
        ),
        id="passed",
    ),
    pytest.param(
        Ending(
            files={"test_it.py": PASSING + FAILING},
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            nodeid="test_it.py::test_fails",
            counts={"collected": 2, "passed": 1, "failed": 1},
        ),
        id="failed",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": PASSING + "import pytest\n"
                "@pytest.fixture\n"
                "def broken(): raise OSError('no disk')\n"
                "def test_unset(broken): pass\n"
            },
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.setup_error",
            nodeid="test_it.py::test_unset",
            counts={"collected": 2, "passed": 1, "errors": 1},
        ),
        id="setup-error",
    ),
    pytest.param(
        Ending(
            files={"test_it.py": "def test_unset(no_such_fixture): pass\n"},
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.setup_error",
            nodeid="test_it.py::test_unset",
            counts={"collected": 1, "errors": 1},
        ),
        id="fixture-not-found",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": "import pytest\n"
                "@pytest.fixture\n"
                "def dirty():\n"
                "    yield\n"
                "    raise OSError('left behind')\n"
                "def test_passes_first(dirty): pass\n"
            },
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.teardown_error",
            nodeid="test_it.py::test_passes_first",
            counts={"collected": 1, "passed": 1, "errors": 1},
        ),
        id="teardown-error",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": "import pytest\n"
                "@pytest.fixture\n"
                "def dirty():\n"
                "    yield\n"
                "    raise OSError('left behind')\n"
                "def test_fails_twice(dirty): assert 0\n"
            },
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.failed",
            also=["test.teardown_error"],
            nodeid="test_it.py::test_fails_twice",
            counts={"collected": 1, "failed": 1, "errors": 1},
        ),
        id="failed-and-teardown-error",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": PASSING + "import pytest\n"
                "def test_skips(): pytest.skip('not here')\n"
                "@pytest.mark.skip(reason='never')\n"
                "def test_marked(): pass\n"
                "@pytest.mark.xfail(reason='known')\n"
                "def test_known(): assert 0\n"
                "@pytest.mark.xfail(reason='known')\n"
                "def test_fixed(): pass\n"
            },
            exit_status=0,
            counts={
                "collected": 5,
                "passed": 1,
                "skipped": 2,
                "xfailed": 1,
                "xpassed": 1,
            },
        ),
        id="skipped-xfailed-xpassed",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": "import pytest\n"
                "@pytest.mark.xfail(strict=True, reason='known')\n"
                "def test_fixed(): pass\n"
            },
            exit_status=1,
            reason="TESTS_FAILED",
            kind="test.xpass_strict",
            nodeid="test_it.py::test_fixed",
            counts={"collected": 1, "failed": 1},
        ),
        id="xpass-strict",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": PASSING,
                "test_not_here.py": "import pytest\n"
                "pytest.skip('not on this system', allow_module_level=True)\n",
            },
            exit_status=0,
            counts={"collected": 1, "passed": 1, "skipped": 1},
        ),
        id="module-skipped",
    ),
    pytest.param(
        Ending(
            files={
                "test_it.py": "import warnings\n"
                "def test_warns():\n"
                "    warnings.warn('one')\n"
                "    warnings.warn('two')\n"
            },
            exit_status=0,
            counts={"collected": 1, "passed": 1, "warnings": 2},
        ),
        id="warnings",
    ),
)


@pytest.mark.parametrize("ending", OUTCOMES)
def test_outcomes_of_tests(runs: PytestRuns, ending: Ending) -> None:
    """A run that pytest finished by itself is judged by what became of its tests."""
    check_ending(runs, ending)

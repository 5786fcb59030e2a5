"""What `classify` makes of a piece of pytest's output, and of our own closing section."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.log_answer import ANSWERS, classify_log
from pytest_failure_taxonomy.logs.log_lines import chunks_of_text


def answer_of(log: str, exit_code: int | None = None) -> Any:
    """Return what `classify` answers."""
    answer = classify_log(chunks_of_text(log), name="log", exit_code=exit_code)
    return ANSWERS.encode(answer)


class Piece(NamedTuple):
    """A piece of output, and the answer."""

    name: str
    text: str
    kind: str
    says: str
    """Part of the message."""


PIECES: Final = (
    Piece(
        "a-line-of-the-summary",
        " FAILED shop/test_cart.py::test_total - AssertionError: assert 1 == 2\n",
        "test.failed",
        "assert 1 == 2",
    ),
    Piece(
        "the-message-and-its-place",
        "E   ConnectionRefusedError: [Errno 111] Connection refused\n\n"
        "shop/db.py:12: ConnectionRefusedError\n",
        "test.failed",
        "the connection was refused",
    ),
    Piece(
        "the-title-of-a-failure",
        "____________________ test_total ____________________\n\n"
        "    def test_total():\n>       assert 1 == 2\nE       assert 1 == 2\n\n"
        "test_cart.py:3: AssertionError\n",
        "test.failed",
        "assert 1 == 2: test_total (test_cart.py:3)",
    ),
    Piece(
        "a-module-that-cannot-be-imported",
        "ImportError while importing test module '/srv/shop/test_cart.py'.\n"
        "Hint: make sure your test modules/packages have valid Python names.\n"
        "Traceback:\ntest_cart.py:1: in <module>\n    import tideclock\n"
        "E   ModuleNotFoundError: No module named 'tideclock'\n",
        "collection.error",
        "tideclock is not installed",
    ),
    Piece(
        "two-files-of-one-name",
        "import file mismatch:\nimported module 'test_x' has this __file__ attribute:\n"
        "  /srv/a/test_x.py\nwhich is not the same as the test file we want to collect:\n"
        "  /srv/b/test_x.py\n"
        "HINT: remove __pycache__ / .pyc files and/or use a unique basename for your test "
        "file modules\n",
        "collection.error",
        "/srv/b/test_x.py was imported before from /srv/a/test_x.py",
    ),
    Piece(
        "the-refusal-of-an-option",
        "usage: setup.py [options] [file_or_dir] [file_or_dir] [...]\n"
        "setup.py: error: unrecognized arguments: --cov=shop\n",
        "usage.error",
        "pytest does not know --cov=shop",
    ),
    Piece(
        "too-little-coverage",
        "FAIL Required test coverage of 90% not reached. Total coverage: 50.00%\n",
        "coverage.failed",
        "coverage 50.00 % is below the required 90 %",
    ),
    Piece(
        "a-start-that-is-cut",
        'Traceback (most recent call last):\n  File "/usr/bin/pytest", line 8, in <module>\n'
        "    sys.exit(main())\n"
        '  File "/usr/lib/python3/site-packages/_pytest/config/__init__.py", line 9, in main\n',
        "plugin.error",
        "the text is cut before it",
    ),
)


@pytest.mark.parametrize("piece", PIECES, ids=[piece.name for piece in PIECES])
def test_a_copied_piece(piece: Piece) -> None:
    """It needs no header, and is never certain."""
    answer = answer_of(piece.text, exit_code=1)
    assert (answer["kind"], answer["confidence"]) == (piece.kind, "likely")
    assert piece.says in answer["message"]


DIFFERENCE: Final = (
    "gw0 [2] / gw1 [2]\n\nscheduling tests via LoadScheduling\n"
    "Different tests were collected between gw0 and gw1. The difference is:\n"
    "--- gw0\n\n+++ gw1\n\n@@ -1,2 +1,2 @@\n\n test_a.py::test_a\n\n"
    "-test_a.py::test_b[1]\n\n+test_a.py::test_b[2]\n\n"
    "========================= no tests ran in 0.37s =========================\n"
)


def test_workers_that_collected_different_tests() -> None:
    """What xdist prints of the difference is read as the live run compares the lists."""
    answer = answer_of(DIFFERENCE, exit_code=1)
    assert answer["kind"] == "collection.mismatch"
    assert "test_b" in answer["message"]


GREEN: Final = "...\n3 passed in 0.10s\n"


@pytest.mark.parametrize(
    ("after", "exit_code", "kind"),
    [
        ("", None, None),
        ("all is well\n", None, None),
        ("ERROR: InterpreterNotFound: python3.8\n", None, "tool.command_missing"),
        ("mypy: src/a.py:1: error: bad\n", 1, "command.failed"),
        ("", 1, "exit_status.changed"),
    ],
)
def test_the_tally_answers_for_pytest_alone(
    after: str, exit_code: int | None, kind: str | None
) -> None:
    """After a green one it is what came next that failed, if something did."""
    assert answer_of(GREEN + after, exit_code)["kind"] == kind


CUT: Final = (
    "============ test session starts ============\ncollected 3 items\n\n"
    "test_a.py::test_a PASSED  [ 33%]\ntest_a.py::test_b "
)


def test_a_log_that_ends_early() -> None:
    """It is cut: it tells of no death, unless the exit code does."""
    with pytest.raises(LogError):
        answer_of(CUT)
    assert answer_of(CUT, 1)["kind"] == "command.failed"
    assert answer_of(CUT, 139)["kind"] == "process.crashed"
    red = CUT.replace("PASSED", "FAILED")
    assert answer_of(red)["kind"] == "test.failed"


SECTION: Final = (
    "test_a.py F\n1 failed in 0.1s\n"
    "===== why this run failed =====\n"
    "1 test failed: nothing listens on db:5432: fixture db (conftest.py:3)"
    "  [SANDBOX_ERROR sandbox.service_down, likely]\n"
    "fix: start PostgreSQL\n"
    "a retry won't help\n"
    "report: failure-report.json\n"
)


def test_our_own_closing_section_is_the_answer() -> None:
    """The live run has seen more than its output shows."""
    answer = answer_of(SECTION, exit_code=1)
    assert (answer["reason"], answer["kind"]) == (
        "SANDBOX_ERROR",
        "sandbox.service_down",
    )
    assert (answer["confidence"], answer["retryable"]) == ("likely", False)
    assert answer["message"].startswith("1 test failed: nothing listens on db:5432")
    [cause] = answer["causes"]
    assert cause["what"] == "nothing listens on db:5432: fixture db (conftest.py:3)"
    assert cause["fix"] == "start PostgreSQL"
    assert answer["lines"][0]["number"] == 4


def test_several_causes_of_a_closing_section() -> None:
    """Their sentences are taken over, in their order."""
    section = (
        "2 tests failed, 2 causes  [TESTS_FAILED test.failed]\n"
        "  1 x first: test_a (test_a.py:1)\n  1 x second: test_b (test_a.py:2)\n"
        "report: out/failure-report.json\n"
    )
    log = (
        "FAILED test_a.py::test_a - KeyError: 'a'\nFAILED test_a.py::test_b - ValueError: b\n"
        f"2 failed in 0.1s\n{section}"
    )
    answer = answer_of(log, exit_code=1)
    assert [cause["what"].partition(":")[0] for cause in answer["causes"]] == [
        "first",
        "second",
    ]


NO_PIECES: Final = (
    "______ Summary ______\nall good\n",
    "E   boom\n. [100%]\n1 passed in 0.1s\n",
    ". [100%]\n_____ coverage: platform linux, python 3.12.1 _____\n\n1 passed in 0.86s\n",
    "ERROR app.py - boom\n.\n1 passed in 0.01s\n",
)


@pytest.mark.parametrize("log", NO_PIECES)
@pytest.mark.parametrize("exit_code", [None, 0])
def test_what_only_looks_like_a_piece(log: str, exit_code: int | None) -> None:
    """A green run stays green, whatever was printed."""
    try:
        answer = answer_of(log, exit_code)
    except LogError:
        assert exit_code is None
    else:
        assert answer["reason"] is None


@pytest.mark.parametrize(
    ("log", "exit_code", "kind"),
    [
        (
            "E   x\nfatal: unable to access 'https://a.org/x.git/': Could not resolve host: a.org\n",
            128,
            "tool.git",
        ),
        ("E   x\nwrite: No space left on device\n", 1, "sandbox.disk_full"),
        (
            "--- FAIL: TestA (0.00s)\n    a_test.go:3: E\nE   got 1\nFAIL\n",
            1,
            "test.failed",
        ),
    ],
)
def test_a_piece_hides_no_tool(log: str, exit_code: int, kind: str) -> None:
    """What a tool or another runner says comes first."""
    assert answer_of(log, exit_code)["kind"] == kind


SESSION: Final = "=== test session starts ===\ncollected 1 item\n\n"
RED: Final = (
    f"{SESSION}test_a.py F  [100%]\n\n=== short test summary info ===\n"
    "FAILED test_a.py::test_a - assert 1 == 2\n=== 1 failed in 0.1s ===\n"
)
LATER: Final = f"{SESSION}test_a.py .  [100%]\n\n=== 1 passed in 0.1s ===\n"


@pytest.mark.parametrize(
    ("log", "exit_code", "kind"),
    [
        (RED + LATER, None, None),
        (RED + LATER, 1, "test.failed"),
        (
            f"{RED}{LATER}  py311: FAIL code 1\n  evaluation failed :(\n",
            None,
            "test.failed",
        ),
        (LATER + RED, None, "test.failed"),
    ],
)
def test_several_sessions(log: str, exit_code: int | None, kind: str | None) -> None:
    """The last one counts, but where the whole has failed and an earlier one was red."""
    assert answer_of(log, exit_code)["kind"] == kind


@pytest.mark.parametrize(
    "words",
    [
        "assert datetime.timedelta(99999999999) == 1",
        "assert datetime.date(10**20, 1, 1) == 1",
        "assert {[]: 1} == 2",
        "assert 'a\\d' == 'b'",
    ],
)
def test_odd_values_in_an_assertion(words: str) -> None:
    """They are only text."""
    log = f"FAILED test_a.py::test_a - {words}\n1 failed in 0.1s\n"
    assert answer_of(log, 1)["kind"] == "test.failed"


def test_the_root_of_a_quiet_log() -> None:
    """The name of the collected file says where it is, though no header does."""
    log = (
        "E\n=== ERRORS ===\n___ ERROR at setup of test_a ___\n"
        "file /srv/a shop/tests/test_a.py, line 2\n  def test_a(mocker): pass\n"
        "E       fixture 'mocker' not found\n=== short test summary info ===\n"
        "ERROR tests/test_a.py::test_a\n1 error in 0.1s\n"
    )
    [cause] = answer_of(log, 1)["causes"]
    assert cause["what"] == "fixture 'mocker' not found: test_a (tests/test_a.py:2)"
    assert (cause["fix"], cause["charge_to"]) == ("pip install pytest-mock", "verifier")


def test_a_folder_of_the_project_that_is_not_on_the_path() -> None:
    """It isn't missing: the file that imports it lies in it."""
    log = (
        "=== ERRORS ===\n___ ERROR collecting tests/test_a.py ___\n"
        "ImportError while importing test module '/srv/shop/tests/test_a.py'.\n"
        "Traceback:\ntests/test_a.py:1: in <module>\n    from tests.helpers import x\n"
        "E   ModuleNotFoundError: No module named 'tests'\n"
        "=== short test summary info ===\nERROR tests/test_a.py\n1 error in 0.1s\n"
    )
    [cause] = answer_of(log, 2)["causes"]
    assert cause["what"].startswith("no module named tests can be found")
    assert cause["fix"] == "python -m pytest, or pythonpath = . in the configuration"

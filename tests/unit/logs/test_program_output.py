"""The output of test runners other than pytest, of compilers and linters, in logs of CI systems."""

from __future__ import annotations

import re
from time import process_time
from typing import Any, Final

import pytest

from pytest_failure_taxonomy.errors import LogError
from pytest_failure_taxonomy.logs.log_answer import ANSWERS, classify_log
from pytest_failure_taxonomy.logs.log_lines import chunks_of_text
from pytest_failure_taxonomy.logs.tool_output import MAX_COLUMNS
from pytest_failure_taxonomy.taxonomy import packaged_table
from pytest_failure_taxonomy.taxonomy.judgement import Stage


def answer_of(
    log: str, exit_code: int | None = None, stage: Stage = Stage.FINAL_TEST
) -> Any:
    """Return what `classify` answers."""
    answer = classify_log(
        chunks_of_text(log), name="log", stage=stage, exit_code=exit_code
    )
    return ANSWERS.encode(answer)


def texts_of(answer: Any) -> list[str]:
    """Return the lines that an answer quotes."""
    return [line["text"] for line in answer["lines"]]


# program of the table, log, how many tests failed, those named; the first line is the deciding one
RUNNERS: Final[tuple[tuple[str, str, int, list[str]], ...]] = (
    (
        "JUnit",
        (
            "tellsAll(shop.CartTest)  Time elapsed: 0.02 sec  <<< FAILURE!\njava.lang.Error: 2\n"
            "[ERROR] Tests run: 4, Failures: 1, Errors: 0, Time elapsed: 1 s <<< FAILURE!\n"
            "[ERROR] Tests run: 4, Failures: 1, Errors: 0, Skipped: 0\n"
        ),
        1,
        ["tellsAll"],
    ),
    (
        "JUnit",
        (
            "shop.CartTest > adds up FAILED\n    java.lang.AssertionError: 2\n"
            "3 tests completed, 1 failed\n> Task :test FAILED\nBUILD FAILED in 2s\n"
        ),
        1,
        ["shop.CartTest > adds up"],
    ),
    (
        "unittest",
        "FAIL: test_a (shop.TestCart)\nRan 2 tests in 0.1s\nFAILED (failures=1, errors=2)\n",
        3,
        ["test_a (shop.TestCart)"],
    ),
    (
        "doctest",
        (
            "Failed example:\n    add(2)\nExpected:\n    4\n"
            "Got:\n    5\n1 items had failures:\n   1 of   2 in cart.add\n***Test Failed*** 1 failures.\n"
        ),
        1,
        [],
    ),
    ("doctest", "Failed example:\n    add(2)\nExpected:\n    4\nGot:\n    5\n", 1, []),
    (
        "pytest-sugar",
        "     1 failed\n       - tests/test_cart.py:3 test_adds\n",
        1,
        ["tests/test_cart.py:3 test_adds"],
    ),
    (
        "mocha",
        "  1) [firefox] \u203a cart.spec.ts:3:5 \u203a adds \u2500\u2500\n  1 failed\n    [firefox] \u203a cart.spec.ts:3:5\n  2 flaky\n  7 passed (5s)\n",
        1,
        [],
    ),
    (
        "SWE-bench",
        "2026-01-02 03:04:05,678 - INFO - report: {'a__b-1': {'patch_exists': True, 'resolved': False}}\n",
        1,
        [],
    ),
    (
        "go",
        "--- FAIL: TestA (0.00s)\n    a_test.go:3: no\nFAIL\tshop\t0.2s\n",
        1,
        ["TestA"],
    ),
    (
        "cargo",
        "test cart::adds ... FAILED\ntest result: FAILED. 3 passed; 1 failed; 0 ignored;\n",
        1,
        ["cart::adds"],
    ),
    (
        "ScalaTest",
        "[info] - adds up *** FAILED ***\n[info] *** 1 TEST FAILED ***\n",
        1,
        ["adds up"],
    ),
    ("mocha", "  1) Cart\n       adds up:\n  3 passing (2ms)\n  2 failing\n", 2, []),
    (
        "mocha",
        "1) CartTest::testAdds\nTests: 3, Assertions: 9, Errors: 1, Failures: 1.\n",
        2,
        [],
    ),
    ("mocha", "  1) test adds (CartTest)\n17 doctests, 655 tests, 1 failure\n", 1, []),
    (
        "mocha",
        "  1) Failure:\nCart#adds [a.rb:3]:\n9 runs, 9 assertions, 1 failures, 0 errors\n",
        1,
        [],
    ),
    (
        "Jest",
        "  ● Cart \u203a adds up\n\nTests:       1 failed, 7 passed, 8 total\n",
        1,
        ["Cart \u203a adds up"],
    ),
    (
        "Jest",
        "IE 9.0 (Windows 7.0) Cart adds FAILED\n\tTypeError: x\n",
        1,
        ["Cart adds"],
    ),
    ("TAP", "not ok 2 - adds up\n  ---\n# fail 1\n", 1, ["adds up"]),
    ("run-tests", "FAIL Bug #1 (adds) [ext/a/1.phpt] \n", 1, ["Bug #1 (adds)"]),
    (
        "xUnit",
        "    Shop.CartTests.Adds [FAIL]\n      Assert.Equal() Failure\n",
        1,
        ["Shop.CartTests.Adds"],
    ),
    ("TAP", "not ok 1 - a\nFailed 2/13 subtests \n", 2, ["a"]),
    ("Jest", "✗ adds\n      Tests  1 failed | 7 passed (8)\n", 1, []),
    ("Jest", "✖ adds\nTOTAL: 3 FAILED, 42150 SUCCESS\n", 3, []),
    (
        "Pester",
        "[-] adds 3ms\nTests Passed: 5, Failed: 2, Skipped: 6, Pending: 1\n",
        2,
        [],
    ),
    (
        "xUnit",
        "    A.B [FAIL]\n   Shop.Tests  Total: 151, Errors: 1, Failed: 1, Skipped: 0, Time: 3.9s\n",
        2,
        ["A.B"],
    ),
    (
        "xUnit",
        "  A.B [FAIL]\nFailed!  - Failed:     1, Passed:    14, Skipped: 0\n",
        1,
        ["A.B"],
    ),
    (
        "Common Test",
        "a_SUITE:adds failed on line 9\nTesting shop.a: TEST COMPLETE, 3 ok, 1 failed of 4\n",
        1,
        [],
    ),
    (
        "testthat",
        "1. Failure: a (@a.R#4)\n[ FAIL 1 | WARN 0 | SKIP 0 | PASS 9 ]\n",
        1,
        [],
    ),
    ("testthat", "1. Failure: a (@a.R#4)\n[ OK: 3 | SKIPPED: 0 | FAILED: 2 ]\n", 2, []),
    (
        "XCTest",
        "Test Case '-[CartTests testAdds]' failed (0.02 seconds).\n",
        1,
        ["CartTests testAdds"],
    ),
    (
        "CTest",
        "  3 - cart (Failed)\n67% tests passed, 1 tests failed out of 3\n",
        1,
        ["cart"],
    ),
)


@pytest.mark.parametrize(("program", "log", "count", "names"), RUNNERS)
def test_other_runners(program: str, log: str, count: int, names: list[str]) -> None:
    """Their failed tests are counted and named as they say, and the first one is quoted."""
    found = answer_of(f"collecting things\n{log}done\n")
    [held] = found["reasons"]
    assert (found["reason"], found["kind"], held["count"]) == (
        "TESTS_FAILED",
        "test.failed",
        count,
    )
    assert held["nodeids"] == names
    assert found["confidence"] == "likely"
    assert log.partition("\n")[0] in texts_of(found)
    assert answer_of(log, 1)["kind"] == "test.failed"
    assert answer_of(log, 0)["kind"] is None
    assert answer_of(log, 1, Stage.SETUP)["kind"] == "stage.setup_failed"


# program of the table, the line that decides among others
SAID: Final = (
    ("mocha", "Failure:"),
    ("Jest", "✖ Variable $a is not being used!"),
    ("Jest", "  12:5  ✖  Expected a leading zero   number-leading-zero"),
    ("TAP", "# Looks like your test exited with 11 before it could output anything."),
    ("Common Test", "cart_SUITE:init_per_group failed"),
    ("Common Test", "suite:adds failed on line 93"),
    ("xUnit", "=>text-objects/lexer                FAIL"),
    ("Pester", "[-] adds up 356ms (336ms|20ms)"),
    ("testthat", "1. Error: adds up (@test-cart.R#41) "),
    ("compilers", "src/cart.c:12:3: error: expected ';'"),
    ("compilers", "error[E0308]: mismatched types"),
    ("compilers", "[ERROR] /shop/Cart.java:[12,3] cannot find symbol"),
    ("compilers", "[error] /shop/Cart.scala:12:3: not found: type Cart"),
    (
        "compilers",
        "cart.o: In function `add': cart.c:(.text+0x3): undefined reference to `sum'",
    ),
    ("compilers", "** (CompileError) lib/cart.ex:10: undefined function i/1"),
    ("compilers", "PHP Fatal error:  Call to undefined method Cart::add()"),
    ("compilers", "lib/cart.rb:12:in `add': no sum (Shop::CartError)"),
    ("compilers", "make: *** No rule to make target `check'.  Stop."),
    ("compilers", "No Rakefile found (looking for: rakefile, Rakefile)"),
    ("compilers", "Error: Cannot find module 'cart'"),
    ("compilers", "ci/go.sh: line 7: cd: shop: No such file or directory"),
    ("compilers", "flag provided but not defined: -trace"),
    ("linters", "  12:5  error  Missing semicolon  semi"),
    ("linters", "1. [L12] 404 https://example.org/cart"),
    ("linters", "src/cart.cpp:12: recieve  ==> receive"),
    (
        "installers",
        "Your requirements could not be resolved to an installable set of packages.",
    ),
    ("installers", "npm ERR! code ELIFECYCLE"),
    ("tox and nox", "nox > Session tests-3.11 failed."),
)
ECHOES: Final = """npm ERR! Test failed.  See above for more details.
make: *** [test] Error 2
Makefile:270: recipe for target 'test' failed
error Command failed with exit code 1.
[ERROR] For more information about the errors and possible solutions, please read the following
FAILURE: Build failed with an exception.
rake aborted!
"""


@pytest.mark.parametrize(("program", "line"), SAID)
def test_what_programs_say(program: str, line: str) -> None:
    """The line is quoted, and what only follows from it is not."""
    found = texts_of(answer_of(f"$ make test\nall is well\n{line}\n\n{ECHOES}"))
    assert line in found
    assert not {*found} & {*ECHOES.splitlines()}


def test_each_program_has_an_example() -> None:
    """A row of the table that nothing tests might as well not be there."""
    programs = {row["program"] for row in packaged_table("programs")["decisive"]}
    tested = {program for program, *_ in (*RUNNERS, *SAID)} | {"go", "cargo"}
    assert [name for name in programs if not name.startswith(tuple(tested))] == []


@pytest.mark.parametrize(
    "log",
    [
        "  ✓ should raise an error (2ms)\n",
        "ok 12 - t7609-merge-co-error-msgs\n",
        "src/cart.c:12:3: warning: unused variable 'error'\n",
        "   Compiling error-chain v0.7.2\n",
        "1078 ok, 0 failed, 0 errors\n",
        "src/cart.c:12:3: in the middle of it\n",
        "├─┬ error-ex@1.3.1\n",
    ],
)
def test_words_that_mean_no_error(log: str) -> None:
    """What passed, names of files and packages, and warnings say nothing."""
    with pytest.raises(LogError):
        answer_of(log)


def test_the_failing_command_of_a_job() -> None:
    """Of a job's commands the first that failed counts: its errors, its last lines and its end."""
    log = (
        "travis_time:start:1\r\x1b[0K$ ./install\ncurl: (22) error: 404\n"
        'The command "./install" exited with 0.\n'
        "travis_time:start:2\r\x1b[0K$ ./lint\nREADME.md: 29: MD012 Multiple blank lines\n"
        "commit what was generated\n"
        'travis_time:end:2\r\x1b[0K\x1b[31;1mThe command "./lint" exited with 1.\x1b[0m\n'
        "$ ./upload\nERROR: failed to upload\n"
        'The command "./upload" exited with 2.\n\nDone. Your build exited with 1.\n'
    )
    found = answer_of(log)
    assert (found["kind"], found["confidence"]) == ("command.failed", "likely")
    assert texts_of(found) == [
        "README.md: 29: MD012 Multiple blank lines",
        "commit what was generated",
        'The command "./lint" exited with 1.',
    ]


def test_a_job_without_a_word_of_an_error() -> None:
    """That a command failed is enough to say so, with the last that it printed."""
    found = answer_of(
        '$ ./check\nplease rebuild\nThe command "./check" exited with 1.\n'
    )
    assert texts_of(found) == ["please rebuild", 'The command "./check" exited with 1.']
    assert answer_of("Done. Your build exited with 1.\n")["kind"] == "command.failed"
    log = "$ check\nerror: no cart\n$ show\n\nDone. Your build exited with 1.\n"
    assert texts_of(answer_of(log)) == [
        "error: no cart",
        "Done. Your build exited with 1.",
    ]


def test_commands_none_of_which_is_marked() -> None:
    """The last that has a line known to tell of an error counts before one with words alone."""
    log = "$ check\n1. Failure: adds up (@a.R#4)\nno sum\n$ show\nan error for example\n$ bye\n"
    assert texts_of(answer_of(log))[:2] == ["1. Failure: adds up (@a.R#4)", "no sum"]


def test_warnings_that_count() -> None:
    """They are quoted where nothing else is said of a command that failed."""
    log = 'a.swift:1:2: warning: Colon Violation\nThe command "lint" exited with 3.\n'
    assert texts_of(answer_of(log)) == log.splitlines()


def test_a_job_that_succeeded() -> None:
    """Words of errors are none where Travis CI says that the build succeeded."""
    assert (
        answer_of("error: but got over\n\nDone. Your build exited with 0.\n")["kind"]
        is None
    )


def test_a_test_that_passes_at_last() -> None:
    """Where the runner counts no failure, what failed at first is no failed test."""
    log = (
        "adds(shop.CartTest)  Time elapsed: 0.02 sec  <<< FAILURE!\n"
        "Tests run: 4, Failures: 0, Errors: 0, Skipped: 0\n"
    )
    assert answer_of(log)["kind"] == "command.failed"


def test_what_a_carriage_return_overwrites() -> None:
    """The states of a progress bar hide no line."""
    found = answer_of(
        "Building [==>   ] 5/9\rBuilding [===>  ] 6/9\rerror: no cart\r\n"
    )
    assert texts_of(found) == ["error: no cart"]


def test_patterns_take_linear_time() -> None:
    """No line holds a run up, whatever is repeated in it."""
    table = packaged_table("programs")
    for name in (
        "begins",
        "ended",
        "echoes",
        "harmless",
        "located",
        "warned",
        "tallies",
        "decisive",
    ):
        rows = [table[name]] if isinstance(table[name], str) else table[name]
        for row in rows:
            for pattern in [row] if isinstance(row, str) else row["patterns"]:
                whole = re.compile(rf"(?>[ \t]*){table['before']}(?:{pattern})")
                assert whole.groups <= (5 if name in ("ended", "tallies") else 1), (
                    pattern
                )
                fragments = re.findall(r"[A-Za-z'\" (:>*=]{3,}", pattern)
                for part in (
                    "a",
                    "1",
                    "(",
                    "'",
                    " ",
                    "/",
                    "a.b:1:",
                    "[a] ",
                    " > ",
                    *fragments,
                ):
                    text = (part * MAX_COLUMNS)[:MAX_COLUMNS]
                    before = process_time()
                    whole.match(text)
                    assert process_time() - before < 0.1, (pattern, part)


def test_a_job_that_failed_beside_a_pytest_that_passed() -> None:
    """Where only the CI system says so, the reason is not known, but it is no success."""
    passed = "=== test session starts ===\ncollected 1 item\n\nt.py .\n\n=== 1 passed in 0.1s ===\n"
    found = answer_of(f"$ pytest\n{passed}Done. Your build exited with 1.\n")
    assert (found["reason"], found["kind"]) == ("UNKNOWN", "command.failed")
    linted = '$ flake8\na.py:1:1: F401 unused\nThe command "flake8" exited with 1.\n$ pytest\n'
    found = answer_of(f"{linted}{passed}Done. Your build exited with 1.\n")
    assert found["kind"] == "command.failed"
    assert "a.py:1:1: F401 unused" in texts_of(found)
    assert (
        answer_of(f"$ pytest\n{passed}Done. Your build exited with 0.\n")["kind"]
        is None
    )

"""Diagnostics and verdicts that name their kind, and phrases that mean something else."""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.taxonomy.failure_text import classify_failure, failure_type_of
from pytest_failure_taxonomy.taxonomy.recovery import FailureType

BUILD = FailureType.BROKEN_BUILD
CHECK = FailureType.VERIFICATION_FAILED
CONTEXT = FailureType.CONTEXT_EXHAUSTED
UNKNOWN = FailureType.UNKNOWN

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    run()\n'
IN_CONTEXTLIB = TRACEBACK.replace("a.py", "/usr/lib/python3.12/contextlib.py")
RUSTC = "error: unneeded `return`\n --> src/lib.rs:3:5\n"
GOROUTINE = (
    "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\n\t/app/context.go:5"
)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (BUILD, "collect2: error: ld returned 1 exit status"),
        (BUILD, "ld: library not found for -lssl"),
        (BUILD, "vet: ./cart_test.go:11:3: undefined: assert"),
        (BUILD, "main.go:6:2: undefined: foo (typecheck)"),
        (CHECK, "main.go:6:12: Error return value of `os.Open` is not checked (errcheck)"),
        (CHECK, "./main.go:6:2: fmt.Printf format %d has arg x of wrong type string"),
        (BUILD, "FAIL\tshop [build failed]\nFAIL"),
        (CHECK, "--- FAIL: TestParse (0.00s)\n    p_test.go:8: unexpected parse error: x"),
        (CHECK, f"{RUSTC}   = note: `-D clippy::needless-return`\nerror: could not compile `a`"),
        (BUILD, f"{RUSTC}   = note: `-D clippy::x`\nerror[E0425]: cannot find value `x`"),
        (CHECK, "Diff in /app/src/lib.rs:1:\n-fn f( ){}\n+fn f() {}"),
        (BUILD, "e: /app/A.kt: (44, 32): Unresolved reference: other"),
        (CHECK, "Tests run: 3, Failures: 1, Errors: 0, Skipped: 0"),
        (BUILD, "ERROR test_a.py - Failed: 'slow' not found in `markers` configuration option"),
        (BUILD, "ERROR test_a.py - TypeError: sequence item 0: expected str instance"),
        (CHECK, "FAILED test_a.py::test_x - RuntimeError: parse error near x"),
        (CHECK, "FAILED test_a.py::test_x - KeyError: 'context'"),
        (CHECK, f"{TRACEBACK}ValueError: parse error\n\nFAILED (errors=1)"),
        (CHECK, "X\n\nFailed tests:\n\n✖ reads\n  Error: boom\n    at TestContext.<anonymous>"),
        (CHECK, f"{TRACEBACK}pydantic_core.ValidationError: 1 validation error for A\nage"),
        (UNKNOWN, "cp: cannot stat 'a'\nmake: *** [Makefile:2: deploy] Error 1"),
        (BUILD, "make: *** [Makefile:2: main.o] Error 1"),
        (UNKNOWN, f"{TRACEBACK}TypeError: expected string or bytes-like object"),
        (UNKNOWN, f"{TRACEBACK}ValueError: not enough values to unpack (expected 3, got 2)"),
        (UNKNOWN, f"{IN_CONTEXTLIB}RuntimeError: generator didn't stop"),
        (UNKNOWN, GOROUTINE),
        (UNKNOWN, "==1==ERROR: AddressSanitizer: heap-use-after-free in context"),
        (UNKNOWN, "Request failed with status code 429: rate limit, see the context"),
        (UNKNOWN, "This would exceed your rate limit of 40,000 input tokens per minute."),
        (CONTEXT, "status code 400: This model's maximum context length is 8192 tokens."),
        (CONTEXT, "prompt is too long: 213462 tokens > 200000 maximum"),
        (CONTEXT, "Malformed input request: expected maxLength: 50000, actual: 60000"),
        (CONTEXT, "llama_tokenize: too many tokens"),
        (CONTEXT, "prompt token count of 129000 exceeds the limit of 128000"),
    ],
)
def test_a_diagnostic_that_names_its_kind_decides(expected: FailureType, text: str) -> None:
    """Tools' own lines come before words that happen to be in them, wherever they stand."""
    assert classify_failure(text, "s") is expected
    assert classify_failure(f"starting\n{text}\n", "s") is expected


def test_what_fails_to_collect_is_broken_whatever_it_says() -> None:
    """The words of an error that is not listed decide nothing while pytest collects."""
    text = "E   ValueError: expected a context"
    bases = ("_pytest.nodes.Collector.CollectError",)
    assert failure_type_of("CollectError", "_pytest.nodes", bases, text, collecting=True) is BUILD


@pytest.mark.parametrize(
    "piece",
    [
        "error: ",
        "make: *** [",
        "tomldecodeerror: ",
        "/pip/_internal/",
        " clippy::",
        "1 of ",
        "=",
        "\t",
    ],
)
def test_a_huge_text_of_signatures_gets_an_answer(piece: str) -> None:
    """A megabyte of what a signature begins with is answered."""
    assert classify_failure(piece * (1_000_000 // len(piece)), "s") in set(FailureType)

"""A failure's type: by its exception first, by its text where there is none."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_failure_taxonomy.taxonomy.classification import failure_type_of
from pytest_failure_taxonomy.taxonomy.evidence import RaisedException
from pytest_failure_taxonomy.taxonomy.failure_text import (
    classify_failure,
    failure_type_at_head,
    published_phrases,
)
from pytest_failure_taxonomy.taxonomy.judgement import FailureType
from tests.helpers.failure_texts import LabelledText, labelled_texts

BUILD = FailureType.BROKEN_BUILD
CHECK = FailureType.VERIFICATION_FAILED
CONTEXT = FailureType.CONTEXT_EXHAUSTED
CIRCLE = FailureType.CIRCULAR_FIX
UNKNOWN = FailureType.UNKNOWN

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    run()\n'
CHAINED = "\nDuring handling of the above exception, another exception occurred:\n\n"


class Attempt(NamedTuple):
    """An earlier attempt, as a history store may hold it."""

    subtask_id: str
    approach: str


PROMISED = (
    (BUILD, "syntax error"),
    (BUILD, "compilation error"),
    (BUILD, "module not found"),
    (BUILD, "import error"),
    (BUILD, "cannot find module"),
    (BUILD, "unexpected token"),
    (BUILD, "indentation error"),
    (BUILD, "parse error"),
    (CHECK, "verification failed"),
    (CHECK, "expected"),
    (CHECK, "assertion"),
    (CHECK, "test failed"),
    (CHECK, "status code"),
    (CONTEXT, "context"),
    (CONTEXT, "token limit"),
    (CONTEXT, "maximum length"),
)


@pytest.mark.parametrize(("expected", "phrase"), PROMISED)
def test_each_phrase_decides_in_any_case(expected: FailureType, phrase: str) -> None:
    """A promised phrase alone gives its type, however it is written."""
    for text in (phrase, phrase.upper(), f"it went wrong: {phrase.title()}, sorry"):
        assert classify_failure(text, "s") is expected


def test_the_phrases_stand_in_their_order() -> None:
    """The table has the promised phrases and no other, in the promised order."""
    assert [
        (kind, phrase) for kind, phrases in published_phrases() for phrase in phrases
    ] == list(PROMISED)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (BUILD, "Error: Cannot find module './utils' from 'src/index.js'"),
        (CHECK, "AssertionError: Expected 200 but got 404"),
        (CONTEXT, "Error: Maximum context length (128k tokens) exceeded"),
        (UNKNOWN, "Error: Connection refused to database server"),
        (BUILD, "expected: a parse error in the context"),
        (CHECK, "expected another context"),
        (UNKNOWN, ""),
    ],
)
def test_the_first_type_in_order_wins(expected: FailureType, text: str) -> None:
    """The promised examples, and texts with phrases of several types."""
    assert classify_failure(text, "s") is expected


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (BUILD, "IndentationError: unexpected indent"),
        (BUILD, "TabError: inconsistent use of tabs and spaces in indentation"),
        (BUILD, "ModuleNotFoundError: No module named 'x'"),
        (BUILD, f"{TRACEBACK}ImportError: assertion of the test failed"),
        (CHECK, f"{TRACEBACK}AssertionError"),
        (CHECK, "AssertionError: ImportError not raised"),
        (CHECK, "AssertionError: the output was\nImportError: no\nSyntaxError: no"),
        (UNKNOWN, f"{TRACEBACK}RuntimeError: SyntaxError in row 7"),
        (UNKNOWN, f"{TRACEBACK}ConnectionError: expected a greeting"),
        (CHECK, f"{TRACEBACK}ValueError: expected a number"),
        (CHECK, f"{TRACEBACK}ImportError: x\n{CHAINED}{TRACEBACK}AssertionError: y"),
        (BUILD, f"{TRACEBACK}AssertionError: y\n{CHAINED}{TRACEBACK}ImportError: x"),
        (UNKNOWN, f"{TRACEBACK}ImportError: x\n{CHAINED}{TRACEBACK}KeyError: 'y'"),
        (
            BUILD,
            'E     File "a.py", line 1\nE       def (\nE   SyntaxError: invalid syntax',
        ),
        (CHECK, "E   Failed: DID NOT RAISE <class 'ImportError'>"),
        (CHECK, "E   AssertionError: one\nE   ImportError: two"),
        (CHECK, "E       assert 1 == 2"),
        (BUILD, "ERROR test_a.py - ImportError: expected x"),
        (BUILD, "ERROR test_a.py"),
        (CHECK, "FAILED test_a.py::test_b - AssertionError: ImportError: x"),
        (CHECK, "FAILED test_a.py::test_b - ValueError: bad"),
        (BUILD, "FAILED a.py::b - AssertionError: x\nERROR c.py - ImportError: y"),
        (CHECK, "test_a.py:3: AssertionError"),
        (BUILD, "main.c:1:9: error: expected expression before ';' token"),
        (BUILD, "Main.java:3: error: ';' expected"),
        (BUILD, "error: expected one of `.` or `;`\n --> src/main.rs:1:3"),
    ],
)
def test_the_type_at_the_head_of_a_line_decides(
    expected: FailureType, text: str
) -> None:
    """Types count where tracebacks and compilers put them, and never inside of a message."""
    assert classify_failure(text, "s") is expected
    assert classify_failure(text.replace("\n", "\r\n"), "s") is expected


APPROACHES = ["Using async await for fetch", "Using async/await with try-catch"]


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        (CIRCLE, "it hangs"),
        (BUILD, "syntax error"),
        (CHECK, "expected"),
        (CONTEXT, "token limit"),
    ],
)
def test_a_circle_is_asked_for_fourth(expected: FailureType, error: str) -> None:
    """Repetition counts where the text says nothing."""
    approach = "Using async await pattern"
    assert (
        classify_failure(error, "s", history=APPROACHES, approach=approach) is expected
    )


def test_attempts_at_other_subtasks_do_not_count() -> None:
    """Of attempts with a subtask only those at this one are compared."""
    mine = [Attempt("mine", each) for each in APPROACHES]
    others = [Attempt("other", "Using a lock")] * 3
    approach = "Using async await pattern"
    both = [*mine, *others]
    assert (
        classify_failure("it hangs", "mine", history=both, approach=approach) is CIRCLE
    )
    assert (
        classify_failure("it hangs", "new", history=mine, approach=approach) is UNKNOWN
    )
    assert classify_failure("it hangs", "mine", history=mine) is UNKNOWN


@pytest.mark.parametrize(
    ("expected", "bases", "text", "collecting"),
    [
        (
            BUILD,
            ("builtins.TabError", "builtins.IndentationError", "builtins.SyntaxError"),
            "",
            0,
        ),
        (BUILD, ("shop.NoPlugin", "builtins.ImportError"), "expected", 0),
        (CHECK, ("shop.Wrong", "builtins.AssertionError"), "ImportError: x", 0),
        (CHECK, ("builtins.Failed", "_pytest.outcomes.OutcomeException"), "", 1),
        (CHECK, ("builtins.ValueError", "builtins.Exception"), "syntax error", 0),
        (BUILD, ("builtins.NameError", "builtins.Exception"), "expected", 1),
        (
            UNKNOWN,
            ("builtins.ConnectionRefusedError", "builtins.ConnectionError"),
            "expected",
            0,
        ),
        (UNKNOWN, ("builtins.MemoryError",), "", 1),
        (UNKNOWN, ("builtins.OSError",), "[Errno 28] No space left on device", 0),
        (CHECK, ("builtins.OSError",), "[Errno 2] No such file", 0),
        (
            CHECK,
            ("urllib.error.HTTPError", "urllib.error.URLError", "builtins.OSError"),
            "",
            0,
        ),
        (CHECK, ("shop.ImportError", "builtins.Exception"), "", 0),
        (BUILD, ("_pytest.nodes.Collector.CollectError",), "E   SyntaxError: bad", 1),
        (BUILD, ("_pytest.nodes.Collector.CollectError",), "the file is odd", 1),
        (UNKNOWN, ("_pytest.nodes.Collector.CollectError",), "E   MemoryError", 1),
    ],
)
def test_a_reports_exception_decides(
    expected: FailureType, bases: tuple[str, ...], text: str, collecting: int
) -> None:
    """The nearest listed base decides, and the message never does where a type is known."""
    module, _, name = bases[0].rpartition(".")
    raised = RaisedException(type=name, module=module, bases=bases, message=text)
    found = failure_type_of(raised, collecting=bool(collecting))
    assert found is expected


def test_an_exception_without_bases() -> None:
    """An exception of which no bases are known is classified by its own name."""
    raised = RaisedException(type="ImportError", module="builtins", message="")
    assert failure_type_of(raised) is BUILD


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (
            BUILD,
            'Traceback (most recent call last):\n  File "a", line 1\nSyntaxError: no',
        ),
        (BUILD, "ModuleNotFoundError: No module named 'x'"),
        (CHECK, "AssertionError: ImportError not raised"),
        (UNKNOWN, "TimeoutError: no answer"),
        (None, "ValueError: syntax error"),
        (None, "Wrong expression passed to '-k': and and: expected end of input"),
        (None, "the test failed with a syntax error and status code 500"),
        (None, ""),
    ],
)
def test_the_head_of_a_text(expected: FailureType | None, text: str) -> None:
    """Without an exception, the listed types at the heads of its text count, and no phrase does."""
    assert failure_type_at_head(text) is expected


@given(st.text())
def test_any_text_gets_an_answer(text: str) -> None:
    """No text is refused, and none is a circular fix by itself."""
    assert classify_failure(text, "s") in set(FailureType) - {CIRCLE}
    assert failure_type_at_head(text) in {*FailureType, None} - {CIRCLE}


@given(
    st.sampled_from(
        [each for each in labelled_texts() if "Traceback (most" in each.text]
    ),
    st.sampled_from(["starting", "  loading the shop", "12:00 GET /cart 200", ""]),
)
def test_a_line_before_changes_nothing(each: LabelledText, line: str) -> None:
    """An unrelated line before a traceback leaves its type as it is."""
    assert classify_failure(f"{line}\n{each.text}", "s") is classify_failure(
        each.text, "s"
    )


@pytest.mark.parametrize(
    "piece", ["a", " ", "a.", "E ", "FAILED x - ", "token ", "a:1: ", "\n"]
)
def test_a_huge_text_gets_an_answer(piece: str) -> None:
    """A megabyte of what a pattern may stumble over is answered."""
    assert classify_failure(piece * (1_000_000 // len(piece)), "s") is UNKNOWN


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "None is not a string"),
        (b"x", "is not a string; give what was printed"),
    ],
)
def test_what_is_no_text_is_told(given: Any, words: str) -> None:
    """A wrong argument is a `TypeError` that says what would be right."""
    with pytest.raises(TypeError, match=words):
        classify_failure(given, "any")


def test_a_history_is_a_list() -> None:
    """One text is not taken for a list of letters."""
    with pytest.raises(TypeError, match="give a list"):
        classify_failure("it hangs", "any", history="abc", approach="abc")


IN_CONTEXTLIB = TRACEBACK.replace("a.py", "/usr/lib/python3.12/contextlib.py")
RUSTC = "error: unneeded `return`\n --> src/lib.rs:3:5\n"
GOROUTINE = "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\n\t/app/context.go:5"


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (BUILD, "collect2: error: ld returned 1 exit status"),
        (BUILD, "ld: library not found for -lssl"),
        (BUILD, "vet: ./cart_test.go:11:3: undefined: assert"),
        (BUILD, "main.go:6:2: undefined: foo (typecheck)"),
        (BUILD, "FAIL\tshop [build failed]\nFAIL"),
        (
            CHECK,
            "--- FAIL: TestParse (0.00s)\n    p_test.go:8: unexpected parse error: x",
        ),
        (CHECK, "Diff in /app/src/lib.rs:1:\n-fn f( ){}\n+fn f() {}"),
        (BUILD, "e: /app/A.kt: (44, 32): Unresolved reference: other"),
        (CHECK, "Tests run: 3, Failures: 1, Errors: 0, Skipped: 0"),
        (
            BUILD,
            "ERROR test_a.py - Failed: 'slow' not found in `markers` configuration option",
        ),
        (BUILD, "ERROR test_a.py - TypeError: sequence item 0: expected str instance"),
        (CHECK, "FAILED test_a.py::test_x - RuntimeError: parse error near x"),
        (CHECK, "FAILED test_a.py::test_x - KeyError: 'context'"),
        (CHECK, f"{TRACEBACK}ValueError: parse error\n\nFAILED (errors=1)"),
        (
            CHECK,
            "X\n\nFailed tests:\n\n✖ reads\n  Error: boom\n    at TestContext.<anonymous>",
        ),
        (
            CHECK,
            f"{TRACEBACK}pydantic_core.ValidationError: 1 validation error for A\nage",
        ),
        (UNKNOWN, "cp: cannot stat 'a'\nmake: *** [Makefile:2: deploy] Error 1"),
        (BUILD, "make: *** [Makefile:2: main.o] Error 1"),
        (UNKNOWN, f"{TRACEBACK}TypeError: expected string or bytes-like object"),
        (
            UNKNOWN,
            f"{TRACEBACK}ValueError: not enough values to unpack (expected 3, got 2)",
        ),
        (UNKNOWN, f"{IN_CONTEXTLIB}RuntimeError: generator didn't stop"),
        (UNKNOWN, GOROUTINE),
        (UNKNOWN, "==1==ERROR: AddressSanitizer: heap-use-after-free in context"),
        (UNKNOWN, "Request failed with status code 429: rate limit, see the context"),
        (
            UNKNOWN,
            "This would exceed your rate limit of 40,000 input tokens per minute.",
        ),
        (
            CONTEXT,
            "status code 400: This model's maximum context length is 8192 tokens.",
        ),
        (CONTEXT, "prompt is too long: 213462 tokens > 200000 maximum"),
        (CONTEXT, "Malformed input request: expected maxLength: 50000, actual: 60000"),
        (CONTEXT, "llama_tokenize: too many tokens"),
        (CONTEXT, "prompt token count of 129000 exceeds the limit of 128000"),
    ],
)
def test_a_diagnostic_that_names_its_kind_decides(
    expected: FailureType, text: str
) -> None:
    """Tools' own lines come before words that happen to be in them, wherever they stand."""
    assert classify_failure(text, "s") is expected
    assert classify_failure(f"starting\n{text}\n", "s") is expected


@pytest.mark.parametrize(
    "text",
    [
        "main.go:6:12: Error return value of `os.Open` is not checked (errcheck)",
        "./main.go:6:2: fmt.Printf format %d has arg x of wrong type string",
        f"{RUSTC}   = note: `-D clippy::needless-return`\nerror: could not compile `a`",
        f"{RUSTC}   = note: `-D clippy::x`\nerror[E0425]: cannot find value `x`",
    ],
)
def test_a_linter_that_prints_like_a_compiler_counts_as_one(text: str) -> None:
    """Nothing but the names of its checks tells these lines from a compiler's."""
    assert classify_failure(text, "s") is BUILD


def test_what_fails_to_collect_is_broken_whatever_it_says() -> None:
    """The words of an error that is not listed decide nothing while pytest collects."""
    text = "E   ValueError: expected a context"
    bases = ("_pytest.nodes.Collector.CollectError",)
    raised = RaisedException(
        type="CollectError", module="_pytest.nodes", bases=bases, message=text
    )
    assert failure_type_of(raised, collecting=True) is BUILD


@pytest.mark.parametrize(
    "piece",
    [
        "error: ",
        "make: *** [",
        "tomldecodeerror: ",
        "/pip/_internal/",
        "1 of ",
        "=",
        "\t",
    ],
)
def test_a_huge_text_of_signatures_gets_an_answer(piece: str) -> None:
    """A megabyte of what a signature begins with is answered."""
    assert classify_failure(piece * (1_000_000 // len(piece)), "s") in set(FailureType)

"""How test runners and other checkers say that a check failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.diagnostics import Pattern

VERDICTS: Final[tuple[Pattern, ...]] = (
    ("::", r"^(?:FAILED|ERROR) [^\s:]{1,300}\.py::"),
    (" failed", r"^=+ (?:[^\n=]{1,60}, )?\d{1,9} failed\b"),
    ("failed in ", r"^\d{1,9} failed(?:, \d{1,9} [a-z]{1,12}){0,6} in \d"),
    ("FAILED (", r"^FAILED \((?:failures|errors|unexpected successes)=\d"),
    ("--- FAIL: ", ""),
    ("FAIL\t", r"^FAIL\t[^\s]{1,300}\t\d"),
    ("test result: FAILED", ""),
    ("<<< FAILURE!", ""),
    ("[  FAILED  ]", ""),
    (" failed out of ", r"[1-9]\d{0,8} tests? failed out of \d"),
    (" failure", r"\b\d{1,9} (?:examples?|specs?|tests?), 1 failure"),
    (" failures", r"\b\d{1,9} (?:examples?|specs?|tests?), [1-9]\d{0,8} failures"),
    (" failed", r"^ *Tests:? +(?:\d{1,9} [a-z]{1,12}(?:, | \| )){0,3}[1-9]\d{0,8} failed\b"),
    ("test cases: ", r"test cases: +\d{1,9} \|(?:[^\n]{0,60}\|)? +[1-9]\d{0,8} failed\b"),
    ("[doctest] Status: FAILURE!", ""),
    ("***Test Failed***", ""),
    (" failures: ", r"Failures: [1-9]\d{0,8}\b"),
    ("Failures: ", r"Tests run: \d{1,9}, +Failures: (?:[1-9]|\d{1,9}, Errors: [1-9])"),
    ("There were failing tests", ""),
    ("There are test failures", ""),
    ("trailing whitespace.", r"^[^\s:]{1,300}:\d{1,9}: trailing whitespace\."),
    ("conflict marker", r"^[^\s:]{1,300}:\d{1,9}: leftover conflict marker"),
    ("pod syntax error", ""),
)
"""Verdicts that no build, load or import error comes with; asked before the phrases.

What a failed test says of its failure decides nothing then: `FAILED a.py::b - X: parse error`.
"""

TALLIES: Final[tuple[Pattern, ...]] = (
    ("failureType: 'testCodeFailure'", ""),
    ("not ok ", r"^ *not ok \d"),
    (" fail ", r"^(?:# |\u2139 )fail [1-9]"),
    (" fail", r"^ *[1-9]\d{0,8} fail$"),
    ("failing", r"^ *(?:\d{1,9} failing|✖ failing tests:)"),
    ("Failed tests:", r"^Failed tests:"),
    ("Tests: ", r"^Tests: +\d{1,9} failed\b"),
    ("Result: FAIL", ""),
    ("Looks like you failed ", ""),
    ("Looks like you planned ", ""),
    (" of ", r"[1-9]\d{0,8} (?:out )?of \d{1,9}(?: [a-z]{1,20})? (?:have )?failed\b"),
    (" FAILED)", r"Executed \d{1,9} of \d{1,9}[^\n]{0,40}\([1-9]\d{0,8} FAILED\)"),
    (" failed", r"scenarios? \([^)\n]{0,60}[1-9]\d{0,8} failed"),
    (" failed", r"\| [1-9]\d{0,8} failed\b"),
    ("Executed ", r"Executed \d{1,9} tests?, with [1-9]"),
    ("*** ", r"^\*\*\* [1-9]\d{0,8} failures? (?:is|are) detected in"),
    ("ValidationError: ", r"^(?:[\w.]{1,200}\.)?ValidationError: "),
    (" validation error for ", ""),
    (" validation errors for ", r"\b\d{1,9} validation errors? for "),
    ("Failed validating '", ""),
    ("Schema validation errors were encountered", ""),
    ("fails to validate", ""),
    ("Schemas validity error", ""),
    ("schemaPath: ", r"schemaPath: '"),
    (" is not valid under any of the given schemas", ""),
    (" broken.", r"^Contracts: \d{1,9} kept, [1-9]\d{0,8} broken\."),
    ("Diff in ", r"^Diff in [^\n]{1,300}(?:at line \d|:\d)"),
    (" issues", r"^[1-9]\d{0,8} issues?:$"),
    ("Falsifying example: ", ""),
)
"""How test runners count failed tests, and validators what is wrong.

They come after the promised phrases of a broken build, as these runners count files that don't
load as failed tests, and before `expected` and `context`: their stacks have that word in the name
of a class.
"""

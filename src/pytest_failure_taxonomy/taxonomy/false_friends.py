"""Where the promised phrases stand in a text and mean something else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.diagnostics import Pattern

CRASHES: Final = frozenset(
    {
        "ArithmeticException",
        "ArrayIndexOutOfBoundsException",
        "AttributeError",
        "ClassCastException",
        "ComposerError",
        "ConstructorError",
        "EOFError",
        "FileExistsError",
        "FileNotFoundError",
        "IndexError",
        "IndexOutOfBoundsException",
        "IsADirectoryError",
        "JSONDecodeError",
        "KeyError",
        "NameError",
        "NotADirectoryError",
        "NotImplementedError",
        "NullPointerException",
        "NumberFormatException",
        "OSError",
        "OverflowError",
        "ParserError",
        "RangeError",
        "RecursionError",
        "ReferenceError",
        "ScannerError",
        "StackOverflowError",
        "StopIteration",
        "TOMLDecodeError",
        "TypeError",
        "UnboundLocalError",
        "UnicodeDecodeError",
        "UnicodeEncodeError",
        "ZeroDivisionError",
    }
)
"""Exceptions that an interpreter or a parser of data words itself.

Outside of a test they are a crash: the words `expected` and `context` in their messages and stacks
are no check's and no model's.
"""

CRASH_REPORTS: Final[tuple[Pattern, ...]] = (
    ("ERROR: AddressSanitizer: ", ""),
    ("ERROR: HWAddressSanitizer: ", ""),
    ("ERROR: LeakSanitizer: ", ""),
    ("WARNING: MemorySanitizer: ", ""),
    ("WARNING: ThreadSanitizer: ", ""),
    ("panic: ", r"^panic: runtime error: "),
    ("goroutine ", r"^fatal error: [^\n]{1,200}\n\ngoroutine "),
    ("SIGSEGV", ""),
    ("Segmentation fault", ""),
    ("yaml: ", r"\byaml: line \d{1,9}: "),
)
"""Reports of a crash that name no exception."""

RATE_LIMITS: Final[tuple[Pattern, ...]] = (
    ("rate limit", ""),
    ("rate limits", ""),
    ("rate limiting", ""),
    ("rate_limit", ""),
    ("ratelimiterror", ""),
    ("ratelimitexception", ""),
    ("tokens per min", ""),
    ("too many requests", ""),
    ("resource_exhausted", ""),
    ("quota exceeded", ""),
    ("exceeded your current quota", ""),
)
"""A model's service that asks to wait; it counts tokens, but no window is full."""

FALSE_FRIENDS: Final = (
    # The frames of stacks: names of functions, files and lines of source.
    r"^ *file \"[^\n]*\n(?: {4}[^\n]*(?:\n|\Z))*",
    r"^[ \t]+at [^\n]*",
    r"^ *#\d{1,5} [^\n]*",
    r"values to unpack \(expected [^\n)]{0,60}",
    r": expected (?:one|at least one|at most one|\d{1,9}) arguments?\b",
    r"did not find expected\b",
    r"parse errors: (?:bad|no) plan",
    r"pod syntax errors?",
    r"status code:? {0,2}(?:of )?(?:429|529)\b",
    r"context (?:deadline exceeded|cancell?ed)",
    r"(?:application|browser|test|ssl|null|security|execution|webgl|rendering|async)[ _]?context\b",
    r"\bcontext(?:lib|vars?|managers?|\.(?:go|py|js|ts|rs|java|c))\b",
    r"\bcontext (?:managers?|switch(?:es)?|menu|processors?)\b",
)
"""Wordings that hold a promised phrase by chance; taken out before the phrases are looked for."""

"""Regular expressions that users write, searched with a time limit.

Some patterns take exponential time, and a search of Python's `re` can't be stopped. The
library `regex` reads the same syntax and takes a timeout. It is imported with the first
pattern. See docs/decisions/0017.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from time import process_time
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.redaction import grammar

if TYPE_CHECKING:
    import regex

MAX_REPEATED: Final = 20_000
"""Parts of a pattern once its repetitions are written out, each as often as it has to
be there. Compiling takes 1 µs and 1 kB for each of them, and can't be stopped."""
_MOST_DIGITS: Final = 12


class UserPattern:
    """A compiled pattern and the CPU time that its searches have taken.

    Args:
        pattern: what `compile_quietly` accepts.

    Attributes:
        seconds_used: CPU time of the process during all searches so far.
    """

    def __init__(self, pattern: str) -> None:
        self.compiled = compile_quietly(pattern)
        self.seconds_used = 0.0

    def matches(self, text: str, limit_seconds: float) -> Iterator[regex.Match[str]]:
        """Yield the matches in a text, from left to right.

        Args:
            text: any text.
            limit_seconds: how much CPU time of the process the search may take.

        Raises:
            TimeoutError: the time is up. The matches before that have been yielded.
        """
        if limit_seconds <= 0:
            raise TimeoutError
        began = process_time()
        try:
            yield from self.compiled.finditer(text, timeout=limit_seconds)
        finally:
            self.seconds_used += process_time() - began


def compile_quietly(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern without the warnings that Python has about it.

    The pattern is the user's, and pytest may turn warnings into errors.

    Raises:
        re.error: the pattern is not a regular expression. The message is that of `re`
            where `re` refuses it, too.
        OverflowError: its repetitions are too large to be compiled.
        RecursionError: the pattern is nested too deeply.
    """
    import regex

    if (parts := _count_parts(pattern)) > MAX_REPEATED:
        raise OverflowError(
            f"its repetitions have {parts:,} parts, at most {MAX_REPEATED:,} may be"
        )
    source = grammar("brace_of_pattern").sub(
        lambda brace: r"\{" if brace["literal"] else brace.group(), pattern
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # The cache of compiled patterns is left to the tests, which may fill or
            # clear it.
            return regex.compile(source, regex.VERSION0, cache_pattern=False)
        except regex.error as error:
            re.compile(pattern)
            raise re.error(str(error)) from None


def _count_parts(pattern: str) -> int:
    """Return how many parts a pattern has once its repetitions are written out."""
    outer: list[int] = []
    parts = last = 0
    for part in grammar("part_of_pattern").finditer(pattern):
        if part["open"]:
            outer.append(parts)
            parts = last = 0
        elif part["close"] and outer:
            last = parts
            parts += outer.pop()
        elif part["least"]:
            times = max(1, int(part["least"][:_MOST_DIGITS]))
            parts += last * (times - 1)
            last *= times
        else:
            last = 1
            parts += 1
    return parts + sum(outer)

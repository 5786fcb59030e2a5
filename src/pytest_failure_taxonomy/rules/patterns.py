"""Search a user's regular expressions under a hard time limit.

Python's matcher can't be stopped from within its process: it holds the interpreter's lock, and a
signal's handler, which would stop it, belongs to pytest-timeout and to the user. So it works in a
process of its own, which is started for a batch of searches and ends with it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from typing import Any, Final

from pytest_failure_taxonomy.taxonomy.values import value

LIMIT_SECONDS: Final = 0.5
"""What one pattern may take for all of its texts together."""
SECONDS_PER_TEXT: Final = 0.000_05
"""What it may take more for each text, so that many texts don't make a good pattern a bad one."""
MAX_WASTED_SECONDS: Final = 5.0
"""After so much time in patterns that were given up, those that are left are not tried."""

_START_SECONDS: Final = 10.0
_PROGRAM: Final = os.path.join(os.path.dirname(__file__), "search_child.py")
_TIME_IS_UP: Final = 1
"""The exit code with which faulthandler ends a process."""


@value
class Search:
    """A pattern and the texts that it is to be searched in."""

    pattern: str
    texts: tuple[str, ...]

    @property
    def limit_seconds(self) -> float:
        """What this search may take."""
        return LIMIT_SECONDS + SECONDS_PER_TEXT * len(self.texts)


@value
class Answer:
    """What came of a search."""

    found: tuple[Any, ...] | None
    """For each text whether the pattern was found, or the spans of what was; `None` if given up."""
    problem: str = ""
    """Why it was given up, in words that fit behind the pattern."""


def compile_quietly(pattern: str) -> re.Pattern[str]:
    """Compile a pattern; what Python warns of is the user's pattern, and no concern of the run's.

    Raises:
        re.error: it is no regular expression.
        OverflowError: a repetition's number is too large.
        RecursionError: it is nested too deep.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(pattern)


def search_guarded(pattern: str, texts: Sequence[str]) -> Answer:
    """Search a pattern in texts; `found` has a `bool` for each."""
    (answer,) = run_searches([Search(pattern=pattern, texts=tuple(texts))])
    return answer


def find_spans_guarded(pattern: str, texts: Sequence[str]) -> Answer:
    """Find what a pattern matches; `found` has a tuple of `(start, end)` for each text.

    The spans are in order, don't overlap, and are never empty.
    """
    (answer,) = run_searches([Search(pattern=pattern, texts=tuple(texts))], wants_spans=True)
    return answer


def run_searches(searches: Sequence[Search], *, wants_spans: bool = False) -> list[Answer]:
    """Do searches in a process of their own, and give up those that use up their time.

    Args:
        searches: as many as there are at once, because each call starts a process.
        wants_spans: whether to find spans, as `find_spans_guarded` does.

    Returns:
        An answer for each search, in their order.
    """
    answers: list[Answer] = []
    wasted_seconds = 0.0
    while len(answers) < len(searches):
        left = searches[len(answers) :]
        if wasted_seconds >= MAX_WASTED_SECONDS:
            why = f"was not tried, after other patterns had taken {MAX_WASTED_SECONDS:g} seconds"
            return answers + [Answer(found=None, problem=why)] * len(left)
        lines, exit_code = _exchange(left, wants_spans=wants_spans)
        if not lines:
            why = "could not be searched, because no second Python could be started to do it in"
            return answers + [Answer(found=None, problem=why)] * len(left)
        answers += [_answer(line, wants_spans=wants_spans) for line in lines[1:]]
        if len(lines) <= len(left):
            given_up = left[len(lines) - 1]
            answers.append(Answer(found=None, problem=_why(given_up, exit_code)))
            wasted_seconds += given_up.limit_seconds
    return answers


def _exchange(searches: Sequence[Search], *, wants_spans: bool) -> tuple[list[Any], int]:
    """Return what the process answered, a greeting first, and its exit code."""
    if not sys.executable or getattr(sys, "frozen", False):
        return [], 0  # it would be a program of the user's
    command = [sys.executable, "-I", "-S", "-X", "utf8", _PROGRAM]
    limit_seconds = _START_SECONDS + sum(search.limit_seconds for search in searches)
    try:
        with subprocess.Popen(  # noqa: S603 - our own program, the user's texts on its stdin
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        ) as child:
            try:
                printed, _ = child.communicate(_request(searches, wants_spans), limit_seconds)
            except subprocess.TimeoutExpired:
                child.kill()
                printed, _ = child.communicate()
            except BaseException:
                child.kill()
                raise
            return [json.loads(line) for line in printed.split(b"\n")[:-1]], child.returncode
    except OSError:
        return [], 0


def _request(searches: Sequence[Search], wants_spans: bool) -> bytes:  # noqa: FBT001 - passed on
    texts = {text: None for search in searches for text in search.texts}
    numbers = {text: number for number, text in enumerate(texts)}
    jobs = [
        {
            "pattern": search.pattern,
            "texts": [numbers[text] for text in search.texts],
            "limit_seconds": search.limit_seconds,
        }
        for search in searches
    ]
    return json.dumps({"texts": list(texts), "jobs": jobs, "spans": wants_spans}).encode("ascii")


def _answer(line: Any, *, wants_spans: bool) -> Answer:
    if line is None:
        return Answer(found=None, problem="can't be searched by Python")
    if wants_spans:
        return Answer(found=tuple(tuple((start, end) for start, end in each) for each in line))
    return Answer(found=tuple(bool(each) for each in line))


def _why(search: Search, exit_code: int) -> str:
    if exit_code == _TIME_IS_UP:
        return (
            f"took longer than {search.limit_seconds:.1f} seconds; write one without a repetition"
            " in a repetition, as in (a+)+"
        )
    return f"ended the process that searched it (exit code {exit_code})"

"""Match failures against a user's rules, whatever the patterns in them are like."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from typing import Final

from pytest_failure_taxonomy.rules.backtracking import is_harmless
from pytest_failure_taxonomy.rules.patterns import (
    LIMIT_SECONDS,
    SECONDS_PER_TEXT,
    Search,
    compile_quietly,
    run_searches,
)
from pytest_failure_taxonomy.taxonomy.evidence import TestFailure
from pytest_failure_taxonomy.taxonomy.user_rules import (
    Rule,
    could_match,
    match_rule,
    searched_texts,
)

_SLOW: Final = "took longer than {seconds:.1f} seconds"


class RuleMatcher:
    """The rules of one run.

    Patterns that provably end soon are searched here; all others in a process of their own, once
    for all failures of a call. A pattern that used up its time is switched off: its rules match
    nothing from then on, which `problems` says in words.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._is_found: dict[tuple[str, str], bool] = {}
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._seconds: dict[str, float] = {}
        self._searches: dict[str, int] = {}
        self._switched_off: set[str] = set()
        self.problems: list[str] = []
        """One sentence for each pattern that was switched off, in the order in which they were."""

    def match(self, failures: Sequence[TestFailure]) -> list[Rule | None]:
        """Return for each failure the first rule that matches it.

        Give it as many failures as there are at once, because a call may start a process.
        """
        self._ask_process(failures)
        while True:
            known = len(self._switched_off)
            matched = [self._match(failure) for failure in failures]
            if len(self._switched_off) == known:
                return matched
            # A pattern was switched off on the way: none of its answers are to count.

    def _match(self, failure: TestFailure) -> Rule | None:
        return match_rule(
            self._rules,
            exception=failure.exception,
            message=failure.message,
            nodeid=failure.nodeid,
            phase=failure.phase,
            is_found=self._search,
        )

    def _ask_process(self, failures: Sequence[TestFailure]) -> None:
        searches = [
            Search(pattern=pattern, texts=tuple(texts))
            for pattern, texts in self._unanswered(failures).items()
        ]
        if not searches:
            return
        for search, answer in zip(searches, run_searches(searches), strict=True):
            if answer.found is None:
                self._switch_off(search.pattern, answer.problem)
                continue
            for text, is_found in zip(search.texts, answer.found, strict=True):
                self._is_found[search.pattern, text] = is_found

    def _unanswered(self, failures: Sequence[TestFailure]) -> dict[str, dict[str, None]]:
        """Return the texts that each pattern has to be searched in by another process."""
        wanted: dict[str, dict[str, None]] = {}
        for rule in self._rules:
            pattern = rule.message
            if pattern is None or pattern in self._switched_off or is_harmless(pattern):
                continue
            texts = wanted.setdefault(pattern, {})
            for failure in failures:
                if not could_match(
                    rule,
                    exception=failure.exception,
                    nodeid=failure.nodeid,
                    phase=failure.phase,
                ):
                    continue
                for text in searched_texts(failure.exception, failure.message):
                    if (pattern, text) not in self._is_found:
                        texts[text] = None
        return {pattern: texts for pattern, texts in wanted.items() if texts}

    def _search(self, pattern: str, text: str) -> bool:
        if pattern in self._switched_off:
            return False
        key = (pattern, text)
        if key not in self._is_found:
            self._is_found[key] = self._search_here(pattern, text)
        return self._is_found[key]

    def _search_here(self, pattern: str, text: str) -> bool:
        if pattern not in self._compiled:
            self._compiled[pattern] = compile_quietly(pattern)
        began = time.thread_time()  # not the clock's: another process may hold this one up
        is_found = self._compiled[pattern].search(text) is not None
        seconds = self._seconds.get(pattern, 0.0) + time.thread_time() - began
        searches = self._searches.get(pattern, 0) + 1
        self._seconds[pattern] = seconds
        self._searches[pattern] = searches
        limit_seconds = LIMIT_SECONDS + SECONDS_PER_TEXT * searches
        if seconds > limit_seconds:
            self._switch_off(pattern, _SLOW.format(seconds=limit_seconds))
        return is_found

    def _switch_off(self, pattern: str, why: str) -> None:
        self._switched_off.add(pattern)
        names = ", ".join(rule.name for rule in self._rules if rule.message == pattern)
        self.problems.append(f"rule {names}: switched off for this run, its pattern {why}")

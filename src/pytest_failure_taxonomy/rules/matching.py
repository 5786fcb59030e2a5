"""Let the rules say what the failures of a run are, within a time limit for each pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pytest_failure_taxonomy.taxonomy.evidence import (
    Attribution,
    RunEvidence,
    TestFailure,
)
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.redaction.user_patterns import UserPattern
    from pytest_failure_taxonomy.taxonomy.user_rules import Rule

LIMIT_SECONDS: Final = 0.5
"""CPU time that one pattern may take for all texts of a run."""
SECONDS_PER_TEXT: Final = 0.000_05
"""CPU time that it may take in addition for each text: a run can have many of them."""
MAX_WASTED_SECONDS: Final = 5.0
"""CPU time of switched-off patterns together, after which the others are not tried any
more."""


class RuleMatcher:
    """The rules of one run.

    A pattern that has used up its time is switched off: from then on its rules match
    nothing.

    Attributes:
        problems: one sentence for each pattern that was switched off, in order of
            occurrence.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._is_found: dict[tuple[str, str], bool] = {}
        self._searched_texts: dict[str, int] = {}
        self._patterns: dict[str, UserPattern] = {}
        self._switched_off: set[str] = set()
        self._wasted_seconds = 0.0
        self.problems: list[str] = []

    def match(self, failures: Sequence[TestFailure]) -> list[Rule | None]:
        """Return the first rule that matches each failure."""
        from pytest_failure_taxonomy.taxonomy.user_rules import match_rule

        while True:
            known = len(self._switched_off)
            matched = [
                match_rule(self._rules, failure, self._search) for failure in failures
            ]
            if len(self._switched_off) == known:
                return matched
            # A pattern was switched off on the way. What it matched before must not
            # count.

    def _search(self, pattern: str, text: str) -> bool:
        key = (pattern, text)
        if pattern in self._switched_off:
            return False
        if key in self._is_found:
            return self._is_found[key]
        if self._wasted_seconds >= MAX_WASTED_SECONDS:
            self._switch_off(
                pattern,
                f"was not tried, after other patterns had taken {MAX_WASTED_SECONDS:g} seconds",
            )
            return False
        from pytest_failure_taxonomy.redaction.user_patterns import UserPattern

        try:
            if pattern not in self._patterns:
                self._patterns[pattern] = UserPattern(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            self._switch_off(pattern, f"can't be searched ({error})")
            return False
        searched = self._patterns[pattern]
        self._searched_texts[pattern] = self._searched_texts.get(pattern, 0) + 1
        limit_seconds = LIMIT_SECONDS + SECONDS_PER_TEXT * self._searched_texts[pattern]
        try:
            found = next(
                searched.matches(text, limit_seconds - searched.seconds_used), None
            )
        except TimeoutError:
            self._wasted_seconds += searched.seconds_used
            self._switch_off(
                pattern,
                f"took longer than {limit_seconds:.1f} seconds;"
                " write one without a repetition in a repetition, as in (a+)+",
            )
            return False
        self._is_found[key] = found is not None
        return self._is_found[key]

    def _switch_off(self, pattern: str, why: str) -> None:
        self._switched_off.add(pattern)
        names = ", ".join(rule.name for rule in self._rules if rule.message == pattern)
        self.problems.append(
            f"rule {names}: switched off for this run, its pattern {why}"
        )


def apply_rules(
    run: RunEvidence, rules: Sequence[Rule]
) -> tuple[RunEvidence, tuple[str, ...]]:
    """Return the run with what the rules say of its failures, and what went wrong with the rules.

    What a test or a hook has said stands.
    """
    if not rules or not run.failures:
        return run, ()
    matcher = RuleMatcher(rules)
    open_ones = [failure for failure in run.failures if failure.attributed is None]
    matched = iter(matcher.match(open_ones))
    failures = list(run.failures)
    for index, failure in enumerate(run.failures):
        rule = next(matched) if failure.attributed is None else None
        if rule is not None:
            said = Attribution(
                reason=rule.reason,
                kind=rule.kind,
                source="rule",
                rule=rule.name,
                severity=rule.severity,
                retryable=rule.retryable,
                owner=rule.owner,
                link=rule.link,
                charge_to=rule.charge_to,
            )
            failures[index] = replace(failure, attributed=said)
    return replace(run, failures=tuple(failures)), tuple(matcher.problems)

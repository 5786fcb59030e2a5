"""Let the rules say what the failures of a run are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_failure_taxonomy.taxonomy.evidence import Attribution, RunEvidence, TestFailure
from pytest_failure_taxonomy.taxonomy.values import replace

if TYPE_CHECKING:
    from pytest_failure_taxonomy.taxonomy.user_rules import Rule


def attribute(run: RunEvidence, rules: Sequence[Rule]) -> tuple[RunEvidence, tuple[str, ...]]:
    """Return the run with what is known of its failures, and what went wrong with the rules.

    What a test or a hook has said stands; then the user's rules are asked, then the table of
    well-known libraries.
    """
    if not run.failures:
        return run, ()
    failures = list(run.failures)
    open_ones = [index for index, each in enumerate(failures) if each.attributed is None]
    problems: tuple[str, ...] = ()
    if rules:
        from pytest_failure_taxonomy.rules.matcher import RuleMatcher

        matcher = RuleMatcher(rules)
        matched = matcher.match([failures[index] for index in open_ones])
        problems = tuple(matcher.problems)
        for index, rule in zip(open_ones, matched, strict=True):
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
                )
                failures[index] = replace(failures[index], attributed=said)
    for index in open_ones:
        if failures[index].attributed is None:
            failures[index] = _by_library(failures[index])
    return replace(run, failures=tuple(failures)), problems


def _by_library(failure: TestFailure) -> TestFailure:
    from pytest_failure_taxonomy.taxonomy.libraries import classify_exception

    if failure.exception is None:
        return failure
    known = classify_exception(failure.exception, failure.traceback)
    if known is None:
        return failure
    reason, kind = known
    said = Attribution(reason=reason, kind=kind, source="library", rule=f"library:{kind}")
    return replace(failure, attributed=said)
